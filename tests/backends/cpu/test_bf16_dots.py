"""Instructions for products of bf16: what they mean, exactly; that this machine does so; which kernels use them."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from tests.backends.cpu.test_instructions import innermost, module, spilled

import tensorsmith as ts
from tensorsmith.backends.cpu.codegen.generate import generate
from tensorsmith.backends.cpu.default import default_candidate
from tensorsmith.backends.cpu.instructions import INSTRUCTIONS, Instruction, bf16_dots, by_meaning
from tensorsmith.backends.cpu.link import link
from tensorsmith.backends.cpu.llvm import compile_ir
from tensorsmith.lang.define import workload
from tensorsmith.lang.workload import Workload
from tensorsmith.ops import conv
from tensorsmith.program.lower import lower
from tensorsmith.targets.target import native

DOTS = [i for i in INSTRUCTIONS if i.sums == "f32"]
LEAST, LARGEST = Fraction(1, 1 << 126), Fraction(1 << 128)


def rounded(x: Fraction, odd: bool) -> float:
    """The f32 nearest to a number, of two the even one; or of the two around it the odd one."""
    if not x:
        return 0.0
    size = abs(x)
    exponent = max(size.numerator.bit_length() - size.denominator.bit_length(), -126)
    exponent -= size < Fraction(2) ** exponent  # now 2^exponent <= size, or below the normal ones
    unit = Fraction(2) ** (max(exponent, -126) - 23)
    digits, rest = divmod(size, unit)
    up = rest > unit / 2 or (rest == unit / 2 and digits % 2)
    digits = digits | (rest > 0) if odd else digits + up
    total = digits * unit
    return float(np.inf if total >= LARGEST else total) * (1 if x > 0 else -1)


def flushed(x: float) -> float:
    return 0.0 if abs(x) < 2.0**-126 else x


def in_numbers(x: float, y: float, exact: Callable[[Fraction, Fraction], Fraction], odd: bool) -> float:
    """A sum or a product of two numbers, rounded to f32; of what is no number, or infinite, as f64 has it."""
    if np.isfinite(x) and np.isfinite(y):
        return flushed(rounded(exact(Fraction(x), Fraction(y)), odd))
    with np.errstate(invalid="ignore"):
        return float(exact(np.float64(x), np.float64(y)))


def wanted(instruction: Instruction, c: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """By exact fractions, lane by lane, as the manuals say it."""
    result = []
    for n in range(instruction.lanes):
        at = (2 * n, 2 * n)
        if instruction.matrix:  # two rows of four, columns of four, and 2 x 2 results in every four lanes
            at = (4 * (n % 4 // 2), 8 * (n // 4) + 4 * (n % 2))
        x, y = ([flushed(float(v)) for v in of[first : first + instruction.pieces]] for of, first in zip((a, b), at))
        total = flushed(float(c[n]))
        if instruction.name != "vdpbf16ps":
            products = [in_numbers(p, q, lambda u, v: u * v, True) for p, q in zip(x, y)]
            for one, other in zip(products[::2], products[1::2]):
                added = in_numbers(one, other, lambda u, v: u + v, True)
                total = in_numbers(total, added, lambda u, v: u + v, True)
        else:
            for p, q in ((x[1], y[1]), (x[0], y[0])):
                product = p * q  # which f64 has exactly
                total = in_numbers(total, product, lambda u, v: u + v, False)
        result.append(total)
    return np.array(result, np.float32)


def f32_of(bits: np.ndarray) -> np.ndarray:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def drawn(kind: str, count: int, rng: np.random.Generator) -> np.ndarray:
    """Bits of bf16: near 1; any; around the least normal numbers when multiplied; near the largest."""
    if kind == "any":
        return rng.integers(0, 1 << 16, count).astype(np.uint16)
    scale = {"near": 0, "wide": rng.integers(-13, 13, count), "small": rng.integers(-66, -60, count), "large": 63}[kind]
    return ((rng.standard_normal(count) * 2.0**scale).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def starts(kind: str, a: np.ndarray, b: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """What is added to: any f32; or what nearly cancels the products."""
    count = len(a) // 2
    if kind == "any":
        return rng.integers(0, 1 << 32, count, np.uint64).astype(np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        products = (f32_of(a) * f32_of(b)).reshape(count, 2).sum(axis=1)
        return np.where(rng.random(count) < 0.5, -products, products * rng.standard_normal(count).astype(np.float32))


def check(text: str, instruction: Instruction, seeds: range) -> None:
    code = link(compile_ir(text, native()))
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(code.address("f"))
    for seed in seeds:
        for kind in ("near", "wide", "small", "large", "any"):
            rng = np.random.default_rng((seed, len(kind)))
            a, b = (drawn(kind, 2 * instruction.lanes, rng) for _ in "ab")
            start = starts(kind, a, b, rng).astype(np.float32)
            got = start.copy()
            call(got.ctypes.data, a.ctypes.data, b.ctypes.data)
            want = wanted(instruction, start, f32_of(a), f32_of(b))
            same = (got == want) | (np.isnan(got) & np.isnan(want))
            assert same.all(), f"{kind}: {got[~same]} instead of {want[~same]}"


@pytest.mark.parametrize("instruction", DOTS, ids=lambda i: i.function)
def test_the_meaning_is_what_the_manual_says(instruction):
    text = by_meaning(module(instruction))
    assert "llvm.x86" not in text and "llvm.aarch64" not in text
    check(text, instruction, range(12))


@pytest.mark.parametrize("instruction", DOTS, ids=lambda i: i.function)
def test_the_instruction_does_what_it_means(instruction):
    """Where this machine has it."""
    if instruction not in bf16_dots(native()):
        pytest.skip(f"{native().name} has no {instruction.name}")
    check(module(instruction), instruction, range(40))


def matmul(rows: int, depth: int, columns: int, a: str = "bf16", b: str = "bf16", constant: bool = True) -> Workload:
    left, right = ts.placeholder((rows, depth), a, name="A"), ts.placeholder((depth, columns), b, name="B", constant=constant)
    k = ts.reduce_axis(depth, "k")
    sums = ts.compute(
        (rows, columns), lambda i, j: ts.sum(ts.cast("f32", left[i, k]) * ts.cast("f32", right[k, j]), axis=k), name="C"
    )
    return workload([left, right, sums])


def convolution(size: int, channels: int, outputs: int, kernel: int = 3) -> Workload:
    x = ts.placeholder((1, size, size, channels), "bf16", name="X")
    w = ts.placeholder((kernel, kernel, channels, outputs), "bf16", name="W", constant=True)
    return workload([x, w, conv.conv(x, w, 1, kernel // 2, 1, 1, "C")])


def assembly(given: Workload, machine) -> str:
    return compile_ir(generate(lower(default_candidate(given, machine)), machine).ir, machine).source("asm")


@pytest.mark.parametrize(
    "name, instruction",
    [("znver4", "vdpbf16ps"), ("sapphirerapids", "vdpbf16ps"), ("neoverse-v1", "bfmmla"), ("neoverse-v2", "bfmmla")],
)
@pytest.mark.parametrize("case", [matmul(64, 256, 192), convolution(12, 64, 64), matmul(96, 256, 192, constant=False)], ids=str)
def test_kernels_use_it_and_keep_their_sums_in_registers(name, instruction, case):
    machine = ts.Target.named(name)
    loop = innermost(assembly(case, machine), instruction)
    found = sum(f"\t{instruction}\t" in line for line in loop)
    assert found >= 32 and not spilled(loop)
    assert not [
        line for line in loop if re.search(r"\tvpmovzx|\tvpslld|\tvfmadd|\t[us]?shll2?\tv|\tfmla\t", line)
    ]  # nothing widens


@pytest.mark.parametrize("name", ["skylake-avx512", "znver3", "x86-64-v2", "neoverse-n1", "cortex-a53", "a64fx"])
def test_machines_without_it_widen(name):
    machine = ts.Target.named(name)
    assert not bf16_dots(machine)
    assert " group " not in str(default_candidate(matmul(64, 256, 192), machine))


@pytest.mark.parametrize("name", ["znver4", "neoverse-v1"])
@pytest.mark.parametrize("a, b", [("f32", "bf16"), ("bf16", "f32"), ("f16", "f16"), ("f16", "bf16")])
def test_other_products_are_those_of_f32(name, a, b):
    """Weights of 16 bits times f32: nothing is rounded that the definition does not round."""
    machine = ts.Target.named(name)
    text = assembly(matmul(64, 256, 192, a, b), machine)
    assert not any(word in text for word in ("vdpbf16ps", "bfdot", "bfmmla"))


def test_a_vector_times_a_matrix_has_one_row():
    text = assembly(matmul(1, 256, 192), ts.Target.named("neoverse-v2"))
    assert "bfdot" in text and "bfmmla" not in text


def test_a_machine_has_it_in_all_widths():
    assert {i.lanes for i in bf16_dots(ts.Target.named("znver4"))} == {4, 8, 16}
    assert {i.lanes for i in bf16_dots(ts.Target.named("neoverse-v1"))} == {2, 4, 8}
    assert {i.lanes for i in bf16_dots(ts.Target.named("neoverse-v2"))} == {2, 4}
