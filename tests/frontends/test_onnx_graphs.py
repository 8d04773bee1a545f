"""Small graphs that went wrong once (random ones found them), against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import parser
from tests.frontends.onnx_nodes import by_onnxruntime, check, random

import tensorsmith as ts


def agree(text: str, opset: int = 13, **inputs: np.ndarray) -> None:
    """The compiled model gives what ONNX Runtime gives. The text: `g (float[2] x) => (float[2] y) { y = Relu(x) }`."""
    proto = parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> {text}')
    want = by_onnxruntime(proto, inputs)
    got = list(ts.compile(ts.load(proto)).run(inputs).values())
    assert len(got) == len(want)
    for mine, theirs in zip(got, want):
        assert (mine.shape, mine.dtype) == (theirs.shape, theirs.dtype)
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-5)


def test_a_convolution_pads_every_other_row() -> None:
    agree(
        """g (float[1, 3, 17, 5] x, float[2, 3, 5, 5] w) => (float[1, 2, 9, 5] y)
        <int64[1] start = {0}, int64[1] end = {17}, int64[1] axis = {2}, int64[1] step = {2}>
        { t = Slice(x, start, end, axis, step)  y = Conv<pads = [2, 2, 2, 2]>(t, w) }""",
        x=random(1, 3, 17, 5),
        w=random(2, 3, 5, 5),
    )


@pytest.mark.parametrize("cut", ["s = Softmax<axis = 1>(x)", "s = MatMul(x, w)"])
def test_only_the_first_rows_of_a_result_are_wanted(cut: str) -> None:
    agree(
        f"g (float[3, 7] x, float[7, 7] w) => (float[2, 7] y) <int64[4] p = {{0, 0, -1, 0}}> {{ {cut}  y = Pad(s, p) }}",
        x=random(3, 7),
        w=random(7, 7),
    )


def test_only_the_first_rows_of_a_normalised_result_are_wanted() -> None:
    agree(
        """g (float[3, 7] x, float[7] w) => (float[2, 7] y) <int64[1] zero = {0}, int64[1] two = {2}>
        { n = LayerNormalization<axis = 1>(x, w)  y = Slice(n, zero, two, zero) }""",
        opset=17,
        x=random(3, 7),
        w=random(7),
    )


@pytest.mark.parametrize("divisor", [41, 47, 55, 3, 8])
@pytest.mark.parametrize("step", ["y = Floor(q)", "i = Cast<to = 7>(q)  y = Cast<to = 1>(i)", "z = Transpose(q)  y = Ceil(z)"])
def test_a_quotient_that_is_rounded_is_exact(divisor: int, step: str) -> None:
    """41 * (1 / 41) is less than 1."""
    agree(
        f"g (float[400] x) => (float[400] y) <float[1] d = {{{divisor}.0}}> {{ q = Div(x, d)  {step} }}",
        x=np.arange(400, dtype=np.float32),
    )


@pytest.mark.parametrize("kind", ["ReduceLogSum", "ReduceL2", "ReduceMean"])
def test_reductions_of_integers_stay_integers(kind: str) -> None:
    check(kind, [np.array([[1, 5, 3], [2, 0, 7], [9, 1, 1]], np.int32)], opset=13, compiled=True, axes=[1])


def test_layer_normalization_in_an_older_file() -> None:
    check("LayerNormalization", [random(3, 8), random(8, seed=1), random(8, seed=2)], opset=11, axis=-1)


def test_the_positions_of_the_largest_are_not_wanted() -> None:
    agree("g (float[17] x) => (float[3] y) <int64[1] k = {3}> { y, unused = TopK<axis = 0>(x, k) }", x=random(17))
