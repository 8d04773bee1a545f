"""Small helpers the operators share: named axes, index arithmetic, and per-dimension arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence

from tensorsmith.errors import UserError, whole_number
from tensorsmith.lang import define
from tensorsmith.lang.define import Tensor, compute
from tensorsmith.lang.dtypes import dtype, is_float, is_int, widened
from tensorsmith.lang.expr import Axis, Expr, ExprLike
from tensorsmith.lang.small import small

#: an int for all dimensions, or one per dimension
PerDimension = int | Sequence[int]
#: as above, or a (before, after) pair per dimension
Padding = int | Sequence[int | tuple[int, int]]

SPATIAL = {1: ("l",), 2: ("h", "w"), 3: ("d", "h", "w")}


def compute_named(shape: Sequence[int], axes: Sequence[str], body: Callable[[tuple[Expr, ...]], ExprLike], name: str) -> Tensor:
    """`compute` for a body written for any rank: it takes the tuple of axes, which get the names given."""

    def spread(*indices: Expr) -> ExprLike:
        return body(indices)

    parameters = [inspect.Parameter(a, inspect.Parameter.POSITIONAL_ONLY) for a in axes]
    spread.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return compute(shape, spread, name=name)


def at(tensor: Tensor, *indices: ExprLike) -> Expr:
    """The element at indices given one by one, some of them unpacked."""
    return tensor[indices]


def sum_of_products(
    x: Expr, weight: Expr, axis: Axis | Sequence[Axis], sums: str | None = None, small_weight: bool = False
) -> Expr:
    """sum(x * weight) over `axis`, in the type `sums` if one is given; of a weight that is known to be small (`lang/small.py`).

    Else a weight may be stored in fewer bits than x, a float or a small integer: it is widened first. Either factor may be that
    weight: the result has the other's type.
    """
    weight = small(weight) if small_weight else weight
    if sums is not None:
        return define.sum(define.cast(sums, x) * define.cast(sums, weight), axis=axis)
    if x.dtype == weight.dtype or not (_holds(x.dtype, weight.dtype) or _holds(weight.dtype, x.dtype)):
        return define.sum(x * weight, axis=axis)
    kind = x.dtype if _holds(x.dtype, weight.dtype) else weight.dtype
    wide = widened(kind)
    return as_type(kind, define.sum(as_type(wide, x) * as_type(wide, weight), axis=axis))


def widen(v: Expr) -> Expr:
    """A float of 16 bits as an f32, in which what is made of several operations is computed; anything else as it is."""
    return as_type(widened(v.dtype), v)


def as_type(kind: str, v: Expr) -> Expr:
    """A value as another type; itself if it has that."""
    return v if v.dtype == kind else define.cast(kind, v)


def _holds(wide: str, narrow: str) -> bool:
    """Whether weights of a type can be multiplied with floats of another, or of f32 that these are computed in."""
    small = dtype(narrow).is_half or (is_int(narrow) and dtype(narrow).bytes <= 2)
    return is_float(wide) and small and (dtype(wide).bytes > dtype(narrow).bytes or is_int(narrow))


def scaled(index: Expr, factor: int = 1, offset: int = 0) -> Expr:
    """index * factor + offset, without the parts that do nothing."""
    product = index * factor if factor != 1 else index
    if offset == 0:
        return product
    return product + offset if offset > 0 else product - -offset


def per_dimension(given: PerDimension, rank: int, what: str, least: int = 1) -> tuple[int, ...]:
    """One number per spatial dimension, each at least `least`."""
    number = whole_number(given)
    items = tuple(given) if number is None else (number,) * rank  # type: ignore[arg-type]
    if len(items) != rank or any(n < least for n in items):
        raise UserError(f"{what} {given} must be a whole number of at least {least}, or {rank} of them")
    return items


def pad_pairs(given: Padding, rank: int) -> tuple[tuple[int, int], ...]:
    """A (before, after) pair per spatial dimension."""
    number = whole_number(given)
    items = tuple(given) if number is None else (number,) * rank  # type: ignore[arg-type]
    if len(items) != rank:
        raise UserError(f"padding {given} must be one whole number, or {rank} numbers or pairs")
    return tuple((int(p), int(p)) if whole_number(p) is not None else (p[0], p[1]) for p in items)  # type: ignore[arg-type,index]


def normal_axis(axis: int, rank: int, what: str) -> int:
    """A dimension number in 0..rank-1; negative ones count from the end."""
    if not -rank <= axis < rank:
        raise UserError(f"{what}: dimension {axis} does not exist; the tensor has {rank}")
    return axis % rank


def check_rank(tensor: Tensor, rank: int, what: str, layout: str) -> None:
    """Raises `UserError` unless a tensor has so many dimensions; `what` wants it, in that `layout`."""
    if len(tensor.shape) != rank:
        raise UserError(f"{what}: {tensor.name} has the shape {list(tensor.shape)}; expected {rank} dimensions, {layout}")
