"""Transposed convolutions by phases, so that no inserted zero is ever multiplied.

With stride s, kernel k and padding p, row h of the result is the sum of x[i] * w[h + p - s*i] over all i. The rows
h = s*q + r of one phase r use every s-th tap of the kernel only, so the hot stage has the phase as an axis, and
ceil(k / s) taps to reduce over:

    T[q, r] = sum over t of  x[q + shift(r) - t] * w[s*t + tap(r)],     tap(r)   = (r + p) mod s
    out[h]  = T[h // s, h % s]                                          shift(r) = (r + p) // s

Both functions of the phase are affine where s divides p (tap = r, shift = p / s) and for s = 2 (tap = 1 - r,
shift = (p - 1) / 2 + r); then T holds just the result, in the same order. Else rows are counted from -(p mod s), which
makes tap = r and shift = p // s again, and T has a few more rows than the result. Where s does not divide k, taps past
the kernel's end count as zero.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from tensorsmith.errors import UserError
from tensorsmith.lang.define import Tensor, reduce_axis, select
from tensorsmith.lang.expr import Axis, Expr
from tensorsmith.ops.common import (
    SPATIAL,
    Padding,
    PerDimension,
    at,
    check_rank,
    compute_named,
    pad_pairs,
    per_dimension,
    scaled,
    sum_of_products,
)
from tensorsmith.ops.conv import pad_spatial


@dataclass(frozen=True)
class _Dimension:
    """The plan of one spatial dimension: `extent` of the input, `out` of the result."""

    extent: int
    kernel: int
    stride: int
    before: int  # the padding at the start
    out: int

    @property
    def flipped(self) -> bool:
        """Stride 2, odd padding: phase r uses taps 1 - r, 3 - r, ..."""
        return self.stride == 2 and self.before % 2 == 1

    @property
    def lead(self) -> int:
        """Rows counted before the first of the result, where the phases are not affine otherwise."""
        return 0 if self.flipped else self.before % self.stride

    @property
    def rows(self) -> int:
        return -(-(self.out + self.lead) // self.stride)

    @property
    def taps(self) -> int:
        return -(-self.kernel // self.stride)

    @property
    def ragged(self) -> bool:
        return self.kernel % self.stride != 0

    @property
    def pads(self) -> tuple[int, int]:
        """What has to be put before and after the input, so that the first read is element 0; negative: cut off."""
        first = self.before // self.stride - (self.taps - 1)
        last = self.before // self.stride + self.rows - 1 + (1 if self.flipped else 0)
        return -first, last - (self.extent - 1)

    def element(self, q: Expr, r: Expr | None, t: Expr) -> Expr:
        """The index into the padded input."""
        row = q + r if self.flipped and r is not None else q
        return row - t + (self.taps - 1)

    def tap(self, r: Expr | None, t: Expr) -> Expr:
        """The index into the kernel."""
        if r is None:
            return t
        return scaled(t, self.stride) + (1 - r) if self.flipped else scaled(t, self.stride) + r


def transposed_conv(
    x: Tensor,
    weight: Tensor,
    stride: PerDimension = 1,
    padding: Padding = 0,
    output_padding: PerDimension = 0,
    groups: int = 1,
    name: str = "transposed",
) -> Tensor:
    """x (N, spatial.., CI), weight (K.., CI, CO / groups): the transposed convolution of 1-3 spatial dimensions.

    `output_padding` makes the result that much longer at its end.
    """
    rank = len(x.shape) - 2
    check_rank(weight, rank + 2, name, "K.., CI, CO / groups")
    strides, pairs = per_dimension(stride, rank, "stride"), pad_pairs(padding, rank)
    extra = per_dimension(output_padding, rank, "output_padding", least=0)
    *kernel, channels_in, each = weight.shape
    channels_out = each * groups
    if channels_in != x.shape[-1]:
        raise UserError(f"{name}: {x.name} has {x.shape[-1]} channels, {weight.name} takes {channels_in}")
    if groups < 1 or channels_in % groups:
        raise UserError(f"{name}: {groups} groups do not divide the {channels_in} channels of {x.name}")
    plan = []
    for n, k, s, (before, after), more in zip(x.shape[1:-1], kernel, strides, pairs, extra):
        out = (n - 1) * s + k - before - after + more
        if before < 0 or after < 0 or out < 1:
            raise UserError(
                f"{name}: padding ({before}, {after}) and output_padding {more} do not fit stride {s}, kernel {k} "
                f"and {n} elements (result of {out}); paddings are 0 or more"
            )
        plan.append(_Dimension(n, k, s, before, out))
    source = pad_spatial(x, [p.pads for p in plan], name=f"{name}_pad")
    letters = SPATIAL[rank]
    taps = [reduce_axis(p.taps, f"k{a}") for p, a in zip(plan, letters)]
    channels = _Channels(groups, channels_in // groups, each)
    over = [*taps, *channels.reduced]

    def product(n: Expr, places: Sequence[tuple[Expr, Expr | None]], last: Sequence[Expr]) -> Expr:
        ci, in_group = channels.read(last)
        element = at(source, n, *(p.element(q, r, t) for p, (q, r), t in zip(plan, places, taps)), ci)
        kernel_at = [p.tap(r, t) for p, (_, r), t in zip(plan, places, taps)]
        factor = at(weight, *kernel_at, ci, in_group)
        inside = [i < p.kernel for p, i in zip(plan, kernel_at) if p.ragged]
        if inside:
            factor = select(functools.reduce(lambda a, b: a & b, inside), factor, 0)
        return sum_of_products(element, factor, over)

    plain = all(s == 1 for s in strides)  # one phase, and no axis for it
    end = 1 + (1 if plain else 2) * rank

    def hot(i: tuple[Expr, ...]) -> Expr:
        places = [(q, None) for q in i[1:end]] if plain else list(zip(i[1:end:2], i[2:end:2]))
        return product(i[0], places, i[end:])

    def gather(i: tuple[Expr, ...]) -> Expr:
        places = i[1:-1] if plain else [e for p, h in zip(plan, i[1:-1]) for e in _place(p, h)]
        return at(phases, i[0], *places, *channels.place(i[-1]))

    direct = plain and len(channels.extents) == 1
    shape = [x.shape[0], *(e for p in plan for e in ((p.rows,) if plain else (p.rows, p.stride))), *channels.extents]
    axes = ["n", *(letters if plain else [f"{a}{part}" for a in letters for part in ("q", "r")]), *channels.names]
    phases = compute_named(shape, axes, hot, name if direct else f"{name}_phases")
    if direct:
        return phases
    return compute_named((x.shape[0], *(p.out for p in plan), channels_out), ("n", *letters, "co"), gather, name)


@dataclass(frozen=True)
class _Channels:
    """The channel axes of the hot stage: one, or the group and the channel in it; none of extent 1."""

    groups: int
    each_in: int
    each_out: int

    @property
    def extents(self) -> tuple[int, ...]:
        if self.groups == 1 or self.each_out == 1:
            return (self.groups * self.each_out,)
        return self.groups, self.each_out

    @property
    def names(self) -> tuple[str, ...]:
        return ("co",) if len(self.extents) == 1 else ("g", "co")

    @functools.cached_property
    def reduced(self) -> list[Axis]:
        """The axis of the input's channels in a group; none where a group has just one."""
        return [reduce_axis(self.each_in, "ci")] if self.groups == 1 or self.each_in > 1 else []

    def read(self, last: Sequence[Expr]) -> tuple[Expr, Expr | int]:
        """The input's channel, and the place in the weight's last dimension, for the channel axes of a point."""
        within = self.reduced[0] if self.reduced else None
        if self.groups == 1:
            assert within is not None
            return within, last[0]
        channel = last[0] if within is None else scaled(last[0], self.each_in) + within
        return channel, last[1] if len(last) > 1 else 0

    def place(self, channel: Expr) -> tuple[Expr, ...]:
        """Where a channel of the result is among the channel axes."""
        return (channel,) if len(self.extents) == 1 else (channel // self.each_out, channel % self.each_out)


def _place(p: _Dimension, h: Expr) -> tuple[Expr, Expr]:
    row = scaled(h, 1, p.lead)
    return row // p.stride, row % p.stride


def transposed_conv1d(
    x: Tensor,
    weight: Tensor,
    stride: PerDimension = 1,
    padding: Padding = 0,
    output_padding: PerDimension = 0,
    groups: int = 1,
    name: str = "transposed_conv1d",
) -> Tensor:
    """x (N, L, CI), weight (K, CI, CO) -> (N, (L-1)*stride - 2*padding + K + output_padding, CO)"""
    check_rank(x, 3, name, "(N, L, CI)")
    return transposed_conv(x, weight, stride, padding, output_padding, groups, name)


def transposed_conv2d(
    x: Tensor,
    weight: Tensor,
    stride: PerDimension = 1,
    padding: Padding = 0,
    output_padding: PerDimension = 0,
    groups: int = 1,
    name: str = "transposed_conv2d",
) -> Tensor:
    """x (N, H, W, CI), weight (KH, KW, CI, CO) -> (N, H', W', CO) with H' as in transposed_conv1d."""
    check_rank(x, 4, name, "(N, H, W, CI)")
    return transposed_conv(x, weight, stride, padding, output_padding, groups, name)


def transposed_conv3d(
    x: Tensor,
    weight: Tensor,
    stride: PerDimension = 1,
    padding: Padding = 0,
    output_padding: PerDimension = 0,
    groups: int = 1,
    name: str = "transposed_conv3d",
) -> Tensor:
    """x (N, D, H, W, CI), weight (KD, KH, KW, CI, CO) -> (N, D', H', W', CO) with D' as in transposed_conv1d."""
    check_rank(x, 5, name, "(N, D, H, W, CI)")
    return transposed_conv(x, weight, stride, padding, output_padding, groups, name)
