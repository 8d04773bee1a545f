"""The table of element types, and conversions between them: the measure of what code converts."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from tensorsmith.elements import BY_NUMPY, TABLE, converted, kind_of
from tensorsmith.lang.dtypes import NAMES, canonical, widened

BF16 = np.arange(1 << 16, dtype=np.uint16).view(ml_dtypes.bfloat16)
with np.errstate(invalid="ignore"):  # some of the NaN signal
    FINITE = BF16[np.isfinite(BF16)]


def test_each_type_is_what_numpy_makes_of_it() -> None:
    assert len(BY_NUMPY) == len(TABLE)
    for name, facts in TABLE.items():
        assert (facts.name, facts.bytes, facts.numpy.itemsize) == (name, facts.bytes, facts.bytes)
        assert canonical(facts.numpy) == canonical(facts.long_name) == canonical(name) == name
        assert kind_of(facts.numpy) == facts.kind
        if facts.kind == "f":
            assert facts.epsilon == float(ml_dtypes.finfo(facts.numpy).eps)
        if facts.kind in "iu":
            assert np.iinfo(facts.numpy).bits == 8 * facts.bytes


def test_only_floats_of_16_bits_are_computed_in_another_type() -> None:
    assert {name: widened(name) for name in NAMES if widened(name) != name} == {"f16": "f32", "bf16": "f32"}
    assert {name for name in NAMES if TABLE[name].lane_bytes != TABLE[name].bytes} == {"f16", "bf16"}


def nearest(x: np.ndarray) -> np.ndarray:
    """Each number as the nearest bf16, by exact arithmetic; of two as near, the one whose last bit is 0."""
    bits = np.arange(0x7F80, dtype=np.uint16)  # the numbers from 0 up, in their order
    points = bits.view(ml_dtypes.bfloat16).astype(np.float64)
    limit = Fraction(points[-1]) + (Fraction(points[-1]) - Fraction(points[-2])) / 2  # from here on, infinity
    result = []
    for number in x:
        size = Fraction(abs(float(number)))
        at = int(np.searchsorted(points, abs(float(number))))
        few = range(max(0, at - 1), min(at + 1, len(points)))
        best = min(few, key=lambda n: (abs(Fraction(points[n]) - size), n & 1))
        result.append(np.copysign(np.inf if size >= limit else points[best], number))
    return np.array(result)


def around_bf16(kind: str) -> np.ndarray:
    """Some bf16, the numbers halfway to the next, and those of the wider type beside them."""
    some = np.random.default_rng(0).choice(FINITE, 150).astype(kind)
    patterns = np.array([0x0000, 0x0001, 0x007F, 0x0080, 0x7F7F, 0x3F80, 0x3F81], np.uint16).view(ml_dtypes.bfloat16).astype(kind)
    exact = np.concatenate([some, patterns])
    wide = exact.astype(np.float64)
    ulp = np.maximum(2.0**-133, 2.0 ** (np.floor(np.log2(np.maximum(np.abs(wide), 2.0**-126))) - 7))
    halfway = (wide + ulp / 2).astype(kind)
    beside = [np.nextafter(halfway, np.array(end, kind)) for end in (-np.inf, np.inf)]
    all_of_them = np.concatenate([exact, halfway, *beside])
    return all_of_them[np.isfinite(all_of_them)]


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_bf16_is_rounded_once_to_the_nearest_even_one(kind: str) -> None:
    x = around_bf16(kind)
    np.testing.assert_array_equal(converted(x, "bf16").astype(np.float64), nearest(x))


def test_f64_is_not_rounded_twice() -> None:
    """Just off a tie, by less than an f32 can tell."""
    x = np.array([(1 + 2.0**-8) * (1 + sign * 2.0**-n) for n in range(25, 50) for sign in (-1, 1)])
    assert (x.astype(ml_dtypes.bfloat16) != converted(x, "bf16")).any(), "ml_dtypes rounds once: `converted` is not needed"
    np.testing.assert_array_equal(converted(x, "bf16").astype(np.float64), nearest(x))


def test_special_values_stay_what_they_are() -> None:
    x = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0])
    got = converted(x, "bf16").astype(np.float64)
    np.testing.assert_array_equal(got, x)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(x))
    assert converted(np.array(1e300), "bf16") == np.inf


@np.errstate(invalid="ignore")
@pytest.mark.parametrize("to", ["f32", "f64"])
def test_every_bf16_is_exact_in_wider_floats_and_comes_back(to: str) -> None:
    back = converted(converted(BF16, to), "bf16")
    np.testing.assert_array_equal(np.isnan(back), np.isnan(BF16))
    numbers = ~np.isnan(BF16)
    np.testing.assert_array_equal(back[numbers].view(np.uint16), BF16[numbers].view(np.uint16))
