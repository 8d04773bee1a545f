"""A short way to write ONNX graphs: `y = g("Relu", x)` adds a node and gives the name of its output."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

Given = str | np.ndarray | int | float | list[Any] | None


class Draft:
    """A graph that is being written, at a version of the operator set."""

    def __init__(self, opset: int) -> None:
        self.opset = opset
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}
        self.inputs: list[Any] = []
        self._count = 0

    def input(self, name: str, array: np.ndarray) -> str:
        """An input like an array."""
        self.inputs.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape))
        return name

    def constant(self, given: Any, kind: Any = None) -> str:
        """An initializer: whole numbers are of i64, others of f32, unless the array has a type."""
        array = np.asarray(given) if isinstance(given, (np.ndarray, np.generic)) else _array(given)
        name = f"c{len(self.constants)}"
        self.constants[name] = array if kind is None else array.astype(kind)
        return name

    def __call__(self, op: str, *inputs: Given, outputs: int = 1, domain: str = "", **attributes: Any) -> Any:
        """A node; what is no name becomes a constant, None is left out. Gives the name of its output, or a list of several."""
        names = [i if isinstance(i, str) else "" if i is None else self.constant(i) for i in inputs]
        made = [f"t{self._count + n}" for n in range(outputs)]
        self._count += outputs
        self.nodes.append(helper.make_node(op, names, made, name=f"{op}_{len(self.nodes)}", domain=domain, **attributes))
        return made[0] if outputs == 1 else made

    def along(self, op: str, x: str, axes: list[int], since: int = 13, **attributes: Any) -> str:
        """An operator whose axes are an attribute before a version, and an input from then on."""
        if self.opset < since:
            return str(self(op, x, axes=axes, **attributes))
        return str(self(op, x, axes, **attributes))

    def body(self, name: str, inputs: list[str], outputs: list[str], nodes: list[NodeProto]) -> GraphProto:
        """A graph inside a node."""
        return helper.make_graph(nodes, name, [_untyped(n) for n in inputs], [_untyped(n) for n in outputs])

    def model(self, outputs: list[str]) -> ModelProto:
        graph = helper.make_graph(
            self.nodes,
            "pattern",
            self.inputs,
            [_untyped(name) for name in outputs],
            [numpy_helper.from_array(array, name) for name, array in self.constants.items()],
        )
        sets = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=sets, ir_version=8)


def _array(given: Any) -> np.ndarray:
    array = np.array(given)
    return array.astype(np.int64 if array.dtype.kind in "iu" or not array.size else np.float32 if array.dtype.kind == "f" else bool)


def _untyped(name: str) -> Any:
    return helper.make_empty_tensor_value_info(name)


FLOAT, INT64, INT32, BOOL, FLOAT16 = (
    TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL, TensorProto.FLOAT16
)  # fmt: skip
