"""Products of matrices and a vector from memory, with weights in 32, 16, 8 and 4 bits, side by side in one process.

    python benchmarks/weights.py                            # 8 layers of 4096 x 4096
    python benchmarks/weights.py --size 2048 --layers 24

A vector goes through some layers, each a matrix of its own, so that all weights come from memory in every call: their bytes exceed
the last-level cache, of 4 bits too (the table says how often). Times are of one layer. 4 bits are blocks of 32 with a scale each,
as a file with MatMulNBits says it; the others come of `ts.compile(model, weights=...)`. ONNX Runtime runs the f32 and the 4-bit
file. Each of our answers is compared with the reference evaluator's on the weights as they are stored, before anyone is timed.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from rich.table import Table

import environment  # noqa: F401  first: it sets what OpenVINO reads
import tensorsmith as ts
from contest import Settings, hold, quiet_machine
from frameworks import onnxruntime_session
from report import console, write_json
from rows import OURS, row
from tensorsmith.graph.model import Model
from tensorsmith.runtime.executable import Executable
from tensorsmith.runtime.pool import with_threads
from tensorsmith.targets.target import native

BLOCK = 32
KINDS = ("f32", "bf16", "f16", "int8", "int4")
_TOLERANCE = 1e-4  # of the largest number of the output, for another order of the sums


@dataclass(frozen=True)
class Contestant:
    """What is timed, the bytes of weights that one call reads, and how far its answer is off that of f32 weights (RMS)."""

    run: Callable[[], object]
    bytes: int
    error: float


def layers(size: int, count: int) -> list[np.ndarray]:
    """Random weights through which a vector keeps its length."""
    generator = np.random.default_rng(0)
    return [generator.uniform(-1, 1, (size, size)).astype(np.float32) * np.float32((3 / size) ** 0.5) for _ in range(count)]


def in_f32(weights: list[np.ndarray]) -> onnx.ModelProto:
    nodes = [helper.make_node("MatMul", [f"x{n}", f"w{n}"], [f"x{n + 1}"]) for n in range(len(weights))]
    return _model(nodes, {f"w{n}": w for n, w in enumerate(weights)}, weights[0].shape[0])


def in_4_bits(weights: list[np.ndarray]) -> onnx.ModelProto:
    """Rounded to the nearest of 15 steps around 0, block by block."""
    nodes, constants = [], {}
    for n, w in enumerate(weights):
        depth, columns = w.shape
        blocks = w.T.reshape(columns, depth // BLOCK, BLOCK)
        scale = (np.abs(blocks).max(-1, keepdims=True) / 7).astype(np.float32)
        q = (np.rint(blocks / scale) + 8).astype(np.uint8)
        constants |= {f"q{n}": q[..., ::2] | (q[..., 1::2] << 4), f"s{n}": scale.reshape(-1)}
        given = [f"x{n}", f"q{n}", f"s{n}"]
        sizes = {"K": depth, "N": columns, "bits": 4, "block_size": BLOCK}
        nodes.append(helper.make_node("MatMulNBits", given, [f"x{n + 1}"], domain="com.microsoft", **sizes))
    return _model(nodes, constants, weights[0].shape[0])


def _model(nodes: list[onnx.NodeProto], constants: dict[str, np.ndarray], size: int) -> onnx.ModelProto:
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, size)) for name in ("x0", f"x{len(nodes)}")]
    made = [numpy_helper.from_array(a, name) for name, a in constants.items()]
    sets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(helper.make_graph(nodes, "layers", ends[:1], ends[1:], made), opset_imports=sets, ir_version=10)


def _checked(got: np.ndarray, want: np.ndarray, who: str) -> None:
    off = float(np.abs(got - want).max() / np.abs(want).max())
    if off > _TOLERANCE:
        raise SystemExit(f"{who}: its answer is off by {off:.1e} of the largest number")


def gather(size: int, count: int, threads: int) -> dict[str, Contestant]:
    """Everyone, each answer checked."""
    weights = layers(size, count)
    files = {"f32": in_f32(weights).SerializeToString(), "int4": in_4_bits(weights).SerializeToString()}
    x = np.random.default_rng(1).uniform(-1, 1, (1, size)).astype(np.float32)
    exact = np.linalg.multi_dot([x.astype(np.float64), *weights])
    found: dict[str, Contestant] = {}
    for kind in KINDS:
        model = ts.load(files.get(kind, files["f32"]))
        assert isinstance(model, Model)
        model = model.with_weights(kind) if kind not in files else model
        executable = ts.compile(model, name=kind)
        assert isinstance(executable, Executable)
        (want,) = model.evaluate([x]).values()
        _checked(executable(x), want, f"{OURS} {kind}")
        error = float(np.sqrt(np.mean((want - exact) ** 2) / np.mean(exact**2)))
        found[f"{OURS} {kind}"] = Contestant(lambda e=executable: e(x), executable.memory.constants, error)
        if kind in files:
            session = onnxruntime_session(files[kind], threads)
            got = session.run(None, {"x0": x})[0]
            theirs = float(np.sqrt(np.mean((got - exact) ** 2) / np.mean(exact**2)))
            found[f"onnxruntime {kind}"] = Contestant(lambda s=session: s.run(None, {"x0": x}), executable.memory.constants, theirs)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=10.0, help="of timing")
    parser.add_argument("--threads", type=int, default=native().cores)
    parser.add_argument("--json", metavar="FILE")
    given = parser.parse_args()
    settings = Settings(threads=given.threads, seconds=given.seconds)
    with quiet_machine(), with_threads(given.threads):
        found = gather(given.size, given.layers, given.threads)
        ours = [name for name in found if name.startswith(OURS)]
        # no peer is hopeless here: each type of weights has its own
        result = hold({name: c.run for name, c in found.items()}, list(found), "weights", settings)
        peak = ts.measure_peak()["bytes"]
    cache = native().shared_cache_bytes
    table = Table(title=f"{given.layers} layers of {given.size} x {given.size} times a vector, {given.threads} threads")
    for column in ("", "us of a layer", "GB/s of weights", "times f32", "weights / last-level cache", "off by (RMS)"):
        table.add_column(column, justify="left" if not column else "right")
    base, rows = result[f"{OURS} f32"], {}
    for name, c in found.items():
        timing = result[name]
        times = base.median / timing.median
        table.add_row(
            name,
            f"{timing.median / given.layers * 1e6:.0f}",
            f"{c.bytes / timing.median / 1e9:.1f}",
            f"{times:.2f}",
            f"{c.bytes / cache:.1f}",
            f"{c.error:.2%}",
        )
        rows[name] = {"seconds": timing.median, "times_f32": times, "bytes": c.bytes, "error": c.error}
    console().print(table)
    console().print(
        f"medians of {len(base.slots)} rounds, {result.disturbed:.0%} of the slots disturbed; "
        f"memory, read and written: {peak / 1e9:.1f} GB/s"
    )
    if given.json:
        entry = row(result, threads=given.threads, weights=rows, kinds=ours)
        write_json(given.json, {f"weights {given.size}": entry})


if __name__ == "__main__":
    main()
