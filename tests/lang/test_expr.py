"""Expressions: types, refusals and text."""

from __future__ import annotations

import numpy as np
import pytest

from tensorsmith.errors import UserError
from tensorsmith.lang import define as ts
from tensorsmith.lang.dtypes import canonical
from tensorsmith.lang.expr import Axis, Const, Load, Var, loads, same, substitute, transform, variables, walk, wrap

A = ts.placeholder((4, 5), name="A")
I = ts.placeholder((4,), "i32", name="I")
U = ts.placeholder((4,), "u8", name="U")
B = ts.placeholder((4,), "bool", name="B")
D = ts.placeholder((4,), "f64", name="D")
i, j = Var("i"), Var("j")


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (A[i, j] + 1, "A[i, j] + 1.0"),
        (1 - A[i, j], "1.0 - A[i, j]"),
        ((A[i, j] + 1) * 2, "(A[i, j] + 1.0) * 2.0"),
        (A[i, j] + 1 * A[i, j], "A[i, j] + 1.0 * A[i, j]"),
        (A[i, j] - (A[i, j] - 1), "A[i, j] - (A[i, j] - 1.0)"),
        (-(A[i, j] + 1), "-(A[i, j] + 1.0)"),
        (A[i, j] ** 2, "pow(A[i, j], 2.0)"),
        (ts.maximum(A[i, j], 0), "max(A[i, j], 0.0)"),
        (ts.exp(A[i, j]), "exp(A[i, j])"),
        (ts.select((i >= 1) & (i < 3), A[i, j], 0), "select(1 <= i & i < 3, A[i, j], 0.0)"),
        ((i < 1) | (j < 1) & (i < 2), "i < 1 | j < 1 & i < 2"),
        (((i < 1) | (j < 1)) & (i < 2), "(i < 1 | j < 1) & i < 2"),
        (A[i // 2 % 3, j * 2 + 1], "A[i // 2 % 3, j * 2 + 1]"),
        (A[I[i], j], "A[i64(I[i]), j]"),
        (ts.cast("f64", A[i, j]), "f64(A[i, j])"),
        (~B[i], "not(B[i])"),
        (A[i, j] == 0, "A[i, j] == 0.0"),
        (A[i, j] != 0.0, "A[i, j] != 0.0"),
        (np.float32(2) == A[i, j], "A[i, j] == 2.0"),
        ((i < j) == B[i], "(i < j) == B[i]"),
        (B[i] != (i == j), "B[i] != (i == j)"),
        (ts.sum(A[i, Var("k")], axis=ts.reduce_axis(5, "k")), "sum(A[i, k], over k<5)"),
    ],
)
def test_text(expression, text):
    assert str(expression) == text


@pytest.mark.parametrize(
    ("expression", "dtype"),
    [
        (A[i, j] * 2, "f32"),
        (D[i] * 2, "f64"),
        (D[i] * 2.5, "f64"),
        (U[i] + 255, "u8"),
        (I[i] // 2, "i32"),
        (A[i, j] < 0, "bool"),
        (A[i, j] == 0, "bool"),
        (I[i] != 0, "bool"),
        (B[i] & (i < 3), "bool"),
        (ts.cast(np.float16, A[i, j]), "f16"),
        (ts.select(B[i], 1.0, D[i]), "f64"),
        (i + 1, "i64"),
    ],
)
def test_numbers_take_the_type_of_the_other_operand(expression, dtype):
    assert expression.dtype == dtype


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: A[i, j] + I[i], ["A[i, j] + I[i]", "mixes f32 and i32", "cast"]),
        (lambda: A[i, j] + D[i], ["mixes f32 and f64"]),
        (lambda: I[i] / 2, ["I[i] / 2", "needs floats", "i32", "//"]),
        (lambda: I[i] % 0, ["divides by the constant 0"]),
        (lambda: I[i] + 1.5, ["mixes i32 and f32"]),
        (lambda: U[i] + 256, ["256 does not fit u8", "0..255"]),
        (lambda: U[i] + -1, ["-1 does not fit u8"]),
        (lambda: ts.exp(I[i]), ["exp(I[i])", "needs a float", "i32"]),
        (lambda: B[i] + B[i], ["needs numbers, not bool"]),
        (lambda: A[i, j] & A[i, j], ["needs bool operands", "f32"]),
        (lambda: ~A[i, j], ["does not take f32"]),
        (lambda: -B[i], ["does not take bool"]),
        (lambda: A[i], ["A has 2 dimensions [4, 5]", "got 1 indices"]),
        (lambda: A[A[i, j], j], ["A is indexed by", "f32", "integer"]),
        (lambda: A[i, j] + A, ["Tensor", "index it first"]),
        (lambda: bool(A[i, j] > 0), ["A[i, j]", "no truth value", "select"]),
        (lambda: 7.0 if A[i, j] == 0.0 else 1.0, ["A[i, j] == 0.0", "no truth value", "select(cond, a, b) instead of `if`"]),
        (lambda: not (i != j), ["i != j", "no truth value", "& | ~"]),  # noqa: SIM202
        (lambda: (A[i, j] == 0.0) and (A[i, j] == 1.0), ["A[i, j] == 0.0", "no truth value", "& | ~"]),
        (lambda: (i == 0) or (i == 1), ["i == 0", "no truth value", "& | ~"]),
        (lambda: 0 < A[i, j] < 1, ["0.0 < A[i, j]", "no truth value", "(a < b) & (b < c)"]),
        (lambda: A[i, j] in (A[i, j] + 1, 2.0), ["no truth value"]),
        (lambda: np.zeros(3) == A[i, j], ["np.equal", "array of shape (3,)", "index it"]),
        (lambda: A[i, j] == I[i], ["mixes f32 and i32"]),
        (lambda: A[i, j] == None, ["NoneType None"]),  # noqa: E711
        (lambda: A == 0.0, ["the tensor A", "0.0", "A[i, j] == ..."]),
        (lambda: A[i, j] != A, ["Tensor A", "index it first"]),
        (lambda: ts.select(True, 1.0, 2.0), ["select() needs a condition"]),
        (lambda: ts.select(i < 1, A[i, j], I[i]), ["select() of f32 and i32"]),
        (lambda: ts.sum(A[i, j], axis=[]), ["sum(", "reduce axes"]),
        (lambda: ts.sum(A[i, j], axis=1), ["reduce"]),
        (lambda: ts.cast("f99", A[i, j]), ["f99", "f32"]),
        (lambda: ts.placeholder((3, -1), name="N"), ["N", "[3, -1]", "0 or more"]),
        (lambda: ts.placeholder((3, 1.5), name="N"), ["N", "1.5"]),
        (lambda: ts.compute((2, 3), lambda i: i, name="C"), ["stage C", "2 dimensions", "1 argument"]),
    ],
)
def test_refusals_say_what_is_wrong(build, words):
    with pytest.raises((UserError, TypeError)) as caught:
        build()
    assert isinstance(caught.value, UserError), repr(caught.value)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    "others",
    [
        lambda: [A[i, j] + 1, A[i, j] + 2, A[j, i] + 1, D[i] + 1, A[i, j] - 1, A[i, j], -A[i, j], ts.abs(A[i, j])],
        lambda: [
            Const(v, t) for v, t in ((0.0, "f32"), (-0.0, "f32"), (float("nan"), "f32"), (0.0, "f64"), (0, "i32"), (0, "i64"))
        ],
        lambda: [Var("k"), Axis("k", 4), Axis("k", 5), Const(1, "i64"), Const(True, "bool")],
        lambda: [Load("A", (i, j), "f32"), Load("A", (i,), "f32"), Load("B", (i, j), "f32"), Load("A", (i, j), "f64")],
        lambda: [ts.select(B[i], A[i, j], 0), ts.select(B[i], 0, A[i, j]), ts.cast("f64", A[i, j]), ts.cast("f16", A[i, j])],
        lambda: (
            [ts.sum(A[i, j], axis=a) for a in (Axis("j", 5), Axis("j", 4), Axis("i", 5))] + [ts.max(A[i, j], axis=Axis("j", 5))]
        ),
    ],
)
def test_a_key_is_of_a_program(others):
    """Built twice, each is the same as itself and as none of the others; the order of the operands counts."""
    for m, a in enumerate(others()):
        for n, b in enumerate(others()):
            assert same(a, b) == (m == n), f"{a}, {b}"
            assert (a.key == b.key) == (m == n), f"{a}, {b}"


def test_rows_of_expressions():
    assert same((i, j + 1), [Var("i"), Var("j") + 1])
    assert not same((i, j), (i,))
    assert not same((i, j), (j, i))


def test_a_key_takes_time_for_each_node_once():
    e = A[i, j]
    for _ in range(200):  # as a tree it would have 2^200 nodes
        e = e + e
    again = A[i, j]
    for _ in range(200):
        again = again + again
    assert same(e, again)


def test_wrap_numbers():
    assert same(wrap(True, "f32"), Const(1.0, "f32"))
    assert same(wrap(True), Const(True, "bool"))
    assert same(wrap(3, "f64"), Const(3.0, "f64"))
    assert same(wrap(np.float32(0.5)), Const(0.5, "f32"))
    assert same(wrap(np.int64(3)), Const(3, "i64"))
    with pytest.raises(UserError, match="not a bool"):
        wrap(2, "bool")
    with pytest.raises(UserError, match="does not fit i64"):
        wrap(2**63)


@pytest.mark.parametrize("given", ["f32", "float32", np.float32, np.dtype("float32")])
def test_canonical_types(given):
    assert canonical(given) == "f32"


def test_walk_and_rewrite():
    e = ts.maximum(A[i + 1, j] * A[I[i], j], 0)
    assert [x.tensor for x in loads(e)] == ["A", "A", "I"]
    assert variables(e) == {"i", "j"}
    moved = substitute(e, {"i": Var("p") * 2})
    assert str(moved) == "max(A[p * 2 + 1, j] * A[i64(I[p * 2]), j], 0.0)"
    assert transform(e, lambda x: None) is e
    renamed = transform(e, lambda x: Load("Z", (i,), "f32") if isinstance(x, Load) else None)
    assert str(renamed) == "max(Z[i] * Z[i], 0.0)"


def test_axis_is_an_index():
    k = ts.reduce_axis(5, "k")
    assert isinstance(k, Axis)
    assert same(A[i, k], A[i, Var("k")])
    stage = ts.compute((4,), lambda i: ts.sum(A[i, k] * ts.cast("f32", k), axis=k), name="S").stage
    assert stage is not None
    assert not any(isinstance(x, Axis) for x in walk(stage.body))
