"""Indices from data that are out of bounds: clamped, or an error where that is asked for."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorsmith as ts
from tensorsmith.cli.smallnet import write
from tensorsmith.errors import UserError
from tensorsmith.lang.index_check import index_check

X = np.arange(12, dtype="f4").reshape(4, 3)
A = ts.placeholder((4, 3), name="A")
I = ts.placeholder((5,), "i32", name="I")
ROWS = ts.compute((5, 3), lambda i, j: A[I[i], j], name="B")


def index(*values: int) -> np.ndarray:
    return np.array(values, "i4")


def test_they_are_clamped_unless_asked() -> None:
    at = index(0, 3, 4, 99, -1)
    np.testing.assert_array_equal(ts.compile([A, I, ROWS])(X, at), X[at.clip(0, 3)])


def test_they_are_checked_if_asked() -> None:
    kernel = ts.compile([A, I, ROWS], check_indices=True)
    at = index(0, 3, 1, 2, 3)
    np.testing.assert_array_equal(kernel(X, at), X[at])
    np.testing.assert_array_equal(kernel(I=at, A=X), X[at])
    np.testing.assert_array_equal(kernel.run({"A": X, "I": at})["B"], X[at])
    out = np.empty((5, 3), "f4")
    assert kernel(X, at, out=out) is out and np.array_equal(out, X[at])
    with pytest.raises(UserError, match=r"stage B: `A\[i64\(I\[i\]\), j\]` reads dimension 0 of A at 7; allowed are 0\.\.3"):
        kernel(X, index(0, 7, 4, 1, 2))
    with pytest.raises(UserError, match=r"reads dimension 0 of A at -3; allowed are 0\.\.3"):
        kernel(X, index(0, 1, -3, 9, 2))


def test_wrong_inputs_are_told_as_ever() -> None:
    kernel = ts.compile([A, I, ROWS], check_indices=True)
    for arguments, words in [((X,), "takes 2 inputs"), ((X, np.zeros(4, "i4")), "I"), ((X[:2], index(0, 0, 0, 0, 0)), "A")]:
        with pytest.raises(UserError, match=words):
            kernel(*arguments)


def test_a_load_that_is_not_performed_is_not_checked() -> None:
    """Guarded by a condition; or in one branch alone, where the other reads as it likes."""
    safe = ts.compute(5, lambda i: ts.select((I[i] >= 0) & (I[i] < 4), A[I[i], 0], -1.0), name="safe")
    kernel = ts.compile([A, I, safe], check_indices=True)
    np.testing.assert_array_equal(kernel(X, index(0, 4, -1, 3, 100)), [0, -1, -1, 9, -1])
    half = ts.compute(5, lambda i: ts.select(I[i] >= 0, A[I[i], 0], -1.0), name="half")
    kernel = ts.compile([A, I, half], check_indices=True)
    np.testing.assert_array_equal(kernel(X, index(0, -4, -1, 3, 1)), [0, -1, -1, 9, 3])
    with pytest.raises(UserError, match=r"stage half: .* of A at 100"):
        kernel(X, index(0, -4, -1, 3, 100))


def test_indices_of_indices_and_of_stages() -> None:
    """Each is checked where it is used: through a stage, inside of a reduction, in the second dimension."""
    n = ts.placeholder((3,), "i64", name="N")
    k = ts.reduce_axis(3, name="k")
    twice = ts.compute(5, lambda i: I[i] * 2, name="twice")
    out = ts.compute(5, lambda i: ts.sum(A[twice[i], n[k]], axis=k), name="out")
    kernel = ts.compile([A, I, n, out], check_indices=True)
    at, columns = index(0, 1, 1, 0, 1), np.array([2, 0, 1])
    np.testing.assert_array_equal(kernel(X, at, columns), X[at * 2].sum(1))
    with pytest.raises(UserError, match=r"stage out: .* reads dimension 0 of A at 4; allowed are 0\.\.3"):
        kernel(X, index(0, 1, 2, 0, 1), columns)
    with pytest.raises(UserError, match=r"stage out: .* reads dimension 1 of A at -1; allowed are 0\.\.2"):
        kernel(X, at, np.array([2, -1, 1]))


def test_the_check_needs_the_indices_alone() -> None:
    found = index_check(ts.workload([A, I, ROWS]))
    assert found is not None
    check, (limit,) = found
    assert [b.name for b in check.inputs] == ["I"] and (limit.tensor, limit.dimension, limit.extent) == ("A", 0, 4)
    assert all([a.name for a in s.all_axes] == ["i"] for s in check.stages)  # the columns do not matter


def test_without_such_indices_nothing_is_added() -> None:
    plain = ts.compute((4, 3), lambda i, j: A[3 - i, j], name="plain")
    assert index_check(ts.workload([A, plain])) is None
    assert type(ts.compile([A, plain], check_indices=True)) is type(ts.compile([A, plain]))


def test_constants_are_bound_to_both() -> None:
    table = ts.placeholder((5,), "i32", name="I", constant=True)
    weights = ts.placeholder((4, 3), name="A", constant=True)
    shift = ts.placeholder((), "i32", name="shift")
    rows = ts.compute((5, 3), lambda i, j: weights[table[i] + shift[()], j], name="rows")
    kernel = ts.compile([weights, table, shift, rows], check_indices=True).bind(A=X, I=index(0, 1, 2, 0, 1))
    np.testing.assert_array_equal(kernel(1), X[[1, 2, 3, 1, 2]])
    with pytest.raises(UserError, match="reads dimension 0 of A at 4"):
        kernel(2)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda kernel: pickle.loads(pickle.dumps(kernel))])
def test_copies_and_pickles_check_too(copied: Callable[[Any], Any]) -> None:
    kernel = copied(ts.compile([A, I, ROWS], check_indices=True))
    np.testing.assert_array_equal(kernel(X, index(0, 1, 2, 3, 0)), X[[0, 1, 2, 3, 0]])
    with pytest.raises(UserError, match="reads dimension 0 of A at 4"):
        kernel(X, index(0, 1, 2, 3, 4))


def test_names_of_the_users_own_are_no_trouble() -> None:
    check = ts.placeholder((5,), "i32", name="check0_least")
    rows = ts.compute(5, lambda i: A[check[i], 0], name="check0_most")
    with pytest.raises(UserError, match="stage check0_most"):
        ts.compile([A, check, rows], check_indices=True)(X, index(0, 1, 2, 3, 4))


def test_neither_files_nor_models(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="checks indices, which a file cannot; compile it without check_indices"):
        ts.compile([A, I, ROWS], check_indices=True).save(tmp_path / "kernel.tsm")
    write(tmp_path / "net.onnx")
    with pytest.raises(UserError, match="check_indices is for definitions"):
        ts.compile(ts.load(tmp_path / "net.onnx"), check_indices=True)
