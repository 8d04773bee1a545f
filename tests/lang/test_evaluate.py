"""The reference evaluator against loops over single elements and against NumPy."""

from __future__ import annotations

import inspect
import itertools
import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from tensorsmith.errors import UserError
from tensorsmith.lang import define as ts
from tensorsmith.lang import evaluate as module
from tensorsmith.lang.compare import random_inputs
from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.lang.expr import Binary, Cast, Const, Load, Select, Unary, Var, wrap


def by_loops(workload, inputs):
    """Every stage by a Python loop over its points and one scalar at a time; only branches taken are evaluated."""
    arrays = dict(inputs)
    for stage in workload.stages:
        out = np.empty(stage.shape, dtype(stage.dtype).numpy)
        for point in itertools.product(*map(range, stage.shape)):
            env = dict(zip((a.name for a in stage.axes), point))
            terms = []
            for inner in itertools.product(*(range(a.extent) for a in stage.reduce_axes)):
                terms.append(element(stage.body, {**env, **dict(zip((a.name for a in stage.reduce_axes), inner))}, arrays))
            out[point] = terms[0] if stage.reduction is None else fold(stage.reduction, stage.dtype, terms)
        arrays[stage.name] = out
    return {s.name: arrays[s.name] for s in workload.stages}


def fold(reduction, name, terms):
    kind = dtype(name).numpy.type
    start = {"sum": 0, "prod": 1}.get(reduction)
    if start is None:
        low, high = (-math.inf, math.inf) if dtype(name).kind == "f" else (np.iinfo(kind).min, np.iinfo(kind).max)
        start = low if reduction == "max" else high
    total = kind(start)
    f = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}[reduction]
    for term in terms:
        total = f(total, term)
    return total


def element(e, env, arrays):
    kind = dtype(e.dtype).numpy.type
    if isinstance(e, Const):
        return kind(e.value)
    if isinstance(e, Var):
        return np.int64(env[e.name])
    if isinstance(e, Load):
        array = arrays[e.tensor]
        at = (min(max(int(element(i, env, arrays)), 0), n - 1) for i, n in zip(e.indices, array.shape))
        return array[tuple(at)]
    if isinstance(e, Cast):
        value = element(e.a, env, arrays)
        return kind(int(value)) if dtype(e.dtype).kind in "iu" else kind(value)
    if isinstance(e, Select):
        return element(e.a if element(e.cond, env, arrays) else e.b, env, arrays)
    if isinstance(e, Unary):
        return kind({"neg": np.negative, "abs": np.abs, "not": np.logical_not}[e.op](element(e.a, env, arrays)))
    assert isinstance(e, Binary)
    f = {
        "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "floordiv": np.floor_divide,
        "mod": np.mod, "max": np.maximum, "min": np.minimum, "lt": np.less, "le": np.less_equal, "eq": np.equal,
        "ne": np.not_equal, "and": np.logical_and, "or": np.logical_or,
    }[e.op]  # fmt: skip
    return f(element(e.a, env, arrays), element(e.b, env, arrays))


A = ts.placeholder((3, 4), "i32", name="A")
X = ts.placeholder((4,), "i32", name="X")
i, j, k = Var("i"), Var("j"), ts.reduce_axis(3, "k")
indices = st.recursive(
    st.sampled_from([i, j, Var("k")]) | st.integers(-3, 3).map(wrap),
    lambda inner: (
        st.tuples(inner, inner).map(lambda p: p[0] + p[1])
        | st.tuples(inner, inner).map(lambda p: p[0] - p[1])
        | st.tuples(inner, st.sampled_from([2, 3, -2])).map(lambda p: p[0] * p[1])
        | st.tuples(inner, st.sampled_from([2, 3, -2])).map(lambda p: p[0] // p[1])
        | st.tuples(inner, st.sampled_from([2, 3, -2])).map(lambda p: p[0] % p[1])
        | inner.map(lambda p: ts.cast("i64", X[p]))
    ),
    max_leaves=3,
)
values = st.recursive(
    st.tuples(indices, indices).map(lambda p: A[p])
    | indices.map(lambda p: ts.cast("i32", p))
    | st.integers(-9, 9).map(lambda n: wrap(n, "i32")),
    lambda inner: (
        st.tuples(st.sampled_from(["add", "sub", "mul", "max", "min"]), inner, inner).map(lambda p: Binary(*p))
        | st.tuples(inner, inner, inner, inner).map(lambda p: ts.select(p[0] < p[1], p[2], p[3]))
        | inner.map(lambda p: -p)
    ),
    max_leaves=4,
)


@pytest.mark.parametrize("limit", [1 << 20, 5])
@settings(max_examples=150, deadline=None)
@given(body=values, reduction=st.sampled_from([None, "sum", "prod", "max", "min"]), seed=st.integers(0, 9))
def test_random_integer_expressions(limit, body, reduction, seed):
    if reduction is None:
        shape, f = (3, 4, 3), lambda i, j, k: body
    else:
        shape, f = (3, 4), lambda i, j: getattr(ts, reduction)(body, axis=k)
    with np.errstate(all="ignore"), pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_LIMIT", limit)
        patch.setattr(module, "_PRODUCT_LIMIT", limit)
        try:
            w = ts.workload([A, X, ts.compute(shape, f, name="out")])
        except UserError:
            reject()  # an index that is provably out of bounds; Hypothesis complains if nearly all are
        inputs = random_inputs(w, seed)
        want = by_loops(w, inputs)["out"]
        np.testing.assert_array_equal(evaluate(w, inputs)["out"], want)


def run(body, shape, *inputs, **options):
    w = ts.workload([*(t for t, _ in inputs), ts.compute(shape, body, name="out")])
    return evaluate(w, {t.name: np.asarray(v, dtype(t.dtype).numpy) for t, v in inputs}, **options)["out"]


def vector(kind, n, name="v"):
    return ts.placeholder((n,), kind, name=name)


@pytest.mark.parametrize("kind", ["i8", "u8", "i32", "i64"])
def test_integer_division_and_wrapping(kind):
    low = 0 if kind == "u8" else -7
    a, b = np.meshgrid(np.arange(low, 8), [n for n in range(low // 2, 4) if n])
    p, q = vector(kind, a.size, "p"), vector(kind, a.size, "q")
    pairs = (p, a.ravel()), (q, b.ravel())
    assert run(lambda i: p[i] // q[i], (a.size,), *pairs).tolist() == [x // y for x, y in zip(a.flat, b.flat)]
    assert run(lambda i: p[i] % q[i], (a.size,), *pairs).tolist() == [x % y for x, y in zip(a.flat, b.flat)]
    limits = np.iinfo(dtype(kind).numpy)
    v = vector(kind, 2)
    ends = (v, [limits.min, limits.max])
    assert run(lambda i: v[i] + 1, (2,), ends).tolist() == [limits.min + 1, limits.min]
    doubled = run(lambda i: v[i] * 2, (2,), ends)
    assert doubled.tolist() == [0, limits.max - 1 if kind == "u8" else -2]
    over = ts.reduce_axis(2, "k")
    assert run(lambda i: ts.sum(v[over] * 2, axis=over), (1,), ends).tolist() == [int(np.add(*doubled))]


def test_rounding_and_casts():
    v = vector("f32", 8)
    data = (v, [-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 2.7, -2.7])
    assert run(lambda i: ts.round(v[i]), (8,), data).tolist() == [-2, -2, -0.0, 0, 2, 2, 3, -3]
    assert run(lambda i: ts.cast("i32", v[i]), (8,), data).tolist() == [-2, -1, 0, 0, 1, 2, 2, -2]
    assert run(lambda i: ts.cast("bool", v[i] * 0), (8,), data).tolist() == [False] * 8
    assert run(lambda i: ts.cast("f32", v[i] < 0), (8,), data).tolist() == [1, 1, 1, 0, 0, 0, 0, 1]
    n = vector("i32", 3)
    assert run(lambda i: ts.cast("u8", n[i]), (3,), (n, [256, -1, 7])).tolist() == [0, 255, 7]


@pytest.mark.parametrize("kind", ["f16", "f32", "f64"])
@pytest.mark.parametrize("precise", [False, True])
def test_functions(kind, precise):
    x = np.linspace(-20, 20, 201).astype(dtype(kind).numpy)
    v = vector(kind, x.size)
    d = x.astype(np.float64)
    expected = {
        "exp": np.exp(d), "tanh": np.tanh(d), "sin": np.sin(d), "cos": np.cos(d), "floor": np.floor(d),
        "ceil": np.ceil(d), "abs": np.abs(d), "sigmoid": 1 / (1 + np.exp(-d)), "erf": np.vectorize(math.erf)(d),
    }  # fmt: skip
    eps = np.finfo(x.dtype).eps
    for name, want in expected.items():
        got = run(lambda i, name=name: getattr(ts, name)(v[i]), x.shape, (v, x), precise=precise)
        assert got.dtype == x.dtype
        with np.errstate(over="ignore"):
            want = want.astype(x.dtype)
        np.testing.assert_allclose(got, want, rtol=4 * eps, atol=np.finfo(x.dtype).smallest_subnormal)
    positive = np.abs(x) + dtype(kind).numpy.type(0.125)
    for name, f in {"log": np.log, "sqrt": np.sqrt, "rsqrt": lambda a: 1 / np.sqrt(a)}.items():
        got = run(lambda i, name=name: getattr(ts, name)(v[i]), x.shape, (v, positive), precise=precise)
        np.testing.assert_allclose(got, f(positive.astype(np.float64)), rtol=4 * eps, atol=eps)


def test_nan_and_infinity():
    v, nan, inf = vector("f32", 3), math.nan, math.inf
    data = (v, [nan, inf, -inf])
    np.testing.assert_array_equal(run(lambda i: ts.maximum(v[i], 0), (3,), data), [nan, inf, 0])
    np.testing.assert_array_equal(run(lambda i: ts.minimum(0.0, v[i]), (3,), data), [nan, 0, -inf])
    k3 = ts.reduce_axis(3, "k")
    np.testing.assert_array_equal(run(lambda i: ts.max(v[k3], axis=k3), (1,), data), [nan])
    np.testing.assert_array_equal(run(lambda i: ts.sigmoid(v[i]), (3,), data), [nan, 1, 0])
    np.testing.assert_array_equal(run(lambda i: v[i] * 0, (3,), data), [nan, nan, nan])


@pytest.mark.parametrize("kind", ["f32", "i32", "u8"])
def test_reducing_nothing(kind):
    limits = np.iinfo(dtype(kind).numpy) if kind != "f32" else None
    low, high = (limits.min, limits.max) if limits else (-math.inf, math.inf)
    v, none = vector(kind, 0), ts.reduce_axis(0, "k")
    for word, want in {"sum": 0, "prod": 1, "max": low, "min": high}.items():
        got = run(lambda i, word=word: getattr(ts, word)(v[none], axis=none), (2,), (v, []))
        assert got.tolist() == [want, want]
        assert got.dtype == dtype(kind).numpy
    assert run(lambda i: v[i] + 1, (0,), (v, [])).shape == (0,)


def test_select_guards_loads_and_indices_from_data_are_clamped():
    v, at = vector("f32", 3), vector("i32", 5, "at")
    assert run(lambda i: ts.select((i >= 2) & (i < 5), v[i - 2], 9), (8,), (v, [1, 2, 3])).tolist() == [
        9, 9, 1, 2, 3, 9, 9, 9,
    ]  # fmt: skip
    got = run(lambda i: v[at[i]], (5,), (v, [1, 2, 3]), (at, [-7, 0, 1, 2, 99]))
    assert got.tolist() == [1, 1, 2, 3, 3]
    empty = vector("f32", 0)
    assert run(lambda i: ts.select(i < 0, empty[i], 4), (2,), (empty, [])).tolist() == [4, 4]


def test_scalars_and_unused_axes():
    s = ts.placeholder((), name="s")
    v = vector("f32", 3)
    k3 = ts.reduce_axis(3, "k")
    assert run(lambda: s[()] * 2, (), (s, 3)).tolist() == 6
    assert run(lambda: ts.sum(v[k3] * v[k3], axis=k3), (), (v, [1, 2, 3])).tolist() == 14
    assert run(lambda i, j: ts.sum(v[k3] * s[()], axis=k3), (2, 2), (v, [1, 2, 3]), (s, 2)).tolist() == [[12, 12]] * 2
    assert run(lambda i: ts.sum(v[i] * s[()], axis=k3), (3,), (v, [1, 2, 3]), (s, 2)).tolist() == [6, 12, 18]
    assert run(lambda i: ts.prod(v[i], axis=k3), (3,), (v, [1, 2, 3])).tolist() == [1, 8, 27]


@pytest.mark.parametrize("limit", [1 << 22, 50])
@pytest.mark.parametrize("precise", [False, True])
def test_products_of_all_shapes(limit, precise, monkeypatch):
    monkeypatch.setattr(module, "_PRODUCT_LIMIT", limit)
    rng = np.random.default_rng(0)
    a, b = rng.uniform(-1, 1, (2, 7, 5)).astype("f4"), rng.uniform(-1, 1, (2, 5, 6)).astype("f4")
    p, q = ts.placeholder(a.shape, name="p"), ts.placeholder(b.shape, name="q")
    k5 = ts.reduce_axis(5, "k")
    for body, shape, want in [
        (lambda n, i, j: p[n, i, k5] * q[n, k5, j], (2, 7, 6), a @ b),
        (lambda n, j, i: q[n, k5, j] * p[n, i, k5], (2, 6, 7), (a @ b).transpose(0, 2, 1)),
        (lambda j, i: p[1, i, k5] * q[0, k5, j], (6, 7), (a[1] @ b[0]).T),
        (lambda n, i: p[n, i, k5] * q[1 - n, k5, i], (2, 6), np.einsum("nik,nki->ni", a[:, :6], b[::-1])),
        (lambda i: p[0, i, k5] * p[0, i, k5], (7,), (a[0] ** 2).sum(1)),
        (lambda i: p[0, i, 4 - k5] * q[0, k5, 0], (7,), a[0, :, ::-1] @ b[0, :, 0]),
        (lambda i, j: p[0, i + j, k5] * q[0, k5, j], (4, 4), np.einsum(
            "ijk,kj->ij", np.stack([[a[0, i + j] for j in range(4)] for i in range(4)]), b[0, :, :4])),
    ]:  # fmt: skip
        w = ts.workload([p, q, ts.compute(shape, summed(body, k5), name="out")])
        got = evaluate(w, {"p": a, "q": b}, precise=precise)["out"]
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def summed(body, axis):
    def f(*x):
        return ts.sum(body(*x), axis=axis)

    f.__signature__ = inspect.signature(body)
    return f


def test_precise_rounds_once_per_stage():
    v = vector("f32", 1)
    tiny = (v, [1e-8])
    assert run(lambda i: (v[i] + 1) - 1, (1,), tiny).tolist() == [0.0]
    assert run(lambda i: (v[i] + 1) - 1, (1,), tiny, precise=True)[0] == pytest.approx(1e-8, rel=1e-6)
    # a constant is what its own type can hold, and a cast rounds, also in precise evaluation
    assert run(lambda i: v[i] * 0 + 0.1, (1,), tiny, precise=True)[0] == np.float32(0.1)
    rounded = run(lambda i: ts.cast("f32", ts.cast("f16", v[i] * 0 + 0.1)), (1,), tiny, precise=True)
    assert rounded[0] == np.float32(np.float16(0.1))


def test_memory_stays_bounded():
    n, depth = 64, 65536
    p, q = ts.placeholder((16, depth), name="p"), ts.placeholder((depth,), name="q")
    over = ts.reduce_axis(depth, "k")
    largest = ts.compute((16, n), lambda i, j: ts.max(p[i, over] * q[over] + ts.cast("f32", j), axis=over), name="out")
    w = ts.workload([p, q, largest])  # 67 M points: 268 MB for each operation if done at once
    inputs = random_inputs(w, 0)
    tracemalloc.start()
    got = evaluate(w, inputs)["out"]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64e6
    want = (inputs["p"] * inputs["q"]).max(1)[:, None] + np.arange(n, dtype="f4")
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_inputs_are_checked():
    v = vector("f32", 3)
    w = ts.workload([v, ts.compute((3,), lambda i: v[i] + 1, name="out")])
    with pytest.raises(UserError, match="input v is missing"):
        evaluate(w, {})
    with pytest.raises(UserError, match=r"float32\[4\], not float32\[3\]"):
        evaluate(w, {"v": np.zeros(4, "f4")})
    with pytest.raises(UserError, match=r"float64\[3\]"):
        evaluate(w, {"v": np.zeros(3)})


def test_inputs_may_be_strided():
    v = vector("f32", 3)
    w = ts.workload([v, ts.compute((3,), lambda i: v[i] + 1, name="out")])
    assert evaluate(w, {"v": np.arange(6, dtype="f4")[::-2]})["out"].tolist() == [6, 4, 2]


def test_equality_is_of_elements():
    A = ts.placeholder((5,), name="A")
    zero = ts.compute((5,), lambda i: ts.cast("f32", A[i] == 0.0), name="Z")
    chosen = ts.compute((5,), lambda i: ts.select(A[i] != A[i], 7.0, A[i]), name="C")
    first = ts.compute((5,), lambda i: ts.select(i == 0, 1.0, 0.0), name="F")
    results = evaluate(ts.workload([A, zero, chosen, first]), {"A": np.array([0.0, -0.0, 1.0, np.nan, 2.0], np.float32)})
    np.testing.assert_array_equal(results["Z"], [1, 1, 0, 0, 0])
    np.testing.assert_array_equal(results["C"], [0, 0, 1, 7, 2])
    np.testing.assert_array_equal(results["F"], [1, 0, 0, 0, 0])


def test_too_large_for_memory():
    A = ts.placeholder((8,), name="A")
    B = ts.compute((1 << 45, 8), lambda i, j: A[j] + 1.0, name="B")
    with pytest.raises(UserError, match=r"stage B f32\[35184372088832, 8\] needs 1,125,899,906,842,624 bytes \(1 PiB\)"):
        evaluate(ts.workload([A, B]), {"A": np.zeros(8, np.float32)})
    C = ts.placeholder((1 << 45,), name="C")
    D = ts.compute((8,), lambda i: C[i], name="D")
    with pytest.raises(UserError, match=r"input C f32\[35184372088832\] needs 140,737,488,355,328 bytes \(128 TiB\)"):
        random_inputs(ts.workload([C, D]))
