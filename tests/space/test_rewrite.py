"""Rewrites change the DAG, never what it computes."""

from __future__ import annotations

import numpy as np
import pytest

from tensorsmith.errors import Refusal, UserError
from tensorsmith.lang import define as ts
from tensorsmith.lang.compare import assert_close
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.space.rewrite import Rewrite, apply_rewrites, cache_read, cache_write, inline, rewrite_from_json, rfactor


def same(workload, rewritten, arrays):
    rewritten.check()
    want, got = evaluate(workload, arrays), evaluate(rewritten, arrays)
    for name in workload.outputs:
        assert_close(workload, name, got[name], want[name])


def arrays(workload, low=-1.0, high=1.0):
    generator = np.random.default_rng(0)
    kinds = {"f32": np.float32, "i32": np.int32}
    return {b.name: generator.uniform(low, high, b.shape).astype(kinds[b.dtype]) for b in workload.inputs}


def padded_conv():
    a = ts.placeholder((9,), name="A")
    w = ts.placeholder((3,), name="W")
    pad = ts.compute((11,), lambda i: ts.select((i >= 1) & (i < 10), a[i - 1], 0.0), name="P")
    k = ts.reduce_axis(3, "k")
    return ts.workload([a, w, ts.compute((9,), lambda i: ts.sum(pad[i + k] * w[k], axis=k), name="C")])


def test_inline_padding():
    w = padded_conv()
    after = inline(w, "P")
    assert [s.name for s in after.stages] == ["C"]
    assert "select(1 <= i + k & i + k < 10, A[i + k - 1], 0.0) * W[k]" in str(after.stage("C"))
    same(w, after, arrays(w))


def test_inline_into_two_readers_and_into_an_index():
    a = ts.placeholder((8,), name="A")
    n = ts.placeholder((8,), "i32", name="N")
    p = ts.compute((8,), lambda i: n[i] + 1, name="P")
    q = ts.compute((8,), lambda i: a[p[i]], name="Q")
    r = ts.compute((8,), lambda i: q[i] + ts.cast("f32", p[i]), name="R")
    w = ts.workload([a, n, r])
    for names in (["P"], ["Q"], ["P", "Q"], ["Q", "P"]):
        after = apply_rewrites(w, [Rewrite("inline", x) for x in names])
        assert not set(names) & {s.name for s in after.stages}
        same(w, after, {**arrays(w), "N": np.array([0, 1, 2, 3, 4, 5, 6, 7], np.int32)})


def test_inline_keeps_the_clamp_of_a_computed_index():
    """An index from data is clamped to the edges of the stage that is read, which may lie inside of what that reads."""
    a = ts.placeholder((10,), name="A")
    n = ts.placeholder((6,), "i32", name="N")
    p = ts.compute((5,), lambda i: a[i + 3], name="P")
    w = ts.workload([a, n, ts.compute((6,), lambda i: p[n[i]], name="Q")])
    same(w, inline(w, "P"), {**arrays(w), "N": np.array([-5, -1, 0, 4, 5, 99], np.int32)})


def test_inline_refuses_reductions_and_outputs():
    w = padded_conv()
    with pytest.raises(Refusal, match="inlined reduction"):
        inline(w, "C")
    a = ts.placeholder((4,), name="A")
    with pytest.raises(Refusal, match="inlined output"):
        inline(ts.workload([a, ts.compute((4,), lambda i: a[i] * 2.0, name="B")]), "B")


def test_cache_write():
    w = padded_conv()
    after = cache_write(w, "C")
    assert [s.name for s in after.stages] == ["P", "C.cache", "C"]
    assert after.stage("C").reduction is None and after.stage("C.cache").reduction == "sum"
    same(w, after, arrays(w))
    with pytest.raises(Refusal, match="name taken"):
        cache_write(cache_write(w, "C"), "C")


def rows(op, kind="f32"):
    a = ts.placeholder((3, 17), kind, name="A")
    k = ts.reduce_axis(17, "k")
    return ts.workload([a, ts.compute((3,), lambda i: getattr(ts, op)(a[i, k], axis=k), name="R")])


@pytest.mark.parametrize("op", ["sum", "prod", "max", "min"])
@pytest.mark.parametrize("inner", [False, True])
@pytest.mark.parametrize("factor", [1, 2, 4, 5, 16, 17, 99])
def test_rfactor(op, inner, factor):
    for kind in ("f32", "i32"):
        w = rows(op, kind)
        after = rfactor(w, "R", "k", factor, inner)
        assert [s.name for s in after.stages] == ["R.rf", "R"]
        assert after.stage("R").reduce_axes[0].extent == min(factor, 17)
        same(w, after, arrays(w, 0.5, 1.5) if kind == "f32" else arrays(w, -9, 9))


def test_rfactor_takes_neighbours_or_blocks():
    w = rows("sum")
    assert "A[i, k_f * 5 + k]" in str(rfactor(w, "R", "k", 4).stage("R.rf"))
    assert "A[i, k * 4 + k_f]" in str(rfactor(w, "R", "k", 4, inner=True).stage("R.rf"))


def test_rfactor_refuses():
    w = padded_conv()
    for stage, axis in (("P", "i"), ("C", "i"), ("C", "z")):
        with pytest.raises(Refusal, match="rfactor of no reduction"):
            rfactor(w, stage, axis, 2)
    once = rfactor(w, "C", "k", 2)
    with pytest.raises(Refusal, match="name taken"):
        rfactor(once, "C", "k_f", 2)
    with pytest.raises(Refusal, match="name taken"):
        rfactor(once, "C.rf", "k", 2)


def test_cache_read():
    w = padded_conv()
    after = cache_read(w, "C", "W")
    assert [s.name for s in after.stages] == ["P", "W.pack", "C"]
    same(w, after, arrays(w))
    with pytest.raises(Refusal, match="at plain axes"):
        cache_read(w, "C", "P")


def test_json_and_unknown():
    for r in (Rewrite("inline", "P"), Rewrite("cache_write", "C"), Rewrite("rfactor", "C", "k", 4, True)):
        assert rewrite_from_json(r.to_json()) == r
    with pytest.raises(UserError, match="unknown rewrite 'explode'"):
        apply_rewrites(padded_conv(), [Rewrite("explode", "C")])
    with pytest.raises(UserError, match="no stage 'X'"):
        apply_rewrites(padded_conv(), [Rewrite("inline", "X")])
