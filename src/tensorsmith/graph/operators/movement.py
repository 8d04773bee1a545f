"""Operators that only move elements: each result is found by index arithmetic."""

from __future__ import annotations

from collections.abc import Sequence

from tensorsmith.errors import UserError
from tensorsmith.graph.operators import Kind, operator
from tensorsmith.lang.define import Tensor, maximum, minimum, select
from tensorsmith.lang.expr import Expr, wrap
from tensorsmith.ops import conv
from tensorsmith.ops.common import at, compute_named, normal_axis, scaled
from tensorsmith.ops.elementwise import broadcast_read, broadcast_shape
from tensorsmith.show.line import many


@operator("transpose", Kind.INJECTIVE)
def transpose(x: Tensor, *, order: tuple[int, ...], name: str) -> Tensor:
    """Dimension d of the result is dimension order[d] of x."""
    if sorted(order) != list(range(len(x.shape))):
        raise UserError(f"{name}: {list(order)} is no order of the {many(len(x.shape), 'dimension')} of {x.name}")
    place = [order.index(d) for d in range(len(order))]
    axes = [f"i{d}" for d in range(len(order))]
    return compute_named([x.shape[d] for d in order], axes, lambda i: at(x, *(i[p] for p in place)), name)


@operator("copy", Kind.INJECTIVE)
def copy(x: Tensor, *, name: str) -> Tensor:
    """The same elements, in memory of the network's own."""
    return compute_named(x.shape, numbered(len(x.shape)), lambda i: at(x, *i), name)


@operator("reshape", Kind.INJECTIVE)
def reshape(x: Tensor, *, shape: tuple[int, ...], name: str) -> Tensor:
    """The same elements in the same order.

    Dimensions are matched in runs of equal size, so that a split or an unchanged dimension needs no division.
    """
    runs = _runs(x.shape, shape, name)
    if 0 in shape:
        return empty(x, shape, name)

    def body(i: tuple[Expr, ...]) -> Expr:
        indices: list[Expr | int] = []
        for old, new in runs:
            flat: Expr | int = 0
            for d in new:
                flat = _sum(_times(flat, shape[d]), i[d] if shape[d] > 1 else 0)
            for n, d in enumerate(old):
                below = 1
                for rest in old[n + 1 :]:
                    below *= x.shape[rest]
                index = flat // below if below > 1 and isinstance(flat, Expr) else flat
                first = all(x.shape[e] == 1 for e in old[:n])
                indices.append(index if first or not isinstance(index, Expr) else index % x.shape[d])
        return at(x, *indices)

    return compute_named(shape, [f"i{d}" for d in range(len(shape))], body, name)


def _times(a: Expr | int, n: int) -> Expr | int:
    return a if n == 1 or isinstance(a, int) else a * n


def _sum(a: Expr | int, b: Expr | int) -> Expr | int:
    if isinstance(a, int):
        return b
    return a if isinstance(b, int) else a + b


def _runs(old: Sequence[int], new: Sequence[int], name: str) -> list[tuple[list[int], list[int]]]:
    """Runs of dimensions of both shapes with equal products, as short as can be."""
    count_old = count_new = 1
    for n in old:
        count_old *= n
    for n in new:
        count_new *= n
    if count_old != count_new:
        raise UserError(f"{name}: {list(old)} has {count_old} elements, {list(new)} has {count_new}")
    if count_old == 0:
        return [(list(range(len(old))), list(range(len(new))))]
    runs: list[tuple[list[int], list[int]]] = []
    a = b = 0
    while a < len(old) or b < len(new):
        left: list[int] = []
        right: list[int] = []
        size_left = size_right = 1
        while True:
            if size_left <= size_right and a < len(old) and (size_left < size_right or not left):
                size_left *= old[a]
                left.append(a)
                a += 1
            elif b < len(new):
                size_right *= new[b]
                right.append(b)
                b += 1
            elif a < len(old):
                size_left *= old[a]
                left.append(a)
                a += 1
            if size_left == size_right and (left or not a < len(old)) and (right or not b < len(new)):
                break
        runs.append((left, right))
    return runs


@operator("broadcast", Kind.INJECTIVE)
def broadcast(x: Tensor, *, shape: tuple[int, ...], name: str) -> Tensor:
    """x repeated along its dimensions of extent 1 and along new ones in front."""
    if broadcast_shape(x.shape, shape) != tuple(shape):
        raise UserError(f"{name}: {x.name} {list(x.shape)} does not broadcast to {list(shape)}")
    return compute_named(shape, numbered(len(shape)), lambda i: broadcast_read(x, i, shape), name)


@operator("slice", Kind.INJECTIVE)
def slice_(
    x: Tensor, *, starts: tuple[int, ...], sizes: tuple[int, ...], steps: tuple[int, ...] | None = None, name: str
) -> Tensor:
    """Element i of the result is element start + i * step of x, in each dimension; a step may be negative."""
    steps = steps or (1,) * len(sizes)
    if not len(starts) == len(sizes) == len(steps) == len(x.shape):
        raise UserError(f"{name}: {x.name} has {many(len(x.shape), 'dimension')}, the slice {len(starts)}")
    for d, (start, size, step) in enumerate(zip(starts, sizes, steps)):
        last = start + (size - 1) * step
        if size and not (0 <= start < x.shape[d] and 0 <= last < x.shape[d]):
            raise UserError(f"{name}: elements {start}..{last} of dimension {d} of {x.name} {list(x.shape)} do not exist")
    if 0 in sizes:
        return empty(x, sizes, name)

    def body(i: tuple[Expr, ...]) -> Expr:
        return at(x, *(scaled(v, step, start) if size > 1 else start for v, step, start, size in zip(i, steps, starts, sizes)))

    return compute_named(sizes, numbered(len(sizes)), body, name)


@operator("concat", Kind.INJECTIVE)
def concat(*parts: Tensor, axis: int, name: str) -> Tensor:
    """The parts one after another along `axis`."""
    first = parts[0]
    axis = normal_axis(axis, len(first.shape), name)
    for p in parts:
        others = [d for d in range(len(first.shape)) if d != axis]
        if len(p.shape) != len(first.shape) or any(p.shape[d] != first.shape[d] for d in others) or p.dtype != first.dtype:
            raise UserError(
                f"{name}: {p.name} {p.dtype}{list(p.shape)} and {first.name} {first.dtype}{list(first.shape)} do not fit"
            )
    bounds = [0]
    for p in parts:
        bounds.append(bounds[-1] + p.shape[axis])
    shape = (*first.shape[:axis], bounds[-1], *first.shape[axis + 1 :])
    pieces = [(p, low) for p, low in zip(parts, bounds) if p.shape[axis]]
    if 0 in shape:
        return empty(first, shape, name)

    def body(i: tuple[Expr, ...]) -> Expr:
        def element(low: int, high: int) -> Expr:
            """By halves, so that many parts take few comparisons."""
            if high - low == 1:
                part, start = pieces[low]
                inside = scaled(i[axis], 1, -start) if part.shape[axis] > 1 else 0
                return at(part, *i[:axis], inside, *i[axis + 1 :])
            middle = (low + high) // 2
            return select(i[axis] < pieces[middle][1], element(low, middle), element(middle, high))

        return element(0, len(pieces))

    return compute_named(shape, numbered(len(shape)), body, name)


@operator("pad", Kind.INJECTIVE)
def pad(x: Tensor, *, pairs: tuple[tuple[int, int], ...], value: float = 0, mode: str = "constant", name: str) -> Tensor:
    """x with more around it, a (before, after) pair per dimension; negative ones cut.

    `mode` says what: the "constant" `value`, x mirrored ("reflect"), its outermost elements ("edge"), or x over and over ("wrap").
    """
    shape = tuple(before + n + after for n, (before, after) in zip(x.shape, pairs))
    if mode == "constant" and 0 not in x.shape:
        return conv.pad(x, pairs, bool(value) if x.dtype == "bool" else value, name)
    if len(pairs) != len(x.shape) or any(n < 0 for n in shape):
        raise UserError(f"{name}: padding {list(pairs)} does not fit {x.name} {list(x.shape)}")
    if mode == "constant" or 0 in shape:
        return compute_named(
            shape, numbered(len(shape)), lambda i: wrap(bool(value) if x.dtype == "bool" else value, x.dtype), name
        )
    inside = {"reflect": _reflected, "edge": _edge, "wrap": _wrapped}.get(mode)
    if inside is None:
        raise UserError(f"{name}: unknown mode {mode!r} of padding; known are constant, reflect, edge, wrap")
    if 0 in x.shape:
        raise UserError(f"{name}: {x.name} {list(x.shape)} is empty, there is nothing to {mode}")

    def body(i: tuple[Expr, ...]) -> Expr:
        return at(x, *(inside(scaled(v, 1, -before), n, before, after) for v, n, (before, after) in zip(i, x.shape, pairs)))

    return compute_named(shape, numbered(len(shape)), body, name)


def _edge(i: Expr, extent: int, before: int, after: int) -> Expr:
    i = maximum(i, 0) if before > 0 else i
    return minimum(i, extent - 1) if after > 0 else i


def _wrapped(i: Expr, extent: int, before: int, after: int) -> Expr:
    return i % extent if before > 0 or after > 0 else i


def _reflected(i: Expr, extent: int, before: int, after: int) -> Expr | int:
    last = extent - 1
    if last == 0:
        return 0
    if before > last or after > last:  # mirrored more than once
        i = i % (2 * last)
        return minimum(select(i < extent, i, 2 * last - i), last)  # the minimum shows that it stays inside
    inside = select(i < extent, i, 2 * last - i) if after > 0 else i
    return select(i < 0, -i, inside) if before > 0 else inside


@operator("tile", Kind.INJECTIVE)
def tile(x: Tensor, *, repeats: tuple[int, ...], name: str) -> Tensor:
    """x over and over, `repeats` times in each dimension."""
    if len(repeats) != len(x.shape) or any(n < 0 for n in repeats):
        raise UserError(f"{name}: {list(repeats)} repeats of {x.name} {list(x.shape)}; give one number of at least 0 per dimension")
    shape = tuple(n * r for n, r in zip(x.shape, repeats))
    if 0 in shape:
        return empty(x, shape, name)
    own = [(n, r) for n, r in zip(x.shape, repeats)]
    return compute_named(
        shape, numbered(len(shape)), lambda i: at(x, *(0 if n == 1 else v % n if r > 1 else v for v, (n, r) in zip(i, own))), name
    )


@operator("triangle", Kind.INJECTIVE)
def triangle(x: Tensor, *, upper: bool = True, diagonal: int = 0, name: str) -> Tensor:
    """x with 0 below (above, for the lower triangle) a diagonal of its last two dimensions."""
    if len(x.shape) < 2:
        raise UserError(f"{name}: {x.name} {list(x.shape)} has no two dimensions")
    nothing = False if x.dtype == "bool" else 0

    def body(i: tuple[Expr, ...]) -> Expr:
        row, column = scaled(i[-2], 1, diagonal), i[-1]
        return select(row <= column if upper else column <= row, at(x, *i), nothing)

    return compute_named(x.shape, numbered(len(x.shape)), body, name)


@operator("reverse_sequence", Kind.INJECTIVE)
def reverse_sequence(x: Tensor, lengths: Tensor, *, time_axis: int, batch_axis: int, name: str) -> Tensor:
    """The first lengths[b] elements along the time axis in reverse order, the rest as it is."""
    time, batch = normal_axis(time_axis, len(x.shape), name), normal_axis(batch_axis, len(x.shape), name)

    def body(i: tuple[Expr, ...]) -> Expr:
        length = at(lengths, i[batch])
        return at(x, *(select(v < length, length - 1 - v, v) if d == time else v for d, v in enumerate(i)))

    return compute_named(x.shape, numbered(len(x.shape)), body, name)


def numbered(rank: int) -> list[str]:
    """Names of axes."""
    return [f"i{d}" for d in range(rank)]


def empty(like: Tensor, shape: Sequence[int], name: str) -> Tensor:
    """A tensor without elements, of the type of another."""
    nothing = wrap(False if like.dtype == "bool" else 0, like.dtype)
    return compute_named(shape, numbered(len(shape)), lambda i: nothing, name)


@operator("windows", Kind.INJECTIVE)
def windows(x: Tensor, *, axis: int, size: int, step: int, name: str) -> Tensor:
    """Windows of `size` elements along `axis`, `step` apart; they are counted along `axis`, their elements along a new last one."""
    axis = normal_axis(axis, len(x.shape), name)
    if size < 1 or step < 1 or size > x.shape[axis]:
        raise UserError(f"{name}: windows of {size} elements, {step} apart, along dimension {axis} of {x.name} {list(x.shape)}")
    shape = (*x.shape[:axis], (x.shape[axis] - size) // step + 1, *x.shape[axis + 1 :], size)
    if 0 in shape:
        return empty(x, shape, name)

    def body(i: tuple[Expr, ...]) -> Expr:
        return at(x, *i[:axis], i[axis] * step + i[-1], *i[axis + 1 : -1])

    return compute_named(shape, numbered(len(shape)), body, name)
