"""Resizing by tables, repeating, and sampling at computed places."""

from __future__ import annotations

from tensorsmith.graph.operators import Kind, operator
from tensorsmith.lang.define import Tensor
from tensorsmith.ops import deform, regions
from tensorsmith.ops import resample as resampling


@operator("repeat", Kind.INJECTIVE)
def repeat(x: Tensor, *, times: tuple[int, ...], name: str) -> Tensor:
    """Every element times[d] times along dimension d."""
    return resampling.repeat(x, times, name)


@operator("spread", Kind.INJECTIVE)
def spread(x: Tensor, *, steps: tuple[int, ...], name: str) -> Tensor:
    """The elements steps[d] apart along dimension d, zeros between them."""
    return resampling.spread(x, steps, name)


@operator("resample", Kind.INJECTIVE)
def resample(x: Tensor, places: Tensor, weights: Tensor, *outside: Tensor, axis: int, dtype: str, name: str) -> Tensor:
    """Along a dimension: the sum over t of weights[h, t] * x[places[h, t]], plus outside[h] where that is given."""
    return resampling.resample(x, places, weights, *outside, axis=axis, dtype=dtype, name=name)


@operator("grid_sample", Kind.INJECTIVE)
def grid_sample(x: Tensor, grid: Tensor, *, mode: str, border: str, align_corners: bool = False, name: str) -> Tensor:
    """x (N, spatial.., C) at the places of grid (N, spatial'.., D) -> (N, spatial'.., C)."""
    return resampling.grid_sample(x, grid, mode, border, align_corners, name)


@operator("roi_align", Kind.REDUCTION)
def roi_align(
    x: Tensor,
    rois: Tensor,
    batches: Tensor,
    *,
    size: tuple[int, int],
    samples: int,
    scale: float,
    half_pixel: bool,
    largest: bool,
    name: str,
) -> Tensor:
    """Regions of x (N, H, W, C), brought to one size by the mean, or the largest, of samples between its elements."""
    return regions.roi_align(
        x, rois, batches, size=size, samples=samples, scale=scale, half_pixel=half_pixel, largest=largest, name=name
    )


@operator("deformed_columns", Kind.INJECTIVE)
def deformed_columns(
    x: Tensor,
    offsets: Tensor,
    *mask: Tensor,
    kernel: deform.Pair,
    stride: deform.Pair,
    before: deform.Pair,
    dilation: deform.Pair,
    groups: int,
    name: str,
) -> Tensor:
    """What each tap of a kernel reads of x (N, H, W, C), moved by offsets and scaled by a mask -> (N, height, width, taps, C)."""
    given = mask[0] if mask else None
    return deform.deformed_columns(
        x, offsets, given, kernel=kernel, stride=stride, before=before, dilation=dilation, groups=groups, name=name
    )
