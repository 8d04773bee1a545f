"""Quantisation against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tensorsmith.errors import UserError
from tensorsmith.lang.define import placeholder
from tensorsmith.ops import quantised


@pytest.mark.parametrize(("dtype", "low", "high"), [("u8", 0, 255), ("i8", -128, 127)])
def test_quantize(run, random, dtype, low, high):
    x, scale = random(4, 6) * 400, np.abs(random(6)) + 0.5
    zero = np.arange(6).astype("u1" if dtype == "u8" else "i1")
    got = run(quantised.quantize, x, scale, zero, dtype=dtype)
    assert got.dtype == zero.dtype
    assert (got == np.clip(np.rint(x.astype("f8") / scale) + zero, low, high)).all()


def test_halves_go_to_the_even_neighbour(run):
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5], "f4")
    assert run(quantised.quantize, x, np.ones((), "f4"), dtype="i8").tolist() == [0, 2, 2, 0, -2]


def test_dequantize_undoes_it(run):
    q = np.arange(256).astype("u1")
    scale, zero = np.array(0.25, "f4"), np.array(100, "u1")
    x = run(quantised.dequantize, q, scale, zero)
    assert x.tolist() == ((np.arange(256) - 100) * 0.25).tolist()
    assert (run(quantised.quantize, x.astype("f4"), scale, zero) == q).all()


def test_products_in_32_bits(run):
    q = np.array([0, 255], "u1")
    assert run(quantised.centred, q, np.array(255, "u1")).tolist() == [-255, 0]
    total = np.array([1000, -1000, 10**6], "i4")
    got = run(quantised.requantize, total, np.array(0.01, "f4"), np.array(100, "u1"))
    assert got.tolist() == [110, 90, 255]


@pytest.mark.parametrize("x", [[-1, 3], [1, 3], [-3, -1], [0, 0]])
def test_dynamic(run, x):
    x = np.array(x, "f4")
    y, scale, zero = (run(lambda t, n=n: quantised.dynamic_quantize(t)[n], x) for n in range(3))
    span = max(x.max(), 0) - min(x.min(), 0)
    np.testing.assert_allclose(scale, (span or 1) / 255, rtol=1e-6)
    np.testing.assert_allclose((y.astype("f8") - zero) * scale, x, atol=scale)


def test_refusals():
    with pytest.raises(UserError, match="cannot quantise to f32"):
        quantised.quantize(placeholder((4,), name="x"), placeholder((), name="s"), dtype="f32")
