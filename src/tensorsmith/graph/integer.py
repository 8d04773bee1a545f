"""Products of quantised numbers, made of bytes as they are: what zero points add is taken off afterwards.

    sum((x - p) * (w - q))  =  sum(x * w) - p * sum(w) - q * sum(x) + n * p * q        n products

A weight is a constant mostly: its zero point is taken off beforehand, if bytes can still hold the difference, and p * sum(w) is a
constant too. Padding of a convolution holds p, so that it counts as zero. All of it is in i32, and exact.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tensorsmith.graph.builder import Builder
from tensorsmith.graph.graph import Array, Attribute, Value

BYTES = ("i8", "u8")
_AT_ONCE = 4  # channels that a lane of a product of bytes takes
_FEW_CHANNELS = 16  # with more, the few that are left over cost little


def convolution(
    b: Builder, depthwise: bool, x: Value, x_zero: Value | None, w: Value, w_zero: Value | None, options: Mapping[str, Attribute]
) -> Value | None:
    """The convolution, channels-last, of x with a weight (K.., CI, CO) or (K.., C); None where bytes cannot do it."""
    weight = centred_weight(b, w, w_zero)
    if weight is None or x.dtype not in BYTES or (x_zero is not None and x_zero.elements != 1):
        return None
    fill = _number(b, x_zero)
    if fill is None and any(p for pair in options["padding"] for p in pair):
        return None
    operator = "integer_depthwise_conv" if depthwise else "integer_conv"
    known = b.known(weight)
    if not depthwise and known is not None and options.get("groups", 1) == 1 and _worth_filling(x, known):
        x, weight = _filled(b, x, known, weight.name)
    total = b.add(operator, [x, weight], fill=fill or 0, **options)
    if fill == 0 or x_zero is None:
        return total
    if known is None:
        return None
    return _less(b, total, _times(b, x_zero, known.sum(axis=tuple(range(known.ndim - 1)), dtype=np.int64)))


def _worth_filling(x: Value, weight: Array) -> bool:
    """Whether an image with few channels should have as many as machines take at once: each is read by several taps."""
    return x.shape[-1] % _AT_ONCE > 0 and x.shape[-1] < _FEW_CHANNELS and weight.size > weight.shape[-2] * weight.shape[-1]


def _filled(b: Builder, x: Value, weight: Array, name: str) -> tuple[Value, Value]:
    """Both with more channels, those of the weight zeros, so that it does not matter what those of the image are."""
    more = -x.shape[-1] % _AT_ONCE
    wide = b.add("pad", [x], pairs=(*[(0, 0)] * (len(x.shape) - 1), (0, more)))
    return wide, b.constant(np.pad(weight, [*[(0, 0)] * (weight.ndim - 2), (0, more), (0, 0)]), name)


def product(
    b: Builder,
    left: Value,
    left_zero: Value | None,
    right: Value,
    right_zero: Value | None,
    transpose_a: bool = False,
    transpose_b: bool = False,
) -> Value | None:
    """The matrix product (..., N, K) x (..., K, M); zero points are numbers. None where bytes cannot do it."""
    if left.dtype not in BYTES or right.dtype not in BYTES:
        return None
    if any(zero is not None and zero.elements != 1 for zero in (left_zero, right_zero)) and b.known(right) is None:
        return None
    moved = centred_weight(b, right, right_zero)
    if moved is not None:
        right, right_zero = moved, None
    if any(zero is not None and zero.elements != 1 for zero in (left_zero, right_zero)):
        return None
    total = b.add("integer_matmul", [left, right], transpose_a=transpose_a, transpose_b=transpose_b)
    depth = left.shape[-2 if transpose_a else -1]
    left_zero, right_zero = (None if _number(b, zero) == 0 else zero for zero in (left_zero, right_zero))
    if left_zero is not None:
        total = _less(b, total, _product(b, left_zero, _sums(b, right, transpose_b, of_rows=False)))
    if right_zero is not None:
        total = _less(b, total, _product(b, right_zero, _sums(b, left, transpose_a, of_rows=True)))
    if left_zero is not None and right_zero is not None:
        both = b.add("multiply", [_wide(b, left_zero), _wide(b, right_zero)])
        total = b.add("add", [total, b.add("multiply", [both, b.constant(np.array(depth, np.int32), "depth")])])
    return total


def centred_weight(b: Builder, w: Value, zero: Value | None) -> Value | None:
    """A weight in bytes without its zero point; None where that is not possible."""
    if w.dtype not in BYTES:
        return None
    if zero is None or _number(b, zero) == 0:
        return w
    known, point = b.known(w), b.known(zero)
    if known is None or point is None:
        return None
    moved = known.astype(np.int32) - point.astype(np.int32)
    for kind in (np.int8, np.uint8):
        if np.iinfo(kind).min <= moved.min(initial=0) and moved.max(initial=0) <= np.iinfo(kind).max:
            return b.constant(moved.astype(kind), w.name)
    return None


def _number(b: Builder, zero: Value | None) -> int | None:
    """A zero point that is one number, or all the same; None where it is not known."""
    if zero is None:
        return 0
    known = b.known(zero)
    if known is None or not known.size or (known != known.flat[0]).any():
        return None
    return int(known.flat[0])


def _sums(b: Builder, x: Value, transposed: bool, of_rows: bool) -> Value:
    """Sums along the depth: (..., N, 1) of the left side's rows, (..., 1, M) of the right side's columns."""
    rank = len(x.shape)
    axis = rank - 2 if of_rows == transposed else rank - 1
    total = b.add("reduce_sum", [_wide(b, x)], axes=(axis,), keepdims=True)
    return b.add("transpose", [total], order=(*range(rank - 2), rank - 1, rank - 2)) if transposed else total


def _wide(b: Builder, x: Value) -> Value:
    return b.add("cast", [x], to="i32")


def _product(b: Builder, zero: Value, sums: Value) -> Value:
    number = b.add("reshape", [_wide(b, zero)], shape=())
    return b.add("multiply", [sums, number])


def _times(b: Builder, zero: Value, sums: Array) -> Value:
    return _product(b, zero, b.constant(sums.astype(np.int32), "sums"))


def _less(b: Builder, total: Value, what: Value) -> Value:
    known = b.known(what)
    if known is not None:
        return b.add("add", [total, b.constant(-known, what.name)])
    return b.add("subtract", [total, what])
