"""Reductions over dimensions of a tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tensorsmith.errors import UserError, whole_number
from tensorsmith.lang import define
from tensorsmith.lang.define import Reduction, Tensor, compute, reduce_axis, select
from tensorsmith.lang.dtypes import dtype, is_float
from tensorsmith.lang.expr import Axis, Expr, Var
from tensorsmith.ops.common import as_type, normal_axis, widen
from tensorsmith.ops.elementwise import apply

Axes = int | Sequence[int] | None


def reduce(
    op: Reduction,
    x: Tensor,
    axes: Axes = None,
    keepdims: bool = False,
    name: str = "reduce",
    of: Callable[[Expr], Expr] = lambda e: e,
) -> Tensor:
    """`op` (define.sum, ...) over dimensions `axes` (None: all) of `of` each element; `keepdims` leaves extents 1."""
    dims = reduced_dimensions(x, axes, name)
    if not dims:
        return apply(of, x, name=name)
    over = {d: reduce_axis(x.shape[d], f"k{n}" if len(dims) > 1 else "k") for n, d in enumerate(dims)}

    def body(*indices: Expr) -> Expr:
        return op(of(x[full_indices(x, over, indices, keepdims)]), list(over.values()))

    return compute(reduced_shape(x, dims, keepdims), body, name=name)


def reduced_dimensions(x: Tensor, axes: Axes, name: str) -> list[int]:
    """The dimensions that `axes` names (None: all), in order; an error that begins with `name` if one is wrong or named twice."""
    one = whole_number(axes)
    given: Sequence[int] = range(len(x.shape)) if axes is None else axes if one is None else [one]  # type: ignore[assignment]
    dims = sorted(normal_axis(d, len(x.shape), name) for d in given)
    if len(set(dims)) != len(dims):
        raise UserError(f"{name}: a dimension is named twice in {list(given)}")
    return dims


def reduced_shape(x: Tensor, dims: Sequence[int], keepdims: bool) -> list[int]:
    """The shape of x without some dimensions, or with extent 1 there."""
    return [1 if d in dims else n for d, n in enumerate(x.shape) if keepdims or d not in dims]


def full_indices(x: Tensor, over: dict[int, Axis], indices: tuple[Expr, ...], keepdims: bool) -> tuple[Expr, ...]:
    """The indices into `x`: the reduce axes in their dimensions, the given ones in the others."""
    left = iter(indices)
    full: list[Expr] = []
    for d in range(len(x.shape)):
        if d in over:
            full.append(over[d])
            if keepdims:
                next(left)
        else:
            full.append(next(left))
    return tuple(full)


def sum(x: Tensor, axes: Axes = None, keepdims: bool = False, name: str = "sum") -> Tensor:
    """The sum over the dimensions `axes` (None: all); `keepdims` leaves them with extent 1."""
    return reduce(define.sum, x, axes, keepdims, name)


def prod(x: Tensor, axes: Axes = None, keepdims: bool = False, name: str = "prod") -> Tensor:
    """The product over the dimensions `axes` (None: all); `keepdims` leaves them with extent 1."""
    return reduce(define.prod, x, axes, keepdims, name)


def max(x: Tensor, axes: Axes = None, keepdims: bool = False, name: str = "max") -> Tensor:
    """The largest element over the dimensions `axes` (None: all); `keepdims` leaves them with extent 1."""
    return reduce(define.max, x, axes, keepdims, name)


def min(x: Tensor, axes: Axes = None, keepdims: bool = False, name: str = "min") -> Tensor:
    """The smallest element over the dimensions `axes` (None: all); `keepdims` leaves them with extent 1."""
    return reduce(define.min, x, axes, keepdims, name)


def mean(x: Tensor, axes: Axes = None, keepdims: bool = False, name: str = "mean") -> Tensor:
    """Float tensors only; the mean of nothing is NaN."""
    if not is_float(x.dtype):
        raise UserError(f"{name}: {x.name} is {x.dtype}; cast to a float first")
    count = float(np.prod([x.shape[d] for d in reduced_dimensions(x, axes, name)]))
    total = reduce(define.sum, x, axes, keepdims, f"{name}_sum", widen)
    return apply(lambda v: as_type(x.dtype, v * (1 / count) if count else v / 0.0), total, name=name)


def argmax(x: Tensor, axis: int, keepdims: bool = False, name: str = "argmax") -> Tensor:
    """The first position (i64) of the largest element along `axis`; of the first NaN if there is one, as in NumPy."""
    return _position(define.max, x, axis, keepdims, name)


def argmin(x: Tensor, axis: int, keepdims: bool = False, name: str = "argmin") -> Tensor:
    """The first position (i64) of the smallest element along `axis`; of the first NaN if there is one, as in NumPy."""
    return _position(define.min, x, axis, keepdims, name)


def _position(op: Reduction, x: Tensor, axis: int, keepdims: bool, name: str) -> Tensor:
    d = normal_axis(axis, len(x.shape), name)
    if x.shape[d] == 0:
        raise UserError(f"{name}: dimension {axis} of {x.name} {list(x.shape)} is empty")
    best = reduce(op, x, d, keepdims, f"{name}_value")
    k = reduce_axis(x.shape[d], "k")

    def body(*indices: Expr) -> Expr:
        element = x[full_indices(x, {d: k}, indices, keepdims)]
        here = define.equal(element, best[indices])
        if dtype(x.dtype).kind == "f":
            here = here | define.not_equal(element, element)
        return define.min(select(here, Var(k.name), x.shape[d] - 1), axis=k)

    return compute(best.shape, body, name=name)
