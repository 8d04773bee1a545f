"""Reductions that are put together of the plain ones: mean, any, all, and positions of the largest or smallest element.

A position is found in one of two ways. Where a value and its place fit one integer, they can be reduced as a pair: the value in the
upper bits, as an integer of the same order, the place in the lower ones. The largest pair has the largest value, and of several the
first place.

    argmax(A[i, k], over k<9)    ->    8 - (max(ordered(A[i, k]) * 16 + (8 - k), over k<9) & 15)

Else there are two reductions, the best value and the first place that has it. Pairs of 32 bits, for values of 8, are cheaper. Pairs
of 64 bits are not: counted in the code for 8 lanes, an f32 from memory takes 4.8 instructions in a pair, 2.1 in two reductions.
They are for values that are computed, which they compute once; two reductions would do it twice, and have to agree to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tensorsmith.errors import UserError
from tensorsmith.lang.define import axes_of, bits_as, cast, max, min, select, sum
from tensorsmith.lang.dtypes import dtype, is_float
from tensorsmith.lang.expr import Axis, Cast, Expr, ExprLike, Load, Reduce, Var, wrap

Axes = Axis | Sequence[Axis]


def mean(source: ExprLike, axis: Axes) -> Expr:
    """The sum of a float expression over one or more reduce axes, divided by the number of terms; of nothing it is NaN."""
    count = math.prod(a.extent for a in axes_of("mean", axis))
    return sum(source, axis) / count


def any(condition: ExprLike, axis: Axes) -> Expr:
    """Whether a condition holds somewhere along one or more reduce axes. Numbers count as true where they are not 0."""
    axes_of("any", axis)
    return cast("bool", max(_as_number(condition), axis))


def all(condition: ExprLike, axis: Axes) -> Expr:
    """Whether a condition holds everywhere along one or more reduce axes. Numbers count as true where they are not 0."""
    axes_of("all", axis)
    return cast("bool", min(_as_number(condition), axis))


def argmax(source: ExprLike, axis: Axes) -> Expr:
    """The position (i64) of the largest value along a reduce axis; of several the first; of the first NaN if there is one.

    Over several axes it is the position in row-major order, the last axis fastest.
    """
    return _position("argmax", source, axis)


def argmin(source: ExprLike, axis: Axes) -> Expr:
    """The position (i64) of the smallest value along a reduce axis; of several the first; of the first NaN if there is one.

    Over several axes it is the position in row-major order, the last axis fastest.
    """
    return _position("argmin", source, axis)


def _as_number(condition: ExprLike) -> Expr:
    given = wrap(condition)
    return cast("u8", given if given.dtype == "bool" else cast("bool", given))


def _position(op: str, source: ExprLike, axis: Axes) -> Expr:
    axes, value, largest = axes_of(op, axis), wrap(source), op == "argmax"
    count = math.prod(a.extent for a in axes)
    if count == 0:
        raise UserError(f"{op}({value}) has nothing to choose from: a reduce axis has the extent 0")
    if value.dtype == "bool" or dtype(value.dtype).is_half:
        value = cast("u8" if value.dtype == "bool" else "f32", value)
    place: Expr = Var(axes[0].name)
    for a in axes[1:]:
        place = place * a.extent + Var(a.name)
    width, room = dtype(value.dtype).bytes * 8 + (dtype(value.dtype).kind == "u"), (count - 1).bit_length()
    pair = "i32" if width + room <= 32 else "i64"
    if width + room > 64 or (pair == "i64" and _is_read(value)):
        return _by_two_reductions(largest, value, axes, place, count - 1)
    later = count - 1 - place if largest else place  # of equal values, the first place has the best of these
    key = (_as(pair, _ordered(value, largest)) << room) + _as(pair, later)
    best = max(key, axes) if largest else min(key, axes)
    found = _as("i64", best & ((1 << room) - 1))
    return count - 1 - found if largest else found


def _by_two_reductions(largest: bool, value: Expr, axes: tuple[Axis, ...], place: Expr, last: int) -> Expr:
    here = value == (max(value, axes) if largest else min(value, axes))
    if is_float(value.dtype):
        here = here | (value != value)
    kind = "i32" if last < 2**31 else "i64"  # half the size is half the work
    return _as("i64", min(select(here, _as(kind, place), last), axes))


def _is_read(value: Expr) -> bool:
    """Whether a value comes from memory, as a reduction does that is a stage of its own; a cast costs little."""
    return isinstance(value.a if isinstance(value, Cast) else value, (Load, Reduce))


def _ordered(value: Expr, largest: bool) -> Expr:
    """An integer for each value, in the same order: both zeros are one, NaN is past the end that is looked for."""
    if value.dtype != "f32":
        return value
    plain = value + 0.0  # -0.0 becomes 0.0
    bits = bits_as("i32", plain)  # of numbers below 0 the larger ones are smaller as integers, but for the sign
    return select(plain != plain, 2**31 - 1 if largest else -(2**31), bits ^ ((bits >> 31) & (2**31 - 1)))


def _as(kind: str, e: Expr) -> Expr:
    return e if e.dtype == kind else cast(kind, e)
