"""Rewrites change the DAG, never what it computes."""

from __future__ import annotations

import numpy as np
import pytest
from tests.lang.small import padded_conv

from tensorsmith.errors import Refusal, UserError
from tensorsmith.lang import define as ts
from tensorsmith.lang.compare import assert_close
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.space.sketch.rewrite import Rewrite, apply_rewrites, cache_read, cache_write, rewrite_from_json, rfactor


def same(workload, rewritten, arrays):
    rewritten.check()
    want, got = evaluate(workload, arrays), evaluate(rewritten, arrays)
    for name in workload.outputs:
        assert_close(workload, name, got[name], want[name])


def arrays(workload, low=-1.0, high=1.0):
    generator = np.random.default_rng(0)
    kinds = {"f32": np.float32, "i32": np.int32}
    return {b.name: generator.uniform(low, high, b.shape).astype(kinds[b.dtype]) for b in workload.inputs}


def test_inlined_one_by_one():
    a = ts.placeholder((8,), name="A")
    p = ts.compute((8,), lambda i: a[i] + 1.0, name="P")
    q = ts.compute((8,), lambda i: p[i] * 2.0, name="Q")
    w = ts.workload([a, ts.compute((8,), lambda i: q[i] + p[i], name="R")])
    for names in (["P", "Q"], ["Q", "P"]):
        after = apply_rewrites(w, [Rewrite("inline", x) for x in names])
        assert [s.name for s in after.stages] == ["R"]
        same(w, after, arrays(w))


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
