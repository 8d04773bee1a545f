"""Small ONNX models for the provider's tests, and sessions of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnxruntime as ort
from onnx import NodeProto, TensorProto, helper, numpy_helper

import tensorsmith.onnxruntime as provided

Dims = Sequence[int | str | None]
node = helper.make_node


def model(
    nodes: Sequence[NodeProto],
    inputs: dict[str, Dims],
    outputs: Sequence[str],
    constants: dict[str, np.ndarray] | None = None,
    types: dict[str, int] | None = None,
) -> bytes:
    """A model whose inputs and outputs are f32, but for those in `types`."""
    kinds = types or {}
    values = [helper.make_tensor_value_info(n, kinds.get(n, TensorProto.FLOAT), dims) for n, dims in inputs.items()]
    results = [helper.make_tensor_value_info(n, kinds.get(n, TensorProto.FLOAT), None) for n in outputs]
    weights = [numpy_helper.from_array(array, n) for n, array in (constants or {}).items()]
    graph = helper.make_graph(nodes, "network", values, results, weights)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return bytes(made.SerializeToString())


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


def perceptron(batch: int | str = 4) -> bytes:
    """Two layers, and the softmax of their result."""
    nodes = [
        node("MatMul", ["x", "w1"], ["a"]),
        node("Relu", ["a"], ["b"]),
        node("MatMul", ["b", "w2"], ["c"]),
        node("Softmax", ["c"], ["y"], axis=-1),
    ]
    return model(nodes, {"x": [batch, 24]}, ["y"], {"w1": random(24, 32) / 5, "w2": random(32, 10) / 5})


def with_a_gap(batch: int | str = 4) -> bytes:
    """Layers around a node that only ONNX Runtime has: how large its result is, the data says."""
    nodes = [
        node("MatMul", ["x", "w"], ["a"]),
        node("Relu", ["a"], ["b"]),
        node("NonZero", ["b"], ["places"]),
        node("Shape", ["places"], ["shape"]),
        node("Cast", ["shape"], ["counts"], to=TensorProto.FLOAT),
        node("ReduceMax", ["counts"], ["count"], keepdims=0),
        node("MatMul", ["b", "w"], ["c"]),
        node("Add", ["c", "count"], ["d"]),
        node("Tanh", ["d"], ["e"]),
        node("MatMul", ["e", "w"], ["y"]),
    ]
    return model(nodes, {"x": [batch, 16]}, ["y"], {"w": random(16, 16) / 4})


def session(content: bytes | str, **options: Any) -> ort.InferenceSession:
    """One with our provider, silent about what it leaves to others."""
    given = provided.session_options(**options)
    given.log_severity_level = 4
    return ort.InferenceSession(content, given)


def theirs(content: bytes | str) -> ort.InferenceSession:
    """ONNX Runtime's own."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    return ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])
