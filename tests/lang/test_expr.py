"""Expressions: types, refusals and text."""

from __future__ import annotations

import numpy as np
import pytest

from tensorsmith.errors import UserError
from tensorsmith.lang import define as ts
from tensorsmith.lang.dtypes import canonical
from tensorsmith.lang.expr import Axis, Const, Load, Var, loads, substitute, transform, variables, walk, wrap

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
        (lambda: ts.select(True, 1.0, 2.0), ["select() needs a condition"]),
        (lambda: ts.select(i < 1, A[i, j], I[i]), ["select() of f32 and i32"]),
        (lambda: ts.sum(A[i, j], axis=[]), ["sum(", "reduce axes"]),
        (lambda: ts.sum(A[i, j], axis=1), ["reduce"]),
        (lambda: ts.cast("f99", A[i, j]), ["f99", "f32"]),
        (lambda: ts.placeholder((3, -1), name="N"), ["N", "[3, -1]", "0 or more"]),
        (lambda: ts.placeholder((3, 1.5), name="N"), ["N", "1.5"]),
        (lambda: ts.compute((2, 3), lambda i: i, name="C"), ["stage C", "2 dimensions", "1 arguments"]),
    ],
)
def test_refusals_say_what_is_wrong(build, words):
    with pytest.raises((UserError, TypeError)) as caught:
        build()
    assert isinstance(caught.value, UserError), repr(caught.value)
    for word in words:
        assert word in str(caught.value)


def test_equality_is_of_programs():
    assert A[i, j] + 1 == A[i, j] + 1
    assert A[i, j] + 1 != A[i, j] + 2
    assert Const(0.0, "f32") != Const(-0.0, "f32")
    assert Const(float("nan"), "f32") == Const(float("nan"), "f32")
    assert Const(1, "i32") != Const(1, "i64")
    assert len({A[i, j] + 1, A[i, j] + 1, A[i, j]}) == 2


def test_wrap_numbers():
    assert wrap(True, "f32") == Const(1.0, "f32")
    assert wrap(True) == Const(True, "bool")
    assert wrap(3, "f64") == Const(3.0, "f64")
    assert wrap(np.float32(0.5)) == Const(0.5, "f32")
    assert wrap(np.int64(3)) == Const(3, "i64")
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
    assert A[i, k] == A[i, Var("k")]
    stage = ts.compute((4,), lambda i: ts.sum(A[i, k] * ts.cast("f32", k), axis=k), name="S").stage
    assert stage is not None
    assert not any(isinstance(x, Axis) for x in walk(stage.body))
