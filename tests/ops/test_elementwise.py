"""Element-wise operators against NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tensorsmith.errors import UserError
from tensorsmith.lang.define import placeholder, workload
from tensorsmith.ops import elementwise as ops


@pytest.mark.parametrize(
    ("a", "b"),
    [((3, 4), (3, 4)), ((3, 4), (4,)), ((3, 1), (1, 4)), ((2, 1, 4), (3, 1)), ((), (3,)), ((1,), (1,)), ((), ())],
)
def test_broadcasting(run, random, same, a, b):
    x, y = random(*a), random(*b)
    same(run(ops.add, x, y), np.asarray(x + y))
    same(run(ops.subtract, x, y), np.asarray(x - y))
    same(run(ops.multiply, x, y), np.asarray(x * y))
    same(run(ops.divide, x, y), np.asarray(x.astype("f8") / y))
    same(run(ops.maximum, x, y), np.asarray(np.maximum(x, y)))
    same(run(ops.minimum, x, y), np.asarray(np.minimum(x, y)))
    same(run(ops.power, np.abs(x), y), np.asarray(np.abs(x).astype("f8") ** y))


def test_numbers_are_operands(run, random, same):
    x = random(3, 4)
    same(run(lambda t: ops.subtract(1, t), x), 1 - x)
    same(run(lambda t: ops.multiply(t, 2.5), x), x * np.float32(2.5))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize(
    ("operator", "options", "want"),
    [
        (ops.relu, {}, lambda x: np.maximum(x, 0)),
        (ops.leaky_relu, {"slope": 0.1}, lambda x: np.where(x < 0, x * 0.1, x)),
        (ops.clip, {"low": -1, "high": 2.5}, lambda x: np.clip(x, -1, 2.5)),
        (ops.silu, {}, lambda x: x * sigmoid(x)),
        (ops.gelu, {}, lambda x: x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))),
        (
            ops.gelu,
            {"approximate": True},
            lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
        ),
        (ops.hard_sigmoid, {}, lambda x: np.clip(x / 6 + 0.5, 0, 1)),
        (ops.hard_swish, {}, lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
        (ops.exp, {}, np.exp),
        (ops.tanh, {}, np.tanh),
        (ops.sigmoid, {}, sigmoid),
        (ops.absolute, {}, np.abs),
        (ops.negative, {}, np.negative),
        (ops.square, {}, np.square),
        (ops.erf, {}, np.vectorize(math.erf)),
    ],
)
def test_functions(run, same, operator, options, want):
    x = np.linspace(-6, 6, 41).astype("f4")
    got = run(operator, x, **options)
    np.testing.assert_allclose(got, want(x.astype("f8")), rtol=2e-6, atol=2e-6)


def test_log_and_sqrt(run, same):
    x = np.linspace(0.1, 9, 41).astype("f4")
    same(run(ops.log, x), np.log(x))
    same(run(ops.sqrt, x), np.sqrt(x))


def test_bias_cast_where(run, random, same):
    x, bias = random(2, 3, 4), random(4)
    same(run(ops.bias_add, x, bias), x + bias)
    np.testing.assert_array_equal(run(lambda t: ops.cast("i32", t), x * 9), (x * 9).astype("i4"))
    mask = x > 0
    np.testing.assert_array_equal(run(ops.where, mask, x, bias), np.where(mask, x, bias))
    np.testing.assert_array_equal(run(lambda m, t: ops.where(m, t, 0), mask, x), np.where(mask, x, 0))


def test_refusals():
    with pytest.raises(UserError, match=r"\[3\], \[4\] do not broadcast at dimension -1"):
        ops.add(placeholder((3,), name="a"), placeholder((4,), name="b"))
    with pytest.raises(UserError, match="x has 4 channels"):
        ops.bias_add(placeholder((3, 4), name="x"), placeholder((3,), name="b"))


def test_names():
    a, b = placeholder((3,), name="a"), placeholder((3,), name="b")
    w = workload([a, b, ops.relu(ops.add(a, b, name="total"), name="out")])
    assert [s.name for s in w.stages] == ["total", "out"]
