"""Norms, normalisations and softmax."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tensorsmith.errors import UserError
from tensorsmith.lang import define
from tensorsmith.lang.define import Tensor, compute, reduce_axis, select
from tensorsmith.lang.dtypes import is_float, widened
from tensorsmith.lang.expr import Expr
from tensorsmith.ops import reduce
from tensorsmith.ops.common import as_type, at, normal_axis, widen
from tensorsmith.ops.conv import pad
from tensorsmith.ops.elementwise import apply


def matrix_norm(x: Tensor, name: str = "norm") -> Tensor:
    """x (..., M, N) -> (...): the square root of the sum of squares of each matrix. The sum has to fit the type of x."""
    squares = reduce.reduce(define.sum, x, (-2, -1), name=f"{name}_squares", of=lambda v: v * v)
    return apply(define.sqrt, squares, name=name)


def to_power(v: Expr, p: int) -> Expr:
    """|v| ** p, by products where p is small."""
    if p == 1:
        return define.abs(v)
    return v * v if p == 2 else define.power(define.abs(v), float(p))


def root(v: Expr, p: int) -> Expr:
    """The p-th root of a number of at least 0."""
    if p == 1:
        return v
    return define.sqrt(v) if p == 2 else define.power(v, 1 / p)


def wider(v: Expr) -> Expr:
    """A float in the next wider type, in which its square is neither too large nor too small; f64 stays."""
    return as_type("f64" if v.dtype == "f32" else widened(v.dtype), v)


def lp_normalize(x: Tensor, axis: int = -1, p: int = 2, name: str = "lp_normalize") -> Tensor:
    """x / (the p-th root of the sum of |x| ** p along one dimension); 0 where that is 0.

    Powers are of the next wider type, in which they neither overflow nor vanish; those of f64 have to fit f64.
    """
    dim = normal_axis(axis, len(x.shape), name)
    total = reduce.reduce(define.sum, x, dim, True, f"{name}_sum", lambda v: to_power(wider(v), p))

    def share(v: Expr, t: Expr) -> Expr:
        return define.cast(x.dtype, select(define.equal(t, 0.0), 0.0, wider(v) / root(t, p)))

    return apply(share, x, total, name=name)


def softmax(x: Tensor, axis: int = -1, name: str = "softmax", masked: bool = False) -> Tensor:
    """exp(x - max) / sum(exp(x - max)) along one dimension; `masked` gives 0 where all of a row is -inf, instead of NaN."""
    largest, powers, total, without = _exponentials(x, axis, name)

    def body(*i: Expr) -> Expr:
        share = powers[i] / total[without(i)]
        shown = select(define.equal(largest[without(i)], -math.inf), 0.0, share) if masked else share
        return as_type(x.dtype, shown)

    return compute(x.shape, body, name=name)


def log_softmax(x: Tensor, axis: int = -1, name: str = "log_softmax") -> Tensor:
    """x - max - log(sum(exp(x - max))) along one dimension."""
    largest, _, total, without = _exponentials(x, axis, name)

    def body(*i: Expr) -> Expr:
        return as_type(x.dtype, widen(x[i]) - widen(largest[without(i)]) - define.log(total[without(i)]))

    return compute(x.shape, body, name=name)


Indices = tuple[Expr, ...]


def _exponentials(x: Tensor, axis: int, name: str) -> tuple[Tensor, Tensor, Tensor, Callable[[Indices], Indices]]:
    """The maximum, exp(x - maximum) and its sum along a dimension, and what leaves that dimension's index out.

    Exponentials and sum of f16 and bf16 are f32.
    """
    dim = normal_axis(axis, len(x.shape), name)

    def without(i: Indices) -> Indices:
        return i[:dim] + i[dim + 1 :]

    largest = reduce.max(x, dim, name=f"{name}_max")
    powers = compute(x.shape, lambda *i: define.exp(widen(x[i]) - widen(largest[without(i)])), name=f"{name}_exp")
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
        result = (x[i] - mean[row]) * define.rsqrt(squares[row] * (1 / math.prod(x.shape[first:])) + epsilon)
        if scale is not None:
            result = result * scale[column]
        return result + shift[column] if shift is not None else result

    return compute(x.shape, normal, name=name)


def normalize(x: Tensor, axes: Sequence[int], epsilon: float = 1e-5, centre: bool = True, name: str = "normalize") -> Tensor:
    """(x - mean) / sqrt(variance + epsilon) over any dimensions; without `centre`, x / sqrt(mean of squares + epsilon).

    f16 and bf16 are computed in f32 and rounded at the end, as every peer does.
    """
    mean, squares, count = _moments(x, axes, centre, name)

    def normal(v: Expr, s: Expr, m: Expr | None = None) -> Expr:
        off = widen(v) if m is None else widen(v) - m
        result = off * define.rsqrt(s * (1 / count) + epsilon)
        return as_type(x.dtype, result)

    return apply(normal, x, squares, *([] if mean is None else [mean]), name=name)


def moments(x: Tensor, axes: Sequence[int], epsilon: float = 1e-5, name: str = "moments") -> tuple[Tensor, Tensor]:
    """The mean and 1 / sqrt(variance + epsilon) over some dimensions, which stay with extent 1; in f32 for f16 and bf16."""
    mean, squares, count = _moments(x, axes, True, name)
    assert mean is not None
    return mean, apply(lambda s: define.rsqrt(s * (1 / count) + epsilon), squares, name=f"{name}_scale")


def _moments(x: Tensor, axes: Sequence[int], centre: bool, name: str) -> tuple[Tensor | None, Tensor, int]:
    """The mean (None without `centre`), the sum of squares around it, both with extents 1, and the number of elements."""
    dims = reduce.reduced_dimensions(x, axes, name)
    count = math.prod(x.shape[d] for d in dims)
    if not is_float(x.dtype) or not count:
        raise UserError(f"{name}: {x.name} is {x.dtype}{list(x.shape)}; expected floats, and some along {list(axes)}")
    total = reduce.reduce(define.sum, x, dims, True, f"{name}_total", widen) if centre else None
    mean = None if total is None else apply(lambda v: v * (1 / count), total, name=f"{name}_mean")
    over = {d: reduce_axis(x.shape[d], f"k{n}") for n, d in enumerate(dims)}

    def square(*i: Expr) -> Expr:
        off = widen(x[reduce.full_indices(x, over, i, True)])
        if mean is not None:
            off = off - at(mean, *(0 if d in over else i[d] for d in range(len(i))))
        return define.sum(off * off, axis=list(over.values()))

    return mean, compute(reduce.reduced_shape(x, dims, True), square, name=f"{name}_squares"), count


def local_response_norm(
    x: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0, name: str = "local_response_norm"
) -> Tensor:
    """x / (bias + alpha / size * (the sum of squares of `size` neighbouring channels)) ** beta; channels are last."""
    before = (size - 1) // 2
    pairs = [(0, 0)] * (len(x.shape) - 1) + [(before, size - 1 - before)]
    source = pad(x, pairs, name=f"{name}_pad")
    k = reduce_axis(size, "k")

    def squares(*i: Expr) -> Expr:
        element = at(source, *i[:-1], i[-1] + k)
        return define.sum(element * element, axis=k)

    total = compute(x.shape, squares, name=f"{name}_squares")
    return apply(lambda v, t: v / define.power(t * (alpha / size) + bias, beta), x, total, name=name)


def batch_norm(x: Tensor, scale: Tensor, shift: Tensor, name: str = "batch_norm") -> Tensor:
    """x * scale + shift per channel (the last dimension), with mean and variance folded into both."""
    scaled = _per_channel(lambda v, s: v * s, x, scale, f"{name}_scale")
    return _per_channel(lambda v, s: v + s, scaled, shift, name)


def _per_channel(f: Callable[[Expr, Expr], Expr], x: Tensor, channel: Tensor, name: str) -> Tensor:
    if channel.shape != x.shape[-1:]:
        raise UserError(f"{name}: {channel.name} has the shape {list(channel.shape)}; {x.name} has {x.shape[-1]} channels")
    return apply(f, x, channel, name=name)
