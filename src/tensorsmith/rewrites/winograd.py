"""Winograd's convolution F(m x m, 3 x 3): fewer multiplications, in the space of transformed tiles.

With the constant matrices A (t x m), B (t x t) and G (t x 3), t = m + 2, an m x m tile of the result is

    A^T ((G g G^T) * (B^T d B)) A        d: a t x t tile of the input, g: the 3 x 3 kernel, * element by element

so that the sum over channels becomes t * t independent matmuls: m = 2 multiplies 2.25 times less than the direct convolution,
m = 4 four times less, at the price of precision (the entries of G and A differ in size) and of the transforms.

Bytes are convolved exactly with m = 2: twice G is whole, so with it the result is four times as large, and whole. Transformed bytes
are at most 4 * 255, transformed weights at most 9 * 128, and fit i16. (With m = 4, i32 could not hold the sums.)

A and B are stages that read nothing, chains of selects over their indices: inlined into a transform whose loops are laid out, their
zeros and ones vanish. The weight is transformed beforehand, once, by `transform_weight`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensorsmith.errors import UserError
from tensorsmith.lang import define
from tensorsmith.lang.define import Tensor, compute, reduce_axis, select
from tensorsmith.lang.dtypes import Array, dtype
from tensorsmith.lang.expr import Const, Expr
from tensorsmith.ops.common import Padding, check_rank, compute_named, pad_pairs, scaled
from tensorsmith.ops.conv import pad_spatial, window_extents

KERNEL = 3  # the only kernel size there is
TILES = (2, 4)  # sizes of an output tile; the larger, the less work and the less precise
WHOLE_TILE = 2  # of bytes, whose results are exact
WHOLE_BITS = 2  # by which these have to be shifted in the end: each transform of the weight is twice as large as it should be
WHOLE_TYPE = "i16"  # of transformed bytes and weights

_A = {
    2: [[1, 0], [1, 1], [1, -1], [0, -1]],
    4: [[1, 0, 0, 0], [1, 1, 1, 1], [1, -1, 1, -1], [1, 2, 4, 8], [1, -2, 4, -8], [0, 0, 0, 1]],
}
_B = {
    2: [[1, 0, 0, 0], [0, 1, -1, 1], [-1, 1, 1, 0], [0, 0, 0, -1]],
    4: [
        [4, 0, 0, 0, 0, 0],
        [0, -4, 4, -2, 2, 4],
        [-5, -4, -4, -1, -1, 0],
        [0, 1, -1, 2, -2, -5],
        [1, 1, 1, 1, 1, 0],
        [0, 0, 0, 0, 0, 1],
    ],
}
_G = {
    2: [[1, 0, 0], [1 / 2, 1 / 2, 1 / 2], [1 / 2, -1 / 2, 1 / 2], [0, 0, 1]],
    4: [
        [1 / 4, 0, 0],
        [-1 / 6, -1 / 6, -1 / 6],
        [-1 / 6, 1 / 6, -1 / 6],
        [1 / 24, 1 / 12, 1 / 6],
        [1 / 24, -1 / 12, 1 / 6],
        [0, 0, 1],
    ],
}


def transform_matrices(tile: int) -> tuple[Array, Array, Array]:
    """(A, B, G) of an output tile size, in f64."""
    if tile not in TILES:
        raise UserError(f"there are Winograd tiles of {' and '.join(map(str, TILES))}, not of {tile}")
    a, b, g = (np.array(m[tile], np.float64) for m in (_A, _B, _G))
    return a, b, g


def transform_weight(weight: Array, tile: int = 4) -> Array:
    """A plain weight (3, 3, CI, CO) as `winograd_conv2d` takes it: (tile + 2, tile + 2, CI, CO), of the same type.

    One of three dimensions, (KD, 3, 3, CI, CO), becomes (tile + 2, tile + 2, KD, CI, CO). One of bytes becomes four times as large,
    in i16.
    """
    if weight.ndim not in (4, 5) or weight.shape[-4:-2] != (KERNEL, KERNEL):
        raise UserError(f"the weight has the shape {list(weight.shape)}; expected ({KERNEL}, {KERNEL}, CI, CO)")
    _, _, g = transform_matrices(tile)
    whole = weight.dtype.kind in "iu"
    if whole and tile != WHOLE_TILE:
        raise UserError(f"a weight of {weight.dtype} can be transformed for tiles of {WHOLE_TILE}, not of {tile}")
    if whole:
        g = 2 * g
    wide = np.moveaxis(weight.astype(np.float64), (-4, -3), (0, 1))
    result: Array = np.tensordot(g, np.tensordot(g, wide, (1, 1)), (1, 1))
    return result.astype(dtype(WHOLE_TYPE).numpy if whole else weight.dtype)


def winograd_conv2d(x: Tensor, transformed_weight: Tensor, padding: Padding = 0, tile: int = 4, name: str = "winograd") -> Tensor:
    """x (N, H, W, CI), transformed_weight (tile + 2, tile + 2, CI, CO) -> (N, H', W', CO): a 3 x 3 convolution of stride 1."""
    check_rank(x, 4, name, "(N, H, W, CI)")
    check_rank(transformed_weight, 4, name, f"({tile} + 2, {tile} + 2, CI, CO)")
    a, b, _ = transform_matrices(tile)
    size = tile + KERNEL - 1
    batch, height, width, channels = x.shape
    if transformed_weight.shape[:3] != (size, size, channels):
        raise UserError(
            f"{name}: {transformed_weight.name} has the shape {list(transformed_weight.shape)}; tiles of {tile} "
            f"and {channels} channels need [{size}, {size}, {channels}, CO]. transform_weight() makes it of a plain weight"
        )
    pairs = pad_pairs(padding, 2)
    rows, columns = window_extents((height, width), (KERNEL, KERNEL), (1, 1), pairs, (1, 1), name)
    down, across = -(-rows // tile), -(-columns // tile)  # tiles; the last ones may hang over
    over = [(before, after + n * tile - extent) for (before, after), n, extent in zip(pairs, (down, across), (rows, columns))]
    source = pad_spatial(x, over, name=f"{name}_pad")

    def cut(u: Expr, v: Expr, p: Expr, ci: Expr) -> Expr:
        row, column = p // across % down if batch > 1 else p // across, p % across
        return source[p // (down * across) if batch > 1 else 0, scaled(row, tile) + u, scaled(column, tile) + v, ci]

    tiles = compute((size, size, batch * down * across, channels), cut, name=f"{name}_tile")
    data = _transformed(tiles, _matrix(b, x.dtype, f"{name}_b"), ("u", "v", "p", "ci"), f"{name}_data")
    k = reduce_axis(channels, "ci")

    def product(u: Expr, v: Expr, p: Expr, co: Expr) -> Expr:
        return define.sum(data[u, v, p, k] * transformed_weight[u, v, k, co], axis=k)

    products = compute((size, size, batch * down * across, transformed_weight.shape[3]), product, name=f"{name}_gemm")
    inverse = _transformed(products, _matrix(a, x.dtype, f"{name}_a"), ("y", "z", "p", "co"), f"{name}_inverse")

    def place(n: Expr, h: Expr, w: Expr, co: Expr) -> Expr:
        p = h // tile * across + w // tile
        return inverse[h % tile, w % tile, p + scaled(n, down * across) if batch > 1 else p, co]

    return compute((batch, rows, columns, transformed_weight.shape[3]), place, name=name)


def _transformed(x: Tensor, matrix: Tensor, axes: Sequence[str], name: str) -> Tensor:
    """x (T, T, P, C) -> (M, M, P, C): matrix^T x matrix in the first two dimensions, for a matrix (T, M)."""
    r, s = reduce_axis(x.shape[0], "r"), reduce_axis(x.shape[1], "s")

    def body(i: tuple[Expr, ...]) -> Expr:
        return define.sum(x[r, s, i[2], i[3]] * matrix[r, i[0]] * matrix[s, i[1]], axis=[r, s])

    extent = matrix.shape[1]
    return compute_named((extent, extent, *x.shape[2:]), axes, body, name)


def _matrix(values: Array, dtype: str, name: str) -> Tensor:
    """A constant matrix as a stage that reads nothing."""

    def element(i: Expr, j: Expr) -> Expr:
        return chain(i, [chain(j, [Const(float(v), dtype) for v in row]) for row in values])

    return compute(values.shape, element, name=name)


def chain(index: Expr, options: Sequence[Expr]) -> Expr:
    """options[index]"""
    result = options[-1]
    for n in reversed(range(len(options) - 1)):
        result = select(define.equal(index, n), options[n], result)
    return result
