"""Transposes and reshapes as passes make them: composed with what is there, and left out where they do nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tensorsmith.graph.builder import Builder
from tensorsmith.graph.graph import Value

Order = tuple[int, ...]


def inverse(order: Order) -> Order:
    """The transpose that undoes a transpose."""
    return tuple(order.index(d) for d in range(len(order)))


def composed(first: Order, then: Order) -> Order:
    """One transpose for two."""
    return tuple(first[d] for d in then)


def is_reshape(order: Order, shape: Sequence[int]) -> bool:
    """Whether a transpose moves dimensions of extent 1 only, so that the order in memory stays."""
    moving = [d for d in order if shape[d] != 1]
    return moving == sorted(moving)


def turned(builder: Builder, value: Value, order: Order) -> Value:
    """The transpose of a value; a reshape where that is the same."""
    source = transpose_of(builder, value)
    if source is not None:
        value, order = source[0], composed(source[1], order)
    if order == tuple(range(len(order))):
        return value
    if is_reshape(order, value.shape):
        return reshaped(builder, value, tuple(value.shape[d] for d in order))
    return builder.add("transpose", [value], order=order)


def transpose_of(builder: Builder, value: Value) -> tuple[Value, Order] | None:
    """What a value is the transpose of, and how."""
    node = builder.producer(value)
    if node is None or node.operator != "transpose":
        return None
    return builder.read(node)[0], node.attributes["order"]


def reshaped(builder: Builder, value: Value, shape: tuple[int, ...]) -> Value:
    """The reshape of a value, of what it was before it was reshaped."""
    value = unreshaped(builder, value)
    return value if value.shape == shape else builder.add("reshape", [value], shape=shape)


def unreshaped(builder: Builder, value: Value) -> Value:
    """What a value is a reshape of; itself if it is none."""
    while (node := builder.producer(value)) is not None and node.operator == "reshape":
        value = builder.read(node)[0]
    return value


def runs(old: Sequence[int], new: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Dimensions of two shapes of equal size in runs of equal products, as short as can be; those of extent 1 are left out."""
    left = [d for d, n in enumerate(old) if n != 1]
    right = [d for d, n in enumerate(new) if n != 1]
    found: list[tuple[list[int], list[int]]] = []
    while left or right:
        a, b = [left.pop(0)], [right.pop(0)]
        while (size_a := math.prod(old[d] for d in a)) != (size_b := math.prod(new[d] for d in b)):
            if size_a < size_b:
                a.append(left.pop(0))
            else:
                b.append(right.pop(0))
        found.append((a, b))
    return found
