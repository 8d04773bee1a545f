"""Reductions that are put together of others, inside of larger expressions too: as NumPy has them, by every evaluator."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest
from tests.property.agreement import disagreements
from tests.property.schedules import random_candidate

import tensorsmith as ts
from tensorsmith.errors import Refusal, UserError
from tensorsmith.lang.dtypes import NAMES, dtype
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.lang.workload import Workload

INFINITE = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, 1e-40]


def rows(kind: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Few different values, so that most rows have the best one more than once; extremes; NaN in every other row of floats."""
    generator = np.random.default_rng(seed)
    facts = dtype(kind)
    if facts.kind == "b":
        return generator.random(shape) < 0.1
    if facts.kind == "f":
        x = generator.choice(np.array([*INFINITE, *generator.uniform(-2, 2, 5)]).astype(facts.numpy), shape)
        x[::2][generator.random(x[::2].shape) < 0.1] = math.nan
        return x
    limits = np.iinfo(facts.numpy)
    return generator.choice(np.array([limits.min, limits.min + 1, -1, 0, 1, limits.max - 1, limits.max]).astype(facts.numpy), shape)


@pytest.mark.parametrize("length", [1, 2, 7, 33, 300])
@pytest.mark.parametrize("kind", NAMES)
def test_positions_are_numpys(kind: str, length: int) -> None:
    x = rows(kind, (24, length))
    a, k = ts.placeholder(x.shape, kind, name="a"), ts.reduce_axis(length)
    outputs = [
        ts.compute(24, lambda i: ts.argmax(a[i, k], axis=k), name="argmax"),
        ts.compute(24, lambda i: ts.argmin(a[i, k], axis=k), name="argmin"),
        ts.compute(24, lambda i: ts.argmax(ts.select(i < 99, a[i, k], a[0, 0]), axis=k), name="computed_argmax"),
        ts.compute(24, lambda i: ts.argmin(ts.select(i < 99, a[i, k], a[0, 0]), axis=k), name="computed_argmin"),
    ]
    workload = ts.workload([a, *outputs])
    assert Workload.from_json(workload.to_json()) == workload
    for results in (
        evaluate(workload, {"a": x}),
        evaluate(workload, {"a": x}, precise=True),
        ts.compile(workload).run({"a": x}),
    ):
        for computed in ("", "computed_"):
            np.testing.assert_array_equal(results[f"{computed}argmax"], x.argmax(1))
            np.testing.assert_array_equal(results[f"{computed}argmin"], x.argmin(1))
        assert results["argmax"].dtype == np.int64


@pytest.mark.parametrize("kind", ["f32", "f64", "u8", "i32"])
def test_positions_by_any_schedule(kind: str) -> None:
    """Tiles, tails, lanes along the reduction, partial results: machine code and interpreter agree with the evaluator."""
    a, k = ts.placeholder((9, 70), kind, name="a"), ts.reduce_axis(70)
    where = ts.compute(9, lambda i: ts.argmin(a[i, k], axis=k), name="where")
    computed = ts.compute(9, lambda i: ts.argmax(ts.maximum(a[i, k], a[i, 0]), axis=k), name="computed")
    workload = ts.workload([a, where, computed])
    arrays = {"a": rows(kind, (9, 70))}
    built = 0
    for seed in range(4):
        try:
            assert disagreements(workload, random_candidate(workload, Random(seed)), arrays=arrays) == []
            built += 1
        except Refusal:
            continue
    assert built >= 2


def test_positions_over_several_axes_are_row_major() -> None:
    x = rows("f32", (5, 6, 7))
    a = ts.placeholder(x.shape, name="a")
    j, k = ts.reduce_axis(6, name="j"), ts.reduce_axis(7, name="k")
    where = ts.compute(5, lambda i: ts.argmax(a[i, j, k], axis=[j, k]), name="where")
    other = ts.compute(5, lambda i: ts.argmax(a[i, j, k], axis=[k, j]), name="other")
    got, turned = ts.compile([a, where, other])(x)
    np.testing.assert_array_equal(got, x.reshape(5, 42).argmax(1))
    np.testing.assert_array_equal(turned, x.transpose(0, 2, 1).reshape(5, 42).argmax(1))


def test_positions_are_reduced_in_pairs_where_that_is_less_work() -> None:
    """Of small values, and of computed ones, which are then computed once. Only those of 64 bits leave no room for a position."""
    k = ts.reduce_axis(1000)
    read, computed = {}, {}
    for kind in NAMES:
        a = ts.placeholder((4, 1000), kind, name="a")
        read[kind] = reductions(ts.workload([a, ts.compute(4, lambda i, a=a: ts.argmax(a[i, k], axis=k), name="w")]))
        if kind != "bool":
            body = ts.compute(4, lambda i, a=a: ts.argmax(a[i, k] * a[i, 0], axis=k), name="w")
            computed[kind] = reductions(ts.workload([a, body]))
    small = {kind: ["i32"] for kind in ("i8", "u8", "i16", "u16")}
    wide = {kind: [kind, "i32"] for kind in ("f64", "i64", "u64")}
    floats = {kind: ["f32", "i32"] for kind in ("f16", "bf16", "f32")}
    assert read == {**floats, "i32": ["i32", "i32"], "u32": ["u32", "i32"], "bool": ["i32"], **small, **wide}
    assert computed == {kind: ["i64"] for kind in ("f16", "bf16", "f32", "i32", "u32")} | small | wide


def reductions(workload: Workload) -> list[str]:
    return [s.dtype for s in workload.stages if s.reduction]


def test_the_position_of_a_computed_value() -> None:
    """The nearest of some points, the distances in a stage or not."""
    generator = np.random.default_rng(3)
    x, c = generator.standard_normal((40, 2)).astype("f4"), generator.standard_normal((9, 2)).astype("f4")
    p, q = ts.placeholder(x.shape, name="p"), ts.placeholder(c.shape, name="q")
    k = ts.reduce_axis(9)
    near = ts.compute(40, lambda i: ts.argmin(ts.square(p[i, 0] - q[k, 0]) + ts.square(p[i, 1] - q[k, 1]), axis=k), name="near")
    np.testing.assert_array_equal(ts.compile([p, q, near])(x, c), ((x[:, None] - c) ** 2).sum(-1).argmin(1))


def test_the_position_of_a_reduction() -> None:
    """The reduction is a stage of its own, once, and its results are read."""
    generator = np.random.default_rng(3)
    x, c = generator.standard_normal((20, 6)).astype("f4"), generator.standard_normal((9, 6)).astype("f4")
    p, q = ts.placeholder(x.shape, name="p"), ts.placeholder(c.shape, name="q")
    k, d = ts.reduce_axis(9, name="k"), ts.reduce_axis(6, name="d")
    near = ts.compute(20, lambda i: ts.argmin(ts.sum(ts.square(p[i, d] - q[k, d]), axis=d), axis=k), name="near")
    assert [s.reduction for s in ts.workload([p, q, near]).stages] == ["sum", "min", "min", None]
    np.testing.assert_array_equal(ts.compile([p, q, near])(x, c), ((x[:, None] - c) ** 2).sum(-1).argmin(1))


def test_values_with_their_positions() -> None:
    x = rows("f32", (6, 50))
    a, k = ts.placeholder(x.shape, name="a"), ts.reduce_axis(50)
    best, where = ts.compute(6, lambda i: (ts.max(a[i, k], axis=k), ts.argmax(a[i, k], axis=k)), name=("best", "where"))
    value, position = ts.compile([a, best, where])(x)
    np.testing.assert_array_equal(value, x.max(1))
    np.testing.assert_array_equal(position, x.argmax(1))


def test_a_position_is_an_index() -> None:
    """What is reduced inside of an index is a stage, too, and its results are data: clamped, never out of bounds."""
    x, y = rows("i32", (6, 50)), rows("f32", (6, 50), seed=1)
    a, b, k = ts.placeholder(x.shape, "i32", name="a"), ts.placeholder(y.shape, name="b"), ts.reduce_axis(50)
    there = ts.compute(6, lambda i: b[i, ts.argmax(a[i, k], axis=k)], name="there")
    np.testing.assert_array_equal(ts.compile([a, b, there])(x, y), y[np.arange(6), x.argmax(1)])


def test_mean_any_and_all() -> None:
    generator = np.random.default_rng(4)
    x, empty = generator.standard_normal((11, 13)).astype("f4"), ts.placeholder((11, 0), name="empty")
    x[3] = -abs(x[3])
    x[4] = abs(x[4])
    a, k, none = ts.placeholder(x.shape, name="a"), ts.reduce_axis(13), ts.reduce_axis(0, name="none")
    outputs = ts.compute(
        11,
        lambda i: (
            ts.mean(a[i, k], axis=k),
            ts.any(a[i, k] > 0, axis=k),
            ts.all(a[i, k] > 0, axis=k),
            ts.any(a[i, k], axis=k),
            ts.any(empty[i, none] > 0, axis=none),
            ts.all(empty[i, none] > 0, axis=none),
        ),
        name=("mean", "any", "all", "numbers", "any_of_none", "all_of_none"),
    )
    mean, some, every, numbers, nothing, everything = ts.compile([a, empty, *outputs])(x, np.zeros((11, 0), "f4"))
    np.testing.assert_allclose(mean, x.mean(1), atol=1e-6)
    np.testing.assert_array_equal(some, (x > 0).any(1))
    np.testing.assert_array_equal(every, (x > 0).all(1))
    assert some.dtype == np.bool_ and not some[3] and every[4]
    assert numbers.all() and not nothing.any() and everything.all()


def test_a_reduction_inside_of_an_expression_is_a_stage_of_its_own() -> None:
    a, k = ts.placeholder((4, 9), name="a"), ts.reduce_axis(9)
    s = ts.compute(
        (4, 9),
        lambda i, j: ts.exp(a[i, j] - ts.max(a[i, k], axis=k)) / ts.sum(ts.exp(a[i, k] - ts.max(a[i, k], axis=k)), axis=k),
        name="s",
    )
    assert str(ts.workload([a, s])) == (
        "a: input f32[4, 9]\n"
        "s_max[i<4]: f32 = max(a[i, k], over k<9)\n"
        "s_sum[i<4]: f32 = sum(exp(a[i, k] - s_max[i]), over k<9)\n"
        "s[i<4, j<9]: f32 = exp(a[i, j] - s_max[i]) / s_sum[i]\n"
        "return s"
    )
    x = np.random.default_rng(0).standard_normal((4, 9)).astype("f4")
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(ts.compile([a, s])(x), e / e.sum(1, keepdims=True), rtol=1e-5)


def test_inner_reductions_depend_on_outer_axes_where_they_use_them() -> None:
    a = ts.placeholder((3, 4, 5), name="a")
    j, k, m = ts.reduce_axis(4, name="j"), ts.reduce_axis(5, name="k"), ts.reduce_axis(5, name="j")
    c = ts.compute(3, lambda i: ts.sum(ts.max(a[i, j, k], axis=k) * ts.max(a[0, 0, m], axis=m), axis=j), name="c")
    assert [str(s).split(":")[0] for s in ts.workload([a, c]).stages] == ["c_max[i<3, j<4]", "c_max2[]", "c[i<3]"]
    x = np.random.default_rng(0).standard_normal((3, 4, 5)).astype("f4")
    np.testing.assert_allclose(ts.compile([a, c])(x), (x.max(2) * x[0, 0].max()).sum(1), rtol=1e-5)


def test_several_values_share_what_they_reduce() -> None:
    a, k = ts.placeholder((3, 4), name="a"), ts.reduce_axis(4)
    total, share = ts.compute(3, lambda i: (ts.sum(a[i, k], axis=k), a[i, 0] / ts.sum(a[i, k], axis=k)), name=["total", "share"])
    assert [s.name for s in ts.workload([a, total, share]).stages] == ["total", "share"]


A = ts.placeholder((4, 5), name="A")
K = ts.reduce_axis(5, name="k")


@pytest.mark.parametrize(
    ("define", "words"),
    [
        (lambda: ts.argmax(A[0, 0], axis=0), r"argmax\(\.\.\., axis=\.\.\.\) takes one or more reduce axes"),
        (lambda: ts.mean(A[0, 0], axis=[]), r"mean\(\.\.\., axis=\.\.\.\) takes"),
        (lambda: ts.any(A[0, 0] > 0, axis=1), r"any\(\.\.\., axis=\.\.\.\) takes"),
        (lambda: ts.all(A[0, 0] > 0, axis=1), r"all\(\.\.\., axis=\.\.\.\) takes"),
        (lambda: ts.argmin(A[0, 0], axis=ts.reduce_axis(0)), r"argmin\(A\[0, 0\]\) has nothing to choose from"),
        (lambda: ts.mean(ts.cast("i32", A[0, K]), axis=K), "needs floats, not i32"),
        (lambda: ts.compute(4, lambda k: A[k, 0] + ts.sum(A[k, K], axis=K), name="c"), "stage c: the axis name 'k' is used twice"),
        (lambda: ts.compute(4, lambda i: (A[i, 0], A[i, 1]), name="c"), "stage c: its body gives 2 values for 1 names"),
        (lambda: ts.compute(4, lambda i: A[i, 0], name=("c", "d")), "stage c, d: its body gives 1 values for 2 names"),
        (lambda: ts.compute(4, lambda i: (), name=()), "a stage is called None"),
        (lambda: ts.workload([A, ts.compute(4, lambda i: ts.max(A[i, K] > 0, axis=K), name="c")]), r"use any\(\) or all\(\)"),
    ],
)
def test_refusals(define, words: str) -> None:
    with pytest.raises(UserError, match=words):
        define()
