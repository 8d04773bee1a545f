"""Networks whose tensors are all f16 or bf16: as near to the f32 ones as their inputs and weights allow, in definition and code."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import tensorsmith as ts
from tensorsmith.lang.dtypes import dtype


def network(kind: str, seed: int = 0) -> onnx.ModelProto:
    """A convolution, a mean over the image, a dense layer with normalisation and GELU, a softmax: all of one type."""
    rng = np.random.default_rng(seed)
    numpy, number = dtype(kind).numpy, helper.np_dtype_to_tensor_dtype(dtype(kind).numpy)
    shapes = {"w": (16, 8, 3, 3), "b": (16,), "v": (16, 40), "c": (40,), "scale": (40,), "shift": (40,), "u": (40, 7)}
    # weights that every type holds exactly: what is compared is the arithmetic
    weights = {n: rng.integers(-32, 33, s).astype(np.float32) / 64 for n, s in shapes.items()}
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["z"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["z"], ["r"]),
        helper.make_node("AveragePool", ["r"], ["p"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("GlobalAveragePool", ["p"], ["m"]),
        helper.make_node("Flatten", ["m"], ["f"]),
        helper.make_node("Gemm", ["f", "v", "c"], ["g"]),
        helper.make_node("LayerNormalization", ["g", "scale", "shift"], ["n"], axis=-1),
        helper.make_node("Gelu", ["n"], ["h"]),
        helper.make_node("MatMul", ["h", "u"], ["s"]),
        helper.make_node("Softmax", ["s"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(n, number, s) for n, s in (("x", (2, 8, 9, 10)), ("y", (2, 7)))]
    constants = [numpy_helper.from_array(a.astype(numpy), n) for n, a in weights.items()]
    graph = helper.make_graph(nodes, "halves", ends[:1], ends[1:], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_a_network_of_halves(kind: str) -> None:
    x = np.random.default_rng(1).integers(-16, 17, (2, 8, 9, 10)) / 16
    exact = ts.load(network("f64").SerializeToString()).evaluate([x])["y"]
    model = ts.load(network(kind).SerializeToString())
    assert {v.dtype for v in (*model.inputs, *model.outputs)} == {kind}
    given = x.astype(dtype(kind).numpy)
    for y in (ts.compile(model)(given), model.evaluate([given])["y"]):
        assert y.dtype == dtype(kind).numpy
        np.testing.assert_allclose(y.astype("f8"), exact, rtol=0, atol=8 * dtype(kind).epsilon * exact.max())


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_long_sums_are_as_good_as_in_f32(kind: str) -> None:
    """A mean of 65,536 numbers of size 3: their sum is beyond f16, and a sum in bf16 would stop at 1024."""
    number = helper.np_dtype_to_tensor_dtype(dtype(kind).numpy)
    ends = [helper.make_tensor_value_info(n, number, s) for n, s in (("x", (1, 1, 256, 256)), ("y", (1, 1, 1, 1)))]
    graph = helper.make_graph([helper.make_node("GlobalAveragePool", ["x"], ["y"])], "mean", ends[:1], ends[1:])
    model = ts.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString())
    x = np.full((1, 1, 256, 256), 3).astype(dtype(kind).numpy)
    assert ts.compile(model)(x).astype(float) == 3
