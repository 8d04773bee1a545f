"""Loops on bytes and bf16 against the rate of their instruction on CPUs that are not here: simulated, by LLVM's models (`mca`).

    python benchmarks/int8_mca.py [--target znver4,neoverse-v1,...]

A matrix product, a 3 x 3 and a 1 x 1 convolution of bytes are compiled for every target under their default schedules, u8 times i8
and i8 times i8, and in f32; where a machine has something for small weights (`lang/small.py`), u8 times those too; where it
multiplies bf16, those. The share is what the hot loop reaches of a block that has nothing but independent instructions of its kind.
Beside it: products of the loop in a cycle, and how many times those of our own loop in f32 that is. `x86-64-v3/skylake` is code for
the first that the model of the second runs.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

import tensorsmith as ts
from mca import cycles, hot_loop, simulator, spilled
from tensorsmith.backends.cpu.instruction import Instruction
from tensorsmith.backends.cpu.instructions import SMALL, bf16_dots, dots, matrix, pairs, small_dots
from tensorsmith.backends.cpu.target import CpuTarget
from tensorsmith.lang.define import Tensor
from tensorsmith.ops import conv
from tensorsmith.ops.common import sum_of_products
from tensorsmith.targets.target import Target

TARGETS = "znver4,sapphirerapids,skylake-avx512,znver3,x86-64-v3,x86-64-v3/skylake,neoverse-n1,neoverse-v1,neoverse-v2"


def matmul(a: str, b: str, small: bool = False) -> list[Tensor]:
    x, w = ts.placeholder((512, 512), a, name="x"), ts.placeholder((512, 512), b, name="w", constant=True)
    k = ts.reduce_axis(512, "k")
    return [x, w, ts.compute((512, 512), lambda i, j: sum_of_products(x[i, k], w[k, j], k, sums_of(a), small), name="y")]


def convolution(a: str, b: str, small: bool = False) -> list[Tensor]:
    x, w = ts.placeholder((1, 28, 28, 128), a, name="x"), ts.placeholder((3, 3, 128, 128), b, name="w", constant=True)
    return [x, w, conv.conv(x, w, 1, 1, 1, 1, "y", 0, sums_of(a), small)]


def pointwise(a: str, b: str, small: bool = False) -> list[Tensor]:
    x, w = ts.placeholder((1, 28, 28, 512), a, name="x"), ts.placeholder((1, 1, 512, 128), b, name="w", constant=True)
    return [x, w, conv.conv(x, w, 1, 0, 1, 1, "y", 0, sums_of(a), small)]


def sums_of(kind: str) -> str:
    """The type in which products are added."""
    return "f32" if kind in ("f32", "bf16") else "i32"


CASES = {"matmul 512": matmul, "conv 3x3": convolution, "conv 1x1": pointwise}


def named(name: str) -> CpuTarget:
    code, _, model = name.partition("/")
    target = Target.named(code)
    return target.with_facts(cpu=model) if model else target


def instruction(target: CpuTarget, a: str, b: str) -> Instruction:
    """What the products of these kinds are made of."""
    two_rows = matrix(target, target.lanes(4), a, b)
    if two_rows is not None:
        return two_rows
    found = [i for i in (*dots(target), *pairs(target), *small_dots(target), *bf16_dots(target)) if i.lanes == target.lanes(4)]
    return next((i for i in found if set(i.types) == {a, b}), found[0])


def rate(target: CpuTarget, what: Instruction) -> float:
    """Instructions per cycle of a block that waits for nothing."""
    last = target.vector_registers - 1
    if target.is_aarch64:
        count, piece = (8, "h") if what.sums == "f32" else (16, "b")
        sums, factor = ("z{}.s", f"z{{}}.{piece}") if what.scalable else ("v{}.4s", f"v{{}}.{count}{piece}")
        both = f"{factor.format(last - 1)}, {factor.format(last)}"
        block = [f"{what.name} {sums.format(n)}, {both}" for n in range(last - 1)]
    else:
        name = {4: "xmm", 8: "ymm", 16: "zmm"}[what.lanes]
        names = [what.name, *([what.pairs.name] if what.pairs is not None else [])]
        block = [f"{word} %{name}{last - 1}, %{name}{last}, %{name}{n}" for n in range(last - 1) for word in names]
        return (last - 1) / cycles(block, target)
    return len(block) / cycles(block, target)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default=TARGETS)
    given = parser.parse_args(words)
    table = Table("case", "target", "instruction", "in the loop", "share of its rate", "products a cycle", "of f32's", "spills")
    for name in given.target.split(","):
        target = named(name)
        machine = target.triple.split("-")[0]
        for case, make in CASES.items():
            adds, floats = hot_loop(ts.compile(make("f32", "f32"), target=target).assembly, machine)
            plain = target.lanes(4) * adds / cycles(floats, target)
            small = [("u8", SMALL)] if target.multiplies_pairs else []
            for a, b in (("u8", "i8"), ("i8", "i8"), *small, *([("bf16", "bf16")] if bf16_dots(target) else [])):
                what = instruction(target, a, b)
                exe = ts.compile(make(a, "i8" if b == SMALL else b, b == SMALL), target=target)
                count, lines = hot_loop(exe.assembly, machine, rf"\b{what.name}\b")
                a_cycle = count / cycles(lines, target) if count else 0.0
                products = what.lanes * what.pieces * a_cycle
                numbers = [f"{a_cycle / rate(target, what):.2f}", f"{products:.1f}", f"{products / plain:.2f}"]
                table.add_row(f"{case}, {a} x {b}", name, what.name, str(count), *numbers, str(spilled(lines, machine)))
    Console(width=130).print(table)
    print(f"simulated by {simulator()}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
