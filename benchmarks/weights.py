"""Products of matrices and a vector from memory, with weights in 32, 16, 8 and 4 bits, side by side in one process.

    python benchmarks/weights.py                            # 8 matrices of 4096 x 4096
    python benchmarks/weights.py --size 2048 --matrices 24

Each call multiplies the vector by the next of several matrices, so that its weights come from memory: those of all matrices exceed
the last-level cache, of 4 bits too (the table says how often). int4 are blocks of 32 with a scale each, as a file with MatMulNBits
says it; q8_0, q4_0 and q4_k are blocks as GGUF files have them, multiplied in integers by the vector rounded to 8 bits; the others
come of `ts.compile(model, weights=...)`. ONNX Runtime runs the f32 and the int4 file. Each of our answers is compared with the
reference evaluator's on the weights as they are stored, before anyone is timed.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Iterable
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
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.model import Model
from tensorsmith.ops.block_formats import format_of
from tensorsmith.runtime.executable import Executable
from tensorsmith.runtime.pool import with_threads
from tensorsmith.targets.target import native

BLOCK = 32
KINDS = ("f32", "bf16", "f16", "int8", "int4", "q8_0", "q4_0", "q4_k")
_TOLERANCE = 1e-4  # of the largest number of the output, for another order of the sums


@dataclass(frozen=True)
class Contestant:
    """What is timed, the bytes of weights that one call reads, and how far its answers are off those of f32 weights (RMS)."""

    run: Callable[[], object]
    bytes: int
    error: float


def matrices(size: int, count: int) -> list[np.ndarray]:
    generator = np.random.default_rng(0)
    return [generator.uniform(-1, 1, (size, size)).astype(np.float32) for _ in range(count)]


def in_f32(weights: np.ndarray) -> onnx.ModelProto:
    return _model(helper.make_node("MatMul", ["x", "w"], ["y"]), {"w": weights}, weights.shape)


def in_4_bits(weights: np.ndarray) -> onnx.ModelProto:
    """Rounded to the nearest of 15 steps around 0, block by block."""
    depth, columns = weights.shape
    blocks = weights.T.reshape(columns, depth // BLOCK, BLOCK)
    scale = (np.abs(blocks).max(-1, keepdims=True) / 7).astype(np.float32)
    q = (np.rint(blocks / scale) + 8).astype(np.uint8)
    sizes = {"K": depth, "N": columns, "bits": 4, "block_size": BLOCK}
    node = helper.make_node("MatMulNBits", ["x", "q", "scale"], ["y"], domain="com.microsoft", **sizes)
    return _model(node, {"q": q[..., ::2] | (q[..., 1::2] << 4), "scale": scale.reshape(-1)}, weights.shape)


def _model(node: onnx.NodeProto, constants: dict[str, np.ndarray], shape: tuple[int, ...]) -> onnx.ModelProto:
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, n)) for name, n in zip("xy", shape)]
    made = [numpy_helper.from_array(a, name) for name, a in constants.items()]
    sets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(helper.make_graph([node], "product", ends[:1], ends[1:], made), opset_imports=sets, ir_version=10)


def in_blocks(kind: str, weights: np.ndarray) -> Model:
    """The product with weights in blocks of a format; their error is that of the plainest rounding, not of llama.cpp's search."""
    b = Builder("product")
    x = b.input("x", (1, weights.shape[0]), "f32")
    fields = [b.constant(field, kind) for field in format_of(kind).split(ROWS[kind](np.ascontiguousarray(weights.T)))]
    b.output("y", b.add("integer_block_matmul", [*b.add_all("quantize_blocks", [x]), *fields], format=kind))
    return Model.from_graph(b.graph())


def _bytes(*parts: np.ndarray) -> np.ndarray:
    """The fields of blocks (rows, blocks, ...), one behind the other, as rows of bytes."""
    found = [np.ascontiguousarray(p).view(np.uint8) for p in parts]
    return np.concatenate(found, -1).reshape(found[0].shape[0], -1)


def _q8_0(rows: np.ndarray) -> np.ndarray:
    blocks = rows.reshape(len(rows), -1, 32)
    d = (np.abs(blocks).max(-1, keepdims=True) / 127).astype(np.float16)
    return _bytes(d, np.rint(blocks / d).clip(-127, 127).astype(np.int8))


def _q4_0(rows: np.ndarray) -> np.ndarray:
    blocks = rows.reshape(len(rows), -1, 32)
    largest = np.take_along_axis(blocks, np.abs(blocks).argmax(-1)[..., None], -1)
    d = (largest / -8).astype(np.float16)
    n = (blocks / d + 8.5).clip(0, 15).astype(np.uint8)
    return _bytes(d, n[..., :16] | n[..., 16:] << 4)


def _q4_k(rows: np.ndarray) -> np.ndarray:
    parts = rows.reshape(len(rows), -1, 8, 32)
    low = np.minimum(parts.min(-1), 0)
    scale = (parts.max(-1) - low) / 15
    d, dmin = ((s.max(-1, keepdims=True) / 63).astype(np.float16) for s in (scale, -low))
    a, b = (np.rint(s / unit).astype(np.uint8).clip(0, 63) for s, unit in ((scale, d), (-low, dmin)))
    factor, least = a * d.astype(np.float32), b * dmin.astype(np.float32)
    n = np.rint((parts + least[..., None]) / np.where(factor == 0, 1, factor)[..., None]).clip(0, 15).astype(np.uint8)
    first = a[..., :4] | a[..., 4:] >> 4 << 6, b[..., :4] | b[..., 4:] >> 4 << 6
    return _bytes(
        d, dmin, *first, a[..., 4:] & 15 | (b[..., 4:] & 15) << 4, *(n[..., g, :] | n[..., g + 1, :] << 4 for g in range(0, 8, 2))
    )


ROWS: dict[str, Callable[[np.ndarray], np.ndarray]] = {"q8_0": _q8_0, "q4_0": _q4_0, "q4_k": _q4_k}


def _checked(got: np.ndarray, want: np.ndarray, who: str) -> None:
    off = float(np.abs(got - want).max() / np.abs(want).max())
    if off > _TOLERANCE:
        raise SystemExit(f"{who}: its answer is off by {off:.1e} of the largest number")


def gather(size: int, count: int, threads: int) -> dict[str, Contestant]:
    """Everyone, each answer checked."""
    weights = matrices(size, count)
    x = np.random.default_rng(1).uniform(-1, 1, (1, size)).astype(np.float32)
    exact = [x.astype(np.float64) @ w for w in weights]
    found: dict[str, Contestant] = {}
    for kind in KINDS:
        files: list[bytes] = []
        models: list[Model] = []
        for w in weights:
            if kind in ROWS:
                models.append(in_blocks(kind, w))
                continue
            files.append((in_4_bits(w) if kind == "int4" else in_f32(w)).SerializeToString())
            model = ts.load(files[-1])
            assert isinstance(model, Model)
            models.append(model.with_weights(kind) if kind in ("bf16", "f16", "int8") else model)
        executables = []
        answers = []
        for model in models:
            executable = ts.compile(model, name=kind)
            assert isinstance(executable, Executable)
            answers.append(model.evaluate([x])["y"])
            _checked(executable(x), answers[-1], f"{OURS} {kind}")
            executables.append(executable)
        bytes_ = executables[0].memory.constants
        found[f"{OURS} {kind}"] = Contestant(_in_turn([lambda e=e: e(x) for e in executables]), bytes_, _error(answers, exact))
        if kind in ("f32", "int4"):
            sessions = [onnxruntime_session(file, threads) for file in files]
            theirs = [s.run(None, {"x": x})[0] for s in sessions]
            runs = [lambda s=s: s.run(None, {"x": x}) for s in sessions]
            found[f"onnxruntime {kind}"] = Contestant(_in_turn(runs), bytes_, _error(theirs, exact))
    return found


def _in_turn(runs: Iterable[Callable[[], object]]) -> Callable[[], object]:
    turns = itertools.cycle(runs)
    return lambda: next(turns)()


def _error(answers: list[np.ndarray], exact: list[np.ndarray]) -> float:
    off = np.concatenate(answers) - np.concatenate(exact)
    return float(np.sqrt(np.mean(off**2) / np.mean(np.concatenate(exact) ** 2)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--matrices", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=10.0, help="of timing")
    parser.add_argument("--threads", type=int, default=native().cores)
    parser.add_argument("--json", metavar="FILE")
    given = parser.parse_args()
    settings = Settings(threads=given.threads, seconds=given.seconds)
    with quiet_machine(), with_threads(given.threads):
        found = gather(given.size, given.matrices, given.threads)
        ours = [name for name in found if name.startswith(OURS)]
        # no peer is hopeless here: each type of weights has its own
        result = hold({name: c.run for name, c in found.items()}, list(found), "weights", settings)
        peak = ts.measure_peak()["bytes"]
    cache = native().shared_cache_bytes
    table = Table(title=f"{given.size} x {given.size} times a vector, {given.matrices} in turn, {given.threads} threads")
    for column in ("", "us, best", "GB/s of weights", "times f32", "by medians", "all weights / last-level cache", "off by (RMS)"):
        table.add_column(column, justify="left" if not column else "right")
    base, rows = result[f"{OURS} f32"], {}
    for name, c in found.items():
        timing = result[name]
        times, by_medians = base.best / timing.best, base.median / timing.median
        table.add_row(
            name,
            f"{timing.best * 1e6:.0f}",
            f"{c.bytes / timing.best / 1e9:.1f}",
            f"{times:.2f}",
            f"{by_medians:.2f}",
            f"{given.matrices * c.bytes / cache:.1f}",
            f"{c.error:.2%}",
        )
        rows[name] = {"seconds": timing.best, "times_f32": times, "by_medians": by_medians, "bytes": c.bytes, "error": c.error}
    console().print(table)
    console().print(
        f"{len(base.slots)} rounds, {result.disturbed:.0%} of the slots disturbed; memory, read and written: {peak / 1e9:.1f} GB/s"
    )
    if given.json:
        entry = row(result, threads=given.threads, weights=rows, kinds=ours)
        write_json(given.json, {f"weights {given.size}": entry})


if __name__ == "__main__":
    main()
