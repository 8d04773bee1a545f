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
    return define.maximum(x, 0) + define.log(define.exp(-abs(x)) + 1)  # never overflows


#: of t, t^3, ... in a polynomial for atan(t) with an error below 2e-8 on 0..1 (Abramowitz and Stegun 4.4.49)
_ATAN = (
    1.0, -0.3333314528, 0.1999355085, -0.1420889944, 0.1065626393, -0.0752896400, 0.0429096138, -0.0161657367, 0.0028662257,
)  # fmt: skip


def _atan(x: Expr) -> Expr:
    size = abs(x)
    t = select(size > 1, 1 / size, size)
    square = t * t
    series = wrap(_ATAN[-1], x.dtype)
    for coefficient in reversed(_ATAN[:-1]):
        series = series * square + coefficient
    angle = select(size > 1, math.pi / 2 - t * series, t * series)
    return select(x < 0, -angle, angle)


def _asin(x: Expr) -> Expr:
    return _atan(x / define.sqrt((1 - x) * (1 + x)))


def _near_zero(x: Expr) -> float:
    """Below this the first four terms of a series are as good as the type, and above it a formula loses few digits."""
    return 0.01 if x.dtype == "f64" else 0.25


def _sinh(x: Expr) -> Expr:
    square = x * x
    near = x * (square * (square * (square / 5040 + 1 / 120) + 1 / 6) + 1)
    return select(abs(x) < _near_zero(x), near, (define.exp(x) - define.exp(-x)) * 0.5)


def _asinh(x: Expr) -> Expr:
    size = abs(x)
    square = x * x
    near = size * (1 - square * (1 / 6 - square * (3 / 40 - square * (15 / 336))))
    value = select(size < _near_zero(x), near, define.log(size + define.sqrt(square + 1)))
    return select(x < 0, -value, value)


def _atanh(x: Expr) -> Expr:
    square = x * x
    near = x * (square * (square * (square * (1 / 7) + 1 / 5) + 1 / 3) + 1)
    return select(abs(x) < _near_zero(x), near, define.log((1 + x) / (1 - x)) * 0.5)


_UNARY: dict[str, Callable[[Expr], Expr]] = {
    "sigmoid": define.sigmoid,
    "tanh": define.tanh,
    "exp": define.exp,
    "erf": define.erf,
    "log": define.log,
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
    "mish": lambda x: x * define.tanh(_softplus(x)),
    "silu": lambda x: x * define.sigmoid(x),
    "hard_swish": lambda x: x * define.minimum(define.maximum(x * (1 / 6) + 0.5, 0), 1),
    "logical_not": lambda x: ~x,
    "is_nan": lambda x: not_equal(x, x),
    "tan": lambda x: define.sin(x) / define.cos(x),
    "sinh": _sinh,
    "cosh": lambda x: (define.exp(x) + define.exp(-x)) * 0.5,
    "asinh": _asinh,
    "acosh": lambda x: define.log(x + define.sqrt((x - 1) * (x + 1))),
    "atanh": _atanh,
    "atan": _atan,
    "asin": _asin,
    "acos": lambda x: math.pi / 2 - _asin(x),
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
    """scale * x for x >= 0, scale * alpha * (exp(gain * x) - 1) below: ELU, SELU (scale) and CELU (gain = 1 / alpha)."""

    def f(v: Expr) -> Expr:
        inner = v * gain if gain != 1 else v
        return select(v < 0, (define.exp(define.minimum(inner, 0)) - 1) * (scale * alpha), v * scale if scale != 1 else v)

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
