"""Deformable convolution: what a kernel reads is moved by computed offsets."""

from __future__ import annotations

import functools
import itertools
from math import prod

from tensorsmith.errors import UserError
from tensorsmith.lang import define
from tensorsmith.lang.define import Tensor, cast, select
from tensorsmith.lang.expr import Expr, wrap
from tensorsmith.ops.common import at, compute_named
from tensorsmith.ops.resample import linear_taps

Pair = tuple[int, int]


def deformed_columns(
    x: Tensor,
    offsets: Tensor,
    mask: Tensor | None = None,
    *,
    kernel: Pair,
    stride: Pair,
    before: Pair,
    dilation: Pair,
    groups: int = 1,
    name: str = "columns",
) -> Tensor:
    """What each tap of a kernel reads of x (N, H, W, C) -> (N, height, width, taps, C), for a product with its weights.

    offsets (N, groups * taps * 2, height, width) move the place of a tap down and to the right; each group of channels has its own.
    Between elements values are interpolated, outside of x they are 0. mask (N, groups * taps, height, width) are factors. `before`
    is the padding above and to the left.
    """
    taps = prod(kernel)
    batch, height, width, channels = x.shape
    fits = len(offsets.shape) == 4 and offsets.shape[:2] == (batch, groups * taps * 2) and groups > 0 and not channels % groups
    if not fits or (mask is not None and mask.shape != (batch, groups * taps, *offsets.shape[2:])):
        given = f"offsets {list(offsets.shape)}" + ("" if mask is None else f" and a mask {list(mask.shape)}")
        raise UserError(f"{name}: {given} do not fit {x.name} {list(x.shape)}, a kernel {list(kernel)} and {groups} groups")

    def body(i: tuple[Expr, ...]) -> Expr:
        n, tap, channel = i[0], i[3], i[4]
        number = channel // (channels // groups) * taps + tap
        steps = (tap // kernel[1], tap % kernel[1])
        places = []
        for d in range(2):
            regular = i[1 + d] * stride[d] - before[d] + steps[d] * dilation[d]
            places.append(cast(x.dtype, regular) + at(offsets, n, number * 2 + d, i[1], i[2]))
        terms = []
        for choice in itertools.product(*(linear_taps(p) for p in places)):
            inside = [test for (p, _), size in zip(choice, (height, width)) for test in (p >= 0.0, p <= float(size - 1))]
            kept = [define.minimum(define.maximum(p, 0.0), float(size - 1)) for (p, _), size in zip(choice, (height, width))]
            element = at(x, n, *(cast("i64", p) for p in kept), channel)
            terms.append(
                select(functools.reduce(lambda a, b: a & b, inside), element, wrap(0, x.dtype)) * choice[0][1] * choice[1][1]
            )
        value = functools.reduce(lambda a, b: a + b, terms)
        return value if mask is None else value * at(mask, n, number, i[1], i[2])

    return compute_named((batch, *offsets.shape[2:], taps, channels), ("n", "h", "w", "k", "c"), body, name)
