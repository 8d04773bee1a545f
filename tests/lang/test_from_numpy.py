"""NumPy's functions on expressions are the language's; where it has none, the message says so."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

import tensorsmith as ts
from tensorsmith.errors import UserError
from tensorsmith.lang.from_numpy import FUNCTIONS

A = ts.placeholder((4, 4), name="A")
N = ts.placeholder((4, 4), "i32", name="N")
K = ts.reduce_axis(4, name="k")
X, Y = A[0, 1], A[2, 3]


@pytest.mark.parametrize(
    ("numpys", "ours"),
    [
        (np.exp(X), ts.exp(X)),
        (np.arctan2(X, Y), ts.atan2(X, Y)),
        (np.maximum(X, 0.0), ts.maximum(X, 0.0)),
        (np.abs(X), ts.abs(X)),
        (np.rint(X), ts.round(X)),
        (np.round(X), ts.round(X)),
        (np.isnan(X), ts.isnan(X)),
        (np.where(X > 0, X, 0.0), ts.where(X > 0, X, 0.0)),
        (np.clip(X, 0, 1), ts.clip(X, 0, 1)),
        (np.sum(A[0, K], axis=K), ts.sum(A[0, K], axis=K)),
        (np.max(A[0, K], K), ts.max(A[0, K], K)),
        (np.mean(A[0, K], axis=K), ts.mean(A[0, K], axis=K)),
        (np.add(X, Y), X + Y),
        (np.subtract(1.0, Y), 1.0 - Y),
        (np.negative(X), -X),
        (np.bitwise_and(N[0, 0], 3), N[0, 0] & 3),
        (np.float32(2) * X, 2.0 * X),
        (np.int64(2) * X, 2.0 * X),
        (np.float64(2) ** X, 2.0**X),
        (np.float32(2) < X, X > 2.0),
        (np.array(2.0) - X, 2.0 - X),
    ],
)
def test_the_same_expression(numpys: ts.lang.nodes.Expr, ours: ts.lang.nodes.Expr) -> None:
    assert numpys is ours


def test_every_function_of_one_argument_that_both_have() -> None:
    shared = [n for n in FUNCTIONS if isinstance(getattr(np, n, None), np.ufunc) and getattr(np, n).nin == 1]
    assert len(shared) > 20
    for name in shared:
        assert getattr(np, name)(X) is getattr(ts, name)(X), name


def test_it_computes_what_numpy_does() -> None:
    kernel = ts.compile([A, ts.compute((4, 4), lambda i, j: np.tanh(A[i, j]) + np.sqrt(np.abs(A[i, j])), name="B")])
    a = np.random.default_rng(0).standard_normal((4, 4), np.float32)
    np.testing.assert_allclose(kernel(a), np.tanh(a) + np.sqrt(np.abs(a)), rtol=1e-5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: np.cbrt(X), "np.cbrt knows nothing of expressions, and the language has no function of that name; docs/"),
        (lambda: np.add.reduce(X), "np.add.reduce knows nothing of expressions"),
        (lambda: np.select([X > 0], [X]), "np.select knows nothing of expressions"),
        (lambda: np.sum(X), "np.sum of an expression is ts.sum(source, axis): missing a required argument: 'axis'"),
        (lambda: np.round(X, 2), "np.round of an expression is ts.round(a): too many positional arguments"),
        (lambda: np.exp(X, out=np.zeros(1)), "np.exp of an expression is ts.exp(a): got an unexpected keyword argument 'out'"),
        (lambda: np.clip(X, 0, 1, 2), "np.clip of an expression is ts.clip(x, low=None, high=None): "),
        (lambda: np.ones(2) * X, "np.multiply of an array of shape (2,) and an expression: make it a tensor, ts.placeholder((2,)"),
        (lambda: np.exp(A), "is written of its elements, as in ts.compute(A.shape, lambda i, j: ts.exp(A[i, j]))"),
        (lambda: np.float32(2) * A, "np.multiply of the tensor A: a computation is written of its elements, as in A[i, j]"),
        (lambda: np.dot(A, A), "np.dot of the tensor A"),
    ],
)  # fmt: skip
def test_what_it_says_instead(call: Callable[[], object], message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        call()
