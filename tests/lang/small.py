"""A small definition with padding, for several tests."""

from __future__ import annotations

from tensorsmith.lang import define as ts


def padded_conv():
    a = ts.placeholder((9,), name="A")
    w = ts.placeholder((3,), name="W")
    pad = ts.compute((11,), lambda i: ts.select((i >= 1) & (i < 10), a[i - 1], 0.0), name="P")
    k = ts.reduce_axis(3, "k")
    return ts.workload([a, w, ts.compute((9,), lambda i: ts.sum(pad[i + k] * w[k], axis=k), name="C")])
