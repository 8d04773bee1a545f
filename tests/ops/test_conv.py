"""Convolutions against loops over output elements."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tensorsmith.errors import UserError
from tensorsmith.lang.define import placeholder, workload
from tensorsmith.ops import conv


def naive(x, w, stride, pads, dilation, groups):
    """Any number of spatial dimensions, one output position at a time."""
    rank = x.ndim - 2
    x = np.pad(x.astype("f8"), [(0, 0), *pads, (0, 0)])
    kernel, cig, co = w.shape[:rank], w.shape[-2], w.shape[-1]
    out = [(x.shape[1 + d] - dilation[d] * (kernel[d] - 1) - 1) // stride[d] + 1 for d in range(rank)]
    y = np.zeros((x.shape[0], *out, co))
    for at in itertools.product(*map(range, out)):
        for tap in itertools.product(*map(range, kernel)):
            row = x[(slice(None), *(at[d] * stride[d] + tap[d] * dilation[d] for d in range(rank)))]
            for g in range(groups):
                part = slice(g * co // groups, (g + 1) * co // groups)
                y[(slice(None), *at, part)] += row[:, g * cig : (g + 1) * cig] @ w[tap][:, part]
    return y


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("kernel", [1, 3])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("pad", [0, 1, 2])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("rank", [1, 2])
def test_conv(run, random, same, rank, dilation, pad, stride, kernel, groups):
    x, w = random(2, *(7, 8)[:rank], 4), random(*[kernel] * rank, 4 // groups, 6)
    f = {1: conv.conv1d, 2: conv.conv2d}[rank]
    got = run(f, x, w, stride=stride, padding=pad, dilation=dilation, groups=groups)
    same(got, naive(x, w, [stride] * rank, [(pad, pad)] * rank, [dilation] * rank, groups))


@pytest.mark.parametrize("groups", [1, 3])
def test_conv3d(run, random, same, groups):
    x, w = random(1, 5, 6, 7, 3), random(3, 1, 2, 3 // groups, 6)
    got = run(conv.conv3d, x, w, stride=(2, 1, 2), padding=(1, 0, 1), dilation=(1, 1, 2), groups=groups)
    same(got, naive(x, w, (2, 1, 2), [(1, 1), (0, 0), (1, 1)], (1, 1, 2), groups))


@pytest.mark.parametrize("pads", [[(0, 1), (2, 0)], [(1, 0), (0, 0)], [(-1, 0), (0, -2)]])
def test_different_padding_on_each_side(run, random, same, pads):
    x, w = random(1, 7, 9, 3), random(3, 3, 3, 4)
    if min(min(pads)) < 0:
        cut = x[:, 1:, :-2]
        same(run(conv.conv2d, x, w, padding=pads), naive(cut, w, (1, 1), [(0, 0)] * 2, (1, 1), 1))
    else:
        same(run(conv.conv2d, x, w, padding=pads), naive(x, w, (1, 1), pads, (1, 1), 1))


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("pad", [0, 1])
def test_depthwise(run, random, same, stride, dilation, pad):
    x, w = random(2, 7, 9, 5), random(3, 3, 5)
    want = naive(x, w[:, :, None], (stride, stride), [(pad, pad)] * 2, (dilation, dilation), 5)
    same(run(conv.depthwise_conv2d, x, w, stride=stride, padding=pad, dilation=dilation), want)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_depthwise_of_any_rank(run, random, same, rank):
    """The same as a convolution with a group per channel."""
    x, w = random(2, *[7, 6, 5][:rank], 4), random(*[3] * rank, 4)
    options = {"stride": 2, "padding": [(1, 0)] * rank, "dilation": 2 if rank == 1 else 1}
    want = run(conv.conv, x, w[..., None, :], groups=4, **options)
    same(run(conv.depthwise_conv, x, w, **options), want)


def test_depthwise_refuses_channels_that_do_not_fit():
    x = placeholder((1, 8, 4), name="x")
    with pytest.raises(UserError, match="4 channels, w has 6"):
        conv.depthwise_conv(x, placeholder((3, 6), name="w"))


@pytest.mark.parametrize("stride", [1, 2])
def test_capsule(run, random, same, stride):
    x, w = random(2, 7, 5, 4, 4, 3), random(3, 3, 4, 4, 3, 5)
    padded = np.pad(x, [(0, 0), (1, 1), (1, 1), (0, 0), (0, 0), (0, 0)])
    height, width = (7 - 1) // stride + 1, (5 - 1) // stride + 1
    want = np.zeros((2, height, width, 4, 4, 5))
    for n, h, v, co, ci in itertools.product(range(2), range(height), range(width), range(5), range(3)):
        for kh, kw in itertools.product(range(3), range(3)):
            want[n, h, v, :, :, co] += padded[n, h * stride + kh, v * stride + kw, :, :, ci] @ w[kh, kw, :, :, ci, co]
    same(run(conv.capsule_conv2d, x, w, stride=stride, padding=1), want)


def test_pad(run, random):
    x = random(2, 3, 4)
    pairs = [(0, 1), (2, 0), (1, 3)]
    np.testing.assert_array_equal(run(conv.pad, x, pairs=pairs, value=5), np.pad(x, pairs, constant_values=5))
    np.testing.assert_array_equal(run(conv.pad, x, pairs=[(0, 0), (-1, 0), (0, -2)]), x[:, 1:, :-2])
    np.testing.assert_array_equal(run(conv.pad, x, pairs=[(0, 0), (-1, 2), (1, -2)])[:, :2, 1:], x[:, 1:, :-2])
    t = placeholder((2, 3), name="t")
    assert conv.pad(t, [(0, 0), (0, 0)]) is t


def test_stages():
    x, w = placeholder((1, 8, 8, 4), name="x"), placeholder((3, 3, 4, 8), name="w", constant=True)
    names = [s.name for s in workload([x, w, conv.conv2d(x, w, padding=1, name="a")]).stages]
    assert names == ["a_pad", "a"]
    assert [s.name for s in workload([x, w, conv.conv2d(x, w, name="a")]).stages] == ["a"]
    w = placeholder((3, 3, 2, 8), name="w")
    names = [s.name for s in workload([x, w, conv.conv2d(x, w, padding=1, groups=2, name="a")]).stages]
    assert names == ["a_pad", "a", "a_out"]


@pytest.mark.parametrize(
    ("shape", "weight", "options", "words"),
    [
        ((1, 8, 8, 3), (3, 3, 4, 8), {}, ["x has 3 channels", "w takes 4 in each of 1 groups"]),
        ((1, 8, 8, 4), (3, 3, 2, 7), {"groups": 2}, ["2 must divide 7"]),
        ((1, 8, 8), (3, 3, 4, 8), {}, ["x has the shape [1, 8, 8]", "4 dimensions"]),
        ((1, 8, 8, 4), (3, 4, 8), {}, ["w has the shape [3, 4, 8]"]),
        ((1, 2, 8, 4), (3, 3, 4, 8), {}, ["window spans 3", "padded input 2"]),
        ((1, 8, 8, 4), (3, 3, 4, 8), {"stride": 0}, ["stride 0", "at least 1"]),
        ((1, 8, 8, 4), (3, 3, 4, 8), {"stride": (1, 1, 1)}, ["stride", "2 of them"]),
        ((1, 8, 8, 4), (3, 3, 4, 8), {"padding": (1, 1, 1)}, ["padding", "2"]),
    ],
)
def test_refusals(shape, weight, options, words):
    with pytest.raises(UserError) as caught:
        conv.conv2d(placeholder(shape, name="x"), placeholder(weight, name="w"), **options)
    for word in words:
        assert word in str(caught.value), str(caught.value)
