"""A stage computed where it is read gives the same outputs."""

from __future__ import annotations

import numpy as np
import pytest
from tests.lang.small import padded_conv

from tensorsmith.errors import Refusal
from tensorsmith.lang import define as ts
from tensorsmith.lang.compare import assert_close, random_inputs
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.lang.inline import inline


def same(workload, names, arrays=None):
    """The workload with stages inlined one after another, checked to compute the same."""
    after = workload
    for name in names:
        after = inline(after, name)
    after.check()
    assert not set(names) & {s.name for s in after.stages}
    arrays = {**random_inputs(workload), **(arrays or {})}
    want, got = evaluate(workload, arrays), evaluate(after, arrays)
    for name in workload.outputs:
        assert_close(workload, name, got[name], want[name])
    return after


def test_padding():
    after = same(padded_conv(), ["P"])
    assert "select(1 <= i + k & i + k < 10, A[i + k - 1], 0.0) * W[k]" in str(after.stage("C"))


@pytest.mark.parametrize("names", [["P"], ["Q"], ["P", "Q"], ["Q", "P"]])
def test_two_readers_and_an_index(names):
    a = ts.placeholder((8,), name="A")
    n = ts.placeholder((8,), "i32", name="N")
    p = ts.compute((8,), lambda i: n[i] + 1, name="P")
    q = ts.compute((8,), lambda i: a[p[i]], name="Q")
    r = ts.compute((8,), lambda i: q[i] + ts.cast("f32", p[i]), name="R")
    same(ts.workload([a, n, r]), names, {"N": np.arange(8, dtype=np.int32)})


def test_a_read_inside_an_index_of_itself():
    n = ts.placeholder((8,), "i64", name="N")
    p = ts.compute((8,), lambda i: n[i] * 3, name="P")
    w = ts.workload([n, ts.compute((8,), lambda i: p[p[i]], name="Q")])
    after = same(w, ["P"], {"N": np.array([0, 1, 2, 3, -4, 5, 90, 7])})
    assert "P" not in str(after)


def test_a_computed_index_stays_clamped():
    """An index from data is clamped to the edges of the stage that is read, which may lie inside of what that reads."""
    a = ts.placeholder((10,), name="A")
    n = ts.placeholder((6,), "i32", name="N")
    p = ts.compute((5,), lambda i: a[i + 3], name="P")
    w = ts.workload([a, n, ts.compute((6,), lambda i: p[n[i]], name="Q")])
    same(w, ["P"], {"N": np.array([-5, -1, 0, 4, 5, 99], np.int32)})


def test_an_index_in_bounds_needs_no_clamp():
    a = ts.placeholder((12,), name="A")
    p = ts.compute((4, 3), lambda i, j: a[i * 3 + j], name="P")
    after = same(ts.workload([a, ts.compute((12,), lambda i: p[i // 3, i % 3], name="Q")]), ["P"])
    assert "max" not in str(after) and "min" not in str(after)


def test_others_stay_the_objects_they_are():
    a = ts.placeholder((4,), name="A")
    p = ts.compute((4,), lambda i: a[i] + 1.0, name="P")
    q = ts.compute((4,), lambda i: p[i] * 2.0, name="Q")
    r = ts.compute((4,), lambda i: a[i] - 1.0, name="R")
    w = ts.workload([a, q, r])
    assert inline(w, "P").stage("R") is w.stage("R")


def test_refuses_reductions_and_outputs():
    with pytest.raises(Refusal, match="inlined reduction"):
        inline(padded_conv(), "C")
    a = ts.placeholder((4,), name="A")
    with pytest.raises(Refusal, match="inlined output"):
        inline(ts.workload([a, ts.compute((4,), lambda i: a[i] * 2.0, name="B")]), "B")
