"""Random inputs, and a comparison that accepts rounding but nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from tensorsmith.lang import define as ts
from tensorsmith.lang.compare import assert_close, close, difference, random_inputs, tolerance
from tensorsmith.lang.evaluate import evaluate


def matmul(n, m, k, dtype="f32"):
    a, b = ts.placeholder((n, k), dtype, name="a"), ts.placeholder((k, m), dtype, name="b")
    over = ts.reduce_axis(k, "k")
    return ts.workload([a, b, ts.compute((n, m), lambda i, j: ts.sum(a[i, over] * b[over, j], axis=over), name="c")])


def sequential(a, b):
    """The worst usual order of summation: one accumulator per element; of f16 in f32, rounded at the end."""
    kind = a.dtype if a.itemsize > 2 else np.float32
    total = np.zeros((a.shape[0], b.shape[1]), kind)
    for k in range(a.shape[1]):
        total += a[:, k : k + 1].astype(kind) * b[k].astype(kind)
    return total.astype(a.dtype)


@pytest.mark.parametrize("dtype", ["f16", "f32", "f64"])
@pytest.mark.parametrize("k", [1, 7, 64, 1000, 4608])
def test_rounding_is_accepted_and_a_missing_term_is_not(dtype, k):
    w = matmul(16, 17, k, dtype)
    inputs = random_inputs(w, k)
    want = evaluate(w, inputs, precise=True)["c"]
    got = sequential(inputs["a"], inputs["b"])
    assert_close(w, "c", got, want)
    got[3, 4] -= inputs["a"][3, 0] * inputs["b"][0, 4]
    below_rounding = dtype == "f16" and k > 7
    assert close(w, "c", got, want) == below_rounding
    if not below_rounding:
        with pytest.raises(AssertionError, match=r"c: 1 of 272 elements are wrong, the worst at \[3, 4\]"):
            assert_close(w, "c", got, want)


def test_tolerance_grows_with_the_reductions_before():
    assert tolerance(matmul(2, 2, 64), "c") == pytest.approx(8 * 8 * np.finfo("f4").eps)
    assert tolerance(matmul(2, 2, 64, "f64"), "c") < 1e-13
    assert tolerance(matmul(2, 2, 64, "i32"), "c") == 0
    x = ts.placeholder((4,), name="x")
    y = ts.compute((4,), lambda i: x[i] + 1, name="y")
    z = ts.compute((4,), lambda i: y[i] * 2, name="z")
    w = ts.workload([x, z])
    assert tolerance(w, "z") == 2 * tolerance(w, "y")


def test_what_is_never_accepted():
    w = matmul(2, 3, 4)
    want = np.ones((2, 3), "f4")
    assert close(w, "c", want.copy(), want)
    for bad in (np.nan, np.inf, -np.inf, 0, -1, 1.001):
        got = want.copy()
        got[1, 2] = bad
        assert "[1, 2]" in str(difference(w, "c", got, want))
    assert "float64" in str(difference(w, "c", want.astype("f8"), want))
    assert "[3, 2]" in str(difference(w, "c", want.T, want))
    special = np.array([[np.nan, np.inf, -np.inf], [1, 2, 3]], "f4")
    assert close(w, "c", special.copy(), special)
    assert not close(w, "c", want, special)
    assert not close(w, "c", np.where(np.isinf(special), -special, special), special)
    assert not close(w, "c", want * 0, want)
    zeros = np.zeros_like(want)
    assert close(w, "c", zeros, zeros)
    assert not close(w, "c", zeros + np.float32(1e-30), zeros)


def test_integers_must_be_equal():
    w = matmul(2, 3, 4, "i32")
    want = np.arange(6, dtype="i4").reshape(2, 3)
    assert close(w, "c", want, want)
    assert "got 6, expected 5" in str(difference(w, "c", np.where(want == 5, 6, want).astype("i4"), want))


def test_random_inputs_are_sensible_and_seeded():
    tensors = [ts.placeholder((50,), kind, name=f"t_{kind}") for kind in ("f16", "f32", "f64", "i8", "u8", "i32", "bool")]
    out = ts.compute((50,), lambda i: ts.cast("f32", tensors[-1][i]), name="out")
    w = ts.workload([*tensors, out])
    first, again, other = random_inputs(w, 3), random_inputs(w, 3), random_inputs(w, 4)
    for t in tensors:
        x = first[t.name]
        assert x.shape == (50,)
        assert len(np.unique(x)) > 1
        np.testing.assert_array_equal(x, again[t.name])
        assert not np.array_equal(x, other[t.name])
        assert np.abs(x.astype("f8")).max() <= (1 if t.dtype[0] == "f" else 16)


def test_inputs_used_as_indices_are_in_bounds():
    table = ts.placeholder((3, 70), name="table")
    row, column = ts.placeholder((99,), "i32", name="row"), ts.placeholder((99,), "i64", name="column")
    doubled = ts.compute((99,), lambda i: column[i] * 1, name="doubled")
    out = ts.compute((99,), lambda i: table[row[i], doubled[i]], name="out")
    found = random_inputs(ts.workload([table, row, column, out]), 0)
    assert set(found["row"]) == {0, 1, 2}
    assert found["column"].min() >= 0
    assert 16 < found["column"].max() < 70


def test_a_bool_is_a_byte_of_0_or_1():
    A = ts.placeholder((4,), name="A")
    workload = ts.workload([A, ts.compute((4,), lambda i: A[i] < 2.0, name="T")])
    right = np.ones(4, bool)
    assert difference(workload, "T", right.copy(), right) is None
    never_written = np.full(4, 255, np.uint8).view(bool)
    assert "4 of 4 elements are wrong" in str(difference(workload, "T", never_written, right))
