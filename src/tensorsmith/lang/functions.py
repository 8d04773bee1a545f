"""Functions of elements that are put together of operations: they cost what their text says, and there is no code of their own.

Those with an error say how large it is, in units in the last place of f32: a little more than `tests/lang/test_functions.py` finds.
f16 and bf16 are computed in f32 and rounded once. Special values are NumPy's, but for the sign of a zero where that is said.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

from tensorsmith.errors import UserError
from tensorsmith.lang.define import bits_as, cast, ceil, cos, exp, expm1, floor, log, log1p, maximum, minimum, select, sin, sqrt
from tensorsmith.lang.dtypes import dtype, is_float
from tensorsmith.lang.expr import Expr, ExprLike, wrap


def of_float(f: Callable[[Expr], Expr]) -> Callable[[ExprLike], Expr]:
    """A function of a float, computed in f32 where it is of f16 or bf16."""

    @functools.wraps(f)
    def function(x: ExprLike) -> Expr:
        e = _float(f.__name__, x)
        return cast(e.dtype, f(cast("f32", e))) if dtype(e.dtype).is_half else f(e)

    return function


def of_floats(f: Callable[[Expr, Expr], Expr]) -> Callable[[ExprLike, ExprLike], Expr]:
    """A function of two floats of one type, computed in f32 where they are f16 or bf16."""

    @functools.wraps(f)
    def function(a: ExprLike, b: ExprLike) -> Expr:
        left, right = _two(f.__name__, a, b)
        if dtype(left.dtype).is_half:
            return cast(left.dtype, f(cast("f32", left), cast("f32", right)))
        return f(_float(f.__name__, left), right)

    return function


def _float(name: str, x: ExprLike) -> Expr:
    e = x if isinstance(x, Expr) else wrap(x, "f32")
    if not is_float(e.dtype):
        raise UserError(f'`{name}({e})` needs a float, not {e.dtype}; write {name}(cast("f32", ...))')
    return e


def _two(name: str, a: ExprLike, b: ExprLike) -> tuple[Expr, Expr]:
    """Two operands of one type; a number takes that of the other."""
    left = a if isinstance(a, Expr) else wrap(a, b.dtype if isinstance(b, Expr) else "f32")
    right = wrap(b, left.dtype)
    if left.dtype != right.dtype:
        raise UserError(
            f'`{name}({left}, {right})` mixes {left.dtype} and {right.dtype}; cast one side, as in cast("{left.dtype}", ...)'
        )
    return left, right


# -- numbers and their kinds -------------------------------------------------------------------------------------------


def isnan(x: ExprLike) -> Expr:
    """Whether a float is NaN."""
    e = _float("isnan", x)
    return e != e


def isinf(x: ExprLike) -> Expr:
    """Whether a float is an infinity, of either sign."""
    return abs(_float("isinf", x)) == math.inf


def isfinite(x: ExprLike) -> Expr:
    """Whether a float is neither NaN nor an infinity."""
    return abs(_float("isfinite", x)) < math.inf


def trunc(x: ExprLike) -> Expr:
    """A float rounded towards zero."""
    e = _float("trunc", x)
    return select(e < 0, ceil(e), floor(e))


def sign(x: ExprLike) -> Expr:
    """1 of what is above 0, -1 of what is below; zeros and NaN are left as they are."""
    e = wrap(x)
    one = wrap(1, e.dtype)
    if dtype(e.dtype).kind == "u":
        return select(e > 0, one, e)
    return select(e > 0, one, select(e < 0, -one, e))


def square(x: ExprLike) -> Expr:
    """x * x"""
    e = wrap(x)
    return e * e


def reciprocal(x: ExprLike) -> Expr:
    """1 / x, of floats"""
    return 1 / _float("reciprocal", x)


def clip(x: ExprLike, low: ExprLike | None = None, high: ExprLike | None = None) -> Expr:
    """x, but at least `low` and at most `high`; None: no limit on that side. NaN stays NaN."""
    e = wrap(x)
    e = e if low is None else maximum(e, low)
    return e if high is None else minimum(e, high)


def truncated_quotient(a: Expr, b: Expr) -> Expr:
    """The quotient rounded towards zero, as C has it; of integers."""
    quotient = a // b
    if dtype(a.dtype).kind == "u":
        return quotient
    rounded_down = (quotient * b != a) & ((a < 0) & (b > 0) | (b < 0) & (a > 0))
    return select(rounded_down, quotient + wrap(1, quotient.dtype), quotient)


def remainder_of_dividend(a: Expr, b: Expr) -> Expr:
    """What is left of a division that rounds towards zero; by an integer 0 it is the dividend."""
    if dtype(a.dtype).kind == "u":
        return a % b
    if not is_float(a.dtype):
        return a - truncated_quotient(a, b) * b
    rest = abs(a) % abs(b)
    return select(a < 0, -rest, select(a > 0, rest, a - rest))  # of a zero the rest is 0 or NaN, and -0.0 - 0.0 is -0.0


def fmod(a: ExprLike, b: ExprLike) -> Expr:
    """The remainder with the sign of the dividend, exact, as C has it (`%` takes the divisor's); by an integer 0 it is 0."""
    left, right = _two("fmod", a, b)
    rest = remainder_of_dividend(left, right)
    return rest if dtype(left.dtype).kind != "i" else select(right == 0, 0, rest)


# -- powers and logarithms ---------------------------------------------------------------------------------------------


def power(a: ExprLike, b: ExprLike) -> Expr:
    """a ** b, of floats, or of integers where b is a number from 0 up."""
    return wrap(a, b.dtype if isinstance(b, Expr) else "f32") ** b


@of_float
def exp2(x: Expr) -> Expr:
    """2 ** x, off by 0.6 units at most"""
    return 2**x


@of_float
def log2(x: Expr) -> Expr:
    """The logarithm to base 2, off by 2 units at most."""
    return log(x) * wrap(1 / math.log(2), x.dtype)


@of_float
def log10(x: Expr) -> Expr:
    """The logarithm to base 10, off by 2.5 units at most."""
    return log(x) * wrap(1 / math.log(10), x.dtype)


@of_floats
def hypot(a: Expr, b: Expr) -> Expr:
    """sqrt(a * a + b * b), where neither square may overflow; off by 2.5 units at most."""
    large, small = maximum(abs(a), abs(b)), minimum(abs(a), abs(b))
    ratio = select(large > 0, small / large, small)
    length = large * sqrt(ratio * ratio + 1)
    return select((abs(a) == math.inf) | (abs(b) == math.inf), math.inf, length)


# -- trigonometry ------------------------------------------------------------------------------------------------------

#: of t, t^3, ... in polynomials for atan(t) on 0..1: an error below 2e-8 (Abramowitz and Stegun 4.4.49), and below 2^-54
_ATAN = (
    1.0, -0.3333314528, 0.1999355085, -0.1420889944, 0.1065626393, -0.0752896400, 0.0429096138, -0.0161657367, 0.0028662257,
)  # fmt: skip
_ATAN_F64 = (
    1.0, -0.3333333333333333, 0.19999999999999554, -0.14285714285648404, 0.11111111107234799, -0.09090908969557403,
    0.07692305354678655, -0.06666636435777692, 0.05882074956371294, -0.05261265735709454, 0.04752086773576656,
    -0.04308119655330471, 0.03872640214042632, -0.033750132001619734, 0.027567942297344678, -0.020238706986393514,
    0.012756172907694298, -0.006575683344151699, 0.002622977891906089, -0.0007518472526973822, 0.0001368724853148122,
    -1.1832505417555692e-05,
)  # fmt: skip


def _odd(x: Expr, value: Expr) -> Expr:
    """An odd function by its value at |x|; zeros keep their sign."""
    return select(x < 0, -value, select(x > 0, value, x))


@of_float
def tan(x: Expr) -> Expr:
    """sin(x) / cos(x), off by 3 units at most"""
    return sin(x) / cos(x)


@of_float
def atan(x: Expr) -> Expr:
    """The angle with a tangent, off by 3 units at most."""
    size = abs(x)
    t = select(size > 1, 1 / size, size)
    square = t * t
    coefficients = _ATAN_F64 if x.dtype == "f64" else _ATAN
    series = wrap(coefficients[-1], x.dtype)
    for coefficient in reversed(coefficients[:-1]):
        series = series * square + coefficient
    angle = select(size > 1, math.pi / 2 - t * series, t * series)
    return _odd(x, angle)


@of_float
def asin(x: Expr) -> Expr:
    """The angle with a sine, off by 3 units at most; NaN beyond -1..1."""
    return atan(x / sqrt((1 - x) * (1 + x)))


@of_float
def acos(x: Expr) -> Expr:
    """The angle with a cosine, off by 3.5 units at most; NaN beyond -1..1."""
    return atan(sqrt((1 - x) / (1 + x))) * 2  # not pi/2 - asin(x), which cancels near 1


@of_floats
def atan2(y: Expr, x: Expr) -> Expr:
    """The angle of the point (x, y), off by 3 units at most. It heeds the signs of zeros: atan2(-0.0, -1.0) is -pi."""
    size, other = abs(y), abs(x)
    ratio = select((size == other) & (size > 0), 1.0, select((size == 0) & (other == 0), 0.0, size / other))
    angle = select(_signed(x), wrap(math.pi, x.dtype) - atan(ratio), atan(ratio))
    angle = select((x != x) | (y != y), x + y, angle)
    return select(_signed(y), -angle, angle)


def _signed(x: Expr) -> Expr:
    """Whether the sign bit is set: zeros have one too."""
    return bits_as("i32" if x.dtype == "f32" else "i64", x) < 0


# -- hyperbolic functions ----------------------------------------------------------------------------------------------


@of_float
def sinh(x: Expr) -> Expr:
    """(h - 1/h) (h + 1/h) / 2 with h = exp(|x| / 2), which overflows only where the result does; h - 1/h = (h - 1) (1 + 1/h).

    Off by 4 units at most.
    """
    above = expm1(abs(x) * 0.5)
    h = above + 1
    return _odd(x, above * (1 / h + 1) * 0.5 * (h + 1 / h))


@of_float
def cosh(x: Expr) -> Expr:
    """The hyperbolic cosine, off by 3 units at most."""
    h = exp(abs(x) * 0.5)
    return h * 0.5 * h + 0.5 / h / h


@of_float
def asinh(x: Expr) -> Expr:
    """log(a + sqrt(a^2 + 1)) with a = |x|: by log1p up to 1; above, a quarter of the sum, of which a is a factor, fits the type.

    Off by 3 units at most.
    """
    a = abs(x)
    small = a + a * a / (sqrt(a * a + 1) + 1)
    large = a * ((sqrt((1 / a) * (1 / a) + 1) + 1) * 0.25) - 1
    value = log1p(select(a > 1, large, small)) + select(a > 1, wrap(math.log(4), x.dtype), 0)
    return _odd(x, value)


@of_float
def acosh(x: Expr) -> Expr:
    """log(x + sqrt(x^2 - 1)), as asinh does it: by log1p of what is above 1 up to 2, by a quarter of the sum above.

    Off by 3 units at most; NaN below 1.
    """
    above = x - 1
    small = above + sqrt(above) * sqrt(above + 2)
    large = x * ((sqrt((1 - 1 / x) * (1 + 1 / x)) + 1) * 0.25) - 1
    return log1p(select(x > 2, large, small)) + select(x > 2, wrap(math.log(4), x.dtype), 0)


@of_float
def atanh(x: Expr) -> Expr:
    """log((1 + x) / (1 - x)) / 2, off by 3 units at most; NaN beyond -1..1."""
    a = abs(x)
    return _odd(x, log1p((a + a) / (1 - a)) * 0.5)
