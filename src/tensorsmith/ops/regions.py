"""Regions of an image, each brought to the same size."""

from __future__ import annotations

import functools
import itertools

from tensorsmith.errors import UserError
from tensorsmith.lang import define
from tensorsmith.lang.define import Tensor, cast, reduce_axis, select
from tensorsmith.lang.expr import Expr, wrap
from tensorsmith.ops.common import at, compute_named
from tensorsmith.ops.resample import linear_taps


def roi_align(
    x: Tensor,
    regions: Tensor,
    batches: Tensor,
    *,
    size: tuple[int, int],
    samples: int,
    scale: float = 1.0,
    half_pixel: bool = True,
    largest: bool = False,
    name: str = "roi_align",
) -> Tensor:
    """Region r of image batches[r] of x (N, H, W, C), cut into `size` bins -> (R, height, width, C).

    A region is (left, top, right, bottom) in units of 1 / scale elements. A bin is the mean of samples x samples values between the
    elements or, if `largest`, the largest of all that these are weighted sums of. `half_pixel` puts the centre of an element at
    0.5; without it, regions are at least 1 x 1.
    """
    count = regions.shape[0] if regions.shape else 0
    if len(x.shape) != 4 or regions.shape != (count, 4) or batches.shape != (count,) or samples < 1 or min(size) < 1:
        raise UserError(
            f"{name}: regions {list(regions.shape)} of images {list(batches.shape)} with bins {list(size)} of {samples} samples do "
            f"not fit {x.name} {list(x.shape)}"
        )
    extents = x.shape[1:3]

    def places(d: int) -> Tensor:
        """Where the samples of each bin lie along dimension d."""

        def body(i: tuple[Expr, ...]) -> Expr:
            region, place, sample = i
            low, high = (at(regions, region, n) * scale - (0.5 if half_pixel else 0.0) for n in (1 - d, 3 - d))
            length = high - low if half_pixel else define.maximum(high - low, 1.0)
            step = length / float(size[d])
            within = cast(x.dtype, place) + (cast(x.dtype, sample) + 0.5) / float(samples)
            return low + within * step

        return compute_named((count, size[d], samples), ("r", "p", "k"), body, f"{name}_{'yx'[d]}")

    coordinates = [places(0), places(1)]
    over = [reduce_axis(samples, "ky"), reduce_axis(samples, "kx")]

    def body(i: tuple[Expr, ...]) -> Expr:
        region, channel = i[0], i[3]
        found = [at(c, region, i[1 + d], over[d]) for d, c in enumerate(coordinates)]
        outside = functools.reduce(lambda a, b: a | b, ((p < -1.0) | (p > float(n)) for p, n in zip(found, extents)))
        kept = [define.minimum(define.maximum(p, 0.0), float(n - 1)) for p, n in zip(found, extents)]
        terms = []
        for taps in itertools.product(*(linear_taps(p) for p in kept)):
            indices = [cast("i64", define.minimum(place, float(n - 1))) for (place, _), n in zip(taps, extents)]
            element = at(x, cast("i64", at(batches, region)), *indices, channel)
            terms.append(element * taps[0][1] * taps[1][1])
        zero = wrap(0, x.dtype)
        if largest:
            return define.max(select(outside, zero, functools.reduce(define.maximum, terms)), over)
        return define.sum(select(outside, zero, functools.reduce(lambda a, b: a + b, terms)) * (1 / samples**2), over)

    return compute_named((count, *size, x.shape[3]), ("r", "h", "w", "c"), body, name)
