"""Pooling against loops over windows."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from tensorsmith.errors import UserError
from tensorsmith.lang.define import placeholder
from tensorsmith.ops import pool


def windows(x, kernel, stride, pads, dilation, ceil_mode):
    """For every output position, the positions of its window per dimension, counted from the start of the padding."""
    rank = x.ndim - 2
    starts = []
    for d in range(rank):
        n, (before, after), span = x.shape[1 + d], pads[d], dilation[d] * (kernel[d] - 1) + 1
        count = (n + before + after - span) / stride[d]
        count = (math.ceil(count) if ceil_mode else math.floor(count)) + 1
        while ceil_mode and (count - 1) * stride[d] >= n + before:
            count -= 1
        starts.append([o * stride[d] for o in range(count)])
    for at in itertools.product(*(range(len(s)) for s in starts)):
        yield at, [[starts[d][at[d]] + t * dilation[d] for t in range(kernel[d])] for d in range(rank)]


def naive(op, x, kernel, stride, pads, dilation, ceil_mode, count_pad=True):
    found = {}
    rank = x.ndim - 2
    for at, window in windows(x, kernel, stride, pads, dilation, ceil_mode):
        values, counted = [], 0
        for position in itertools.product(*window):
            counted += all(p < pads[d][0] + x.shape[1 + d] + pads[d][1] for d, p in enumerate(position))
            place = [p - pads[d][0] for d, p in enumerate(position)]
            if all(0 <= place[d] < x.shape[1 + d] for d in range(rank)):
                values.append(x[(slice(None), *place)].astype("f8"))
        if op == "max":
            found[at] = np.max(values, axis=0)
        else:
            found[at] = np.sum(values, axis=0) / (counted if count_pad else len(values))
    shape = [max(i) + 1 for i in zip(*found)]
    y = np.empty((x.shape[0], *shape, x.shape[-1]))
    for at, value in found.items():
        y[(slice(None), *at)] = value
    return y


@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize("pads", [[(0, 0)] * 2, [(1, 1)] * 2, [(0, 1), (1, 0)]])
@pytest.mark.parametrize(("kernel", "stride"), [((3, 3), (2, 2)), ((2, 2), (2, 2)), ((2, 3), (1, 3)), ((3, 2), (3, 4))])
def test_pool2d(run, random, same, kernel, stride, pads, ceil_mode):
    x = random(2, 8, 9, 3)
    options = {"kernel": kernel, "stride": stride, "padding": pads, "ceil_mode": ceil_mode}
    same(run(pool.max_pool, x, **options), naive("max", x, kernel, stride, pads, (1, 1), ceil_mode))
    for count_pad in (True, False):
        want = naive("avg", x, kernel, stride, pads, (1, 1), ceil_mode, count_pad)
        same(run(pool.avg_pool, x, count_pad=count_pad, **options), want)


def test_other_ranks_and_dilation(run, random, same):
    x = random(1, 11, 2)
    same(run(pool.max_pool, x, kernel=3, stride=2, dilation=2), naive("max", x, [3], [2], [(0, 0)], [2], False))
    x = random(1, 4, 5, 6, 2)
    same(run(pool.avg_pool, x, kernel=2), naive("avg", x, [2] * 3, [2] * 3, [(0, 0)] * 3, [1] * 3, False))


@pytest.mark.parametrize("count_pad", [True, False])
@pytest.mark.parametrize("ceil_mode", [True, False])
@pytest.mark.parametrize("dilation", [(2, 1), (3, 2)])
def test_average_with_dilation(run, random, same, dilation, ceil_mode, count_pad):
    x, kernel, stride, pads = random(1, 11, 9, 2), (3, 2), (2, 3), [(2, 1), (1, 1)]
    options = {"kernel": kernel, "stride": stride, "padding": pads, "ceil_mode": ceil_mode, "dilation": dilation}
    want = naive("avg", x, kernel, stride, pads, dilation, ceil_mode, count_pad)
    same(run(pool.avg_pool, x, count_pad=count_pad, **options), want)


@pytest.mark.parametrize("p", [1, 2, 3])
def test_lp_pool(run, random, p):
    x = random(1, 8, 9, 2)
    total = naive("avg", np.abs(x.astype("f8")) ** p, (3, 2), (2, 1), [(1, 1), (0, 1)], (1, 1), False, True) * 6
    got = run(pool.lp_pool, x, kernel=(3, 2), stride=(2, 1), padding=[(1, 1), (0, 1)], p=p)
    np.testing.assert_allclose(got, total ** (1 / p), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("column_major", [False, True])
def test_positions_lead_to_the_maxima(run, column_major):
    x = np.random.default_rng(0).integers(-3, 3, (2, 5, 6, 3)).astype("f4")  # many are equal
    options = {"kernel": 3, "stride": 2, "padding": 1, "column_major": column_major}
    found = run(lambda t, **o: pool.max_pool_positions(t, **o)[1], x, **options)
    moved = x.transpose(0, 3, 2, 1) if column_major else x.transpose(0, 3, 1, 2)
    assert (moved.ravel()[found] == run(pool.max_pool, x, kernel=3, stride=2, padding=1)).all()
    if not column_major:  # of a window of equal numbers it is the first
        assert run(lambda t, **o: pool.max_pool_positions(t, **o)[1], np.zeros((1, 4, 4, 1), "f4"), kernel=2).ravel().tolist() == [
            0, 2, 8, 10
        ]  # fmt: skip


def test_max_pool_of_negative_numbers_ignores_padding(run):
    x = np.full((1, 3, 3, 1), -5, "f4")
    assert run(pool.max_pool, x, kernel=3, stride=1, padding=1).tolist() == x.tolist()
    assert run(pool.max_pool, x.astype("i4"), kernel=3, stride=1, padding=1).tolist() == x.tolist()


def test_global(run, random, same):
    x = random(2, 5, 6, 3)
    same(run(pool.global_avg_pool, x), x.mean((1, 2), keepdims=True, dtype="f8"))
    same(run(pool.global_max_pool, x, keepdims=False), x.max((1, 2)))


def test_refusals():
    x = placeholder((1, 8, 8, 3), name="x")
    with pytest.raises(UserError, match="smaller than the kernel"):
        pool.max_pool(x, kernel=2, padding=2)
    with pytest.raises(UserError, match="window spans 9"):
        pool.max_pool(x, kernel=9)
    with pytest.raises(UserError, match=r"shape \[4\]"):
        pool.max_pool(placeholder((4,), name="x"), kernel=2)
