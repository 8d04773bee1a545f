"""What the rules know of a workload: Ansor's facts on conv2d + bias + bn + relu, and the predicates one by one."""

from __future__ import annotations

import pytest
from tests.space.test_derive import conv_nchw, matmul

from tensorsmith.lang import define as ts
from tensorsmith.lang.flops import ansor_flops
from tensorsmith.space.analysis import (
    access,
    common_outer_axes,
    elementwise_match,
    is_expensive,
    is_padding,
    is_reshape,
    is_strictly_inlinable,
    lane_axis,
    needs_tiling,
)

A = ts.placeholder((8, 16), name="A")
B = ts.placeholder((16,), name="B")
k = ts.reduce_axis(16, "k")


def stage(body, shape=(8, 16)):
    made = ts.compute(shape, body, name="C").stage
    assert made is not None
    return made


# -- Ansor's conformance facts -----------------------------------------------------------------------------------------


def test_conv_bn_relu_as_ansor_sees_it():
    w = conv_nchw()
    names = [s.name for s in w.stages]
    assert names == ["pad", "conv", "bias_add", "mul", "add", "relu"]
    assert [n for n in names if needs_tiling(w.stage(n))] == ["conv"]
    simple = [n for n in names if all(access(w.stage(n), x).simple for x in w.stage(n).reads)]
    assert simple == ["pad", "bias_add", "mul", "add", "relu"]
    assert [n for n in names if is_strictly_inlinable(w.stage(n))] == ["bias_add", "mul", "add", "relu"]
    assert [n for n in names if not w.consumers[n]] == ["relu"]
    assert common_outer_axes(w, "conv", "bias_add") == 4
    assert common_outer_axes(w, "conv", "relu") == 4
    assert common_outer_axes(w, "data", "relu") == 1
    assert elementwise_match(w, "conv", "bias_add")
    assert elementwise_match(w, "conv", "relu")
    assert not elementwise_match(w, "data", "pad")


def test_flops_as_ansor_counts_them():
    n = 64
    assert ansor_flops(matmul(n, n, n)) == 2 * n**3
    a, b = ts.placeholder((n, n), name="A"), ts.placeholder((n, n), name="B")
    over = ts.reduce_axis(n, "k")
    c = ts.compute((n, n), lambda i, j: ts.sum(a[i, over] * b[over, j], axis=over), name="C")
    d = ts.compute((n, n), lambda i, j: ts.maximum(c[i, j], 0), name="D")
    assert ansor_flops(ts.workload([a, b, d])) == 2 * n**3 + n**2
    padded = ts.compute((n + 2, n), lambda i, j: ts.select((i >= 1) & (i < n + 1), a[i - 1, j], 0), name="P")
    assert ansor_flops(ts.workload([a, padded])) == 0
    chosen = ts.compute((n, n), lambda i, j: ts.select(a[i, j] > 0, a[i, j], 0), name="S")
    assert ansor_flops(ts.workload([a, chosen])) == n**2


# -- the predicates ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body, facts",
    [
        (lambda i, j: A[i, j] + 1, {"missing": False, "repeated": False, "in_order": True, "shifted": False}),
        (lambda i, j: B[j] + 1, {"missing": True, "in_order": True}),
        (lambda i, j: A[0, j] + 1, {"missing": True, "axes": (None, "j")}),
        (lambda i, j: ts.select(i < 7, A[i + 1, j], 0), {"shifted": True, "axes": ("i", "j")}),
        (lambda i, j: ts.select(i >= 1, A[i - 1, j], 0), {"shifted": True}),
        (lambda i, j: A[i, i] + 1, {"repeated": True, "missing": True}),
    ],
)
def test_simple_accesses(body, facts):
    made = stage(body)
    found = access(made, made.reads[0])
    assert found.simple
    assert {name: getattr(found, name) for name in facts} == facts


def test_an_access_out_of_order():
    made = stage(lambda i, j: A[j, i] + 1, shape=(16, 8))
    assert not access(made, made.reads[0]).in_order
    assert not is_strictly_inlinable(made)


@pytest.mark.parametrize(
    "body",
    [
        lambda i, j: A[i, j // 2],
        lambda i, j: A[i // 2 * 2, j],
        lambda i, j: ts.sum(A[i, k], axis=k),
        lambda i, j: A[i, (i + j) % 16],
    ],
)
def test_accesses_that_are_not_simple(body):
    made = stage(body)
    assert not access(made, made.reads[0]).simple
    assert not is_strictly_inlinable(made)


def test_every_costly_function_is_expensive():
    for function in (ts.exp, ts.log, ts.tanh, ts.sigmoid, ts.erf, ts.sin, ts.cos):
        made = stage(lambda i, j, function=function: function(A[i, j]))
        assert is_expensive(made.body), function
        assert not is_strictly_inlinable(made)
    assert is_expensive(stage(lambda i, j: ts.power(A[i, j], 1.7)).body)
    for function in (ts.abs, ts.floor, lambda v: -v):
        assert is_strictly_inlinable(stage(lambda i, j, function=function: function(A[i, j])))


def test_strictly_inlinable():
    assert is_strictly_inlinable(stage(lambda i, j: A[i, j] * B[j]))  # broadcasts may be inlined
    assert not is_strictly_inlinable(stage(lambda i, j: ts.select(A[i, j] > 0, A[i, j], 0)))  # a branch
    assert not is_strictly_inlinable(stage(lambda i: A[i, i], shape=(8,)))  # a diagonal
    assert is_strictly_inlinable(stage(lambda i, j: ts.exp(ts.select(i < 3, 1.0, 2.0))))  # reads nothing


def test_needs_tiling():
    other = ts.placeholder((16, 16), name="other")
    row, column = ts.placeholder((8,), name="row"), B
    assert needs_tiling(stage(lambda i, j: ts.sum(A[i, k] * other[k, j], axis=k)))
    assert not needs_tiling(stage(lambda i: ts.sum(A[i, k], axis=k), shape=(8,)))  # rows: each element is read once
    assert needs_tiling(stage(lambda i, j: row[i] * column[j]))  # an outer product: two tensors are reused
    assert not needs_tiling(stage(lambda i, j: A[i, j] + column[j]))  # one alone, without a reduction
    assert not needs_tiling(stage(lambda i, j: ts.sum(A[i, k], axis=k), shape=(8, 1)))  # j has one value
    kh = ts.reduce_axis(3, "kh")
    x, weight = ts.placeholder((10, 16), name="x"), ts.placeholder((3, 16), name="weight")
    assert needs_tiling(stage(lambda h, c: ts.sum(x[h + kh, c] * weight[kh, c], axis=kh)))  # depthwise


def test_elementwise_match_needs_one_reader_at_the_same_place():
    b = ts.compute((8, 16), lambda i, j: A[i, j] + 1, name="b")
    c = ts.compute((8, 16), lambda i, j: b[i, j] * 2, name="c")
    d = ts.compute((8, 16), lambda i, j: c[i, j] + 3, name="d")
    w = ts.workload([A, d])
    assert elementwise_match(w, "b", "c") and elementwise_match(w, "b", "d")
    assert not elementwise_match(w, "c", "b")
    assert not elementwise_match(ts.workload([A, c, d]), "c", "d")  # an output must be kept
    e = ts.compute((8, 16), lambda i, j: d[i, j] + b[i, j], name="e")
    assert not elementwise_match(ts.workload([A, e]), "b", "c")  # two readers
    f = ts.compute((16, 8), lambda i, j: b[j, i], name="f")
    assert not elementwise_match(ts.workload([A, f]), "b", "f")
    g = ts.compute((8, 16), lambda i, j: ts.select(i < 7, b[i + 1, j], 0), name="g")
    assert not elementwise_match(ts.workload([A, g]), "b", "g")


def test_common_outer_axes_is_the_least_over_all_paths():
    total = ts.compute((8,), lambda i: ts.sum(A[i, k], axis=k), name="total")
    share = ts.compute((8, 16), lambda i, j: A[i, j] / total[i], name="share")
    w = ts.workload([A, share])
    assert common_outer_axes(w, "total", "share") == 1
    assert common_outer_axes(w, "A", "share") == 1
    assert common_outer_axes(w, "share", "share") == 2
    assert common_outer_axes(w, "share", "total") == 0


def test_padding_and_reshape():
    w = conv_nchw()
    assert [s.name for s in w.stages if is_padding(s)] == ["pad"]
    c = ts.compute((8, 16), lambda i, j: A[i, j] + 1, name="c")
    flat = ts.compute((128,), lambda i: c[i // 16, i % 16], name="flat")
    turned = ts.compute((128,), lambda i: c[i % 8, i // 8], name="turned")
    w = ts.workload([A, flat, turned])
    assert is_reshape(w, w.stage("flat")) == "c"
    assert is_reshape(w, w.stage("turned")) is None
    assert is_reshape(w, w.stage("c")) is None


def test_lane_axis():
    assert lane_axis(stage(lambda i, j: A[i, j] + 1)) == "j"
    assert lane_axis(stage(lambda i: ts.sum(A[i, k], axis=k), shape=(8,))) == "k"  # the row lies along k
    rows = ts.reduce_axis(8, "r")
    assert lane_axis(stage(lambda j: ts.sum(A[rows, j], axis=rows), shape=(16,))) == "j"  # columns: neighbours along j
    assert lane_axis(stage(lambda: A[0, 0] + 1, shape=())) is None
