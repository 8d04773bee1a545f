"""Matrix products against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tensorsmith.errors import UserError
from tensorsmith.lang.define import placeholder, workload
from tensorsmith.ops import linalg


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize(("n", "m", "k"), [(1, 1, 1), (7, 8, 9), (16, 1, 17), (1, 33, 15)])
def test_matmul(run, random, same, n, m, k, transpose_a, transpose_b):
    a, b = random(n, k), random(k, m)
    given = (a.T if transpose_a else a), (b.T if transpose_b else b)
    same(run(linalg.matmul, *given, transpose_a=transpose_a, transpose_b=transpose_b), a.astype("f8") @ b)


@pytest.mark.parametrize(("lead_a", "lead_b"), [((2,), (2,)), ((2, 3), (2, 3)), ((2, 1), (3,)), ((), (4,)), ((1,), (5,))])
@pytest.mark.parametrize("transpose_b", [False, True])
def test_batch_matmul(run, random, same, lead_a, lead_b, transpose_b):
    a, b = random(*lead_a, 5, 6), random(*lead_b, 6, 7)
    given = b.swapaxes(-1, -2) if transpose_b else b
    same(run(linalg.batch_matmul, a, given, transpose_b=transpose_b), a.astype("f8") @ b)


@pytest.mark.parametrize("lead", [(), (3,), (2, 3)])
@pytest.mark.parametrize("transposed", [False, True])
def test_dense(run, random, same, lead, transposed):
    x, w, bias = random(*lead, 5), random(5, 4), random(4)
    given = w.T if transposed else w
    same(run(lambda *t: linalg.dense(*t, transposed=transposed), x, given), x.astype("f8") @ w)
    same(run(lambda *t: linalg.dense(*t, transposed=transposed), x, given, bias), x.astype("f8") @ w + bias)


def test_integer_matmul_wraps(run):
    a = np.full((2, 300), 100, "i1")
    assert run(linalg.matmul, a, a.T).tolist() == [[np.int64(300 * 10000).astype("i1")] * 2] * 2


def test_text():
    a, b = placeholder((2, 3), name="a"), placeholder((3, 4), name="b")
    assert "matmul[i<2, j<4]: f32 = sum(a[i, k] * b[k, j], over k<3)" in str(workload([a, b, linalg.matmul(a, b)]))


def test_refusals():
    a, b = placeholder((2, 3), name="a"), placeholder((4, 5), name="b")
    with pytest.raises(UserError, match="depth is 3 of one and 4"):
        linalg.matmul(a, b)
    with pytest.raises(UserError, match=r"a has the shape \[2, 3, 4\]; expected 2 dimensions"):
        linalg.matmul(placeholder((2, 3, 4), name="a"), b)
    with pytest.raises(UserError, match="must end in 4"):
        linalg.dense(a, b)
