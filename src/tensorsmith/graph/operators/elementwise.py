"""Maps over elements, broadcasting as NumPy does."""

from __future__ import annotations

import math
from collections.abc import Callable

from tensorsmith.errors import UserError
from tensorsmith.graph.operators import Kind, operator
from tensorsmith.lang import define
from tensorsmith.lang.define import Tensor, equal, not_equal, select
from tensorsmith.lang.dtypes import canonical, dtype, is_float
from tensorsmith.lang.expr import Expr, binary, wrap
from tensorsmith.ops import elementwise as ops
from tensorsmith.ops.elementwise import apply


def one(like: Expr) -> Expr:
    """1 of the type of an expression."""
    return wrap(1, like.dtype)


def truncated(x: Expr) -> Expr:
    """Rounded towards zero."""
    return select(x < 0, define.ceil(x), define.floor(x))


def truncated_quotient(a: Expr, b: Expr) -> Expr:
    """The quotient rounded towards zero, as C has it; of integers."""
    quotient = a // b
    if dtype(a.dtype).kind == "u":
        return quotient
    rounded_down = not_equal(quotient * b, a) & ((a < 0) & (b > 0) | (b < 0) & (a > 0))
    return select(rounded_down, quotient + one(quotient), quotient)


def _divide(a: Expr, b: Expr) -> Expr:
    return a / b if is_float(a.dtype) else truncated_quotient(a, b)


def _remainder(a: Expr, b: Expr) -> Expr:
    if dtype(a.dtype).kind == "u":
        return a % b
    if not is_float(a.dtype):
        return a - truncated_quotient(a, b) * b
    rest = abs(a) % abs(b)
    return select(a < 0, -rest, rest)


def _power(a: Expr, b: Expr) -> Expr:
    if is_float(a.dtype):
        return a ** (b if a.dtype == b.dtype else define.cast(a.dtype, b))
    return define.cast(a.dtype, define.round(define.cast("f64", a) ** define.cast("f64", b)))


def _sign(x: Expr) -> Expr:
    if dtype(x.dtype).kind == "u":
        return select(x > 0, one(x), x)
    return select(x > 0, one(x), select(x < 0, -one(x), x))  # x itself: 0, or NaN


def _softplus(x: Expr) -> Expr:
    return define.maximum(x, 0) + define.log1p(define.exp(-abs(x)))  # never overflows


def _mish(x: Expr) -> Expr:
    """x tanh(softplus(x)). With e = exp(-|x|) the tanh is a quotient of sums without a minus: nothing overflows or cancels."""
    e = define.exp(-abs(x))
    top = select(x < 0, e * (e + 2), e * 2 + 1)
    return x * (top / (top + select(x < 0, 2, e * e * 2)))


def _hard_swish(x: Expr) -> Expr:
    return x * define.minimum(define.maximum((x + 3) * (1 / 6), 0), 1)  # x + 3 is exact where the result comes near 0


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


def _atan(x: Expr) -> Expr:
    size = abs(x)
    t = select(size > 1, 1 / size, size)
    square = t * t
    coefficients = _ATAN_F64 if x.dtype == "f64" else _ATAN
    series = wrap(coefficients[-1], x.dtype)
    for coefficient in reversed(coefficients[:-1]):
        series = series * square + coefficient
    angle = select(size > 1, math.pi / 2 - t * series, t * series)
    return _odd(x, angle)


def _asin(x: Expr) -> Expr:
    return _atan(x / define.sqrt((1 - x) * (1 + x)))


def _acos(x: Expr) -> Expr:
    return _atan(define.sqrt((1 - x) / (1 + x))) * 2  # not pi/2 - asin(x), which cancels near 1


def _sinh(x: Expr) -> Expr:
    """(h - 1/h) (h + 1/h) / 2 with h = exp(|x| / 2), which overflows only where the result does; h - 1/h = (h - 1) (1 + 1/h)."""
    above = define.expm1(abs(x) * 0.5)
    h = above + 1
    return _odd(x, above * (1 / h + 1) * 0.5 * (h + 1 / h))


def _cosh(x: Expr) -> Expr:
    h = define.exp(abs(x) * 0.5)
    return h * 0.5 * h + 0.5 / h / h


def _asinh(x: Expr) -> Expr:
    """log(a + sqrt(a^2 + 1)) with a = |x|: by log1p up to 1; above, a quarter of the sum, of which a is a factor, fits the type."""
    a = abs(x)
    small = a + a * a / (define.sqrt(a * a + 1) + 1)
    large = a * ((define.sqrt((1 / a) * (1 / a) + 1) + 1) * 0.25) - 1
    value = define.log1p(select(a > 1, large, small)) + select(a > 1, wrap(math.log(4), x.dtype), 0)
    return _odd(x, value)


def _acosh(x: Expr) -> Expr:
    """log(x + sqrt(x^2 - 1)), as asinh does it: by log1p of what is above 1 up to 2, by a quarter of the sum above."""
    above = x - 1
    small = above + define.sqrt(above) * define.sqrt(above + 2)
    large = x * ((define.sqrt((1 - 1 / x) * (1 + 1 / x)) + 1) * 0.25) - 1
    return define.log1p(select(x > 2, large, small)) + select(x > 2, wrap(math.log(4), x.dtype), 0)


def _atanh(x: Expr) -> Expr:
    a = abs(x)
    return _odd(x, define.log1p((a + a) / (1 - a)) * 0.5)


_UNARY: dict[str, Callable[[Expr], Expr]] = {
    "sigmoid": define.sigmoid,
    "tanh": define.tanh,
    "exp": define.exp,
    "expm1": define.expm1,
    "erf": define.erf,
    "log": define.log,
    "log1p": define.log1p,
    "sqrt": define.sqrt,
    "sin": define.sin,
    "cos": define.cos,
    "floor": define.floor,
    "ceil": define.ceil,
    "round": define.round,
    "truncate": truncated,
    "absolute": lambda x: x if dtype(x.dtype).kind == "u" else abs(x),
    "negative": lambda x: -x,
    "square": lambda x: x * x,
    "reciprocal": lambda x: 1 / x,
    "sign": _sign,
    "relu": lambda x: define.maximum(x, 0),
    "softplus": _softplus,
    "softsign": lambda x: x / (abs(x) + 1),
    "mish": _mish,
    "silu": lambda x: x * define.sigmoid(x),
    "hard_swish": _hard_swish,
    "logical_not": lambda x: ~x,
    "is_nan": lambda x: not_equal(x, x),
    "tan": lambda x: define.sin(x) / define.cos(x),
    "sinh": _sinh,
    "cosh": _cosh,
    "asinh": _asinh,
    "acosh": _acosh,
    "atanh": _atanh,
    "atan": _atan,
    "asin": _asin,
    "acos": _acos,
}
_BINARY: dict[str, Callable[[Expr, Expr], Expr]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": _divide,  # integers: rounded towards zero
    "modulo": lambda a, b: a % b,  # of the divisor's sign
    "remainder": _remainder,  # of the dividend's sign
    "maximum": define.maximum,
    "minimum": define.minimum,
    "power": _power,  # of the type of the base
    "equal": equal,
    "less": lambda a, b: a < b,
    "less_equal": lambda a, b: a <= b,
    "logical_and": lambda a, b: a & b,
    "logical_or": lambda a, b: a | b,
    "logical_xor": lambda a, b: binary("ne", a, b),
    "prelu": lambda x, slope: select(x < 0, x * slope, x),
}


def _register(name: str, f: Callable[..., Expr]) -> None:
    def define_it(*operands: Tensor, name: str) -> Tensor:
        return apply(f, *operands, name=name)

    operator(name, Kind.ELEMENTWISE)(define_it)


for _name, _unary in _UNARY.items():
    _register(_name, _unary)
for _name, _binary in _BINARY.items():
    _register(_name, _binary)


@operator("where", Kind.ELEMENTWISE)
def where(condition: Tensor, a: Tensor, b: Tensor, *, name: str) -> Tensor:
    """`a` where the condition (bool) holds, else `b`."""
    return ops.where(condition, a, b, name=name)


@operator("cast", Kind.ELEMENTWISE)
def cast(x: Tensor, *, to: str, name: str) -> Tensor:
    """Floats become integers by rounding towards zero; anything becomes a bool by `!= 0`."""
    return x if canonical(to) == x.dtype else ops.cast(to, x, name=name)


@operator("clip", Kind.ELEMENTWISE)
def clip(x: Tensor, *, low: float | None = None, high: float | None = None, name: str) -> Tensor:
    """Limited to low..high; None: no limit on that side."""

    def limited(v: Expr) -> Expr:
        v = v if low is None else define.maximum(v, low)
        return v if high is None else define.minimum(v, high)

    return apply(limited, x, name=name)


@operator("leaky_relu", Kind.ELEMENTWISE)
def leaky_relu(x: Tensor, *, slope: float = 0.01, name: str) -> Tensor:
    return ops.leaky_relu(x, slope, name=name)


@operator("elu", Kind.ELEMENTWISE)
def elu(x: Tensor, *, alpha: float = 1.0, scale: float = 1.0, gain: float = 1.0, name: str) -> Tensor:
    """scale * x for x >= 0, scale * alpha * expm1(gain * x) below: ELU, SELU (scale) and CELU (gain = 1 / alpha)."""

    def f(v: Expr) -> Expr:
        inner = v * gain if gain != 1 else v
        return select(v < 0, define.expm1(define.minimum(inner, 0)) * (scale * alpha), v * scale if scale != 1 else v)

    return apply(f, x, name=name)


@operator("thresholded_relu", Kind.ELEMENTWISE)
def thresholded_relu(x: Tensor, *, alpha: float = 1.0, name: str) -> Tensor:
    """x where it is above alpha, else 0."""
    return apply(lambda v: select(v > alpha, v, 0), x, name=name)


@operator("shrink", Kind.ELEMENTWISE)
def shrink(x: Tensor, *, bias: float = 0.0, limit: float = 0.5, name: str) -> Tensor:
    """x + bias below -limit, x - bias above it, else 0."""
    if not is_float(x.dtype):
        raise UserError(f"{name}: {x.name} is {x.dtype}; cast to a float first")
    return apply(lambda v: select(v < -limit, v + bias, select(v > limit, v - bias, 0)), x, name=name)


@operator("hard_sigmoid", Kind.ELEMENTWISE)
def hard_sigmoid(x: Tensor, *, alpha: float = 0.2, beta: float = 0.5, name: str) -> Tensor:
    """alpha * x + beta, limited to 0..1"""
    return ops.hard_sigmoid(x, alpha, beta, name=name)


@operator("gelu", Kind.ELEMENTWISE)
def gelu(x: Tensor, *, approximate: bool = False, name: str) -> Tensor:
    """x * (the normal distribution's cumulative function of x), by erf or by the usual tanh approximation."""
    return ops.gelu(x, approximate, name=name)


@operator("is_inf", Kind.ELEMENTWISE)
def is_inf(x: Tensor, *, positive: bool = True, negative: bool = True, name: str) -> Tensor:
    """Whether an element is an infinity of the signs asked for."""

    def f(v: Expr) -> Expr:
        above, below = equal(v, math.inf), equal(v, -math.inf)
        if positive and negative:
            return above | below
        return above if positive else below if negative else above & below

    return apply(f, x, name=name)
