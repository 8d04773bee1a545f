"""Operators that only move elements: each result is found by index arithmetic."""

from __future__ import annotations

from collections.abc import Sequence

from tensorsmith.errors import UserError
from tensorsmith.graph.operators import Kind, operator
from tensorsmith.lang.define import Tensor
from tensorsmith.lang.expr import Expr
from tensorsmith.ops.common import at, compute_named


@operator("transpose", Kind.INJECTIVE)
def transpose(x: Tensor, *, order: tuple[int, ...], name: str) -> Tensor:
    """Dimension d of the result is dimension order[d] of x."""
    if sorted(order) != list(range(len(x.shape))):
        raise UserError(f"{name}: {list(order)} is no order of the {len(x.shape)} dimensions of {x.name}")
    place = [order.index(d) for d in range(len(order))]
    axes = [f"i{d}" for d in range(len(order))]
    return compute_named([x.shape[d] for d in order], axes, lambda i: at(x, *(i[p] for p in place)), name)


@operator("reshape", Kind.INJECTIVE)
def reshape(x: Tensor, *, shape: tuple[int, ...], name: str) -> Tensor:
    """The same elements in the same order.

    Dimensions are matched in runs of equal size, so that a split or an unchanged dimension needs no division.
    """
    runs = _runs(x.shape, shape, name)

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
