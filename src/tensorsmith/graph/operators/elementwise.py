"""Maps over elements, broadcasting as NumPy does."""

from __future__ import annotations

import math
from collections.abc import Callable

from tensorsmith.errors import UserError
from tensorsmith.graph.operators import Kind, operator
from tensorsmith.lang import define, functions
from tensorsmith.lang.define import Tensor, equal, select
from tensorsmith.lang.dtypes import canonical, dtype, is_float
from tensorsmith.lang.expr import Expr, binary, unary
from tensorsmith.ops import elementwise as ops
from tensorsmith.ops.elementwise import apply


def _divide(a: Expr, b: Expr) -> Expr:
    return a / b if is_float(a.dtype) else functions.truncated_quotient(a, b)


def _power(a: Expr, b: Expr) -> Expr:
    if is_float(a.dtype):
        return a ** (b if a.dtype == b.dtype else define.cast(a.dtype, b))
    return define.cast(a.dtype, define.round(define.cast("f64", a) ** define.cast("f64", b)))


def _softplus(x: Expr) -> Expr:
    return define.maximum(x, 0) + define.log1p(define.exp(-abs(x)))  # never overflows


def _mish(x: Expr) -> Expr:
    """x tanh(softplus(x)). With e = exp(-|x|) the tanh is a quotient of sums without a minus: nothing overflows or cancels."""
    e = define.exp(-abs(x))
    top = select(x < 0, e * (e + 2), e * 2 + 1)
    return x * (top / (top + select(x < 0, 2, e * e * 2)))


def _hard_swish(x: Expr) -> Expr:
    return x * define.minimum(define.maximum((x + 3) * (1 / 6), 0), 1)  # x + 3 is exact where the result comes near 0


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
    "truncate": functions.trunc,
    "absolute": lambda x: x if dtype(x.dtype).kind == "u" else abs(x),
    "negative": lambda x: -x,
    "square": functions.square,
    "reciprocal": lambda x: 1 / x,
    "sign": functions.sign,
    "relu": lambda x: define.maximum(x, 0),
    "softplus": _softplus,
    "softsign": lambda x: x / (abs(x) + 1),
    "mish": _mish,
    "silu": lambda x: x * define.sigmoid(x),
    "hard_swish": _hard_swish,
    "logical_not": lambda x: unary("not", x),  # of bools only, as the next ones
    "is_nan": lambda x: x != x,
    "tan": functions.tan,
    "sinh": functions.sinh,
    "cosh": functions.cosh,
    "asinh": functions.asinh,
    "acosh": functions.acosh,
    "atanh": functions.atanh,
    "atan": functions.atan,
    "asin": functions.asin,
    "acos": functions.acos,
}
_BINARY: dict[str, Callable[[Expr, Expr], Expr]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": _divide,  # integers: rounded towards zero
    "floor_divide": lambda a, b: a // b,
    "modulo": lambda a, b: a % b,  # of the divisor's sign
    "remainder": functions.remainder_of_dividend,  # of the dividend's sign
    "maximum": define.maximum,
    "minimum": define.minimum,
    "power": _power,  # of the type of the base
    "atan2": functions.atan2,
    "equal": equal,
    "less": lambda a, b: a < b,
    "less_equal": lambda a, b: a <= b,
    "logical_and": lambda a, b: binary("and", a, b),
    "logical_or": lambda a, b: binary("or", a, b),
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
