"""Products of integers with weights in blocks: rows of activations are quantised in blocks too, and multiplied as they are.

    q, scale, sums = quantize_blocks(x)                            q = round(x / scale), scale = max|x| / 127 of 32 neighbours
    y = integer_block_matmul(q, scale, sums, *fields, format="q4_0")

In one part of a block all is whole numbers and exact; across parts it is f32:

    dot[part, i, j] = sum(i32(q[i, k]) * i32(n[j, k]), k of the part)
    y[i, j] = sum(scale[i, part] * (f32(dot[part, i, j] - middle * sums[i, part]) * factor[j, part]
                                    + least[j, part] * f32(sums[i, part])))
"""

from __future__ import annotations

from collections.abc import Callable

from tensorsmith.errors import UserError
from tensorsmith.lang import define
from tensorsmith.lang.define import Tensor, reduce_axis
from tensorsmith.lang.expr import Expr
from tensorsmith.ops.block_formats import ACTIVATIONS, SUMMED, Format, Numbers, Read, format_of
from tensorsmith.ops.common import as_type, at, compute_named, scaled
from tensorsmith.ops.elementwise import saturated

_LARGEST = 127  # of a quantised activation, as of its negative


def quantize_blocks(x: Tensor, name: str = "quantize_blocks") -> tuple[Tensor, Tensor, Tensor]:
    """x (..., K) as i8 (..., K / 32, 32), the f32 scale of each 32 (..., K / 32), and the i32 sum of each 16 (..., K / 32, 2).

    A block of zeros, or of numbers too small to have a scale, has the scale 0.
    """
    if not x.shape or x.shape[-1] % ACTIVATIONS:
        raise UserError(f"{name}: {x.name} {list(x.shape)} must end in a multiple of {ACTIVATIONS}")
    lead, blocks = x.shape[:-1], x.shape[-1] // ACTIVATIONS
    rows = [f"i{d}" for d in range(len(lead))]
    p, r = reduce_axis(ACTIVATIONS, "p"), reduce_axis(SUMMED, "r")

    def value(indices: tuple[Expr, ...], place: Expr) -> Expr:
        return as_type("f32", at(x, *indices[:-1], scaled(indices[-1], ACTIVATIONS) + place))

    peak = compute_named((*lead, blocks), [*rows, "b"], lambda at_: define.max(define.abs(value(at_, p)), axis=p), f"{name}_peak")
    scale = compute_named(peak.shape, [*rows, "b"], lambda at_: at(peak, *at_) / float(_LARGEST), f"{name}_scale")

    def rounded(at_: tuple[Expr, ...]) -> Expr:
        *block, place = at_
        factor = at(scale, *block)
        return saturated("i8", define.round(value((*block,), place) / define.select(define.equal(factor, 0.0), 1.0, factor)))

    q = compute_named((*lead, blocks, ACTIVATIONS), [*rows, "b", "p"], rounded, f"{name}_q")
    halves = ACTIVATIONS // SUMMED
    sums = compute_named(
        (*lead, blocks, halves),
        [*rows, "b", "s"],
        lambda at_: define.sum(define.cast("i32", at(q, *at_[:-1], scaled(at_[-1], SUMMED) + r)), axis=r),
        f"{name}_sums",
    )
    return q, scale, sums


def integer_block_matmul(
    q: Tensor, scale: Tensor, sums: Tensor, *fields: Tensor, format: str, name: str = "integer_block_matmul"
) -> Tensor:
    """What `quantize_blocks` gives of x (..., K), times the transpose of a matrix (M, K) in blocks -> f32 (..., M).

    `fields` are those of the format: `block_formats.format_of(format).split(rows of bytes)`.
    """
    kind = format_of(format)
    columns, blocks = _checked(q, scale, sums, fields, kind, name)
    lead = q.shape[:-2]
    rows = ["i"] if len(lead) == 1 else [f"i{d}" for d in range(len(lead))]
    parts = [f"o{n}" for n in range(len(kind.outer))]
    per_block = kind.weights // ACTIVATIONS

    def reads(j: Expr, b: Expr) -> dict[str, Read]:
        def read(field: Tensor) -> Callable[..., Expr]:
            return lambda *indices: at(field, j, b, *indices)

        return {name: read(field) for name, field in zip(kind.fields, fields)}

    def in_row(b: Expr, outer: Numbers) -> Expr:
        return scaled(b, per_block) + kind.block(outer) if kind.outer else b

    inner = [reduce_axis(n, f"k{d}") for d, n in enumerate(kind.inner)]

    def product(indices: tuple[Expr, ...]) -> Expr:
        (b, *outer), (*lead_at, j) = indices[: 1 + len(parts)], indices[1 + len(parts) :]
        left = at(q, *lead_at, in_row(b, outer), kind.place(outer, inner))
        return define.sum(define.cast("i32", left) * define.cast("i32", kind.number(reads(j, b), outer, inner)), axis=inner)

    dot = compute_named((blocks, *kind.outer, *lead, columns), ["b", *parts, *rows, "j"], product, f"{name}_dot")
    b, *outer = over = [reduce_axis(blocks, "b"), *(reduce_axis(n, o) for o, n in zip(parts, kind.outer))]

    def total(indices: tuple[Expr, ...]) -> Expr:
        *lead_at, j = indices
        block, fields_at = in_row(b, outer), reads(j, b)
        if kind.halves:
            of_part = at(sums, *lead_at, block, outer[-1])
        else:
            of_part = at(sums, *lead_at, block, 0) + at(sums, *lead_at, block, 1)
        exact = at(dot, b, *outer, *lead_at, j)
        if kind.middle:
            exact = exact - of_part * kind.middle
        value = define.cast("f32", exact) * kind.factor(fields_at, outer)
        if kind.least is not None:
            value = value + kind.least(fields_at, outer) * define.cast("f32", of_part)
        return define.sum(at(scale, *lead_at, block) * value, axis=over)

    return compute_named((*lead, columns), [*rows, "j"], total, name)


def _checked(q: Tensor, scale: Tensor, sums: Tensor, fields: tuple[Tensor, ...], kind: Format, name: str) -> tuple[int, int]:
    """Rows of the matrix, and blocks of each."""
    if len(fields) != len(kind.fields):
        raise UserError(f"{name}: {kind.name} has the fields {', '.join(kind.fields)}; got {len(fields)} tensors")
    if len(fields[0].shape) < 2:
        raise UserError(f"{name}: {fields[0].name} has the shape {list(fields[0].shape)}; expected (M, blocks, ...)")
    columns, blocks = fields[0].shape[:2]
    for tensor, (field, wanted) in zip(fields, kind.fields.items()):
        shape = (columns, blocks, *wanted.shape)
        if tensor.shape != shape or tensor.dtype != wanted.dtype:
            raise UserError(
                f"{name}: {tensor.name} is {tensor.dtype}{list(tensor.shape)}; field {field} of {kind.name} is "
                f"{wanted.dtype}{list(shape)}"
            )
    of_row = blocks * kind.weights // ACTIVATIONS
    lead = q.shape[:-2]
    for tensor, dtype, tail in ((q, "i8", (ACTIVATIONS,)), (scale, "f32", ()), (sums, "i32", (ACTIVATIONS // SUMMED,))):
        if tensor.shape != (*lead, of_row, *tail) or tensor.dtype != dtype:
            raise UserError(
                f"{name}: {tensor.name} is {tensor.dtype}{list(tensor.shape)}; {blocks} blocks of {kind.weights} weights need "
                f"{dtype}{[*lead, of_row, *tail]}, as quantize_blocks gives it"
            )
    return columns, blocks
