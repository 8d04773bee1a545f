"""Reductions over dimensions, running sums, sums of products by index letters."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tensorsmith.errors import UserError
from tensorsmith.graph.operators import Kind, operator
from tensorsmith.graph.operators.movement import numbered
from tensorsmith.lang import define
from tensorsmith.lang.define import Reduction, Tensor, cast, compute, equal, not_equal, reduce_axis, select
from tensorsmith.lang.dtypes import dtype, is_float
from tensorsmith.lang.expr import Expr, wrap
from tensorsmith.lang.functions import truncated_quotient
from tensorsmith.ops import reduce as ops
from tensorsmith.ops.common import at, compute_named, normal_axis
from tensorsmith.ops.elementwise import apply
from tensorsmith.ops.norm import wider
from tensorsmith.show.line import many

Axes = tuple[int, ...] | None  # None: all


def _simple(name: str, op: Reduction, of: Callable[[Expr], Expr], last: Callable[[Expr], Expr] | None = None) -> None:
    """Registers `last` of `op` over `of` each element."""

    def define_it(x: Tensor, *, axes: Axes = None, keepdims: bool = False, name: str) -> Tensor:
        result = ops.reduce(op, x, axes, keepdims, f"{name}_total" if last else name, of)
        return apply(last, result, name=name) if last else result

    operator(name, Kind.REDUCTION)(define_it)


def _root(x: Expr) -> Expr:
    return define.sqrt(x) if is_float(x.dtype) else cast(x.dtype, define.sqrt(cast("f64", x)))


_simple("reduce_sum", define.sum, lambda x: x)
_simple("reduce_prod", define.prod, lambda x: x)
_simple("reduce_l1", define.sum, lambda x: x if dtype(x.dtype).kind == "u" else abs(x))
_simple("reduce_sum_square", define.sum, lambda x: x * x)
_simple("reduce_log_sum", define.sum, lambda x: x, define.log)


@operator("reduce_l2", Kind.REDUCTION)
def reduce_l2(x: Tensor, *, axes: Axes = None, keepdims: bool = False, name: str) -> Tensor:
    """Squares of f16 and f32 are of the next wider type, in which they neither overflow nor vanish."""
    total = ops.reduce(define.sum, x, axes, keepdims, f"{name}_total", lambda e: wider(e) * wider(e))
    return apply(lambda e: cast(x.dtype, _root(e)), total, name=name)


def _extreme(name: str, op: Reduction) -> None:
    def define_it(x: Tensor, *, axes: Axes = None, keepdims: bool = False, name: str) -> Tensor:
        if x.dtype != "bool":
            return ops.reduce(op, x, axes, keepdims, name)
        number = ops.reduce(op, x, axes, keepdims, f"{name}_number", lambda e: cast("u8", e))
        return apply(lambda e: cast("bool", e), number, name=name)

    operator(name, Kind.REDUCTION)(define_it)


_extreme("reduce_max", define.max)
_extreme("reduce_min", define.min)


@operator("reduce_mean", Kind.REDUCTION)
def reduce_mean(x: Tensor, *, axes: Axes = None, keepdims: bool = False, name: str) -> Tensor:
    """Means of integers are rounded towards zero."""
    if is_float(x.dtype):
        return ops.mean(x, axes, keepdims, name)
    count = math.prod(x.shape[d] for d in ops.reduced_dimensions(x, axes, name))
    if count == 0:
        raise UserError(f"{name}: the mean of no {x.dtype} is not defined")
    total = ops.sum(x, axes, keepdims, f"{name}_total")
    return apply(lambda e: truncated_quotient(e, wrap(count, e.dtype)), total, name=name)


@operator("reduce_log_sum_exp", Kind.REDUCTION)
def reduce_log_sum_exp(x: Tensor, *, axes: Axes = None, keepdims: bool = False, name: str) -> Tensor:
    """log(sum(exp(x))), with the largest element taken out so that nothing overflows."""
    if not is_float(x.dtype):
        raise UserError(f"{name}: {x.name} is {x.dtype}; cast to a float first")
    dims = ops.reduced_dimensions(x, axes, name)
    most = ops.reduce(define.max, x, axes, True, f"{name}_max")

    def body(e: Expr, largest: Expr) -> Expr:
        return define.exp(e - select(abs(largest) < math.inf, largest, 0))

    shifted = apply(body, x, most, name=f"{name}_exp")
    total = ops.reduce(define.sum, shifted, axes, True, f"{name}_sum")
    whole = apply(
        lambda s, m: define.log(s) + select(abs(m) < math.inf, m, 0), total, most, name=f"{name}_log" if not keepdims else name
    )
    if keepdims:
        return whole
    kept = [d for d in range(len(x.shape)) if d not in dims]

    def squeezed(i: tuple[Expr, ...]) -> Expr:
        return at(whole, *(i[kept.index(d)] if d in kept else 0 for d in range(len(x.shape))))

    return compute_named([x.shape[d] for d in kept], numbered(len(kept)), squeezed, name)


def _position(name: str, op: Callable[..., Tensor], best: Reduction) -> None:
    def define_it(x: Tensor, *, axis: int = 0, keepdims: bool = True, last: bool = False, name: str) -> Tensor:
        if not last:
            return op(x, axis, keepdims, name)
        d = normal_axis(axis, len(x.shape), name)
        value = ops.reduce(best, x, d, keepdims, f"{name}_value")
        k = reduce_axis(x.shape[d], "k")

        def body(*indices: Expr) -> Expr:
            element = x[ops.full_indices(x, {d: k}, indices, keepdims)]
            here = equal(element, value[indices])
            if is_float(x.dtype):
                here = here | not_equal(element, element)
            return define.max(select(here, k, 0), axis=k)

        return compute(value.shape, body, name=name)

    operator(name, Kind.REDUCTION)(define_it)


_position("argmax", ops.argmax, define.max)
_position("argmin", ops.argmin, define.min)


def _cumulative(name: str, op: Reduction, neutral: int) -> None:
    """Registers `op` of the elements up to each one along `axis`: without itself if `exclusive`, from the end if `reverse`."""

    def define_it(x: Tensor, *, axis: int, exclusive: bool = False, reverse: bool = False, name: str) -> Tensor:
        axis = normal_axis(axis, len(x.shape), name)
        k = reduce_axis(x.shape[axis], "k")

        def body(i: tuple[Expr, ...]) -> Expr:
            here = i[axis]
            counts = (here < k if exclusive else here <= k) if reverse else (k < here if exclusive else k <= here)
            return op(select(counts, at(x, *i[:axis], k, *i[axis + 1 :]), neutral), k)

        return compute_named(x.shape, numbered(len(x.shape)), body, name)

    operator(name, Kind.REDUCTION)(define_it)


_cumulative("cumulative_sum", define.sum, 0)
_cumulative("cumulative_product", define.prod, 1)


@operator("einsum", Kind.COMPLEX)
def einsum(*operands: Tensor, inputs: tuple[str, ...], output: str, name: str) -> Tensor:
    """The sum of products over the letters that `output` lacks: inputs ("bik", "bkj") and output "bij" are a matrix product.

    One or two operands. A letter that a dimension of extent 1 shares with a longer one is broadcast; a letter twice in one operand
    is its diagonal.
    """
    if not 1 <= len(operands) <= 2 or len(operands) != len(inputs):
        raise UserError(f"{name}: {many(len(inputs), 'term')} for {many(len(operands), 'operand')}; one or two are possible")
    extents: dict[str, int] = {}
    for x, letters in zip(operands, inputs):
        if len(letters) != len(x.shape):
            raise UserError(f"{name}: the term {letters!r} does not fit {x.name} {list(x.shape)}")
        for letter, n in zip(letters, x.shape):
            known = extents.setdefault(letter, n)
            if n != known and 1 not in (n, known):
                raise UserError(f"{name}: {letter} is {known} and {n}")
            extents[letter] = n if known == 1 else known
    if not set(output) <= set(extents) or len(set(output)) != len(output):
        raise UserError(f"{name}: the result {output!r} has a letter twice, or one that no operand has")
    summed = {letter: reduce_axis(n, f"k_{letter}") for letter, n in extents.items() if letter not in output}

    def body(i: tuple[Expr, ...]) -> Expr:
        index: dict[str, Expr] = {**dict(zip(output, i)), **summed}
        product = _product([at(x, *_own(x, letters, index)) for x, letters in zip(operands, inputs)])
        return define.sum(product, list(summed.values())) if summed else product

    return compute_named([extents[letter] for letter in output], [f"i_{letter}" for letter in output], body, name)


def _own(x: Tensor, letters: str, index: dict[str, Expr]) -> list[Expr | int]:
    return [0 if n == 1 else index[letter] for letter, n in zip(letters, x.shape)]


def _product(factors: Sequence[Expr]) -> Expr:
    return factors[0] * factors[1] if len(factors) == 2 else factors[0]


@operator("grouped_product", Kind.REDUCTION)
def grouped_product(x: Tensor, weights: Tensor, ends: Tensor, *, name: str) -> Tensor:
    """x (rows, K) times weights (groups, K, M): row s by the matrix of its group, the first g with s < ends[g]; 0 past all ends."""
    groups, depth, width = weights.shape
    if x.shape[1:] != (depth,) or ends.shape != (groups,):
        raise UserError(f"{name}: rows {list(x.shape)}, matrices {list(weights.shape)} and ends {list(ends.shape)} do not fit")
    g, k = reduce_axis(groups, "g"), reduce_axis(depth, "k")
    passed = compute(
        x.shape[:1], lambda i: define.sum(select(cast("i64", ends[g]) <= i, wrap(1, "i64"), 0), g), name=f"{name}_group"
    )
    product = compute((x.shape[0], width), lambda i, j: define.sum(x[i, k] * weights[passed[i], k, j], k), name=f"{name}_product")
    return compute(product.shape, lambda i, j: select(passed[i] < groups, product[i, j], 0), name=name)
