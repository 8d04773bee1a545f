"""Matrix products."""

from __future__ import annotations

from math import prod

from tensorsmith.errors import UserError
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.graph import Value


def product(what: object, b: Builder, left: Value, right: Value) -> Value:
    """As np.matmul. Times one matrix, the leading dimensions of `left` are taken as rows: one large product is the best kernel."""
    if not left.shape or not right.shape:
        raise UserError(f"{what}: the inputs have the shapes {list(left.shape)} and {list(right.shape)}; numbers are no matrices")
    if left.shape[-1] != right.shape[-2 if len(right.shape) > 1 else 0]:
        raise UserError(f"{what}: {list(left.shape)} and {list(right.shape)} do not fit: they must agree in the depth")
    if len(left.shape) == 1:
        whole = product(what, b, b.add("reshape", [left], shape=(1, *left.shape)), right)
        without = whole.shape[:-2] + whole.shape[-1:] if len(right.shape) > 1 else whole.shape[:-1]
        return b.add("reshape", [whole], shape=without)
    if len(right.shape) == 1:
        whole = product(what, b, left, b.add("reshape", [right], shape=(*right.shape, 1)))
        return b.add("reshape", [whole], shape=whole.shape[:-1])
    if len(left.shape) >= len(right.shape) > 2 and all(n == 1 for n in right.shape[:-2]):
        right = b.add("reshape", [right], shape=right.shape[-2:])
    if len(left.shape) > 2 and len(right.shape) == 2:
        rows = b.add("reshape", [left], shape=(prod(left.shape[:-1]), left.shape[-1]))
        return b.add("reshape", [b.add("matmul", [rows, right])], shape=(*left.shape[:-1], right.shape[-1]))
    return b.add("matmul", [left, right])
