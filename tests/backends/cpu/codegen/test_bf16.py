"""bf16 in machine code: every bit pattern, ties, special values, arithmetic; and the integers of 16 bits and without a sign."""

from __future__ import annotations

import dataclasses

import ml_dtypes
import numpy as np
import pytest
from tests.test_elements import BF16, FINITE, around_bf16

from tensorsmith.backends.cpu.default import default_candidate
from tensorsmith.build import build
from tensorsmith.elements import converted, kind_of
from tensorsmith.lang import define as ts
from tensorsmith.lang.dtypes import NAMES, dtype
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.targets.target import Target, native

LEAST = dataclasses.replace(native(), cpu="x86-64", features="", vector_bytes=16)
TARGETS = [native(), LEAST] if native().is_x86 else [native()]


def compiled(x: np.ndarray, source: str, to: str, target: Target) -> np.ndarray:
    a = ts.placeholder(x.shape, source, name="A")
    w = ts.workload([a, ts.compute(x.shape, lambda i: ts.cast(to, a[i]), name="C")])
    result: np.ndarray = build(default_candidate(w, target), target)(x)
    return result


def check(x: np.ndarray, source: str, to: str) -> None:
    """The same bits as by the table's conversion, but for those of a NaN, on every target."""
    with np.errstate(all="ignore"):
        want = converted(x, to)
    bits = f"u{want.itemsize}"
    for target in TARGETS:
        got = compiled(x, source, to, target)
        same = got.view(bits) == want.view(bits)
        if kind_of(want.dtype) == "f":
            same |= np.isnan(got) & np.isnan(want)
        wrong = np.flatnonzero(~same)
        assert not wrong.size, f"{target.cpu}: {x[wrong[:5]]} became {got[wrong[:5]]}, not {want[wrong[:5]]}"


@pytest.mark.parametrize("to", ["f16", "f32", "f64", "bool"])
def test_every_bf16_is_converted(to: str) -> None:
    check(BF16, "bf16", to)


@pytest.mark.parametrize("source", ["f32", "f64"])
def test_rounded_once_to_the_nearest_even_one(source: str) -> None:
    kind = dtype(source).numpy
    limits = np.finfo(kind)
    special = [np.nan, np.inf, -np.inf, 0.0, -0.0, limits.max, -limits.max, limits.tiny, limits.smallest_subnormal, 2.0**-134]
    x = np.concatenate([around_bf16(kind.name), FINITE.astype(kind), np.array(special, kind)])
    check(x, source, "bf16")


def test_f64_is_not_rounded_twice() -> None:
    x = np.array([(1 + 2.0**-8) * (1 + sign * 2.0**-n) for n in range(25, 50) for sign in (-1, 1)])
    check(np.concatenate([x, -x, x * 2.0**-130]), "f64", "bf16")


def test_every_f16_becomes_a_bf16() -> None:
    check(np.arange(1 << 16, dtype=np.uint16).view(np.float16), "f16", "bf16")


def test_a_nan_stays_one_whatever_its_bits() -> None:
    """Of an f32 whose upper half alone would be infinity."""
    x = np.array([0x7F800001, 0xFF800001, 0x7FFFFFFF, 0xFFFFFFFF, 0x7FC00000], np.uint32).view(np.float32)
    for target in TARGETS:
        got = compiled(np.tile(x, 7), "f32", "bf16", target)
        assert np.isnan(got).all()
        np.testing.assert_array_equal(np.signbit(got), np.signbit(np.tile(x, 7)))


INTS = [name for name in NAMES if dtype(name).kind in "iu"]


def whole_range(name: str) -> np.ndarray:
    limits = np.iinfo(dtype(name).numpy)
    drawn = np.random.default_rng(0).integers(limits.min, limits.max, 500, dtype(name).numpy, endpoint=True)
    ends = [limits.min, limits.min + 1, limits.max - 1, limits.max, 0, 1, 255, limits.max // 2, limits.max // 2 + 1]
    return np.concatenate([drawn, np.array([n for n in ends if limits.min <= n <= limits.max], dtype(name).numpy)])


@pytest.mark.parametrize("source", INTS)
@pytest.mark.parametrize("to", [*INTS, "bf16", "f32", "f64", "bool"])
def test_integers_are_converted_as_numpy_does(source: str, to: str) -> None:
    check(whole_range(source), source, to)


@pytest.mark.parametrize("to", INTS)
@pytest.mark.parametrize("source", ["bf16", "f32", "f64"])
def test_floats_that_fit_are_cut_off(source: str, to: str) -> None:
    limits = np.iinfo(dtype(to).numpy)
    x = np.concatenate([FINITE.astype("f8"), np.random.default_rng(0).uniform(-300, 300, 200), [2.0**63, 2.0**31]])
    x = converted(x[(x > limits.min - 1) & (x < float(limits.max) * (1 - 2.0**-20))], source)
    wide = x.astype("f8")
    check(x[(wide > limits.min - 1) & (wide < float(limits.max))], source, to)


@np.errstate(invalid="ignore")
@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.cpu)
def test_each_operation_rounds_as_the_evaluator_does(target: Target) -> None:
    x, y = (np.random.default_rng(n).permutation(BF16) for n in (0, 1))
    a, b = (ts.placeholder(x.shape, "bf16", name=name) for name in "AB")
    operations = {
        "sum": lambda i: a[i] + b[i], "difference": lambda i: a[i] - b[i], "product": lambda i: a[i] * b[i],
        "quotient": lambda i: a[i] / b[i], "root": lambda i: ts.sqrt(a[i]), "larger": lambda i: ts.maximum(a[i], b[i]),
        "chosen": lambda i: ts.select(a[i] < b[i], -a[i], ts.abs(b[i])), "floor": lambda i: ts.floor(a[i]),
        "bits": lambda i: ts.bits_as("bf16", ts.bits_as("u16", a[i]) ^ 0x8000),
    }  # fmt: skip
    tensors = [ts.compute(x.shape, body, name=name) for name, body in operations.items()]
    w = ts.workload([a, b, *tensors])
    want = evaluate(w, {"A": x, "B": y})
    for name, got in zip(operations, build(default_candidate(w, target), target)(x, y)):
        same = (got.view("u2") == want[name].view("u2")) | (np.isnan(got) & np.isnan(want[name]))
        same |= (got == 0) & (want[name] == 0)  # of a maximum of both zeros either may come
        assert same.all(), f"{name}: {int((~same).sum())} are wrong"


def test_a_sum_is_made_in_f32_and_rounded_once() -> None:
    """16,384 ones one after another: in bf16 a sum would stay at 256, in f16 at 2048, and so would each of four partial sums."""
    ones = 1 << 14
    for name in ("bf16", "f16"):
        a, k = ts.placeholder((ones, 3), name, name="A"), ts.reduce_axis(ones)
        w = ts.workload([a, ts.compute((3,), lambda j, a=a, k=k: ts.sum(a[k, j] * a[k, j], axis=k), name="C")])
        x = np.ones((ones, 3), dtype(name).numpy)
        for target in TARGETS:
            np.testing.assert_array_equal(build(default_candidate(w, target), target)(x).astype(float), ones)
        np.testing.assert_array_equal(evaluate(w, {"A": x})["C"].astype(float), ones)


def test_products_in_a_sum_keep_all_their_digits() -> None:
    """(1 + e)^2 - 1 - 2e is e^2, which no bf16 near 1 can hold."""
    e = 2.0**-7
    a = ts.placeholder((2, 3), "bf16", name="A")
    b = ts.placeholder((2, 3), "bf16", name="B")
    k = ts.reduce_axis(3)
    w = ts.workload([a, b, ts.compute((2,), lambda i: ts.sum(a[i, k] * b[i, k], axis=k), name="C")])
    x, y = (np.array([row] * 2).astype(ml_dtypes.bfloat16) for row in ([1 + e, -1, -2 * e], [1 + e, 1, 1]))
    np.testing.assert_array_equal(build(default_candidate(w, native()), native())(x, y).astype(float), e * e)
