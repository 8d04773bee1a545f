"""Functions that are put together of operations: errors in units in the last place, special values, as NumPy has them.

Run as a script it prints the largest error that was found of each, which the docstrings of `lang/functions.py` round up.
"""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest

import tensorsmith as ts
from tensorsmith.errors import UserError
from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.evaluate import evaluate

#: NumPy's function, the largest error in f32, in units in the last place
ROUNDED = {
    "exp2": (np.exp2, 0.6), "log2": (np.log2, 2), "log10": (np.log10, 2.5), "tan": (np.tan, 3), "asin": (np.arcsin, 3),
    "acos": (np.arccos, 3.5), "atan": (np.arctan, 3), "sinh": (np.sinh, 4), "cosh": (np.cosh, 3), "asinh": (np.arcsinh, 3),
    "acosh": (np.arccosh, 3), "atanh": (np.arctanh, 3),
}  # fmt: skip
EXACT = {
    "abs": np.abs, "floor": np.floor, "ceil": np.ceil, "round": np.round, "trunc": np.trunc, "square": np.square,
    "reciprocal": np.reciprocal, "sqrt": np.sqrt, "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite,
}  # fmt: skip
TWO_ROUNDED = {"atan2": (np.arctan2, 3), "hypot": (np.hypot, 2.5)}
FLOATS = ["f32", "f64", "f16"]
WIDE = {"f16": np.float64, "f32": np.float64, "f64": np.longdouble}
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -2.5, 1.5, 3.0, math.inf, -math.inf, math.nan, 1e-5, -1e-5, 6e-8, 65504.0, 1e4]
MORE = {"f16": [], "f32": [1e-45, 3.4e38, -3.4e38, 1e-38], "f64": [5e-324, 1.7e308, 1e-308]}


def numbers(kind: str, count: int = 4000) -> np.ndarray:
    """Special values, small and large ones of either sign, ones near 1, any bits at all."""
    generator = np.random.default_rng(5)
    facts = dtype(kind).numpy
    sizes = 2.0 ** generator.uniform(*{"f16": (-12, 12), "f32": (-30, 7), "f64": (-200, 9)}[kind], count)
    signs = generator.choice([-1.0, 1.0], count)
    bits = generator.integers(0, 256, (count, facts.itemsize), np.uint8).view(facts)[:, 0]
    parts = [SPECIAL, MORE[kind], sizes * signs, generator.uniform(-1, 1, count), 1 + sizes.clip(None, 1), bits]
    with np.errstate(all="ignore"):
        return np.concatenate([np.asarray(p).astype(facts) for p in parts])


def pairs(kind: str) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of special values, and random ones."""
    special = np.array(SPECIAL + MORE[kind])
    a, b = (x.ravel() for x in np.meshgrid(special, special))
    generator = np.random.default_rng(6)
    c, d = (generator.uniform(-4, 4, 3000) * 2.0 ** generator.integers(-6, 6, 3000) for _ in range(2))
    return np.concatenate([a, c]).astype(dtype(kind).numpy), np.concatenate([b, d]).astype(dtype(kind).numpy)


@functools.cache
def of_one(kind: str) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """The values of all functions of one number, by code that was generated for them together."""
    x = numbers(kind)
    a = ts.placeholder(x.shape, kind, name="x")
    outputs = [ts.compute(x.shape, lambda i, n=name: getattr(ts, n)(a[i]), name=name) for name in (*ROUNDED, *EXACT)]
    return x, ts.compile([a, *outputs]).run({"x": x})


@functools.cache
def of_two(kind: str) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    x, y = pairs(kind)
    a, b = ts.placeholder(x.shape, kind, name="x"), ts.placeholder(x.shape, kind, name="y")
    names = (*TWO_ROUNDED, "fmod")
    outputs = [ts.compute(x.shape, lambda i, n=name: getattr(ts, n)(a[i], b[i]), name=name) for name in names]
    return x, y, ts.compile([a, b, *outputs]).run({"x": x, "y": y})


def error(got: np.ndarray, exact: np.ndarray) -> float:
    """The largest error in units in the last place; what has to be NaN, infinite or a zero of some sign has to be just that."""
    with np.errstate(all="ignore"):
        want = exact.astype(got.dtype)
        np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
        finite = np.isfinite(want) & np.isfinite(got)
        # an error of some units may decide whether what is near the largest number overflows
        near = np.abs(exact) > float(np.finfo(got.dtype).max) * 0.999
        assert np.all(finite | (got == want) | np.isnan(want) | near)
        np.testing.assert_array_equal(np.signbit(got)[want == 0], np.signbit(want)[want == 0])
        unit = np.spacing(np.abs(want[finite])).astype(exact.dtype)
        return float(np.max(np.abs(got[finite].astype(exact.dtype) - exact[finite]) / unit))


def limit(kind: str, f32: float) -> float:
    """f16 is rounded once, from a result that is off by some units of f32."""
    return {"f16": 0.51, "f32": f32, "f64": 2 * f32}[kind]


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("name", ROUNDED)
def test_the_error_is_small_and_special_values_are_numpys(name: str, kind: str) -> None:
    f, units = ROUNDED[name]
    x, results = of_one(kind)
    with np.errstate(all="ignore"):
        assert error(results[name], f(x.astype(WIDE[kind]))) <= limit(kind, units)


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("name", EXACT)
def test_others_are_exact(name: str, kind: str) -> None:
    x, results = of_one(kind)
    with np.errstate(all="ignore"):
        want = EXACT[name](x)
    np.testing.assert_array_equal(results[name], want)
    if want.dtype != np.bool_:
        np.testing.assert_array_equal(np.signbit(results[name])[want == 0], np.signbit(want)[want == 0])


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("name", TWO_ROUNDED)
def test_functions_of_two(name: str, kind: str) -> None:
    f, units = TWO_ROUNDED[name]
    x, y, results = of_two(kind)
    with np.errstate(all="ignore"):
        assert error(results[name], f(x.astype(WIDE[kind]), y.astype(WIDE[kind]))) <= limit(kind, units)


@pytest.mark.parametrize("kind", FLOATS)
def test_a_remainder_of_the_dividends_sign(kind: str) -> None:
    x, y, results = of_two(kind)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(results["fmod"], np.fmod(x, y))


@pytest.mark.parametrize("kind", ["i8", "u8", "i32", "i64"])
def test_functions_of_integers(kind: str) -> None:
    limits = np.iinfo(dtype(kind).numpy)
    edges = np.array([limits.min, limits.min + 1, -7, 0, 1, 2, 5, limits.max - 1, limits.max]).astype(limits.dtype)
    x, y = (v.ravel().copy() for v in np.meshgrid(edges, edges))
    a, b = ts.placeholder(x.shape, kind, name="a"), ts.placeholder(x.shape, kind, name="b")
    outputs = {
        "sign": (lambda p, q: ts.sign(p), np.sign(x)),
        "square": (lambda p, q: ts.square(p), x * x),
        "clip": (lambda p, q: ts.clip(p, 1, 100), np.clip(x, 1, 100)),
        "least": (lambda p, q: ts.clip(p, low=q), np.maximum(x, y)),
        "cube": (lambda p, q: p**3, x**3),
        "tenth": (lambda p, q: ts.power(p, 10), x**10),
        "none": (lambda p, q: p**0 + q, y + 1),
    }
    with np.errstate(all="ignore"):
        safe = ~((y == -1) & (x == limits.min)) if limits.min else np.ones(x.shape, bool)  # C's remainder may trap there
        outputs["fmod"] = (ts.fmod, np.where(safe, np.fmod(np.where(safe, x, 0), y), 0))
    tensors = [ts.compute(x.shape, lambda i, f=f: f(a[i], b[i]), name=name) for name, (f, _) in outputs.items()]
    results = ts.compile([a, b, *tensors]).run({"a": x, "b": y})
    wanted = evaluate(ts.workload([a, b, *tensors]), {"a": x, "b": y})
    for name, (_, want) in outputs.items():
        np.testing.assert_array_equal(results[name], want, err_msg=name)
        np.testing.assert_array_equal(wanted[name], want, err_msg=name)


def test_the_sign_of_floats() -> None:
    x = numbers("f32")
    a = ts.placeholder(x.shape, name="a")
    got = ts.compile([a, ts.compute(x.shape, lambda i: ts.sign(a[i]), name="s")])(x)
    np.testing.assert_array_equal(got, np.sign(x))


def test_limits_let_nan_pass() -> None:
    x = np.array([math.nan, -5, 0.25, 7, math.inf, -math.inf], "f4")
    a = ts.placeholder(6, name="a")
    got = ts.compile([a, ts.compute(6, lambda i: ts.clip(a[i], -1, 1), name="c")])(x)
    np.testing.assert_array_equal(got, np.clip(x, -1, 1))


def test_where_is_select() -> None:
    assert ts.where is ts.select


def test_a_number_takes_the_type_of_the_other() -> None:
    a = ts.placeholder(4, "f64", name="a")
    i = ts.reduce_axis(4, name="i")
    assert {f.dtype for f in (ts.hypot(a[i], 1), ts.hypot(1, a[i]), ts.fmod(2, a[i]), ts.power(2, a[i]))} == {"f64"}
    assert ts.exp2(1.5).dtype == ts.atan2(1, 2).dtype == "f32"


@pytest.mark.parametrize(
    ("define", "words"),
    [
        (lambda a, b: ts.isnan(b), r'`isnan\(b\[0\]\)` needs a float, not i32; write isnan\(cast\("f32", ...\)\)'),
        (lambda a, b: ts.atan(b), "needs a float, not i32"),
        (lambda a, b: ts.trunc(b), "needs a float, not i32"),
        (lambda a, b: ts.atan2(b, b), "needs a float, not i32"),
        (lambda a, b: ts.hypot(a, b), "mixes f32 and i32"),
        (lambda a, b: ts.fmod(a, b), "mixes f32 and i32"),
        (lambda a, b: b**b, "needs floats, not i32; give the exponent as a number from 0 up"),
        (lambda a, b: b**-1, "needs floats, not i32"),
    ],
)
def test_refusals(define, words: str) -> None:
    a, b = ts.placeholder(1, name="a")[0], ts.placeholder(1, "i32", name="b")[0]
    with pytest.raises(UserError, match=words):
        define(a, b)


if __name__ == "__main__":
    for word, (function, _) in (ROUNDED | TWO_ROUNDED).items():
        found = []
        for kind in FLOATS:
            *arguments, results = of_one(kind) if word in ROUNDED else of_two(kind)
            found.append(f"{kind} {error(results[word], function(*(v.astype(WIDE[kind]) for v in arguments))):.3f}")
        print(f"{word:8}", *found)
