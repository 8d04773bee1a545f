"""Operations that nobody can do without: counted by an oracle that adds up ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import tensorsmith as ts
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.lang.flops import flops, stage_flops
from tensorsmith.lang.workload import Workload
from tensorsmith.ops import catalogue, conv, elementwise, transposed
from tensorsmith.rewrites.formulations import formulations
from tensorsmith.tuning.needed import needed_flops


def taps_inside(workload: Workload) -> float:
    """A sum of products of ones, zeros on the padding, adds up to the number of products that are not zero."""
    ones = {b.name: np.ones(b.shape, np.float32) for b in workload.inputs}
    return float(evaluate(workload, ones)[workload.outputs[0]].sum())


def convolution(h: int, w: int, ci: int, k: int, stride: int, pad: int, dilation: int) -> Workload:
    x, weight = ts.placeholder((1, h, w, ci), name="x"), ts.placeholder((k, k, ci, 5), name="weight", constant=True)
    return ts.workload([x, weight, conv.conv2d(x, weight, stride, pad, dilation)])


@settings(deadline=None, max_examples=40)
@given(
    st.integers(5, 12),
    st.integers(5, 12),
    st.integers(1, 3),
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(0, 3),
    st.integers(1, 2),
)
def test_taps_on_padding_do_not_count(h: int, w: int, ci: int, k: int, stride: int, pad: int, dilation: int) -> None:
    assume((k - 1) * dilation + 1 <= min(h, w) + 2 * pad)
    workload = convolution(h, w, ci, k, stride, pad, dilation)
    assume(len(formulations(workload)) == 1)
    assert needed_flops(workload) == pytest.approx(2 * taps_inside(workload))


@pytest.mark.parametrize(("k", "stride", "pad"), [(4, 2, 1), (2, 2, 0), (4, 2, 0)])
def test_a_transposed_convolution(k: int, stride: int, pad: int) -> None:
    x, weight = ts.placeholder((1, 6, 5, 3), name="x"), ts.placeholder((k, k, 3, 4), name="weight", constant=True)
    workload = ts.workload([x, weight, transposed.transposed_conv2d(x, weight, stride, pad)])
    assert needed_flops(workload) == pytest.approx(2 * taps_inside(workload))


def test_other_formulations_need_fewer() -> None:
    workload = catalogue.get("C2D-3-b1").workload()
    assert len(formulations(workload)) > 1
    largest = [max(stage_flops(s) for s in f.workload.stages) for f in formulations(workload)[1:]]
    assert needed_flops(workload) == min(largest) < flops(workload) / 2


def test_what_is_not_certain_does_not_count() -> None:
    x = ts.placeholder((8, 8), name="x")
    k = ts.reduce_axis(8, name="k")
    positive = ts.compute((8, 8), lambda i, j: ts.select(x[i, j] > 0.0, x[i, j] * 2.0, 0.0), name="positive")
    total = ts.compute((8,), lambda i: ts.sum(positive[i, k] * x[i, k], axis=k), name="total")
    assert needed_flops(ts.workload([x, total])) == 0  # who knows how many are zero
    double = ts.placeholder((8, 8), "f64", "d")
    assert needed_flops(ts.workload([double, elementwise.square(double)])) == 0
    constant = ts.placeholder((8, 8), name="c", constant=True)
    scaled = elementwise.square(constant, name="squared")
    result = ts.workload([x, constant, elementwise.add(x, scaled)])
    assert needed_flops(result) == 64  # the squares may be computed beforehand


def test_what_follows_a_padding_is_not_known() -> None:
    """A ReLU of zeros is zero, and so is what is multiplied by it."""
    x, weight = ts.placeholder((1, 6, 6, 2), name="x"), ts.placeholder((3, 3, 2, 4), name="weight", constant=True)
    padded = elementwise.relu(conv.pad_spatial(x, ((1, 1), (1, 1))))
    workload = ts.workload([x, weight, conv.conv2d(padded, weight, 1, 0)])
    assert needed_flops(workload) <= 2 * taps_inside(workload)
