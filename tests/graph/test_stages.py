"""Stages of a group made fewer: what they compute stays the same."""

from __future__ import annotations

import numpy as np

from tensorsmith.graph.stages import simplified
from tensorsmith.lang import define as ts
from tensorsmith.lang.compare import assert_close, random_inputs
from tensorsmith.lang.evaluate import evaluate


def same(workload, arrays=None):
    after = simplified(workload).check()
    arrays = {**random_inputs(workload), **(arrays or {})}
    want, got = evaluate(workload, arrays), evaluate(after, arrays)
    for name in workload.outputs:
        assert_close(workload, name, got[name], want[name])
    return after


def product(m=6, n=8, k=5):
    a, b = ts.placeholder((m, k), name="A"), ts.placeholder((k, n), name="B")
    x = ts.reduce_axis(k, "k")
    return a, b, ts.compute((m, n), lambda i, j: ts.sum(a[i, x] * b[x, j], axis=x), name="P")


def test_a_chain_behind_a_product_is_one_stage():
    a, b, p = product()
    c = ts.placeholder((8,), name="C")
    t = ts.compute((6, 8), lambda i, j: p[i, j] + c[j], name="T")
    s = ts.compute((6, 8), lambda i, j: ts.sigmoid(t[i, j]), name="S")
    after = same(ts.workload([a, b, c, ts.compute((6, 8), lambda i, j: t[i, j] * s[i, j], name="Y")]))
    assert [x.name for x in after.stages] == ["P", "Y"]


def test_a_transpose_of_a_result_is_computed_in_place():
    a, b, p = product()
    q = ts.compute((6, 1, 8), lambda i, g, j: p[i, j], name="Q")
    after = same(ts.workload([a, b, ts.compute((1, 6, 8), lambda g, i, j: q[i, g, j], name="Y")]))
    assert after.stages[-1].name == "Y" and len(after.stages) <= 2


def test_groups_of_channels_are_split_behind_the_product():
    a, b, p = product()
    c = ts.placeholder((48,), name="C")
    after = same(ts.workload([a, b, c, ts.compute((48,), lambda i: ts.maximum(p[i // 8, i % 8] + c[i], 0.0), name="Y")]))
    assert [x.name for x in after.stages] == ["P", "Y_parts", "Y"]
    assert str(after.stage("Y_parts").body) == "max(P[i_outer, i_inner] + C[i_outer * 8 + i_inner], 0.0)"


def test_numbers_are_written_where_they_are_read():
    a = ts.placeholder((4,), name="A")
    n = ts.placeholder((4,), "i32", name="N")
    two = ts.compute((7,), lambda i: 2.0, name="Two")
    after = same(
        ts.workload([a, n, ts.compute((4,), lambda i: a[i] * two[n[i]], name="Y")]), {"N": np.array([0, 6, -1, 9], np.int32)}
    )
    assert str(after.stage("Y").body) == "A[i] * 2.0" and len(after.stages) == 1


def test_what_is_read_at_an_index_from_data_keeps_its_stage():
    a = ts.placeholder((10,), name="A")
    n = ts.placeholder((6,), "i32", name="N")
    p = ts.compute((5,), lambda i: a[i + 3] * 2.0, name="P")
    w = ts.workload([a, n, ts.compute((6,), lambda i: p[n[i]], name="Y")])
    after = same(w, {"N": np.array([-5, -1, 0, 4, 5, 99], np.int32)})
    assert [x.name for x in after.stages] == ["P", "Y"]
