"""Matrix products."""

from __future__ import annotations

from tensorsmith.errors import UserError
from tensorsmith.lang.define import Tensor, reduce_axis
from tensorsmith.lang.expr import Expr
from tensorsmith.ops.common import at, check_rank, compute_named, sum_of_products
from tensorsmith.ops.elementwise import bias_add, broadcast_read, broadcast_shape


def matmul(a: Tensor, b: Tensor, transpose_a: bool = False, transpose_b: bool = False, name: str = "matmul") -> Tensor:
    """(N, K) x (K, M) -> (N, M); a transposed operand is given the other way round."""
    check_rank(a, 2, name, "(N, K)")
    check_rank(b, 2, name, "(K, M)")
    return _product(a, b, transpose_a, transpose_b, name)


def batch_matmul(
    a: Tensor,
    b: Tensor,
    transpose_a: bool = False,
    transpose_b: bool = False,
    name: str = "batch_matmul",
    sums: str | None = None,
    small_weight: bool = False,
) -> Tensor:
    """(..., N, K) x (..., K, M) -> (..., N, M), the leading dimensions broadcast.

    `sums` is the type in which products are made and added, that of the operands if not given; with a `small_weight`, b is as in
    `sum_of_products`."""
    for x in (a, b):
        if len(x.shape) < 2:
            raise UserError(f"{name}: {x.name} has the shape {list(x.shape)}; expected at least 2 dimensions")
    return _product(a, b, transpose_a, transpose_b, name, sums, small_weight)


def dense(x: Tensor, weight: Tensor, bias: Tensor | None = None, transposed: bool = False, name: str = "dense") -> Tensor:
    """(..., K) x (K, M) + (M) -> (..., M). A `transposed` weight is (M, K)."""
    check_rank(weight, 2, name, "(M, K)" if transposed else "(K, M)")
    depth, columns = reversed(weight.shape) if transposed else weight.shape
    if not x.shape or x.shape[-1] != depth:
        raise UserError(f"{name}: {x.name} {list(x.shape)} must end in {depth}, the depth of {weight.name}")
    k = reduce_axis(depth, "k")
    axes = [*(f"i{d}" for d in range(len(x.shape) - 1)), "j"] if len(x.shape) > 2 else ["i", "j"][-len(x.shape) :]

    def body(indices: tuple[Expr, ...]) -> Expr:
        *rows, j = indices
        return sum_of_products(at(x, *rows, k), weight[j, k] if transposed else weight[k, j], k)

    product = compute_named((*x.shape[:-1], columns), axes, body, name if bias is None else f"{name}_product")
    return product if bias is None else bias_add(product, bias, name)


def _product(
    a: Tensor, b: Tensor, transpose_a: bool, transpose_b: bool, name: str, sums: str | None = None, small_weight: bool = False
) -> Tensor:
    rows, depth = reversed(a.shape[-2:]) if transpose_a else a.shape[-2:]
    depth_b, columns = reversed(b.shape[-2:]) if transpose_b else b.shape[-2:]
    if depth != depth_b:
        raise UserError(
            f"{name}: {a.name} {list(a.shape)} and {b.name} {list(b.shape)} do not fit: "
            f"the depth is {depth} of one and {depth_b} of the other"
        )
    batch = broadcast_shape(a.shape[:-2], b.shape[:-2])
    k = reduce_axis(depth, "k")

    def body(indices: tuple[Expr, ...]) -> Expr:
        *lead, i, j = indices
        left = (k, i) if transpose_a else (i, k)
        right = (j, k) if transpose_b else (k, j)
        return sum_of_products(_read(a, lead, left, batch), _read(b, lead, right, batch), k, sums, small_weight)

    names = ["b"] if len(batch) == 1 else [f"b{d}" for d in range(len(batch))]
    return compute_named((*batch, rows, columns), [*names, "i", "j"], body, name)


def _read(x: Tensor, lead: list[Expr], last: tuple[Expr, Expr], batch: tuple[int, ...]) -> Expr:
    return broadcast_read(x, (*lead, *last), (*batch, *x.shape[-2:]))
