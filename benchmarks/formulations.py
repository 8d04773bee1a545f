"""What a catalogue case is to a framework that only knows plain convolutions, channels first or last.

Which is:

    C1D        a 1-D convolution, or a 2-D one of height 1 (which knows channels last)
    CAP        out[n,h,w,p,q,co] = sum x[n,h+kh,w+kw,p,r,ci] * weight[kh,kw,r,q,ci,co]: a convolution with (r, ci) as
               input and (q, co) as output channels, where p is either a third spatial dimension of kernel size 1 (our
               layout is then exactly channels-last) or part of the batch
    ConvLayer  bias, scale and shift are constant, so they are folded into weight and bias
    DEP        a convolution with as many groups as channels
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tensorsmith.ops import catalogue
from tensorsmith.ops.catalogue import Case
from tensorsmith.runtime.buffers import aligned_copy

Array = np.ndarray


def _same(y: Array) -> Array:
    return y


@dataclass(frozen=True)
class Convolution:
    """One convolution, optionally transposed, with ReLU behind. `x` is (N, spatial..., C), `weight` (O, I / groups,
    kernel...), for a transposed one (I, O, kernel...). `restore` takes the channels-last result to our layout."""

    label: str
    x: Array
    weight: Array
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int = 1
    transposed: bool = False
    bias: Array | None = None
    relu: bool = False
    restore: Callable[[Array], Array] = _same

    @property
    def rank(self) -> int:
        return len(self.stride)

    @functools.cached_property
    def x_first(self) -> Array:
        """`x` with channels first, contiguous."""
        return aligned_copy(np.moveaxis(self.x, -1, 1))

    def restore_first(self, y: Array) -> Array:
        return self.restore(np.moveaxis(y, 1, -1))


def case_of(name: str) -> Case:
    """A catalogue case by name or title, or another shape of an operator by title: `C2D(1, 28, 28, 8, 8, 3, 1, 1)`."""
    title = re.fullmatch(r"(\w+)\(([\d,\s]+)\)", name)
    if title is None or name in catalogue.everything():
        return catalogue.get(name)
    operator, shape = title[1], tuple(int(n) for n in title[2].split(",") if n.strip())
    builders = {case.operator: case.build for case in reversed(catalogue.everything().values())}
    if operator not in builders:
        return catalogue.get(name)  # raises, with names that are near
    return Case(name, operator, shape, builders[operator])


CONVOLUTIONS = ("C1D", "C2D", "C3D", "GRP", "DIL", "DEP", "T2D", "CAP", "ConvLayer")


def convolutions(case: Case, arrays: Sequence[Array]) -> list[Convolution]:
    """The ways to write a case as one convolution; none if it is something else. `arrays` are the case's inputs."""
    if case.operator not in CONVOLUTIONS:
        return []
    x, weight, *rest = arrays
    rank = {"C1D": 1, "C3D": 3}.get(case.operator, 2)
    tail = case.shape[1 + rank :]  # channels, kernel, stride, padding, dilation, groups
    if case.operator == "DEP":
        channels, _, stride, padding = tail
        kernel = np.moveaxis(weight, -1, 0)[:, None]
        return [_plain("", x, kernel, rank, stride, padding, groups=channels)]
    _, _, _, stride, padding, *more = tail
    if case.operator == "CAP":
        return _capsules(x, weight, stride, padding)
    if case.operator == "T2D":
        return [_plain("", x, np.moveaxis(weight, (-2, -1), (0, 1)), rank, stride, padding, transposed=True)]
    kernel = np.moveaxis(weight, (-1, -2), (0, 1))
    if case.operator == "ConvLayer":
        bias, scale, shift = rest
        kernel = kernel * scale.reshape(-1, 1, 1, 1)
        return [_plain("", x, kernel, rank, stride, padding, bias=bias * scale + shift, relu=True)]
    dilation, groups = (*more, 1, 1)[:2]
    direct = _plain("", x, kernel, rank, stride, padding, dilation=dilation, groups=groups)
    if rank != 1:
        return [direct]
    flat = Convolution(
        "2d",
        x[:, None],
        np.ascontiguousarray(kernel[:, :, None]),
        (1, stride),
        (0, padding),
        (1, dilation),
        groups,
        restore=lambda y: y[:, 0],
    )
    return [direct, flat]


def _plain(
    label: str,
    x: Array,
    kernel: Array,
    rank: int,
    stride: int,
    padding: int,
    *,
    dilation: int = 1,
    groups: int = 1,
    transposed: bool = False,
    bias: Array | None = None,
    relu: bool = False,
) -> Convolution:
    """The same stride, padding and dilation in all dimensions."""
    every = ((stride,) * rank, (padding,) * rank, (dilation,) * rank)
    return Convolution(label, x, np.ascontiguousarray(kernel), *every, groups, transposed, bias, relu)


def _capsules(x: Array, weight: Array, stride: int, padding: int) -> list[Convolution]:
    n, h, w, p, r, ci = x.shape
    kh, kw, _, q, _, co = weight.shape
    kernel = np.ascontiguousarray(weight.transpose(3, 5, 2, 4, 0, 1).reshape(q * co, r * ci, kh, kw))
    deep = Convolution(
        "3d",
        x.reshape(n, h, w, p, r * ci),
        kernel[..., None],
        (stride, stride, 1),
        (padding, padding, 0),
        (1, 1, 1),
        restore=lambda y: y.reshape(*y.shape[:4], q, co),
    )
    batched = Convolution(
        "batched",
        aligned_copy(x.transpose(0, 3, 1, 2, 4, 5)).reshape(n * p, h, w, r * ci),
        kernel,
        (stride, stride),
        (padding, padding),
        (1, 1),
        restore=lambda y: y.reshape(n, p, *y.shape[1:3], q, co).transpose(0, 2, 3, 1, 4, 5),
    )
    return [batched, deep]
