"""Reductions against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tensorsmith.errors import UserError
from tensorsmith.lang.define import placeholder
from tensorsmith.ops import reduce


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axes", [None, 0, -1, (0, 2), (1,), ()])
def test_reductions(run, random, same, axes, keepdims):
    x = random(3, 4, 5)
    options = {"axes": axes, "keepdims": keepdims}
    for name in ("sum", "prod", "max", "min", "mean"):
        want = getattr(np, name)(x.astype("f8"), axis=axes, keepdims=keepdims)
        same(run(getattr(reduce, name), x, **options), np.asarray(want))


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("kind", ["f4", "i4", "u1"])
def test_positions(run, axis, keepdims, kind):
    x = np.random.default_rng(0).integers(0, 4, (5, 6, 7)).astype(kind)  # many ties: the first one counts
    for name in ("argmax", "argmin"):
        got = run(getattr(reduce, name), x, axis=axis, keepdims=keepdims)
        assert got.dtype == np.int64
        np.testing.assert_array_equal(got, getattr(np, name)(x, axis=axis, keepdims=keepdims))


def test_position_of_nan_and_infinity(run):
    nan, inf = np.nan, np.inf
    x = np.array([[1, nan, 3, nan], [-inf, -inf, -inf, -inf], [inf, 1, inf, 2]], "f4")
    np.testing.assert_array_equal(run(reduce.argmax, x, axis=1), np.argmax(x, 1))
    np.testing.assert_array_equal(run(reduce.argmin, x, axis=1), np.argmin(x, 1))


def test_integers(run):
    x = np.arange(12, dtype="i4").reshape(3, 4)
    np.testing.assert_array_equal(run(reduce.sum, x, axes=1), x.sum(1))
    assert run(reduce.sum, x, axes=1).dtype == np.int32


def test_refusals():
    x = placeholder((3, 4), name="x")
    with pytest.raises(UserError, match="dimension 2 does not exist; the tensor has 2"):
        reduce.sum(x, 2)
    with pytest.raises(UserError, match="twice"):
        reduce.sum(x, (0, -2))
    with pytest.raises(UserError, match="x is i32"):
        reduce.mean(placeholder((3,), "i32", name="x"))
    with pytest.raises(UserError, match="is empty"):
        reduce.argmax(placeholder((3, 0), name="x"), 1)
