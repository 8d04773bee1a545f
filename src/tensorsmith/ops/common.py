"""Small helpers the operators share: named axes, index arithmetic, and per-dimension arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence

from tensorsmith.errors import UserError
from tensorsmith.lang import define
from tensorsmith.lang.define import Tensor, compute
from tensorsmith.lang.expr import Expr, ExprLike

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


def scaled(index: Expr, factor: int = 1, offset: int = 0) -> Expr:
    """index * factor + offset, without the parts that do nothing."""
    product = index * factor if factor != 1 else index
    if offset == 0:
        return product
    return product + offset if offset > 0 else product - -offset


def per_dimension(given: PerDimension, rank: int, what: str, least: int = 1) -> tuple[int, ...]:
    """One number per spatial dimension, each at least `least`."""
    items = (given,) * rank if isinstance(given, int) else tuple(given)
    if len(items) != rank or any(n < least for n in items):
        raise UserError(f"{what} {given} must be a whole number of at least {least}, or {rank} of them")
    return items


def pad_pairs(given: Padding, rank: int) -> tuple[tuple[int, int], ...]:
    """A (before, after) pair per spatial dimension."""
    items = (given,) * rank if isinstance(given, int) else tuple(given)
    if len(items) != rank:
        raise UserError(f"padding {given} must be one whole number, or {rank} numbers or pairs")
    return tuple((p, p) if isinstance(p, int) else (p[0], p[1]) for p in items)


def normal_axis(axis: int, rank: int, what: str) -> int:
    """A dimension number in 0..rank-1; negative ones count from the end."""
    if not -rank <= axis < rank:
        raise UserError(f"{what}: dimension {axis} does not exist; the tensor has {rank}")
    return axis % rank


def check_rank(tensor: Tensor, rank: int, what: str, layout: str) -> None:
    """Raises `UserError` unless a tensor has so many dimensions; `what` wants it, in that `layout`."""
    if len(tensor.shape) != rank:
        raise UserError(f"{what}: {tensor.name} has the shape {list(tensor.shape)}; expected {rank} dimensions, {layout}")


def times(a: Expr, b: Expr, sums: str | None) -> Expr:
    """The product of two factors in the type in which it is added up, their own if none is given."""
    return a * b if sums is None else define.cast(sums, a) * define.cast(sums, b)
