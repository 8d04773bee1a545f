"""Maps over elements, with NumPy's broadcasting."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import numpy as np

from tensorsmith.errors import UserError
from tensorsmith.lang import define
from tensorsmith.lang.define import Tensor, compute, select
from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.expr import Binary, Expr, ExprLike, Unary, binary, walk
from tensorsmith.ops.common import as_type, widen

Operand = Tensor | float | int


def broadcast_shape(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The common shape: aligned at the last dimension, where extents are equal or 1."""
    rank = max((len(s) for s in shapes), default=0)
    result = []
    for d in range(-rank, 0):
        extents = {s[d] for s in shapes if -d <= len(s)} - {1}
        if len(extents) > 1:
            raise UserError(f"the shapes {', '.join(str(list(s)) for s in shapes)} do not broadcast at dimension {d}")
        result.append(extents.pop() if extents else 1)
    return tuple(result)


def broadcast_read(tensor: Tensor, indices: tuple[Expr, ...], shape: tuple[int, ...]) -> Expr:
    """The element of `tensor`, broadcast to `shape`, at `indices`."""
    skipped = len(shape) - len(tensor.shape)
    own: list[ExprLike] = []
    for extent, index, full in zip(tensor.shape, indices[skipped:], shape[skipped:]):
        own.append(index if extent == full else 0)
    return tensor[tuple(own)]


def apply(f: Callable[..., ExprLike], *operands: Operand, name: str) -> Tensor:
    """The tensor of `f` of the elements of all operands; numbers are handed to `f` as they are.

    What takes several operations is computed in f32 where it is of f16 or bf16, and rounded once.
    """
    shape = broadcast_shape(*(x.shape for x in operands if isinstance(x, Tensor)))

    def body(*indices: Expr) -> ExprLike:
        values = [broadcast_read(x, indices, shape) if isinstance(x, Tensor) else x for x in operands]
        plain = f(*values)
        if not isinstance(plain, Expr) or not dtype(plain.dtype).is_half or _operations(plain) < 2:
            return plain
        wide = f(*(widen(v) if isinstance(v, Expr) else v for v in values))
        return as_type(plain.dtype, wide) if isinstance(wide, Expr) else wide

    return compute(shape, body, name=name)


def _operations(e: Expr) -> int:
    """How often an expression rounds to its own type."""
    return sum(isinstance(x, (Unary, Binary)) and x.dtype == e.dtype for x in walk(e))


class BinaryOperator(Protocol):
    def __call__(self, a: Operand, b: Operand, name: str = ...) -> Tensor: ...


class UnaryOperator(Protocol):
    def __call__(self, x: Tensor, name: str = ...) -> Tensor: ...


def _binary(op: str) -> BinaryOperator:
    def operator(a: Operand, b: Operand, name: str = op) -> Tensor:
        return apply(lambda x, y: binary(op, x, y), a, b, name=name)

    operator.__doc__ = f"{op}, element by element, broadcasting."
    return operator


def _unary(f: Callable[[ExprLike], Expr], word: str) -> UnaryOperator:
    def operator(x: Tensor, name: str = word) -> Tensor:
        return apply(f, x, name=name)

    operator.__doc__ = f"{word}, element by element."
    return operator


add, subtract, multiply, divide = map(_binary, ("add", "sub", "mul", "div"))
maximum, minimum, power = map(_binary, ("max", "min", "pow"))
exp, log, sqrt = _unary(define.exp, "exp"), _unary(define.log, "log"), _unary(define.sqrt, "sqrt")
tanh, sigmoid, erf = _unary(define.tanh, "tanh"), _unary(define.sigmoid, "sigmoid"), _unary(define.erf, "erf")
absolute = _unary(define.abs, "absolute")


def negative(x: Tensor, name: str = "negative") -> Tensor:
    """-x"""
    return apply(lambda v: -v, x, name=name)


def square(x: Tensor, name: str = "square") -> Tensor:
    """x * x"""
    return apply(lambda v: v * v, x, name=name)


def cast(to: object, x: Tensor, name: str = "cast") -> Tensor:
    """The elements of x in another type, as by `ts.cast`."""
    return apply(lambda v: define.cast(to, v), x, name=name)


def saturated(to: str, value: Expr) -> Expr:
    """A whole number held in a float as an integer type; what lies beyond its range becomes its end."""
    limits = np.iinfo(dtype(to).numpy)
    return define.cast(to, define.minimum(define.maximum(value, float(limits.min)), float(limits.max)))


def where(cond: Tensor, a: Operand, b: Operand, name: str = "where") -> Tensor:
    """`a` where `cond` (bool) holds, else `b`."""
    return apply(select, cond, a, b, name=name)


def bias_add(x: Tensor, bias: Tensor, name: str = "bias_add") -> Tensor:
    """x + bias, with one bias per channel (the last dimension)."""
    if bias.shape != x.shape[-1:]:
        raise UserError(f"{name}: the bias has the shape {list(bias.shape)}; {x.name} has {x.shape[-1]} channels")
    return apply(lambda v, b: v + b, x, bias, name=name)


def relu(x: Tensor, name: str = "relu") -> Tensor:
    """max(x, 0)"""
    return apply(lambda v: define.maximum(v, 0), x, name=name)


def leaky_relu(x: Tensor, slope: float = 0.01, name: str = "leaky_relu") -> Tensor:
    """x, but slope * x where x is negative"""
    return apply(lambda v: select(v < 0, v * slope, v), x, name=name)


def clip(x: Tensor, low: float, high: float, name: str = "clip") -> Tensor:
    """Limited to low..high, as ReLU6 with 0 and 6."""
    return apply(lambda v: define.minimum(define.maximum(v, low), high), x, name=name)


def silu(x: Tensor, name: str = "silu") -> Tensor:
    """x * sigmoid(x)"""
    return apply(lambda v: v * define.sigmoid(v), x, name=name)


def gelu(x: Tensor, approximate: bool = False, name: str = "gelu") -> Tensor:
    """x * (the normal distribution's cumulative function of x), by erf or by the usual tanh approximation.

    By erf, the error is some 1e-7 of x in f32: below -5, where the result is smaller than that, none of its digits is right.
    """
    if approximate:  # (tanh(y) + 1) / 2 is sigmoid(2 y), which keeps its digits where tanh(y) is close to -1
        c = 2 * math.sqrt(2 / math.pi)
        return apply(lambda v: v * define.sigmoid((v + v * v * v * 0.044715) * c), x, name=name)
    return apply(lambda v: v * 0.5 * (define.erf(v * math.sqrt(0.5)) + 1), x, name=name)


def hard_sigmoid(x: Tensor, alpha: float = 1 / 6, beta: float = 0.5, name: str = "hard_sigmoid") -> Tensor:
    """alpha * x + beta, limited to 0..1"""
    return apply(lambda v: define.minimum(define.maximum(v * alpha + beta, 0), 1), x, name=name)


def hard_swish(x: Tensor, name: str = "hard_swish") -> Tensor:
    """x * hard_sigmoid(x)"""
    return apply(lambda v: v * define.minimum(define.maximum((v + 3) * (1 / 6), 0), 1), x, name=name)
