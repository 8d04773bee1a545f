"""Layers in bf16 beside our own f32, and beside bf16 without the machine's instruction for it, side by side in one process.

    python benchmarks/bf16.py [--cases matmul-512,matmul-1024,...] [--threads N] [--seconds S] [--json FILE]

The layers are those of `benchmarks/int8.py`: two matrix products and the convolutions of ResNet-50, their weights constants, under
default schedules. "widened" is the same layer for this machine without `avx512bf16`: bf16 in memory, f32 in registers. f32 is
computed as it is written, and "f32 winograd" where it would be computed so by default. Every answer is compared with the reference
evaluator's before anyone is timed. Where this machine has no such instruction, there is nothing to compare, and the script says so.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import ml_dtypes
import numpy as np
from rich.table import Table

import environment  # noqa: F401  first: it sets what others read
import tensorsmith as ts
from contest import Settings, hold, quiet_machine
from quantise import LAYERS, Layer
from report import console, write_json
from rows import OURS, row
from tensorsmith.backends.cpu.instructions import bf16_dots
from tensorsmith.backends.cpu.target import CpuTarget
from tensorsmith.lang.compare import difference
from tensorsmith.lang.define import Tensor, workload
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.ops import conv, linalg
from tensorsmith.runtime.executable import Executable
from tensorsmith.runtime.pool import with_threads
from tensorsmith.targets.target import native

BF16, WIDENED, F32, WINOGRAD = (f"{OURS} {kind}" for kind in ("bf16", "bf16 widened", "f32", "f32 winograd"))
KINDS = {"bf16": ml_dtypes.bfloat16, "f32": np.float32}


def definition(layer: Layer, kind: str) -> list[Tensor]:
    """Channels last, as networks are compiled."""
    if not layer.kernel:
        x = ts.placeholder(layer.shape, kind, name="x")
        w = ts.placeholder((layer.channels, layer.outputs), kind, name="w", constant=True)
        return [x, w, linalg.matmul(x, w, name="y")]
    x = ts.placeholder((1, layer.size, layer.size, layer.channels), kind, name="x")
    w = ts.placeholder((layer.kernel, layer.kernel, layer.channels, layer.outputs), kind, name="w", constant=True)
    return [x, w, conv.conv(x, w, layer.stride, layer.kernel // 2, 1, 1, "y")]


def without_instruction(target: CpuTarget) -> CpuTarget:
    """The same machine, where bf16 becomes f32 in registers."""
    return replace(target, features=target.features.replace("+avx512bf16", "-avx512bf16").replace("+bf16", "-bf16"))


def contestants(layer: Layer, target: CpuTarget) -> dict[str, tuple[Executable, np.ndarray]]:
    """Everyone, with what each is called with; each answer checked."""
    rng = np.random.default_rng(0)
    found: dict[str, tuple[Executable, np.ndarray]] = {}
    of = {BF16: ("bf16", target, "direct"), WIDENED: ("bf16", without_instruction(target), "direct")}
    of |= {F32: ("f32", target, "direct"), WINOGRAD: ("f32", target, "all")}
    for name, (kind, machine, formulations) in of.items():
        tensors = definition(layer, kind)
        given = workload(tensors)
        if name == WINOGRAD and (layer.kernel != 3 or layer.stride != 1):
            continue
        arrays = {b.name: rng.standard_normal(b.shape).astype(KINDS[kind]) for b in given.inputs}
        made = ts.compile(tensors, target=machine, formulations=formulations)
        assert isinstance(made, Executable)
        bound = made.bind(w=arrays["w"])
        wrong = difference(given, "y", bound(arrays["x"]), evaluate(given, arrays)["y"], slack=4.0 if name == WINOGRAD else 1.0)
        if wrong is not None:
            raise SystemExit(f"{layer.name}, {name}: {wrong}")
        found[name] = bound, arrays["x"]
    return found


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", help="names, with commas between")
    parser.add_argument("--threads", type=int, default=native().cores)
    parser.add_argument("--seconds", type=float, default=3.0, help="of timing per case")
    parser.add_argument("--json", metavar="FILE")
    given = parser.parse_args(words)
    target = native().with_facts(cores=given.threads)
    assert isinstance(target, CpuTarget)
    if not bf16_dots(target):
        console().print(f"{target.name} has no instruction for products of bf16")
        return 0
    wanted = given.cases.split(",") if given.cases else [layer.name for layer in LAYERS]
    settings = Settings(threads=given.threads, seconds=given.seconds)
    table = Table(title=f"{given.threads} threads; times as fast as")
    for column in ("layer", "GFLOP/s in bf16", "our f32", "the same by medians", "f32 by Winograd", "bf16 widened", "disturbed"):
        table.add_column(column, justify="left" if column == "layer" else "right")
    rows = {}
    with quiet_machine(), with_threads(given.threads):
        for layer in (layer for layer in LAYERS if layer.name in wanted):
            found = contestants(layer, target)
            result = hold({n: lambda e=e, x=x: e(x) for n, (e, x) in found.items()}, list(found), layer.name, settings)
            best, times = result[BF16].best, {n: result[n].best / result[BF16].best for n in found}
            table.add_row(
                layer.name,
                f"{2 * layer.products / best / 1e9:.0f}",
                f"{times[F32]:.2f}",
                f"{result[F32].median / result[BF16].median:.2f}",
                f"{times[WINOGRAD]:.2f}" if WINOGRAD in times else "",
                f"{times[WIDENED]:.2f}",
                f"{result.disturbed:.0%}",
            )
            rows[layer.name] = row(result, threads=given.threads, times=times)
    console().print(table)
    if given.json:
        write_json(given.json, rows)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
