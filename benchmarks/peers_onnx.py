"""ONNX Runtime and OpenVINO, each given the case as an ONNX model of a few nodes with the constants as initialisers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from formulations import convolutions
from frameworks import onnxruntime_session, openvino_model
from peers_numpy import EPSILON
from subgraphs import BUILDERS, subgraph
from tensorsmith.ops.catalogue import Case
from tensorsmith.runtime.buffers import aligned_copy
from ways import Way, onnxruntime_ways, openvino_ways

Form = tuple[str, Callable[[], object], Callable[[], np.ndarray]]
Restore = Callable[[np.ndarray], np.ndarray]
_OPSET, _IR_VERSION = 17, 9
_ELEMENT = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.int32): TensorProto.INT32}


@dataclass(frozen=True)
class Model:
    """Nodes from inputs (by name) to the value `y`. `restore` takes its result to our layout."""

    nodes: list[onnx.NodeProto]
    inputs: dict[str, np.ndarray]
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    restore: Restore = lambda y: y
    label: str = ""
    image: bool = False  # the input and the result are (N, C, spatial...)

    @property
    def rank(self) -> int:
        """Spatial dimensions of an image."""
        return next(iter(self.inputs.values())).ndim - 2

    def bytes(self) -> bytes:
        inputs = [helper.make_tensor_value_info(n, _ELEMENT[a.dtype], a.shape) for n, a in self.inputs.items()]
        output = helper.make_tensor_value_info("y", _ELEMENT[next(iter(self.inputs.values())).dtype], None)
        constants = [numpy_helper.from_array(np.ascontiguousarray(a), n) for n, a in self.constants.items()]
        graph = helper.make_graph(self.nodes, "case", inputs, [output], constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION)
        return onnx.shape_inference.infer_shapes(model).SerializeToString()


def forms(case: Case, arrays: Sequence[np.ndarray], threads: int, framework: str) -> Iterator[Form]:
    """Name, what to run, and its result in our layout."""
    for model in models(case, arrays):
        ways = _onnxruntime(model, threads) if framework == "onnxruntime" else _openvino(model, threads)
        for layout, way, restore in ways:
            name = " ".join(filter(None, (framework, way.name, model.label, layout)))
            yield name, way.run, _restored(way, restore)


def _restored(way: Way, restore: Restore) -> Callable[[], np.ndarray]:
    return lambda: restore(way.outputs()[0])


def models(case: Case, arrays: Sequence[np.ndarray]) -> Iterator[Model]:
    """The case as ONNX models; convolutions have their channels first."""
    for c in convolutions(case, arrays):
        if case.operator == "C1D" and c.label:
            continue
        attributes = {
            "strides": c.stride, "dilations": c.dilation, "pads": c.padding * 2, "group": c.groups,
            "kernel_shape": c.weight.shape[2:],
        }  # fmt: skip
        constants = {"w": c.weight} | ({} if c.bias is None else {"b": c.bias})
        kind, result = "ConvTranspose" if c.transposed else "Conv", "z" if c.relu else "y"
        nodes = [helper.make_node(kind, ["x", *constants], [result], **attributes)]
        if c.relu:
            nodes.append(helper.make_node("Relu", ["z"], ["y"]))
        yield Model(nodes, {"x": c.x_first}, constants, c.restore_first, c.label, image=True)
    if case.operator in BUILDERS:
        given = subgraph(case, arrays)
        yield Model(given.nodes, given.inputs, given.constants | given.more, given.restore, image=given.image)
    other = _OTHERS.get(case.operator)
    if other is not None:
        yield other(*arrays)


def _matmul(a: np.ndarray, b: np.ndarray) -> Model:
    return Model([helper.make_node("MatMul", ["a", "b"], ["y"])], {"a": a, "b": b})


def _scores(query: np.ndarray, key: np.ndarray) -> Model:
    nodes = [
        helper.make_node("Transpose", ["q"], ["qt"], perm=(0, 2, 1, 3)),
        helper.make_node("Transpose", ["k"], ["kt"], perm=(0, 2, 3, 1)),
        helper.make_node("MatMul", ["qt", "kt"], ["z"]),
        helper.make_node("Softmax", ["z"], ["y"], axis=-1),
    ]
    return Model(nodes, {"q": query, "k": key})


def _norm(x: np.ndarray) -> Model:
    return Model([helper.make_node("ReduceL2", ["x"], ["y"], axes=(1, 2), keepdims=0)], {"x": x})


def _add(a: np.ndarray, b: np.ndarray) -> Model:
    return Model([helper.make_node("Add", ["a", "b"], ["y"])], {"a": a, "b": b})


def _softmax(x: np.ndarray) -> Model:
    return Model([helper.make_node("Softmax", ["x"], ["y"], axis=-1)], {"x": x})


def _layer_norm(x: np.ndarray, scale: np.ndarray, shift: np.ndarray) -> Model:
    node = helper.make_node("LayerNormalization", ["x", "scale", "shift"], ["y"], axis=-1, epsilon=EPSILON)
    return Model([node], {"x": x}, {"scale": scale, "shift": shift})


_OTHERS: dict[str, Callable[..., Model]] = {
    "GMM": _matmul, "matmul": _matmul, "TBS": _scores, "NRM": _norm, "add": _add, "softmax": _softmax,
    "layer_norm": _layer_norm,
}  # fmt: skip


def _onnxruntime(model: Model, threads: int) -> Iterator[tuple[str, Way, Restore]]:
    for way in onnxruntime_ways(onnxruntime_session(model.bytes(), threads), model.inputs):
        yield "", way, model.restore


def _openvino(model: Model, threads: int) -> Iterator[tuple[str, Way, Restore]]:
    """As the model is, and an image also with the channels of its tensors last, and OpenVINO knows."""
    for way in openvino_ways(openvino_model(model.bytes(), threads), list(model.inputs.values())):
        yield "", way, model.restore
    if model.image and model.rank > 1:
        arrays = [aligned_copy(np.moveaxis(a, 1, -1)) for a in model.inputs.values()]
        compiled = openvino_model(model.bytes(), threads, lambda network: _channels_last(network, model.rank))
        for way in openvino_ways(compiled, arrays):
            yield "last", way, lambda y: model.restore(np.moveaxis(y, -1, 1))


def _channels_last(network: Any, rank: int) -> object:
    from openvino import Layout
    from openvino.preprocess import PrePostProcessor

    steps = PrePostProcessor(network)
    spatial = "DHW"[3 - rank :]
    for value in (*(steps.input(n) for n in range(len(network.inputs))), steps.output()):
        value.tensor().set_layout(Layout(f"N{spatial}C"))
        value.model().set_layout(Layout(f"NC{spatial}"))
    return steps.build()
