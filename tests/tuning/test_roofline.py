"""The least time a machine allows: what counts towards it, and what does not."""

from __future__ import annotations

import dataclasses

import pytest

import tensorsmith as ts
from tensorsmith.lang.workload import Workload
from tensorsmith.ops import conv
from tensorsmith.targets.target import native
from tensorsmith.tuning.roofline import Roofline, work

TARGET = dataclasses.replace(native(), l3_bytes=1000)


def matmul(n: int, dtype: str = "f32") -> Workload:
    a, b = (ts.placeholder((n, n), dtype, name) for name in "AB")
    k = ts.reduce_axis(n, name="k")
    return ts.workload([a, b, ts.compute((n, n), lambda i, j: ts.sum(a[i, k] * b[k, j], axis=k), name="C")])


def convolution(padding: int, channels: int = 8) -> Workload:
    x = ts.placeholder((1, 16, 16, channels), name="x")
    weight = ts.placeholder((3, 3, channels, 8), name="weight", constant=True)
    y = conv.conv(x, weight, stride=(1, 1), padding=((padding, padding),) * 2, dilation=(1, 1))
    return ts.workload([x, weight, y])


def test_operations_and_bytes():
    w = work(matmul(64))
    assert (w.flops, w.needed_flops, w.bytes) == (2 * 64**3, 2 * 64**3, 3 * 64 * 64 * 4)


def test_only_operations_that_nobody_can_save_count():
    assert work(matmul(64, "f64")).needed_flops == 0  # the peak is that of f32
    assert 0 < work(convolution(padding=1)).needed_flops < work(convolution(padding=1)).flops  # taps on padding are skipped
    winograd = work(convolution(padding=0, channels=16))
    assert 0 < winograd.needed_flops < winograd.flops  # which takes fewer
    assert work(convolution(padding=0)).needed_flops == work(convolution(padding=0)).flops > 0


def test_a_gather_reads_a_part_of_its_table():
    table = ts.placeholder((100_000, 8), name="table")
    rows = ts.placeholder((4,), "i64", "rows")
    w = work(ts.workload([table, rows, ts.compute((4, 8), lambda i, j: table[rows[i], j], name="y")]))
    assert w.bytes <= 4 * 8 * 4 * 2 + 4 * 8 * 8


@pytest.mark.parametrize("cache", ["warm", "cold"])
def test_the_bound(cache):
    """2 * 64^3 operations at 1e9 per second, or 49,152 bytes, less those in the cache of 1,000, at 1e6 per second."""
    by_flops, by_bytes = Roofline(TARGET, cache, 1e9, 1e15), Roofline(TARGET, cache, 1e15, 1e6)
    assert by_flops.bound(matmul(64)) == pytest.approx(2 * 64**3 / 1e9)
    assert by_bytes.bound(matmul(64)) == pytest.approx((49_152 - (1000 if cache == "warm" else 0)) / 1e6)
    assert by_bytes.bound(matmul(4)) == pytest.approx(0.0 if cache == "warm" else 192 / 1e6)
    assert by_flops.estimate(matmul(64)) == pytest.approx(2 * 64**3 / 1e9)


def test_what_is_reached_raises_the_roof():
    roof = Roofline(TARGET, "warm", 1e9, 1e9)
    before = roof.bound(matmul(64))
    assert not roof.raise_to(matmul(64), 1.1 * before) and roof.bound(matmul(64)) == before
    assert roof.raise_to(matmul(64), before / 2) and roof.bound(matmul(64)) == pytest.approx(before / 2)


def test_this_machine():
    roof = Roofline.measured(native(), "warm")
    assert roof.peak > 1e9 and roof.bandwidth > 1e8
