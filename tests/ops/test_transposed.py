"""Transposed convolutions against a scatter of every input element, and the form of the hot stage."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tensorsmith.errors import UserError
from tensorsmith.lang.affine import affine
from tensorsmith.lang.define import placeholder, workload
from tensorsmith.lang.flops import flops
from tensorsmith.ops import transposed


def naive(x, w, stride, pads, extra):
    rank = x.ndim - 2
    kernel = w.shape[:rank]
    full = [(x.shape[1 + d] - 1) * stride[d] + kernel[d] + extra[d] for d in range(rank)]
    y = np.zeros((x.shape[0], *full, w.shape[-1]))
    for at in itertools.product(*(range(n) for n in x.shape[1:-1])):
        for tap in itertools.product(*map(range, kernel)):
            where = tuple(at[d] * stride[d] + tap[d] for d in range(rank))
            y[(slice(None), *where)] += x[(slice(None), *at)].astype("f8") @ w[tap]
    cut = tuple(slice(before, full[d] - after) for d, (before, after) in enumerate(pads))
    return y[(slice(None), *cut)]


CASES = [
    (stride, kernel, pad, extra)
    for stride in (1, 2, 3, 4)
    for kernel in (1, 2, 3, 4, 5, 7)
    for pad in (0, 1, 2, 3)
    for extra in (0, 1, 2)
    if extra < stride and 4 * stride + kernel - 2 * pad + extra > 0
]


@pytest.mark.parametrize(("stride", "kernel", "pad", "extra"), CASES)
def test_transposed_conv1d(run, random, same, stride, kernel, pad, extra):
    x, w = random(2, 5, 3), random(kernel, 3, 4)
    got = run(transposed.transposed_conv1d, x, w, stride=stride, padding=pad, output_padding=extra)
    same(got, naive(x, w, [stride], [(pad, pad)], [extra]))


@pytest.mark.parametrize(
    ("stride", "kernel", "pads", "extra"),
    [
        ((2, 2), (4, 4), [(1, 1), (1, 1)], (0, 0)),
        ((2, 3), (3, 4), [(1, 1), (2, 2)], (1, 2)),
        ((1, 2), (3, 2), [(1, 0), (0, 1)], (0, 1)),
        ((3, 3), (5, 5), [(2, 1), (0, 3)], (0, 0)),
        ((1, 1), (3, 3), [(1, 1), (1, 1)], (0, 0)),
        ((4, 2), (2, 1), [(0, 0), (0, 0)], (0, 0)),
    ],
)
def test_transposed_conv2d(run, random, same, stride, kernel, pads, extra):
    x, w = random(2, 4, 5, 3), random(*kernel, 3, 4)
    got = run(transposed.transposed_conv2d, x, w, stride=stride, padding=pads, output_padding=extra)
    same(got, naive(x, w, stride, pads, extra))


@pytest.mark.parametrize(("groups", "channels_in", "each"), [(2, 4, 3), (3, 3, 2), (4, 4, 1), (2, 6, 1)])
@pytest.mark.parametrize(("stride", "pad", "extra"), [(1, 1, 0), (2, 1, 1), (3, 0, 4)])
def test_groups(run, random, same, groups, channels_in, each, stride, pad, extra):
    x, w = random(2, 4, 5, channels_in), random(3, 4, channels_in, each)
    got = run(transposed.transposed_conv2d, x, w, stride=stride, padding=pad, output_padding=extra, groups=groups)
    per = channels_in // groups
    parts = [slice(g * per, (g + 1) * per) for g in range(groups)]
    want = [naive(x[..., p], w[:, :, p], [stride] * 2, [(pad, pad)] * 2, [extra] * 2) for p in parts]
    same(got, np.concatenate(want, axis=-1))


def test_transposed_conv3d(run, random, same):
    x, w = random(1, 3, 4, 2, 3), random(4, 3, 2, 3, 4)
    got = run(transposed.transposed_conv3d, x, w, stride=(2, 2, 1), padding=(1, 1, 0), output_padding=(0, 1, 0))
    same(got, naive(x, w, (2, 2, 1), [(1, 1), (1, 1), (0, 0)], (0, 1, 0)))


@pytest.mark.parametrize(("stride", "kernel", "pad"), [(2, 4, 1), (2, 4, 0), (2, 2, 0), (2, 6, 3), (3, 6, 3), (1, 3, 1)])
def test_no_work_is_wasted_where_phases_are_affine(stride, kernel, pad):
    """Each output element costs ceil(kernel / stride) products per dimension, and every index is affine."""
    x, w = placeholder((1, 6, 6, 4), name="x"), placeholder((kernel, kernel, 4, 8), name="w")
    out = transposed.transposed_conv2d(x, w, stride, pad)
    load = workload([x, w, out])
    rows = out.shape[1]
    assert rows % stride == 0 or kernel == 3
    assert flops(load) == 2 * rows * rows * 8 * 4 * (kernel // stride) ** 2
    hot = next(s for s in load.stages if s.reduction)
    assert all(affine(i) is not None for read in hot.reads for i in read.indices)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"padding": 9}, ["padding (9, 9)", "result of"]),
        ({"padding": -1}, ["padding (-1, -1)"]),
        ({"groups": 2}, ["2 groups", "3 channels"]),
    ],
)
def test_refusals(options, words):
    x, w = placeholder((1, 4, 3), name="x"), placeholder((3, 3, 5), name="w")
    with pytest.raises(UserError) as caught:
        transposed.transposed_conv1d(x, w, **options)
    for word in words:
        assert word in str(caught.value)
    with pytest.raises(UserError, match="x has 3 channels, w takes 4"):
        transposed.transposed_conv1d(x, placeholder((3, 4, 5), name="w"))
