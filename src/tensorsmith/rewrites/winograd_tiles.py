"""Winograd's convolution for generated code: transforms along one dimension at a time, tiles addressed by row and column.

The definition in `winograd` is the textbook's, one sum over a t x t tile against constant matrices. Here each transform is two
stages, one per dimension, each a plain sum of two to five elements chosen by the index:

    rows[u, s] = select(u == 0, 4 * x[0, s] - 5 * x[2, s] + x[4, s], select(u == 1, ...
    data[u, v] = select(v == 0, 4 * rows[u, 0] - 5 * rows[u, 2] + rows[u, 4], select(v == 1, ...

With the loops over u, s and v laid out the choice is made beforehand, and what is left is straight-line vector code with about
half of the arithmetic. Tiles keep their row and column as axes of their own, so that every index is affine.
"""

from __future__ import annotations

from collections.abc import Sequence

from tensorsmith.errors import UserError
from tensorsmith.lang.define import Tensor, reduce_axis
from tensorsmith.lang.dtypes import Array, is_int
from tensorsmith.lang.expr import Expr
from tensorsmith.ops.common import Padding, as_type, at, compute_named, pad_pairs, scaled, sum_of_products
from tensorsmith.ops.conv import pad_spatial, window_extents
from tensorsmith.rewrites.winograd import KERNEL, WHOLE_BITS, chain, transform_matrices

_LEAD = {2: (), 3: ("d",)}  # spatial dimensions before the last two, which are convolved directly
PARTS = ("pad", "rows", "data", "gemm", "columns", "blocks")


def winograd_conv(
    x: Tensor,
    transformed_weight: Tensor,
    padding: Padding = 0,
    tile: int = 4,
    name: str = "winograd",
    prefix: str = "",
    fill: float = 0,
) -> Tensor:
    """x (N, [D,] H, W, CI), weight (T, T, [KD,] CI, CO), T = tile + 2 -> (N, [D',] H', W', CO): 3 x 3 taps in H and W, stride 1.

    Padding holds `fill`. The stages on the way are called `prefix`, by default the name, and one of `PARTS`. Of bytes, with tiles
    of 2 and a weight of i16, the result is in i32, and exact (`winograd.transform_weight`).
    """
    prefix = prefix or name
    rank = len(x.shape) - 2
    if rank not in _LEAD:
        raise UserError(f"{name}: {x.name} has {rank} spatial dimensions; Winograd's convolution takes 2 or 3")
    lead = _LEAD[rank]
    a, b, _ = transform_matrices(tile)
    size = tile + KERNEL - 1
    *depths, channels_in, channels_out = transformed_weight.shape[2:]
    if transformed_weight.shape[:2] != (size, size) or channels_in != x.shape[-1] or len(depths) != len(lead):
        raise UserError(f"{name}: {transformed_weight.name} {list(transformed_weight.shape)} does not fit {x.name} {list(x.shape)}")
    pairs = pad_pairs(padding, rank)
    kernel = (*depths, KERNEL, KERNEL)
    out = window_extents(x.shape[1:-1], kernel, (1,) * rank, pairs, (1,) * rank, name)
    tiles = [-(-extent // tile) for extent in out[-2:]]  # the last ones may hang over
    over = [(before, after + n * tile - extent) for (before, after), n, extent in zip(pairs[-2:], tiles, out[-2:])]
    source = pad_spatial(x, [*pairs[:-2], *over], fill, name=f"{prefix}_pad")
    whole = is_int(x.dtype)
    places = [source.shape[0], *source.shape[1:-3], *tiles]
    axes = ["n", *lead, "ty", "tx"]

    def element(i: Sequence[Expr], r: Expr | int, s: Expr | int) -> Expr:
        *outer, ty, tx, ci = i
        read = at(source, *outer, _moved(ty, tile, r), _moved(tx, tile, s), ci)
        return as_type(transformed_weight.dtype, read)

    rows = compute_named(
        (size, size, *places, channels_in),
        ("u", "s", *axes, "ci"),
        lambda i: chain(i[0], [_combined(c, [element(i[2:], r, i[1]) for r in range(size)]) for c in b.T]),
        f"{prefix}_rows",
    )
    data = compute_named(
        rows.shape,
        ("u", "v", *axes, "ci"),
        lambda i: chain(i[1], [_combined(c, [at(rows, i[0], s, *i[2:]) for s in range(size)]) for c in b.T]),
        f"{prefix}_data",
    )
    taps = [reduce_axis(k, f"k{letter}") for k, letter in zip(depths, lead)]
    ci = reduce_axis(channels_in, "ci")

    def product(i: tuple[Expr, ...]) -> Expr:
        u, v, n, *outer, ty, tx, co = i
        moved = [e + k for e, k in zip(outer, taps)]
        factors = at(data, u, v, n, *moved, ty, tx, ci), at(transformed_weight, u, v, *taps, ci, co)
        return sum_of_products(*factors, [*taps, ci], "i32" if whole else None)

    shape = (x.shape[0], *out[:-2], *tiles)
    products = compute_named((size, size, *shape, channels_out), ("u", "v", *axes, "co"), product, f"{prefix}_gemm")

    def back(coefficients: Array, items: Sequence[Expr]) -> Expr:
        total = _combined(coefficients, items)
        return total >> WHOLE_BITS if whole else total

    columns = compute_named(
        (tile, size, *shape, channels_out),
        ("y", "v", *axes, "co"),
        lambda i: chain(i[0], [_combined(c, [at(products, u, i[1], *i[2:]) for u in range(size)]) for c in a.T]),
        f"{prefix}_columns",
    )
    blocks = compute_named(
        (x.shape[0], *out[:-2], tiles[0], tile, tiles[1], tile, channels_out),
        ("n", *lead, "ty", "y", "tx", "z", "co"),
        lambda i: chain(i[-2], [back(c, [at(columns, i[-4], v, *i[:-4], i[-3], i[-1]) for v in range(size)]) for c in a.T]),
        f"{prefix}_blocks",
    )

    def place(i: tuple[Expr, ...]) -> Expr:
        *outer, h, w, co = i
        return at(blocks, *outer, h // tile, h % tile, w // tile, w % tile, co)

    return compute_named((x.shape[0], *out, channels_out), ("n", *lead, "h", "w", "co"), place, name)


def _moved(index: Expr, tile: int, by: Expr | int) -> Expr:
    return scaled(index, tile, by) if isinstance(by, int) else scaled(index, tile) + by


def _combined(coefficients: Array, items: Sequence[Expr]) -> Expr:
    """The sum of coefficient times item, without what is zero; a first term without a sign saves a negation."""
    terms = sorted(((float(c), e) for c, e in zip(coefficients, items) if c), key=lambda t: t[0] < 0)
    total: Expr | None = None
    for c, e in terms:
        part = e if abs(c) == 1 else e * abs(c)
        if total is None:
            total = part if c > 0 else -part
        else:
            total = total + part if c > 0 else total - part
    assert total is not None
    return total
