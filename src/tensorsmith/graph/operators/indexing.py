"""Elements found by computed indices: gather, scatter, one-hot, top-k. Negative indices count from the end, as in NumPy."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from tensorsmith.errors import UserError
from tensorsmith.graph.operators import Kind, operator
from tensorsmith.graph.operators.movement import empty, numbered
from tensorsmith.lang import define
from tensorsmith.lang.define import Reduction, Tensor, cast, equal, reduce_axis, select
from tensorsmith.lang.dtypes import dtype, is_float
from tensorsmith.lang.evaluate import identity
from tensorsmith.lang.expr import Axis, Expr, wrap
from tensorsmith.ops.common import at, compute_named, normal_axis


def _counted(index: Expr, extent: int) -> Expr:
    """The index from the start."""
    index = index if index.dtype == "i64" else cast("i64", index)
    return select(index < 0, index + extent, index)


@operator("gather", Kind.INJECTIVE)
def gather(x: Tensor, indices: Tensor, *, axis: int = 0, name: str) -> Tensor:
    """The slices of x along `axis` that `indices` (of any shape) say."""
    axis = normal_axis(axis, len(x.shape), name)
    rank = len(indices.shape)
    shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
    if 0 in shape:
        return empty(x, shape, name)

    def body(i: tuple[Expr, ...]) -> Expr:
        index = _counted(at(indices, *i[axis : axis + rank]), x.shape[axis])
        return at(x, *i[:axis], index, *i[axis + rank :])

    return compute_named(shape, numbered(len(shape)), body, name)


@operator("gather_elements", Kind.INJECTIVE)
def gather_elements(x: Tensor, indices: Tensor, *, axis: int = 0, name: str) -> Tensor:
    """Element i of the result is the element of x at i, with the index along `axis` replaced by indices[i]."""
    axis = normal_axis(axis, len(x.shape), name)
    if len(indices.shape) != len(x.shape):
        raise UserError(f"{name}: {indices.name} {list(indices.shape)} and {x.name} {list(x.shape)} differ in their rank")
    if 0 in indices.shape:
        return empty(x, indices.shape, name)

    def body(i: tuple[Expr, ...]) -> Expr:
        return at(x, *i[:axis], _counted(at(indices, *i), x.shape[axis]), *i[axis + 1 :])

    return compute_named(indices.shape, numbered(len(indices.shape)), body, name)


@operator("gather_nd", Kind.INJECTIVE)
def gather_nd(x: Tensor, indices: Tensor, *, batch: int = 0, name: str) -> Tensor:
    """The last dimension of `indices` holds the leading indices into x, after `batch` dimensions that both have."""
    if not indices.shape or batch >= min(len(x.shape), len(indices.shape)) or x.shape[:batch] != indices.shape[:batch]:
        raise UserError(f"{name}: {indices.name} {list(indices.shape)} does not fit {x.name} {list(x.shape)}")
    depth, lead = indices.shape[-1], len(indices.shape) - 1
    if batch + depth > len(x.shape):
        raise UserError(f"{name}: {depth} indices after {batch} batch dimensions of {x.name} {list(x.shape)}")
    shape = (*indices.shape[:-1], *x.shape[batch + depth :])
    if 0 in shape:
        return empty(x, shape, name)

    def body(i: tuple[Expr, ...]) -> Expr:
        found = [_counted(at(indices, *i[:lead], n), x.shape[batch + n]) for n in range(depth)]
        return at(x, *i[:batch], *found, *i[lead:])

    return compute_named(shape, numbered(len(shape)), body, name)


@operator("one_hot", Kind.INJECTIVE)
def one_hot(indices: Tensor, values: Tensor, *, depth: int, axis: int = -1, name: str) -> Tensor:
    """values[1] where the position along the new `axis` is the index, values[0] elsewhere."""
    axis = normal_axis(axis, len(indices.shape) + 1, name)
    shape = (*indices.shape[:axis], depth, *indices.shape[axis:])

    def body(i: tuple[Expr, ...]) -> Expr:
        index = _counted(at(indices, *i[:axis], *i[axis + 1 :]), depth)
        return select(equal(index, i[axis]), at(values, 1), at(values, 0))

    return compute_named(shape, numbered(len(shape)), body, name)


_COMBINED: dict[str, tuple[Reduction, Callable[[Expr, Expr], Expr]]] = {
    "add": (define.sum, lambda a, b: a + b),
    "mul": (define.prod, lambda a, b: a * b),
    "max": (define.max, define.maximum),
    "min": (define.min, define.minimum),
}
_NAMES = {"add": "sum", "mul": "prod", "max": "max", "min": "min"}


def _check_scatter(x: Tensor, updates: Tensor, reduction: str, name: str) -> None:
    if reduction not in ("none", *_COMBINED):
        raise UserError(f"{name}: unknown reduction {reduction!r}; known are none, {', '.join(_COMBINED)}")
    if reduction != "none" and x.dtype == "bool":
        raise UserError(f"{name}: cannot {reduction} bools")
    if x.dtype != updates.dtype:
        raise UserError(f"{name}: updates of {updates.dtype} to {x.name}, which is {x.dtype}")


@operator("scatter_elements", Kind.REDUCTION)
def scatter_elements(x: Tensor, indices: Tensor, updates: Tensor, *, axis: int = 0, reduction: str = "none", name: str) -> Tensor:
    """x with updates[i] put at i, the index along `axis` replaced by indices[i]; the last one counts, or all are combined.

    Defined by each element looking for its updates along `axis`: time grows with the product of the two extents.
    """
    _check_scatter(x, updates, reduction, name)
    rank = len(x.shape)
    axis = normal_axis(axis, rank, name)
    fits = len(indices.shape) == rank and all(a <= b for d, (a, b) in enumerate(zip(indices.shape, x.shape)) if d != axis)
    if not fits or updates.shape != indices.shape:
        raise UserError(
            f"{name}: indices {list(indices.shape)} and updates {list(updates.shape)} do not fit {x.name} {list(x.shape)}"
        )
    if 0 in indices.shape:
        return x
    k = reduce_axis(indices.shape[axis], "k")
    partial = [d for d in range(rank) if d != axis and indices.shape[d] < x.shape[d]]

    def hit(i: tuple[Expr, ...]) -> Expr:
        return equal(_counted(at(indices, *i[:axis], k, *i[axis + 1 :]), x.shape[axis]), i[axis])

    def guarded(i: tuple[Expr, ...], found: Expr, otherwise: Expr) -> Expr:
        """Only where the indices reach in the other dimensions."""
        conditions = [i[d] < indices.shape[d] for d in partial]
        return select(functools.reduce(lambda a, b: a & b, conditions), found, otherwise) if conditions else found

    axes = numbered(rank)
    if reduction == "none":
        nothing = wrap(-1, "i64")
        last = compute_named(
            x.shape, axes, lambda i: define.max(guarded(i, select(hit(i), k, nothing), nothing), k), f"{name}_position"
        )

        def body(i: tuple[Expr, ...]) -> Expr:
            position, old = at(last, *i), at(x, *i)
            return guarded(i, select(position >= 0, at(updates, *i[:axis], position, *i[axis + 1 :]), old), old)

        return compute_named(x.shape, axes, body, name)
    reduce, combine = _COMBINED[reduction]
    neutral = wrap(identity(_NAMES[reduction], x.dtype), x.dtype)
    total = compute_named(
        x.shape,
        axes,
        lambda i: reduce(guarded(i, select(hit(i), at(updates, *i[:axis], k, *i[axis + 1 :]), neutral), neutral), k),
        f"{name}_updates",
    )
    return compute_named(x.shape, axes, lambda i: combine(at(x, *i), at(total, *i)), name)


@operator("scatter_nd", Kind.REDUCTION)
def scatter_nd(x: Tensor, indices: Tensor, updates: Tensor, *, reduction: str = "none", name: str) -> Tensor:
    """x with slices replaced by (or combined with) `updates`; the last dimension of `indices` holds their leading indices.

    Defined by each element looking at all updates; where indices are known, `overlay` does it without looking.
    """
    _check_scatter(x, updates, reduction, name)
    depth, lead = indices.shape[-1] if indices.shape else 0, indices.shape[:-1]
    if not indices.shape or depth > len(x.shape) or updates.shape != (*lead, *x.shape[depth:]):
        raise UserError(
            f"{name}: indices {list(indices.shape)} and updates {list(updates.shape)} do not fit {x.name} {list(x.shape)}"
        )
    if 0 in updates.shape or depth == 0:
        if depth == 0 and 0 not in updates.shape:
            raise UserError(f"{name}: {indices.name} {list(indices.shape)} holds no indices")
        return x
    over = [reduce_axis(n, f"k{d}") for d, n in enumerate(lead)] or [reduce_axis(1, "k0")]
    read: Sequence[Axis] = over if lead else []

    def hit(i: tuple[Expr, ...]) -> Expr:
        tests = [equal(_counted(at(indices, *read, n), x.shape[n]), i[n]) for n in range(depth)]
        return functools.reduce(lambda a, b: a & b, tests)

    axes = numbered(len(x.shape))
    if reduction == "none":
        number: Expr = wrap(0, "i64")
        for axis in over:
            number = number * axis.extent + axis
        last = compute_named(
            x.shape[:depth], axes[:depth], lambda i: define.max(select(hit(i), number, wrap(-1, "i64")), over), f"{name}_position"
        )

        def body(i: tuple[Expr, ...]) -> Expr:
            position = at(last, *i[:depth])
            return select(position >= 0, at(updates, *_unraveled(position, lead), *i[depth:]), at(x, *i))

        return compute_named(x.shape, axes, body, name)
    reduce, combine = _COMBINED[reduction]
    neutral = wrap(identity(_NAMES[reduction], x.dtype), x.dtype)
    total = compute_named(
        x.shape, axes, lambda i: reduce(select(hit(i), at(updates, *read, *i[depth:]), neutral), over), f"{name}_updates"
    )
    return compute_named(x.shape, axes, lambda i: combine(at(x, *i), at(total, *i)), name)


def _unraveled(number: Expr, shape: Sequence[int]) -> list[Expr]:
    """The indices of the element that has a number in row-major order."""
    indices: list[Expr] = []
    for d in reversed(range(len(shape))):
        indices.append(number % shape[d] if d else number)
        number = number // shape[d]
    return indices[::-1]


@operator("overlay", Kind.INJECTIVE)
def overlay(x: Tensor, updates: Tensor, position: Tensor, *, name: str) -> Tensor:
    """x with slice i replaced by updates[position[i]] where that is not negative; position has the leading dimensions of x."""
    rank = len(position.shape)
    if x.shape[:rank] != position.shape or updates.shape[1:] != x.shape[rank:]:
        raise UserError(
            f"{name}: positions {list(position.shape)} and updates {list(updates.shape)} do not fit {x.name} {list(x.shape)}"
        )

    def body(i: tuple[Expr, ...]) -> Expr:
        found = at(position, *i[:rank])
        return select(found >= 0, at(updates, found, *i[rank:]), at(x, *i))

    return compute_named(x.shape, numbered(len(x.shape)), body, name)


@operator("written", Kind.INJECTIVE)
def written(x: Tensor, updates: Tensor, starts: Tensor, *, axis: int, circular: bool = False, name: str) -> Tensor:
    """x with `updates` written along `axis`, in batch entry b from starts[b] on; past the end it is lost, or goes on at 0."""
    axis = normal_axis(axis, len(x.shape), name)
    same = all(m == n for d, (m, n) in enumerate(zip(x.shape, updates.shape)) if d != axis)
    if axis == 0 or len(updates.shape) != len(x.shape) or not same or starts.shape != x.shape[:1]:
        raise UserError(
            f"{name}: updates {list(updates.shape)} from {list(starts.shape)} on do not fit dimension {axis} of {list(x.shape)}"
        )
    extent, count = x.shape[axis], updates.shape[axis]

    def body(i: tuple[Expr, ...]) -> Expr:
        place = i[axis] - cast("i64", at(starts, i[0]))
        place = place % extent if circular else place
        inside = define.minimum(define.maximum(place, 0), count - 1)
        return select((place >= 0) & (place < count), at(updates, *i[:axis], inside, *i[axis + 1 :]), at(x, *i))

    return compute_named(x.shape, numbered(len(x.shape)), body, name)


@operator("top_k", Kind.REDUCTION)
def top_k(x: Tensor, *, k: int, axis: int = -1, largest: bool = True, name: str) -> tuple[Tensor, Tensor]:
    """The k largest (smallest) elements along `axis`, sorted, and their positions (i64); of equal ones the first comes first.

    NaN is larger than any number and equal to NaN, as where NumPy sorts. Defined by counting for each element how many come before
    it: time grows with the square of the extent.
    """
    axis = normal_axis(axis, len(x.shape), name)
    extent = x.shape[axis]
    if not 0 <= k <= extent:
        raise UserError(f"{name}: {k} elements of dimension {axis} of {x.name} {list(x.shape)}")
    axes, shape = numbered(len(x.shape)), (*x.shape[:axis], k, *x.shape[axis + 1 :])
    if 0 in shape:
        positions = compute_named(shape, axes, lambda i: wrap(0, "i64"), f"{name}_positions")
        return empty(x, shape, name), positions
    other = reduce_axis(extent, "k")

    def before(i: tuple[Expr, ...]) -> Expr:
        mine, theirs = _ordered(at(x, *i)), _ordered(at(x, *i[:axis], other, *i[axis + 1 :]))
        small, large = (mine, theirs) if largest else (theirs, mine)
        comes_first = select(other < i[axis], _at_most(small, large), _below(small, large))
        return select(comes_first, wrap(1, "i64"), 0)

    rank = compute_named(x.shape, axes, lambda i: define.sum(before(i), other), f"{name}_rank")
    positions = compute_named(
        shape,
        axes,
        lambda i: define.min(select(equal(at(rank, *i[:axis], other, *i[axis + 1 :]), i[axis]), other, extent - 1), other),
        f"{name}_positions",
    )
    values = compute_named(shape, axes, lambda i: at(x, *i[:axis], at(positions, *i), *i[axis + 1 :]), name)
    return values, positions


def _ordered(e: Expr) -> Expr:
    """An element as something with an order."""
    return cast("u8", e) if dtype(e.dtype).kind == "b" else e


def _at_most(a: Expr, b: Expr) -> Expr:
    """a <= b where NaN is the largest value. Every element needs a place of its own, so the order has to be total."""
    return a <= b if not is_float(a.dtype) else (a <= b) | (b != b)


def _below(a: Expr, b: Expr) -> Expr:
    """a < b where NaN is the largest value."""
    return a < b if not is_float(a.dtype) else (a < b) | (a == a) & (b != b)
