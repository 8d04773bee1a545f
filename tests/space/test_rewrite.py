"""Rewrites change the DAG, never what it computes."""

from __future__ import annotations

import numpy as np
import pytest
from tests.lang.small import padded_conv

from tensorsmith.errors import Refusal, UserError
from tensorsmith.lang import define as ts
from tensorsmith.lang.compare import assert_close
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.ops import conv
from tensorsmith.space.sketch.rewrite import (
    Alias,
    CacheRead,
    CacheWrite,
    Inline,
    Reshape,
    Rfactor,
    Widen,
    apply_rewrites,
    rewrite_from_json,
)


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
        after = apply_rewrites(w, [Inline(x) for x in names])
        assert [s.name for s in after.stages] == ["R"]
        same(w, after, arrays(w))


def test_cache_write():
    w = padded_conv()
    after = CacheWrite("C").apply(w)
    assert [s.name for s in after.stages] == ["P", "C.cache", "C"]
    assert after.stage("C").reduction is None and after.stage("C.cache").reduction == "sum"
    same(w, after, arrays(w))
    with pytest.raises(Refusal, match="name taken"):
        CacheWrite("C").apply(CacheWrite("C").apply(w))


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
        after = Rfactor("R", "k", factor, inner).apply(w)
        assert [s.name for s in after.stages] == ["R.rf", "R"]
        assert after.stage("R").reduce_axes[0].extent == min(factor, 17)
        same(w, after, arrays(w, 0.5, 1.5) if kind == "f32" else arrays(w, -9, 9))


def test_rfactor_takes_neighbours_or_blocks():
    w = rows("sum")
    assert "A[i, k_f * 5 + k]" in str(Rfactor("R", "k", 4).apply(w).stage("R.rf"))
    assert "A[i, k * 4 + k_f]" in str(Rfactor("R", "k", 4, inner=True).apply(w).stage("R.rf"))


def test_rfactor_refuses():
    w = padded_conv()
    for stage, axis in (("P", "i"), ("C", "i"), ("C", "z")):
        with pytest.raises(Refusal, match="rfactor of no reduction"):
            Rfactor(stage, axis, 2).apply(w)
    once = Rfactor("C", "k", 2).apply(w)
    with pytest.raises(Refusal, match="name taken"):
        Rfactor("C", "k_f", 2).apply(once)
    with pytest.raises(Refusal, match="name taken"):
        Rfactor("C.rf", "k", 2).apply(once)


def test_cache_read():
    w = padded_conv()
    after = CacheRead("C", "W").apply(w)
    assert [s.name for s in after.stages] == ["P", "W.pack", "C"]
    same(w, after, arrays(w))
    with pytest.raises(Refusal, match="at plain axes"):
        CacheRead("C", "P").apply(w)


def products_of_bytes(x: str, w: str, fill: int = 0, constant: bool = True):
    """A padded convolution in i32."""
    image, weight = ts.placeholder((1, 5, 5, 6), x, name="X"), ts.placeholder((3, 3, 6, 4), w, name="W", constant=constant)
    return ts.workload([image, weight, conv.conv(image, weight, 1, 1, 1, 1, "C", fill, "i32")])


def bytes_of(workload, generator):
    """Bytes of all values, the ends of their types often; where a tensor is stored wider, the same ones."""
    found = {}
    for b in workload.inputs:
        low, high = {"u8": (0, 255), "i8": (-128, 127)}[b.dtype]
        drawn = generator.integers(low, high + 1, b.shape)
        drawn = np.where(generator.random(b.shape) < 0.3, generator.choice([low, high], b.shape), drawn)
        found[b.name] = drawn.astype({"u8": np.uint8, "i8": np.int8}[b.dtype])
    return found


@pytest.mark.parametrize("x, w, fill", [("u8", "i8", 255), ("i8", "u8", -128), ("u8", "u8", 0), ("i8", "i8", 127)])
def test_widen(x, w, fill):
    workload = products_of_bytes(x, w, fill)
    given = bytes_of(workload, np.random.default_rng(1))
    inlined = Inline("C_pad").apply(workload)  # its condition stands in the sum then
    for before, read in ((workload, "C_pad"), (inlined, "X")):
        after = Widen("C").apply(before)
        after.check()
        assert [s.name for s in after.stages][-2:] == [f"C.{read}", "C"] == [*Widen("C").copies(before), "C"]
        assert {b.name: b.dtype for b in after.buffers.values() if b.name in ("W", f"C.{read}")} == {"W": "i16", f"C.{read}": "i16"}
        assert {x.dtype for x in after.stage("C").reads} == {"i16"}
        got = evaluate(after, given | {"W": given["W"].astype(np.int16)})
        np.testing.assert_array_equal(got["C"], evaluate(before, given)["C"])


def test_widen_copies_what_is_no_constant():
    workload = products_of_bytes("u8", "i8", constant=False)
    after = Widen("C").apply(workload)
    assert [s.name for s in after.stages] == ["C_pad", "C.C_pad", "C.W", "C"] and after.buffers["W"].dtype == "i8"
    same(workload, after, bytes_of(workload, np.random.default_rng(2)))


def test_widen_takes_only_products_of_bytes():
    with pytest.raises(Refusal, match="no sum of products of bytes"):
        Widen("C").apply(padded_conv())
    workload = products_of_bytes("u8", "i8")
    with pytest.raises(Refusal, match="no sum of products of bytes"):
        Widen("C").apply(Widen("C").apply(workload))  # they are of i16 already
    a, b = ts.placeholder((4, 8), "u8", name="A"), ts.placeholder((8, 4), "i8", name="B", constant=True)
    where, k = ts.placeholder((8,), "i32", name="where"), ts.reduce_axis(8, "k")
    found = ts.compute((4, 4), lambda i, j: ts.sum(ts.cast("i32", a[i, where[k]]) * ts.cast("i32", b[k, j]), axis=k), name="C")
    with pytest.raises(Refusal, match="tell where its factors are"):
        Widen("C").apply(ts.workload([a, b, where, found]))
    computed = ts.compute(
        (4, 4), lambda i, j: ts.sum(ts.cast("i32", ts.maximum(a[i, k], a[i, 0])) * ts.cast("i32", b[k, j]), axis=k), name="C"
    )
    with pytest.raises(Refusal, match="computes its factors"):
        Widen("C").apply(ts.workload([a, b, computed]))
    plain = ts.compute((4, 4), lambda i, j: ts.sum(ts.cast("i32", a[i, k]) * ts.cast("i32", b[k, j]), axis=k), name="C")
    also = ts.compute((4, 4), lambda i, j: plain[i, j] + ts.cast("i32", b[i, j]), name="D")
    with pytest.raises(Refusal, match="B is read elsewhere"):
        Widen("C").apply(ts.workload([a, b, also]))


FORMS = {
    "inline": (Inline("P"), ["inline", "P"]),
    "cache_write": (CacheWrite("C"), ["cache_write", "C"]),
    "cache_read": (CacheRead("C", "W"), ["cache_read", "C", "W"]),
    "rfactor": (Rfactor("C", "k", 4, True), ["rfactor", "C", "k", 4, True]),
    "alias": (Alias("R"), ["alias", "R"]),
    "reshape": (Reshape("R"), ["reshape", "R"]),
    "widen": (Widen("C"), ["widen", "C"]),
}


@pytest.mark.parametrize("name", FORMS)
def test_json(name):
    rewrite, form = FORMS[name]
    assert rewrite.to_json() == form and rewrite_from_json(form) == rewrite
    with pytest.raises(ValueError, match="fields"):
        rewrite_from_json(form[:-1])


def test_texts():
    assert str(CacheRead("C", "W")) == "cache_read(C, W)"
    assert [str(Rfactor("C", "k", 4, inner)) for inner in (False, True)] == ["rfactor(C, k, 4)", "rfactor(C, k, 4, inner)"]


def test_unknown():
    with pytest.raises(UserError, match="unknown rewrite 'explode'"):
        rewrite_from_json(["explode", "C"])
    with pytest.raises(UserError, match="no stage 'X'"):
        apply_rewrites(padded_conv(), [Inline("X")])
