"""Machine code for directed cases: every operation in every type, vector tails, empty tensors, memory past the ends."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys

import numpy as np
import pytest
from tests.property.agreement import disagreements

from tensorsmith.build import build
from tensorsmith.errors import Refusal
from tensorsmith.lang import define as ts
from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.lang.expr import ARITHMETIC, COMPARISONS, FLOAT_FUNCTIONS, LOGIC, Const, binary, unary
from tensorsmith.space.plain import plain_candidate
from tensorsmith.space.sketch.nest import Nest
from tensorsmith.space.sketch.sketch import Candidate, Sketch
from tensorsmith.targets.target import native

SIZES = (1, 7, 8, 9, 15, 16, 17, 31, 33)
FLOATS, INTS = ("f32", "f64"), ("i8", "u8", "i32", "i64")


def candidate(workload, *nests, **decisions):
    sketch = Sketch(workload, nests).check()
    given = {name.replace("_", "."): value for name, value in decisions.items()}
    return Candidate(sketch, {h: given.get(h, 0 if h.endswith("parallel") else 1) for h in sketch.holes})


def interesting(kind):
    """Values around every special one of a type."""
    facts = dtype(kind)
    if facts.kind == "b":
        return np.array([False, True])
    if facts.kind == "f":
        small = [0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1.5, 2.5, -2.5, 3.0, -7.25, 0.1, 1e-3, 40.0, -40.0, 1e6, -1e6]
        return np.array([*small, np.inf, -np.inf, np.nan], facts.numpy)
    limits = np.iinfo(facts.numpy)
    near = [limits.min, limits.min + 1, -13, -8, -3, -2, -1, 0, 1, 2, 3, 7, 8, 12, limits.max - 1, limits.max]
    return np.array([v for v in near if limits.min <= v <= limits.max], facts.numpy)


def check(workload, arrays, function=False):
    """Scalar and vector code against the evaluator; a computed function may be some units off in the last place."""
    want = evaluate(workload, arrays)["C"]
    for vector in (None, "i.0"):
        for chosen in (candidate(workload, Nest("C", "| i.0" if vector else "i.0 |", vector)),):
            got = build(chosen)(**arrays)
            if function:
                eps = np.finfo(want.dtype).eps
                np.testing.assert_allclose(got, want, rtol=16 * eps, atol=4 * eps, err_msg=str(vector))
            else:
                np.testing.assert_array_equal(got, want, err_msg=f"{vector} {arrays}")


BINARY = [
    (op, kind)
    for op in (*ARITHMETIC, *COMPARISONS, *LOGIC)
    for kind in (*FLOATS, *INTS, "bool")
    if (kind == "bool") == (op in LOGIC) or (kind == "bool" and op in COMPARISONS) or (kind != "bool" and op in COMPARISONS)
    if not (op in ("div", "pow") and kind not in FLOATS)
]


@pytest.mark.parametrize("op, kind", BINARY)
def test_binary(op, kind):
    pairs = list(itertools.product(interesting(kind), repeat=2))
    x, y = (np.array([p[n] for p in pairs], dtype(kind).numpy) for n in (0, 1))
    if op == "pow":  # a power of a negative number is a question of taste at the edges
        x = np.abs(x)
        with np.errstate(all="ignore"):
            finite = np.isfinite(x) & np.isfinite(y) & (np.abs(y * np.log(np.maximum(x, 1e-30))) < 60)
        x, y = x[finite], y[finite]
    a = ts.placeholder(x.shape, kind, name="A")
    b = ts.placeholder(x.shape, kind, name="B")
    w = ts.workload([a, b, ts.compute(x.shape, lambda i: binary(op, a[i], b[i]), name="C")])
    rows = candidate(w, Nest("C", "i.0 | i.1", "i.1"), C_i_1=24)
    with np.errstate(all="ignore"):
        want = evaluate(w, {"A": x, "B": y})["C"]
    for chosen in (rows, candidate(w, Nest("C", "i.0 |"))):
        got = build(chosen)(x, y)
        if op == "pow":
            eps = np.finfo(want.dtype).eps
            np.testing.assert_allclose(got, want, rtol=512 * eps)
        else:
            wrong = ~((got == want) | ((got != got) & (want != want)))
            found = [(x[n], y[n], got[n], want[n]) for n in np.flatnonzero(wrong)]
            assert not found, f"{op} {kind}: (a, b, got, want) {found[:5]} and more, {len(found)} in all"


DIVISORS = [(kind, divisor) for kind in INTS for divisor in (-3, -1, 1, 2, 5) if divisor > 0 or kind != "u8"]


@pytest.mark.parametrize("op", ["floordiv", "mod"])
@pytest.mark.parametrize("kind, divisor", DIVISORS)
def test_division_by_a_constant(op, kind, divisor):
    x = interesting(kind)
    a = ts.placeholder(x.shape, kind, name="A")
    check(ts.workload([a, ts.compute(x.shape, lambda i: binary(op, a[i], divisor), name="C")]), {"A": x})


def test_division_by_a_value_that_turns_out_constant_zero():
    """A select that is decided when the code is written leaves a plain 0 as the divisor."""
    a = ts.placeholder((8,), "i32", name="A")
    w = ts.workload([a, ts.compute((8,), lambda i: a[i] // ts.select(i < 4, a[i], 0), name="C")])
    check(w, {"A": np.arange(-4, 4, dtype=np.int32)})


UNARY = [
    (op, kind) for op in ("neg", "abs", *FLOAT_FUNCTIONS) for kind in (*FLOATS, *INTS) if kind in FLOATS or op in ("neg", "abs")
]


@pytest.mark.parametrize("op, kind", UNARY)
def test_unary(op, kind):
    x = interesting(kind)
    if op in ("sin", "cos"):
        x = x[np.abs(x) <= 1e5]  # (NaN and infinities go, too)
    a = ts.placeholder(x.shape, kind, name="A")
    w = ts.workload([a, ts.compute(x.shape, lambda i: unary(op, a[i]), name="C")])
    check(w, {"A": x}, function=kind in FLOATS and op not in ("neg", "abs", "floor", "ceil", "round", "sqrt"))


def test_not():
    a = ts.placeholder((2,), "bool", name="A")
    check(ts.workload([a, ts.compute((2,), lambda i: ~a[i], name="C")]), {"A": np.array([False, True])})


@pytest.mark.parametrize("source", [*FLOATS, *INTS, "bool"])
@pytest.mark.parametrize("to", [*FLOATS, *INTS, "bool"])
def test_cast(source, to):
    x = interesting(source)
    if source in FLOATS and to in INTS:  # what does not fit is anything
        limits = np.iinfo(dtype(to).numpy)
        x = x[np.isfinite(x)]
        x = x[(x > float(limits.min) - 1) & (x < float(limits.max))]
    a = ts.placeholder(x.shape, source, name="A")
    with np.errstate(all="ignore"):
        check(ts.workload([a, ts.compute(x.shape, lambda i: ts.cast(to, a[i]), name="C")]), {"A": x})


@pytest.mark.parametrize("op", ["sum", "prod", "max", "min"])
@pytest.mark.parametrize("kind", ["f32", "f64", "i8", "i32", "i64"])
@pytest.mark.parametrize("size", SIZES)
def test_reductions_of_every_length(op, kind, size):
    a = ts.placeholder((3, size), kind, name="A")
    k = ts.reduce_axis(size, "k")
    w = ts.workload([a, ts.compute((3,), lambda i: getattr(ts, op)(a[i, k], axis=k), name="C")])
    for nest in (Nest("C", "i.0 | k.0", "k.0"), Nest("C", "i.0 | k.0 k.1", "k.1"), Nest("C", "k.0 | k.1 i.0", "i.0")):
        assert not disagreements(w, candidate(w, nest, C_k_1=8, C_unroll=2))


@pytest.mark.parametrize("kind", ["f32", "f64", "i32", "i8", "u8", "bool"])
@pytest.mark.parametrize("size", SIZES)
def test_vector_tails(kind, size):
    a = ts.placeholder((size, size), kind, name="A")
    b = ts.placeholder((size, size), kind, name="B")
    body = (lambda i, j: a[i, j] & ~b[j, i]) if kind == "bool" else (lambda i, j: a[i, j] + b[j, i])
    w = ts.workload([a, b, ts.compute((size, size), body, name="C")])
    for nest in (Nest("C", "i.0 | j.0", "j.0"), Nest("C", "i.0 j.0 | i.1 j.1", "j.1"), Nest("C", "j.0 i.0 | i.1", "i.1")):
        assert not disagreements(w, candidate(w, nest, C_i_1=3, C_j_1=5))


@pytest.mark.parametrize("op", ["sum", "max"])
def test_nan_and_infinity_pass_through_reductions(op):
    x = np.ones((4, 19), np.float32)
    x[0, 3], x[1, 18], x[2, 0], x[3, 5] = np.nan, np.nan, np.inf, -np.inf
    a = ts.placeholder(x.shape, name="A")
    k = ts.reduce_axis(19, "k")
    w = ts.workload([a, ts.compute((4,), lambda i: getattr(ts, op)(a[i, k], axis=k), name="C")])
    for nest in (Nest("C", "i.0 | k.0", "k.0"), Nest("C", "| k.0 i.0", "i.0")):
        assert not disagreements(w, candidate(w, nest), arrays={"A": x})


@pytest.mark.parametrize("shape, length", [((0,), 5), ((3, 0), 5), ((3,), 0), ((), 0)])
def test_empty_tensors(shape, length):
    """No points: nothing is written. An empty reduction: its identity."""
    a = ts.placeholder((*shape, length), name="A")
    k = ts.reduce_axis(length, "k")
    w = ts.workload([a, ts.compute(shape, lambda *x: ts.sum(a[(*x, k)], axis=k), name="C")])
    names = [f"i{n}" for n in range(len(shape))]
    outer = " ".join(f"{n}.0" for n in names)
    nests = [Nest("C", f"{outer} | k.0"), Nest("C", f"| k.0 {outer}")]
    if length:
        nests.append(Nest("C", f"k.0 {outer} |"))
    else:
        with pytest.raises(Refusal, match="empty reduction"):
            build(candidate(w, Nest("C", f"k.0 {outer} |")))
    if names:
        nests.append(Nest("C", f"| k.0 {outer}", vector=f"{names[-1]}.0"))
    for nest in nests:
        out = np.full(shape, 7, np.float32)
        build(candidate(w, nest))(np.zeros((*shape, length), np.float32), out=out)
        assert out.tolist() == np.zeros(shape, np.float32).tolist(), nest


def test_too_large_a_tile_is_refused():
    a = ts.placeholder((600,), name="A")
    w = ts.workload([a, ts.compute((600,), lambda i: a[i] + 1.0, name="C")])
    with pytest.raises(Refusal, match="tile too large"):
        build(candidate(w, Nest("C", "| i.0")))


def test_parallel_reduction_is_refused():
    a = ts.placeholder((6, 6), name="A")
    k = ts.reduce_axis(6, "k")
    w = ts.workload([a, ts.compute((6,), lambda i: ts.sum(a[i, k], axis=k), name="C")])
    with pytest.raises(Refusal, match="parallel reduction"):
        build(candidate(w, Nest("C", "k.0 i.0 |"), C_parallel=1))


def test_plain_candidate_runs():
    a = ts.placeholder((5, 9), name="A")
    k = ts.reduce_axis(9, "k")
    s = ts.compute((5,), lambda i: ts.sum(a[i, k], axis=k), name="S")
    w = ts.workload([a, ts.compute((5, 9), lambda i, j: a[i, j] / (ts.abs(s[i]) + 1.0), name="C")])
    assert not disagreements(w, plain_candidate(w))


def run_guarded(first, last):
    """In a process of its own: what is read or written past an end dies there."""
    return subprocess.run(
        [sys.executable, "-m", "tests.property.guarded", str(first), str(last)],
        capture_output=True, text=True, timeout=3000, env={**os.environ, "TENSORSMITH_NUM_THREADS": "1"},
    )  # fmt: skip


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs mmap and mprotect")
@pytest.mark.parametrize("first, last", [(0, 100), pytest.param(1000, 4000, marks=pytest.mark.long)])
def test_no_memory_past_the_ends_is_touched(first, last):
    done = run_guarded(first, last)
    assert done.returncode == 0, f"after {done.stdout.splitlines()[-1:]}: {done.stderr[-2000:]}"
    assert done.stdout.count("refused") <= 0.1 * (last - first)


def test_copies_of_a_step_share_their_address_arithmetic():
    """Each copy reads at a constant distance from the first: more copies, no more integer instructions."""
    a, b = ts.placeholder((12, 64), name="A"), ts.placeholder((64, 32), name="B")
    k = ts.reduce_axis(64, name="k")
    w = ts.workload([a, b, ts.compute((12, 32), lambda i, j: ts.sum(a[i, k] * b[k, j], axis=k), name="C")])
    nest = Nest("C", "i.0 j.0 | k.0 i.1 j.1", "j.1")

    def integer_operations(copies):
        kernel = build(candidate(w, nest, C_i_1=6, C_j_1=16, C_unroll=copies))
        return sum(f" = {op} " in line for line in kernel.llvm_ir.splitlines() for op in ("add", "mul", "or", "shl"))

    assert integer_operations(8) == integer_operations(2)


PADDED = ("f32", "f64", "i32", "i64", "i8", "u8", "f16", "bool")


@pytest.mark.parametrize("fill", [0, 7])
@pytest.mark.parametrize("kind", PADDED)
@pytest.mark.parametrize("loops", ["h.0 w.0 | c.0", "h.0 c.0 w.0 | w.1", "h.0 w.0 | w.1 c.0", "| h.0 w.0 c.0"])
def test_a_load_or_a_constant(loops, kind, fill):
    """What lies beyond the edge is a constant, in one lane and in all of a vector."""
    x = ts.placeholder((4, 5, 11), kind, name="X")
    inside = lambda h, w: (h >= 1) & (h < 5) & (w >= 2) & (w < 7)  # noqa: E731
    padded = ts.compute((6, 9, 11), lambda h, w, c: ts.select(inside(h, w), x[h - 1, w - 2, c], Const(fill, kind)), name="C")
    w = ts.workload([x, padded])
    chosen = candidate(w, Nest("C", loops, loops.split()[-1]), C_w_1=4)
    arrays = {"X": np.random.default_rng(0).integers(0, 100, (4, 5, 11)).astype(dtype(kind).numpy)}
    np.testing.assert_array_equal(build(chosen)(**arrays), evaluate(w, arrays)["C"])


SPREAD = {(1, 8): 8, (2, 2): 4, (3, 4): 6, (2, 16): 8}  # (rows, copies): registers


@pytest.mark.parametrize("reduction", ["sum", "max", "min", "prod"])
@pytest.mark.parametrize("kind", ["f32", "i32"])
@pytest.mark.parametrize("rows, copies", [(1, 8), (2, 2), (3, 4), (7, 4), (2, 16), (1, 3)])
def test_few_results_spread_their_steps(rows, copies, kind, reduction):
    """Tiles of one or two vectors keep several partial results; 37 steps leave some over."""
    a, b = ts.placeholder((rows, 37), kind, name="A"), ts.placeholder((37, 8), kind, name="B")
    k = ts.reduce_axis(37, name="k")
    combine = getattr(ts, reduction)
    w = ts.workload([a, b, ts.compute((rows, 8), lambda i, j: combine(a[i, k] * b[k, j], axis=k), name="C")])
    chosen = candidate(w, Nest("C", "i.0 j.0 | k.0 i.1 j.1", "j.1"), C_i_1=6, C_j_1=8, C_unroll=copies)
    draw = np.random.default_rng(0)
    arrays = {n: draw.integers(-2, 3, s).astype(dtype(kind).numpy) for n, s in (("A", (rows, 37)), ("B", (37, 8)))}
    kernel = build(chosen)
    np.testing.assert_array_equal(kernel(**arrays), evaluate(w, arrays)["C"])
    if native().lanes() == 8 and kind == "f32" and reduction == "sum" and (rows, copies) in SPREAD:
        loop_carried = sum(" = phi <8 x float>" in line for line in kernel.llvm_ir.splitlines())
        assert loop_carried == SPREAD[rows, copies]


IN_ONE, IN_TWO = "h.0 w.0 | k.0 c.0 w.1", "h.0 w.0 | k.0 c.0 c.1 w.1"
ALONG = "h.0 | k.0 c.0 w.0"


@pytest.mark.parametrize("nest, vector", [(IN_ONE, None), (IN_TWO, None), (IN_TWO, "c.1"), (ALONG, "w.0")])
def test_padded_sums(nest, vector):
    """Lanes along the channels of a sum, along its points, and none; channels in one loop or two."""
    x, f = ts.placeholder((5, 9, 24), name="X"), ts.placeholder((3, 24), name="F")
    k, c = ts.reduce_axis(3, name="k"), ts.reduce_axis(24, name="c")
    outside = Const(0.0, "f32")
    inside = lambda w: (w >= 1) & (w < 10)  # noqa: E731
    body = lambda h, w: ts.sum(ts.select(inside(w + k), x[h, w + k - 1, c], outside) * f[k, c], axis=[k, c])  # noqa: E731
    w = ts.workload([x, f, ts.compute((5, 9), body, name="C")])
    chosen = candidate(w, Nest("C", nest, vector), C_w_1=3, C_c_1=8, C_unroll=4)
    draw = np.random.default_rng(0)
    arrays = {n: draw.integers(-3, 4, s).astype(np.float32) for n, s in (("X", (5, 9, 24)), ("F", (3, 24)))}
    kernel = build(chosen)
    np.testing.assert_array_equal(kernel(**arrays), evaluate(w, arrays)["C"])
    if vector is None:  # what lies beyond the edge is chosen by its address
        chosen_by = [line for line in kernel.llvm_ir.splitlines() if " = select " in line]
        assert chosen_by and all(", ptr " in line for line in chosen_by)
