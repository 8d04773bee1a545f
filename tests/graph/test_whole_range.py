"""Composite operators over the whole range of their type, against formulas in a wider one.

Each operator has a bound on its error, in units of the type's epsilon: relative to the result, times how much the result depends
on the rounding of what is computed on the way (`condition`), plus an absolute part where a relative one would be a lie (`floor`).
Nothing may overflow, vanish or become NaN where the exact result does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from tensorsmith.compile import compile as build
from tensorsmith.graph import operators
from tensorsmith.lang.define import placeholder

Array = np.ndarray[Any, Any]
WIDE: dict[str, Any] = {"f32": np.float64, "f64": np.longdouble}
NARROW: dict[str, Any] = {"f32": np.float32, "f64": np.float64}
HAS_LONG_DOUBLE = np.finfo(np.longdouble).nmant > 60
#: where the operators' formulas change, or a part of them would overflow, vanish or cancel
THRESHOLDS = (0.01, 0.25, 0.5, 1.0, 2.0, 3.0, 5.5, 8.0, 16.6, 17.3, 36.7, 43.6, 44.4, 87.3, 88.0, 88.72, 88.73, 89.0, 89.41, 103.9,
              256.0, 354.9, 709.7, 709.8, 710.4, 745.2, 1.3e154, 1.8e19)  # fmt: skip


def grid(kind: str) -> Array:
    """Every exponent with both signs, both zeros, a fine row around 0, and the neighbours of every threshold."""
    narrow = NARROW[kind]
    info = np.finfo(narrow)
    exponents = np.arange(info.minexp - info.nmant, info.maxexp)
    powers = np.concatenate([np.ldexp(narrow(m), exponents) for m in (1.0, 1.25, 1.7)]).astype(narrow)
    near = [narrow(t) for t in THRESHOLDS if t < float(info.max)]
    steps = [np.nextafter(t, narrow(s)) for t in near for s in (0, np.inf)]
    ones = narrow(1) - np.ldexp(narrow(1), -np.arange(1, info.nmant + 2))
    row = np.linspace(0, 120, 4001).astype(narrow)
    positive = np.concatenate([powers, near, steps, ones, row, [info.max, 0.0]]).astype(narrow)
    return np.concatenate([positive, -positive])


def nothing(x: Array) -> Array:
    return np.zeros_like(x)


def once(x: Array) -> Array:
    return np.ones_like(x)


def denormal_factor(x: Array) -> Array:
    """What x times a factor loses where that factor is a denormal; in the units of `floor`."""
    narrow = np.float32 if x.dtype == np.float64 else np.float64
    return np.abs(x) * (np.finfo(narrow).smallest_subnormal / np.finfo(narrow).eps)


def erfc(x: Array) -> Array:
    return np.array([math.erfc(float(v)) for v in x], x.dtype)


def sigmoid(x: Array) -> Array:
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


def softplus(x: Array) -> Array:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def tanh_gelu_argument(x: Array) -> Array:
    return 2 * np.sqrt(2 / np.arccos(x.dtype.type(-1))) * (x + x.dtype.type("0.044715") * x**3)


@dataclass(frozen=True)
class Case:
    """An operator, its exact values in the type of the argument, and its bound."""

    operator: str
    exact: Callable[[Array], Array]
    ulps: float
    condition: Callable[[Array], Array] = once
    floor: Callable[[Array], Array] = nothing
    attributes: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return "-".join([self.operator, *map(str, self.attributes.values())])


SELU = {"alpha": 1.6732632423543772, "scale": 1.0507009873554805}
CASES = [
    Case("softplus", softplus, 3),
    Case("mish", lambda x: x * np.tanh(softplus(x)), 4, floor=denormal_factor),
    Case("silu", lambda x: x * sigmoid(x), 4, floor=denormal_factor),
    Case("sigmoid", sigmoid, 3),
    Case("elu", lambda x: np.where(x < 0, np.expm1(np.minimum(x, 0)), x), 3),
    Case("elu", lambda x: np.where(x < 0, 2.5 * np.expm1(np.minimum(x, 0) / x.dtype.type(2.5)), x), 5,
         attributes={"alpha": 2.5, "gain": 1 / 2.5}),
    Case("elu", lambda x: SELU["scale"] * np.where(x < 0, SELU["alpha"] * np.expm1(np.minimum(x, 0)), x), 5, attributes=SELU),
    # erf(x) + 1 cancels for negative x: what is left is good to an epsilon of 1, and so is the result to one of x
    Case("gelu", lambda x: x * 0.5 * erfc(-x / np.sqrt(x.dtype.type(2))), 4, floor=lambda x: np.where(x < 0, 2 * np.abs(x), 0)),
    # an exponential multiplies a relative error of its argument by that argument
    Case("gelu", lambda x: x * sigmoid(tanh_gelu_argument(x)), 5, attributes={"approximate": True}, floor=denormal_factor,
         condition=lambda x: 1 + np.where(x < 0, np.abs(tanh_gelu_argument(np.maximum(x, -20))), 0)),
    Case("hard_swish", lambda x: x * (np.clip(x + 3, 0, 6) / 6), 3),
    Case("softsign", lambda x: x / (np.abs(x) + 1), 2),
    Case("tanh", np.tanh, 3),
    Case("sinh", np.sinh, 6),
    Case("cosh", np.cosh, 5),
    Case("tan", np.tan, 5),
    Case("asinh", np.arcsinh, 5),
    Case("acosh", np.arccosh, 6),
    Case("atanh", np.arctanh, 4),
    Case("atan", np.arctan, 3),
    Case("asin", np.arcsin, 5),
    Case("acos", np.arccos, 5),
]  # fmt: skip


def errors(case: Case, got: Array, x: Array) -> Array:
    """The error of each element as a share of its bound; infinite where one of the two is NaN."""
    info = np.finfo(got.dtype)
    wide = x.astype(WIDE["f32" if got.dtype == np.float32 else "f64"])
    with np.errstate(all="ignore"):
        exact = case.exact(wide)
        most = exact.dtype.type(info.max) * (1 + info.eps)  # what rounds to infinity counts as just above the largest number
        want, have = np.clip(exact, -most, most), np.clip(got.astype(exact.dtype), -most, most)
        bound = info.eps * (case.ulps * case.condition(wide) * np.abs(want) + case.floor(wide)) + 2 * info.smallest_subnormal
        share = np.abs(have - want) / bound
    share = np.where(np.isnan(exact) & np.isnan(got), 0, share)
    return np.where(np.isnan(share), np.inf, share)


def results(operator: str, arrays: list[Array], attributes: dict[str, Any]) -> list[Array]:
    """By definition, and by the code generated from it."""
    tensors = [placeholder(a.shape, a.dtype, name=f"in{n}") for n, a in enumerate(arrays)]
    (made,) = operators.define(operator, tensors, attributes)
    return [operators.evaluate(operator, arrays, attributes)[0], build([*tensors, made])(*arrays)]


@pytest.mark.parametrize("kind", WIDE)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_error_over_the_whole_range(case: Case, kind: str) -> None:
    if kind == "f64" and not HAS_LONG_DOUBLE:
        pytest.skip("long double is no wider than double here: no reference")
    x = grid(kind)
    for who, got in zip(("evaluator", "machine code"), results(case.operator, [x], case.attributes)):
        share = errors(case, got, x)
        worst = int(share.argmax())
        assert share[worst] <= 1, f"{who}: {case} of {x[worst]!r} is {got[worst]!r}: {share[worst]:.3g} times the bound"


@pytest.mark.parametrize("name", ["sinh", "asinh", "atanh", "atan", "asin", "tan", "softsign", "silu", "mish", "elu", "hard_swish"])
def test_zeros_keep_their_sign(name: str) -> None:
    for got in results(name, [np.array([0.0, -0.0], np.float32)], {}):
        np.testing.assert_array_equal(np.signbit(got), [False, True])


# --- along rows ------------------------------------------------------------------------------------------------------

SCALES = 10.0 ** np.arange(-44, 38)
PATTERN = np.random.default_rng(5).uniform(-1, 1, 37)
ROWS = (SCALES[:, None] * PATTERN).astype(np.float32)


def relative(got: Array, want: Array, ulps: float) -> None:
    narrow = np.finfo(np.float32)
    np.testing.assert_array_less(np.abs(got - want), ulps * narrow.eps * np.abs(want) + 2 * narrow.smallest_subnormal)


def test_norms_of_any_size() -> None:
    """Squares of numbers above 1e19 or below 1e-23 do not fit f32."""
    wide = ROWS.astype(np.float64)
    length = np.sqrt(np.sum(wide * wide, axis=1, keepdims=True))
    for got in results("lp_normalize", [ROWS], {"axis": 1, "p": 2}):
        relative(got, wide / length, 2)
    for got in results("reduce_l2", [ROWS], {"axes": (1,), "keepdims": True}):
        relative(got, length, 2)


def test_norms_of_half_precision() -> None:
    x = np.array([[300.0, 400.0], [3e-4, 4e-4]], np.float16)
    wide = x.astype(np.float64)
    length = np.sqrt(np.sum(wide * wide, axis=1))
    for got in results("reduce_l2", [x], {"axes": (1,)}):
        np.testing.assert_allclose(got, length, rtol=1e-3)


@pytest.mark.parametrize(("name", "attributes"), [("softmax", {"axis": 1}), ("log_softmax", {"axis": 1}),
                                                  ("reduce_log_sum_exp", {"axes": (1,), "keepdims": True})])  # fmt: skip
def test_exponentials_along_rows_of_any_size(name: str, attributes: dict[str, Any]) -> None:
    """Softmax to a share of itself, which its argument multiplies; logarithms to an epsilon of what they are sums of."""
    wide = ROWS.astype(np.float64)
    most = wide.max(axis=1, keepdims=True)
    total = np.sum(np.exp(wide - most), axis=1, keepdims=True)
    eps, tiny = np.finfo(np.float32).eps, np.finfo(np.float32).smallest_subnormal
    want = {
        "softmax": np.exp(wide - most) / total,
        "log_softmax": wide - most - np.log(total),
        "reduce_log_sum_exp": most + np.log(total),
    }[name]
    if name == "softmax":
        bound = eps * want * (8 + np.minimum(most - wide, 120)) + 2 * tiny
    else:
        bound = 4 * eps * (np.abs(want) + np.abs(most) + np.log(37))
    for got in results(name, [ROWS], attributes):
        assert np.isfinite(got).all()
        np.testing.assert_array_less(np.abs(got - want), bound)


def test_variance_far_from_zero() -> None:
    """Of deviations from the mean, not of squares less the square of the mean: what cancels is the input's own rounding."""
    x = (1000 + np.random.default_rng(7).normal(size=(4, 64))).astype(np.float32)
    wide = x.astype(np.float64)
    want = (wide - wide.mean(axis=1, keepdims=True)) / np.sqrt(wide.var(axis=1, keepdims=True) + 1e-5)
    for got in results("normalize", [x], {"axes": (1,), "epsilon": 1e-5}):
        np.testing.assert_allclose(got, want, rtol=0, atol=1000 * np.finfo(np.float32).eps)
