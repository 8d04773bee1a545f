"""A network of any batch size, served at twenty sizes in random order: is it right, what is compiled, how long first calls take.

    python benchmarks/varying.py                                     # a small residual network, made here
    python benchmarks/varying.py model.onnx --shape length=128       # another one, whose first open dimension is "batch"

Three sizes are named and compiled beforehand, and saved in one file. The others are compiled when they come: once so that the call
waits, once in the background, where a larger size serves meanwhile if it is proved to give the same. Results are compared with ONNX
Runtime's, or with the reference evaluator's where it is not installed. Times are of one call each, compiling and all: to be read as
such on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import importlib.util
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from rich.console import Console
from rich.table import Table

import tensorsmith as ts
from tensorsmith.cli.computation import parse_shapes
from tensorsmith.graph.open_model import OpenModel
from tensorsmith.runtime.arguments import Argument, random_arrays
from tensorsmith.runtime.variants.executable import OpenExecutable

NAMED = (1, 8, 32)
SYMBOL = "batch"
_TOLERANCE = 1e-3  # of the largest number of the outputs

Run = Callable[[list[np.ndarray]], list[np.ndarray]]


@dataclass(frozen=True)
class Call:
    """The first call of one size: how long it took, who served it, and how far it is off."""

    size: int
    seconds: float
    served: str
    difference: float


def residual_network(width: int = 32, blocks: int = 3, image: int = 32) -> onnx.ModelProto:
    """Convolutions with residuals, a mean over the image, a classifier with a softmax; weights are random."""
    generator = np.random.default_rng(0)
    constants: list[TensorProto] = []
    nodes: list[onnx.NodeProto] = []

    def weight(name: str, *shape: int) -> str:
        scale = (2.0 / np.prod(shape[1:])) ** 0.5
        constants.append(numpy_helper.from_array((generator.standard_normal(shape) * scale).astype(np.float32), name))
        return name

    def add(operator: str, inputs: list[str], output: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(operator, inputs, [output], **attributes))
        return output

    def conv(x: str, name: str, inputs: int, outputs: int, stride: int = 1) -> str:
        given = [x, weight(f"{name}.w", outputs, inputs, 3, 3), weight(f"{name}.b", outputs)]
        return add("Conv", given, name, pads=[1, 1, 1, 1], strides=[stride, stride])

    h = add("Relu", [conv("x", "stem", 3, width, 2)], "stem.relu")
    for n in range(blocks):
        r = add("Relu", [conv(h, f"b{n}.one", width, width)], f"b{n}.relu")
        s = add("Add", [conv(r, f"b{n}.two", width, width), h], f"b{n}.sum")
        h = add("Relu", [s], f"b{n}.out")
    add("Flatten", [add("GlobalAveragePool", [h], "mean")], "flat", axis=1)
    add("Gemm", ["flat", weight("classes.w", 10, width), weight("classes.b", 10)], "logits", transB=1)
    add("Softmax", ["logits"], "y", axis=-1)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (SYMBOL, 3, image, image))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, (SYMBOL, 10))
    graph = helper.make_graph(nodes, "residual", [x], [y], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def reference(model: OpenModel, source: onnx.ModelProto | str) -> tuple[str, Run]:
    """Who says what is right, by name, and what it says."""
    names = [a.name for a in model.inputs]
    if importlib.util.find_spec("onnxruntime") is not None:
        import onnxruntime

        content = source.SerializeToString() if isinstance(source, onnx.ModelProto) else source
        session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
        return "ONNX Runtime", lambda arrays: session.run(None, dict(zip(names, arrays)))

    def evaluated(arrays: list[np.ndarray]) -> list[np.ndarray]:
        return list(model.at(**{SYMBOL: arrays[0].shape[0]}).evaluate(arrays).values())

    return "the reference evaluator", evaluated


def inputs_of(model: OpenModel, size: int) -> list[np.ndarray]:
    return random_arrays([Argument(a.name, a.at({SYMBOL: size}), a.dtype) for a in model.inputs])


def serve(executable: OpenExecutable, model: OpenModel, sizes: list[int], right: Run) -> list[Call]:
    """One call of each size, in that order."""
    found = []
    for size in sizes:
        inputs = inputs_of(model, size)
        known = {v.sizes[SYMBOL] for v in executable.variants}
        begun = time.perf_counter()
        results = executable(*inputs)
        seconds = time.perf_counter() - begun
        proved = {small[0]: large[0] for (small, large), shapes in executable._within.items() if not isinstance(shapes, str)}
        served = "its own, compiled now" if size not in proved else f"size {proved[size]}, filled up"
        served = "its own, known" if size in known else served
        whole = results if isinstance(results, tuple) else (results,)
        found.append(Call(size, seconds, served, _difference(list(whole), right(inputs))))
    return found


def _difference(got: list[np.ndarray], wanted: list[np.ndarray]) -> float:
    """The largest difference, relative to the largest number."""
    worst = 0.0
    for a, b in zip(got, wanted, strict=True):
        if a.shape != b.shape:
            raise SystemExit(f"a result has the shape {a.shape}, {b.shape} is right")
        worst = max(worst, float(np.abs(a - b).max(initial=0.0) / max(float(np.abs(b).max(initial=0.0)), 1e-9)))
    return worst


def table(title: str, waiting: list[Call], behind: list[Call]) -> Table:
    made = Table(title=title, title_justify="left")
    for heading in (SYMBOL, "first call", "served by", "in the background", "served by", "largest difference"):
        made.add_column(heading, justify="left" if heading == "served by" else "right")
    for a, b in zip(waiting, behind):
        worst = max(a.difference, b.difference)
        mark = "" if worst <= _TOLERANCE else " WRONG"
        made.add_row(
            str(a.size), f"{a.seconds * 1e3:.1f} ms", a.served, f"{b.seconds * 1e3:.1f} ms", b.served, f"{worst:.1g}{mark}"
        )
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", help=f"an ONNX file with an open dimension {SYMBOL!r}; else a small network is made")
    parser.add_argument("--shape", action="append", default=[], metavar="NAME=SIZE", help="what else the file leaves open")
    parser.add_argument("--count", type=int, default=20, help="how many sizes")
    parser.add_argument("--largest", type=int, default=64)
    parser.add_argument("--keep", type=int, default=None, help="variants that stay besides the named ones")
    parser.add_argument("--db", default=None, help="a record file")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    source: Any = given.model or residual_network()
    model = ts.load(source, shapes={**parse_shapes(given.shape), SYMBOL: list(NAMED)})
    assert isinstance(model, OpenModel)
    generator = np.random.default_rng(given.seed)
    sizes = generator.choice(np.arange(1, given.largest + 1), min(given.count, given.largest), replace=False).tolist()
    who, right = reference(model, source)
    console = Console(width=120, highlight=False, markup=False)

    executable = ts.compile(model, database=given.db, keep=given.keep, ranges=False)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.tsm")
        executable.save(path)
        alone = Path(folder, "one.tsm")
        executable.at(**{SYMBOL: NAMED[-1]}).save(alone)
        loaded = ts.load_executable(path)
        assert isinstance(loaded, OpenExecutable)
        from_file = serve(loaded, model, list(NAMED), right)
        console.print(f"{model}\n")
        console.print(
            f"a file with the variants of {SYMBOL} {', '.join(map(str, NAMED))}: {path.stat().st_size / 2**20:.2f} MiB "
            f"({alone.stat().st_size / 2**20:.2f} MiB with the last of them alone); loaded, they differ from {who} by "
            f"{max(c.difference for c in from_file):.1g} at most\n"
        )
    waiting = serve(executable, model, sizes, right)
    behind = serve(ts.compile(model, database=given.db, keep=given.keep, background=True, ranges=False), model, sizes, right)
    console.print(table(f"{len(sizes)} sizes in random order; right is what {who} gives", waiting, behind))
    console.print(f"\nafter all calls:\n{executable.variants}")
    if any(c.difference > _TOLERANCE for c in (*from_file, *waiting, *behind)):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
