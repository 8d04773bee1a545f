"""Products with weights that are quantised in blocks: small integers, with a scale, and perhaps a zero point, for each block of
some neighbours along the sum.

    w[k, j] = (q[k, j] - zero[k // block, j]) * scale[k // block, j]

Of 4 bits two lie in a byte: of neighbours along k, the first is in its lower half. They are taken apart in the sum itself, so that
no more than the bytes of the file is ever read.
"""

from __future__ import annotations

from tensorsmith.errors import UserError
from tensorsmith.lang import define
from tensorsmith.lang.define import Tensor, reduce_axis
from tensorsmith.lang.dtypes import widened
from tensorsmith.lang.expr import Axis, Expr, binary
from tensorsmith.ops.common import as_type, at, check_rank, compute_named, scaled


def block_matmul(
    x: Tensor,
    q: Tensor,
    scale: Tensor,
    zero: Tensor | None = None,
    bits: int = 4,
    middle: int = 0,
    name: str = "block_matmul",
) -> Tensor:
    """x (..., K) times a matrix (K, M) -> (..., M), in x's type, computed in f32 where that has 16 bits.

    `q` is u8 or i8 (blocks, bytes of a block, M), `scale` (blocks, M). Without zero points (blocks, M) all are `middle`.
    """
    check_rank(q, 3, name, "(blocks, bytes of a block, M)")
    blocks, bytes_, columns = q.shape
    if bits not in (4, 8) or (bits == 4 and q.dtype != "u8") or q.dtype not in ("u8", "i8"):
        raise UserError(f"{name}: {q.name} is {q.dtype} of {bits} bits; known are u8 of 4 or 8 bits and i8 of 8")
    for other in (scale, zero):
        if other is not None and other.shape != (blocks, columns):
            raise UserError(f"{name}: {other.name} has the shape {list(other.shape)}; expected {[blocks, columns]}")
    halves = 8 // bits
    block = bytes_ * halves
    if not x.shape or x.shape[-1] != blocks * block:
        raise UserError(f"{name}: {x.name} {list(x.shape)} must end in {blocks * block}, {blocks} blocks of {block}")
    kind, b, p, h = widened(x.dtype), reduce_axis(blocks, "b"), reduce_axis(bytes_, "p"), reduce_axis(2, "h")

    def body(indices: tuple[Expr, ...]) -> Expr:
        *rows, j = indices
        place = scaled(b, block) + scaled(p, halves)
        factor = at(x, *rows, place + h if halves == 2 else place)
        off = as_type(kind, zero[b, j]) if zero is not None else define.wrap(float(middle), kind)
        centred = as_type(kind, _part(q[b, p, j], h) if halves == 2 else q[b, p, j]) - off
        over = [b, p, h] if halves == 2 else [b, p]
        return define.sum(as_type(kind, factor) * (centred * as_type(kind, scale[b, j])), axis=over)

    rank = len(x.shape)
    axes = [*(f"i{d}" for d in range(rank - 1)), "j"] if rank > 2 else ["i", "j"][-rank:]

    return compute_named((*x.shape[:-1], columns), axes, lambda indices: as_type(x.dtype, body(indices)), name)


def _part(byte: Expr, half: Axis) -> Expr:
    """The lower or the upper four bits of a byte."""
    return binary("shr", byte, define.cast("u8", half * 4)) & 15


def dequantize_blocks(
    q: Tensor, scale: Tensor, zero: Tensor | None = None, axis: int = 0, block: int = 32, dtype: str = "f32", name: str = "blocks"
) -> Tensor:
    """(q - zero) * scale, with a scale and a zero point for each `block` of elements along `axis`; the last may be shorter."""
    wanted = tuple(-(-n // block) if d == axis else n for d, n in enumerate(q.shape))
    for other in (scale, zero):
        if other is not None and other.shape != wanted:
            raise UserError(f"{name}: {other.name} has the shape {list(other.shape)}; blocks of {block} need {list(wanted)}")

    def body(indices: tuple[Expr, ...]) -> Expr:
        of_block = [i // block if d == axis else i for d, i in enumerate(indices)]
        value = as_type("f32", at(q, *indices))
        moved = value if zero is None else value - as_type("f32", at(zero, *of_block))
        return as_type(dtype, moved * as_type("f32", at(scale, *of_block)))

    return compute_named(q.shape, [f"i{d}" for d in range(len(q.shape))], body, name)
