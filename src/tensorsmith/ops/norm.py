"""Norms, normalisations and softmax."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from tensorsmith.errors import UserError
from tensorsmith.lang import define
from tensorsmith.lang.define import Tensor, compute, reduce_axis
from tensorsmith.lang.expr import Expr
from tensorsmith.ops import reduce
from tensorsmith.ops.common import at, normal_axis
from tensorsmith.ops.elementwise import apply


def matrix_norm(x: Tensor, name: str = "norm") -> Tensor:
    """x (..., M, N) -> (...): the square root of the sum of squares of each matrix."""
    squares = reduce.reduce(define.sum, x, (-2, -1), name=f"{name}_squares", of=lambda v: v * v)
    return apply(define.sqrt, squares, name=name)


def softmax(x: Tensor, axis: int = -1, name: str = "softmax") -> Tensor:
    """exp(x - max) / sum(exp(x - max)) along one dimension."""
    _, powers, total, without = _exponentials(x, axis, name)
    return compute(x.shape, lambda *i: powers[i] / total[without(i)], name=name)


def log_softmax(x: Tensor, axis: int = -1, name: str = "log_softmax") -> Tensor:
    """x - max - log(sum(exp(x - max))) along one dimension."""
    largest, _, total, without = _exponentials(x, axis, name)
    return compute(x.shape, lambda *i: x[i] - largest[without(i)] - define.log(total[without(i)]), name=name)


Indices = tuple[Expr, ...]


def _exponentials(x: Tensor, axis: int, name: str) -> tuple[Tensor, Tensor, Tensor, Callable[[Indices], Indices]]:
    """The maximum, exp(x - maximum) and its sum along a dimension, and what leaves that dimension's index out."""
    dim = normal_axis(axis, len(x.shape), name)

    def without(i: Indices) -> Indices:
        return i[:dim] + i[dim + 1 :]

    largest = reduce.max(x, dim, name=f"{name}_max")
    powers = compute(x.shape, lambda *i: define.exp(x[i] - largest[without(i)]), name=f"{name}_exp")
    return largest, powers, reduce.sum(powers, dim, name=f"{name}_sum"), without


def layer_norm(
    x: Tensor,
    scale: Tensor | None = None,
    shift: Tensor | None = None,
    axis: int = -1,
    epsilon: float = 1e-5,
    name: str = "layer_norm",
) -> Tensor:
    """(x - mean) / sqrt(variance + epsilon) * scale + shift over the dimensions from `axis` on.

    Scale and shift have the shape of those dimensions.
    """
    first = normal_axis(axis, len(x.shape), name)
    for t in (scale, shift):
        if t is not None and t.shape != x.shape[first:]:
            raise UserError(f"{name}: {t.name} has the shape {list(t.shape)}; expected {list(x.shape[first:])}")
    mean = reduce.mean(x, range(first, len(x.shape)), name=f"{name}_mean")
    over = [reduce_axis(n, f"k{d}") for d, n in enumerate(x.shape[first:])]

    def square(*i: Expr) -> Expr:
        off = at(x, *i, *over) - mean[i]
        return define.sum(off * off, axis=over)

    squares = compute(x.shape[:first], square, name=f"{name}_squares")

    def normal(*i: Expr) -> Expr:
        row, column = i[:first], i[first:]
        result = (x[i] - mean[row]) * define.rsqrt(squares[row] * (1 / prod(x.shape[first:])) + epsilon)
        if scale is not None:
            result = result * scale[column]
        return result + shift[column] if shift is not None else result

    return compute(x.shape, normal, name=name)


def batch_norm(x: Tensor, scale: Tensor, shift: Tensor, name: str = "batch_norm") -> Tensor:
    """x * scale + shift per channel (the last dimension), with mean and variance folded into both."""
    scaled = _per_channel(lambda v, s: v * s, x, scale, f"{name}_scale")
    return _per_channel(lambda v, s: v + s, scaled, shift, name)


def _per_channel(f: Callable[[Expr, Expr], Expr], x: Tensor, channel: Tensor, name: str) -> Tensor:
    if channel.shape != x.shape[-1:]:
        raise UserError(f"{name}: {channel.name} has the shape {list(channel.shape)}; {x.name} has {x.shape[-1]} channels")
    return apply(f, x, channel, name=name)
