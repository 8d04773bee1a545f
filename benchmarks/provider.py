"""Networks in sessions of ONNX Runtime, with our execution provider and with its own kernels, and our executable called directly.

    python benchmarks/provider.py                                    # networks that are made here
    python benchmarks/provider.py mobilenet_v2 minilm vad            # those of models.py, which need PyTorch or the package index
    python benchmarks/provider.py mixer --seconds 5 --json provider.json

All three are called as users call them, side by side in one process, on the same number of threads. The table says whether our
session gives the bits that our own call gives. What a session's call costs more than the direct one is the price of the provider.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper
from rich.console import Console
from rich.table import Table

import models
import tensorsmith as ts
import tensorsmith.onnxruntime as provided
from contest import WrongAnswer
from peers_networks import fixed_shapes
from tensorsmith.measure.referee import compare
from tensorsmith.onnxruntime import provider
from tensorsmith.runtime.arguments import random_arrays
from tensorsmith.targets.host import thread_count
from zoo import made

SESSION, DIRECT, THEIRS = "our session", "our own call", "ONNX Runtime"
_TOLERANCE = 1e-3  # of the largest number of an output: the kernels of others round otherwise

Row = dict[str, Any]


def perceptron() -> onnx.ModelProto:
    """Two small layers: little work, so that the cost of a call shows."""
    generator = np.random.default_rng(0)
    shapes = {"w1": (64, 128), "w2": (128, 16)}
    weights = [
        numpy_helper.from_array(generator.standard_normal(shape).astype(np.float32) / 8, name) for name, shape in shapes.items()
    ]
    nodes = [helper.make_node("MatMul", ["x", "w1"], ["a"]), helper.make_node("Relu", ["a"], ["b"])]
    nodes.append(helper.make_node("MatMul", ["b", "w2"], ["y"]))
    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, (4, n)) for name, n in (("x", 64), ("y", 16))]
    graph = helper.make_graph(nodes, "perceptron", ends[:1], ends[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


MADE: dict[str, Callable[[], onnx.ModelProto]] = {
    "perceptron": perceptron,
    "mixer": made.mixer,
    "transformer": lambda: made.transformer(4),
    "convolutions": lambda: made.convolutions(8),
    "voice": made.voice,
}


def network(name: str) -> tuple[bytes, dict[str, np.ndarray]]:
    """The file of a network, all shapes fixed, and inputs for it."""
    if name not in MADE:
        found = models.get(name)
        return fixed_shapes(found), found.inputs
    content = MADE[name]().SerializeToString()
    model = ts.load(content)
    assert isinstance(model, ts.Model)
    arguments = ts.compile(model).inputs
    return content, dict(zip((a.name for a in arguments), random_arrays(arguments)))


def row(name: str, *, threads: int, seconds: float, database: str | None, seed: int) -> Row:
    """A network's times. Raises `WrongAnswer` where our session or our own call is far from what ONNX Runtime gives."""
    content, inputs = network(name)
    options = provided.session_options(database=database, threads=threads)
    options.log_severity_level = 3
    before = len(provider.parts())
    session = ort.InferenceSession(content, options)
    parts = len(provider.parts()) - before
    own = ort.SessionOptions()
    own.intra_op_num_threads = threads
    theirs = ort.InferenceSession(content, own, providers=["CPUExecutionProvider"])
    model = ts.load(content)
    assert isinstance(model, ts.Model)
    executable = ts.compile(model, database=database, threads=threads)
    given = [inputs[a.name] for a in executable.inputs]
    names = [o.name for o in executable.outputs]
    exact = _check(name, session.run(names, inputs), executable.run(inputs), theirs.run(names, inputs))
    result = compare(
        {
            SESSION: lambda: session.run(names, inputs),
            DIRECT: lambda: executable(*given),
            THEIRS: lambda: theirs.run(names, inputs),
        },
        ours=(SESSION, DIRECT),
        seed=f"{seed} {name}",
        seconds=seconds,
    )
    best = {who: timing.best for who, timing in result.timings.items()}
    return {
        "seconds": best,
        "median": {who: timing.median for who, timing in result.timings.items()},
        "parts": parts,
        "equal_bits": exact,
        "ratio_to_best_peer": best[THEIRS] / best[SESSION],
        "best_peer": THEIRS,
        "price_seconds": best[SESSION] - best[DIRECT],
        "within_bar": best[SESSION] <= 1.03 * best[DIRECT] + 10e-6,
        "disturbed": result.disturbed,
    }


def _check(name: str, mine: list[np.ndarray], own: Mapping[str, np.ndarray], others: list[np.ndarray]) -> bool:
    """Whether our session gives the bits of our own call; both have to be near the other system's numbers."""
    exact = True
    for got, (output, wanted), other in zip(mine, own.items(), others, strict=True):
        largest = float(np.abs(other.astype(np.float64)).max(initial=1e-30))
        for array in (got, wanted):
            if array.shape != other.shape or np.abs(array.astype(np.float64) - other).max(initial=0) > _TOLERANCE * largest:
                raise WrongAnswer(f"{output} of {name} is not what ONNX Runtime gives")
        exact = exact and got.tobytes() == wanted.tobytes()
    return exact


def table(rows: Mapping[str, Row]) -> Table:
    """For people."""
    made = Table(
        "network", "parts", *(f"{who}, us" for who in (SESSION, DIRECT, THEIRS)), "price, us", "to ONNX Runtime", "equal bits"
    )
    for name, found in rows.items():
        times = [f"{found['seconds'][who] * 1e6:.1f}" for who in (SESSION, DIRECT, THEIRS)]
        price, ratio = f"{found['price_seconds'] * 1e6:.1f}", f"{found['ratio_to_best_peer']:.2f}"
        made.add_row(name, str(found["parts"]), *times, price, ratio, "yes" if found["equal_bits"] else "no")
    return made


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", help=f"{', '.join(MADE)}, or names of models.py; else those made here")
    parser.add_argument("--seconds", type=float, default=3.0, help="of timing for each network")
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--db", default=None, help="a record file")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", default=None, metavar="FILE", help="where to write the rows")
    given = parser.parse_args(arguments)
    threads = given.threads or thread_count()
    rows = {
        name: row(name, threads=threads, seconds=given.seconds, database=given.db, seed=given.seed)
        for name in given.networks or MADE
    }
    console = Console(width=140, highlight=False, markup=False)
    console.print(table(rows))
    mean = float(np.exp(np.mean([np.log(found["ratio_to_best_peer"]) for found in rows.values()])))
    within = sum(found["within_bar"] for found in rows.values())
    console.print(
        f"{len(rows)} networks on {threads} threads: {mean:.2f} times as fast as the kernels of onnxruntime {ort.__version__} "
        f"in the geometric mean; {within} within 3 % and 10 us of our own call"
    )
    if given.json:
        Path(given.json).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
