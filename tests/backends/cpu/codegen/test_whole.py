"""Numbers that are rounded and clamped on the way to an integer of few bits, and back: as NumPy makes them, in fewer steps."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given
from tests.random_draws import SOURCES, many

from tensorsmith.compile import compile
from tensorsmith.lang import define as ts
from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.lang.workload import Workload
from tensorsmith.targets.target import native

LIMITS = {"u8": (0, 255), "i8": (-128, 127), "u16": (0, 65535), "i16": (-32768, 32767)}


def quantising(to, count, back, low, high, zero="u8"):
    """y = the integer, or with `back` that as a real number once more, times another."""
    x, s = ts.placeholder((count,), name="x"), ts.placeholder((count,), name="s")
    z = ts.placeholder((), zero, name="z") if zero else None

    def body(i):
        moved = ts.round(x[i]) if z is None else ts.round(x[i]) + ts.cast("f32", z[()])
        number = ts.cast(to, ts.minimum(ts.maximum(moved, float(low)), float(high)))
        return ts.cast("f32", number) * s[i] if back else number

    return ts.workload([x, *([s] if back else []), *([] if z is None else [z]), ts.compute((count,), body, name="y")])


def values(rng: np.random.Generator, count: int) -> np.ndarray:
    """Halves and their neighbours, limits, numbers of any size, infinities."""
    halves = rng.integers(-70000, 70000, count) + rng.choice([0.0, 0.5], count)
    near = np.nextafter(halves.astype(np.float32), np.float32(rng.choice([-np.inf, np.inf])))
    small = rng.integers(-300, 300, count) + rng.choice([0.0, 0.5, 0.49999997, 0.25], count)
    wild = rng.standard_normal(count) * 10.0 ** rng.integers(-20, 30, count)
    special = rng.choice([0.0, -0.0, np.inf, -np.inf, 2.0**22, 2.0**23 + 1, -(2.0**31), 3e38], count)
    return np.choose(rng.integers(0, 5, count), [halves, near, small, wild, special]).astype(np.float32)


@pytest.mark.parametrize("source", SOURCES)
def test_as_numpy_makes_them(source):
    @given(SOURCES[source])
    @many(40, repeatable=True)
    def run(rng: Random):
        numbers = np.random.default_rng(rng.randrange(1 << 32))
        to, zero = rng.choice([*LIMITS]), rng.choice([None, *LIMITS])
        low, high = rng.choice([LIMITS[to], (0, 100), sorted(rng.sample(range(128), 2)), (-1000, 1000), (60, 60)])
        w = quantising(to, rng.choice([1, 5, 16, 37, 128]), rng.random() < 0.5, low, high, zero)
        kernel = compile(w, target=replace(native(), vector_bytes=rng.choice([16, 32, 64])))
        for _ in range(4):
            arrays = given_arrays(w, numbers)
            got, want = kernel(*arrays.values()), evaluate(w, arrays)["y"]
            assert got.dtype == want.dtype and np.array_equal(got, want)

    run()


def given_arrays(w: Workload, rng: np.random.Generator) -> dict[str, np.ndarray]:
    found = {"x": values(rng, w.buffers["x"].shape[0])}
    if "s" in w.buffers:
        found["s"] = rng.standard_normal(w.buffers["s"].shape).astype(np.float32)
    if "z" in w.buffers:
        low, high = LIMITS[w.buffers["z"].dtype]
        found["z"] = np.asarray(rng.choice([low, high, rng.integers(low, high + 1)]), dtype(w.buffers["z"].dtype).numpy)
    return found


@pytest.mark.parametrize("zero", [None, "u8"])
def test_what_is_no_number_becomes_some_integer(zero):
    w = quantising("u8", 37, True, 0, 255, zero)
    x = np.full(37, np.nan, np.float32)
    got = compile(w)(x, np.ones(37, np.float32), *([] if zero is None else [np.uint8(200)]))
    assert np.array_equal(got, np.rint(got)) and got.min() >= 0 and got.max() <= 255


def test_an_integer_that_is_real_again_was_never_one():
    assembly = compile(quantising("u8", 640, True, 0, 255), target="znver4").assembly
    assert "vcvttps2dq" not in assembly and "vrndscaleps" in assembly


def test_limits_that_the_type_does_not_hold_are_wrapped_by_it():
    assembly = compile(quantising("u8", 640, True, 0, 300), target="znver4").assembly
    assert "vcvtdq2ps" in assembly  # u8(256.0) is 0
    w = quantising("u8", 2, True, 0, 300, None)
    assert compile(w)(np.float32([256, 300]), np.float32([1, 1])).tolist() == [0.0, 44.0]


@pytest.mark.parametrize("to", LIMITS)
def test_rounding_is_an_addition(to):
    assembly = compile(quantising(to, 640, False, *LIMITS[to]), target="znver4").assembly
    assert "vrndscaleps" not in assembly and "vcvttps2dq" not in assembly and "vaddps" in assembly
