"""Matrix products."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from tensorsmith.errors import UserError
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.graph import Value


def product(what: object, b: Builder, left: Value, right: Value) -> Value:
    """As np.matmul. Times one matrix, the leading dimensions of `left` are taken as rows: one large product is the best kernel."""
    found = multiplied(what, b, left, right, lambda left, right: b.add("matmul", [left, right]))
    assert found is not None
    return found


def multiplied(what: object, b: Builder, left: Value, right: Value, make: Callable[[Value, Value], Value | None]) -> Value | None:
    """As `product`, by `make`, which is given two matrices, or as many as there are in a batch; None where that gives None."""
    if not left.shape or not right.shape:
        raise UserError(f"{what}: the inputs have the shapes {list(left.shape)} and {list(right.shape)}; numbers are no matrices")
    if left.shape[-1] != right.shape[-2 if len(right.shape) > 1 else 0]:
        raise UserError(f"{what}: {list(left.shape)} and {list(right.shape)} do not fit: they must agree in the depth")
    if len(left.shape) == 1:
        whole = multiplied(what, b, b.add("reshape", [left], shape=(1, *left.shape)), right, make)
        return None if whole is None else b.add("reshape", [whole], shape=_without(whole, len(right.shape) > 1))
    if len(right.shape) == 1:
        whole = multiplied(what, b, left, b.add("reshape", [right], shape=(*right.shape, 1)), make)
        return None if whole is None else b.add("reshape", [whole], shape=whole.shape[:-1])
    if len(left.shape) >= len(right.shape) > 2 and all(n == 1 for n in right.shape[:-2]):
        right = b.add("reshape", [right], shape=right.shape[-2:])
    if len(left.shape) > 2 and len(right.shape) == 2:
        whole = make(b.add("reshape", [left], shape=(prod(left.shape[:-1]), left.shape[-1])), right)
        return None if whole is None else b.add("reshape", [whole], shape=(*left.shape[:-1], right.shape[-1]))
    return make(left, right)


def _without(whole: Value, columns: bool) -> tuple[int, ...]:
    """The shape of a product without the one row of a vector."""
    return whole.shape[:-2] + whole.shape[-1:] if columns else whole.shape[:-1]
