"""Conversions from and to f16: every bit pattern, every halfway case, as NumPy rounds them, with and without F16C."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

from tensorsmith.backends.cpu.default import default_candidate
from tensorsmith.build import build
from tensorsmith.lang import define as ts
from tensorsmith.lang.dtypes import dtype
from tensorsmith.space.sketch.nest import Nest
from tensorsmith.space.sketch.sketch import Candidate, Sketch
from tensorsmith.targets.target import Target, native

HALVES = np.arange(1 << 16, dtype=np.uint16).view(np.float16)

#: this machine, itself without its instructions, and the least of its kind
WITHOUT = dataclasses.replace(native(), features=native().features.replace("+f16c", "-f16c"))
LEAST = dataclasses.replace(native(), cpu="x86-64", features="", vector_bytes=16)
TARGETS = [native(), WITHOUT, LEAST] if native().is_x86 else [native()]


def converted(x: np.ndarray, source: str, to: str, lanes: int, target: Target) -> np.ndarray:
    """By machine code: in vectors of that many lanes with a tail behind, or one by one."""
    a = ts.placeholder(x.shape, source, name="A")
    w = ts.workload([a, ts.compute(x.shape, lambda i: ts.cast(to, a[i]), name="C")])
    sketch = Sketch(w, (Nest("C", "i.0 | i.1", "i.1" if lanes > 1 else None),)).check()
    result: np.ndarray = build(Candidate(sketch, {"C.i.1": lanes, "C.parallel": 0}), target)(x)
    return result


def check(x: np.ndarray, source: str, to: str) -> None:
    """The same bits as NumPy's, but for those of a NaN, on every target."""
    with np.errstate(all="ignore"):
        want = x.astype(dtype(to).numpy)
    bits = f"u{want.itemsize}"
    for target, lanes in itertools.product(TARGETS, (1, 4, 8, 16)):
        got = converted(x, source, to, lanes, target)
        same = got.view(bits) == want.view(bits)
        if dtype(to).kind == "f":
            same |= np.isnan(got) & np.isnan(want)
        wrong = np.flatnonzero(~same)
        assert not wrong.size, (
            f"{lanes} lanes, {target.cpu} {target.has('f16c')}: {x[wrong[:5]]} became {got[wrong[:5]]}, not {want[wrong[:5]]}"
        )


def around_halves(kind: str) -> np.ndarray:
    """Every f16, every number halfway to the next, and the numbers of the wider type beside each of them."""
    finite = np.unique(HALVES[np.isfinite(HALVES)].astype(kind))
    ends = np.array([-65536.0, 65536.0], kind)  # where the next f16 would be
    points = np.unique(np.concatenate([finite, ends]))
    exact = np.concatenate([points, (points[1:] + points[:-1]) / 2, [np.array(-0.0, kind)]])
    beside = [np.nextafter(exact, np.array(end, kind)) for end in (-np.inf, np.inf)]
    limits = np.finfo(kind)
    sizes = [limits.tiny, limits.smallest_subnormal, limits.max, np.inf, 65519.999, 65520.0, 65520.001, 1e-8, 2.0**-25]
    return np.concatenate([exact, *beside, np.array([*sizes, *(-s for s in sizes), np.nan], kind)])


@pytest.mark.parametrize(("source", "kind"), [("f32", "float32"), ("f64", "float64")])
def test_to_half_rounds_to_even_once(source, kind):
    check(around_halves(kind), source, "f16")


def test_f64_to_half_is_not_rounded_twice():
    """Just off a halfway case, by less than an f32 can tell: through f32 these would round to the wrong side."""
    near = np.float64(1 + 2**-11)  # between 1 and the next f16
    x = np.array([near * (1 + sign * 2.0**-n) for n in range(25, 50) for sign in (-1, 1)])
    assert (x.astype(np.float32).astype(np.float16) != x.astype(np.float16)).any()
    check(np.concatenate([x, -x, x * 2.0**-14, x * 2.0**-20, x * 2.0**15]), "f64", "f16")


@pytest.mark.parametrize("to", ["f32", "f64"])
def test_from_half_is_exact(to):
    check(HALVES, "f16", to)


@pytest.mark.parametrize("source", ["i8", "u8", "i32", "i64", "bool"])
def test_whole_numbers_to_half(source):
    kind = dtype(source).numpy
    if source == "bool":
        x = np.array([False, True] * 20)
    else:
        limits = np.iinfo(kind)
        x = np.arange(max(limits.min, -70_000), min(limits.max, 70_000) + 1, dtype=kind)
        x = np.concatenate([x, np.array([limits.min, limits.min + 1, limits.max - 1, limits.max], kind)])
    check(x, source, "f16")


@pytest.mark.parametrize("to", ["i8", "u8", "i32", "i64", "bool"])
def test_half_to_whole_numbers(to):
    x = HALVES
    if to != "bool":  # what does not fit is anything
        limits = np.iinfo(dtype(to).numpy)
        with np.errstate(invalid="ignore"):
            x = x[np.isfinite(x) & (x.astype("f8") > limits.min - 1) & (x.astype("f8") < float(limits.max) + 1)]
    check(x, "f16", to)


@pytest.mark.parametrize("target", TARGETS[1:], ids=lambda t: t.cpu)
def test_arithmetic_is_the_same_without_instructions_for_it(target):
    x, y = (np.random.default_rng(n).permutation(HALVES) for n in (0, 1))
    a, b = (ts.placeholder(x.shape, "f16", name=name) for name in "AB")
    c = ts.compute(
        x.shape, lambda i: ts.select(a[i] < b[i], ts.sqrt(a[i]) * b[i] + 1, ts.maximum(a[i] - b[i], a[i] / b[i])), name="C"
    )
    w = ts.workload([a, b, c])
    here, there = (build(default_candidate(w, t), t)(x, y) for t in (native(), target))
    np.testing.assert_array_equal(here, there)


def test_a_sum_of_halves_is_the_same_without_instructions_for_it():
    x = np.random.default_rng(0).uniform(-1, 1, (24, 100)).astype(np.float16)
    a, k = ts.placeholder(x.shape, "f16", name="A"), ts.reduce_axis(100, name="k")
    w = ts.workload([a, ts.compute((24,), lambda i: ts.sum(ts.cast("f32", a[i, k]), axis=k), name="C")])
    for target in TARGETS:
        np.testing.assert_allclose(build(default_candidate(w, target), target)(x), x.astype("f8").sum(1), rtol=1e-4, atol=1e-4)
