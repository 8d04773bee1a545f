"""Tiny ONNX files for the tests of the command line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Shape = tuple[int | str, ...]


def write_dense(path: Path, shape: Shape = (4, 8)) -> str:
    """y = relu(x @ w), sum = y summed over its columns; w is 8 x 16."""
    w = np.random.default_rng(1).standard_normal((8, 16)).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["z"]),
        helper.make_node("Relu", ["z"], ["y"]),
        helper.make_node("ReduceSum", ["y", "axes"], ["sum"], keepdims=0),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("y", "sum")]
    constants = [numpy_helper.from_array(w, "w"), numpy_helper.from_array(np.array([1]), "axes")]
    return _write(path, helper.make_graph(nodes, "dense", inputs, outputs, constants))


def write_wide(path: Path) -> str:
    """y = x @ w, with w 80 x 70: large enough to be stored in fewer bits."""
    w = np.random.default_rng(1).standard_normal((80, 70)).astype(np.float32)
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (2, n)) for name, n in (("x", 80), ("y", 70))]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    return _write(path, helper.make_graph(nodes, "wide", ends[:1], ends[1:], [numpy_helper.from_array(w, "w")]))


def write_lookup(path: Path) -> str:
    """Rows of a table of two, plus an offset: an integer and a float input."""
    table = np.arange(6, dtype=np.float32).reshape(2, 3)
    nodes = [helper.make_node("Gather", ["table", "ids"], ["rows"]), helper.make_node("Add", ["rows", "offset"], ["y"])]
    inputs = [
        helper.make_tensor_value_info("ids", TensorProto.INT64, (5,)),
        helper.make_tensor_value_info("offset", TensorProto.FLOAT, (5, 3)),
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, (5, 3))]
    return _write(path, helper.make_graph(nodes, "lookup", inputs, outputs, [numpy_helper.from_array(table, "table")]))


def _write(path: Path, graph: onnx.GraphProto) -> str:
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    path.write_bytes(model.SerializeToString())
    return str(path)
