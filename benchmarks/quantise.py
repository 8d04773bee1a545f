"""Quantised networks: single layers written here, and networks quantised by ONNX Runtime's own tool; what they give exactly.

Networks are quantised statically: QDQ, a scale per channel of every weight, ranges of activations from random inputs. Files lie in
the cache folder of `models`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import models
from models import Network
from tensorsmith.graph import operators
from tensorsmith.graph.graph import Graph

Array = np.ndarray[Any, Any]

_CALIBRATION = 2  # random inputs that ranges are taken from


# -- single layers -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Layer:
    """A matrix product, or a convolution of an image: square, its kernel too."""

    name: str
    channels: int
    outputs: int
    size: int  # rows of the matrix, or the image's width
    kernel: int = 0  # 0: a matrix product
    stride: int = 1

    @property
    def shape(self) -> tuple[int, ...]:
        return (1, self.channels, self.size, self.size) if self.kernel else (self.size, self.channels)

    @property
    def products(self) -> int:
        places = self.size if not self.kernel else (-(-self.size // self.stride)) ** 2
        return places * self.outputs * self.channels * max(1, self.kernel**2)


#: the shapes of the paper's ResNet-50 in which most of its time goes, and two matrix products
LAYERS = (
    Layer("matmul-512", 512, 512, 512),
    Layer("matmul-1024", 1024, 1024, 1024),
    Layer("3x3-64-56", 64, 64, 56, 3),
    Layer("3x3-128-28", 128, 128, 28, 3),
    Layer("3x3-256-14", 256, 256, 14, 3),
    Layer("3x3-512-7", 512, 512, 7, 3),
    Layer("1x1-64-256-56", 64, 256, 56, 1),
    Layer("1x1-256-64-56", 256, 64, 56, 1),
    Layer("1x1-128-512-28", 128, 512, 28, 1),
    Layer("1x1-512-128-28", 512, 128, 28, 1),
    Layer("1x1-256-1024-14", 256, 1024, 14, 1),
    Layer("1x1-1024-256-14", 1024, 256, 14, 1),
    Layer("1x1-512-2048-7", 512, 2048, 7, 1),
    Layer("1x1-2048-512-7", 2048, 512, 7, 1),
)


LARGEST = 63  # weight: with these no kernel of pairs of bytes saturates, and all are measured on what they give right


def layer(given: Layer, quantised: bool, largest: int = LARGEST) -> onnx.ModelProto:
    """One layer as a model from bytes to bytes, or the same in f32."""
    rng = np.random.default_rng(0)
    spatial = (given.kernel, given.kernel) if given.kernel else ()
    shape = (given.outputs, given.channels, *spatial) if given.kernel else (given.channels, given.outputs)
    weight = rng.integers(-largest, largest + 1, shape).astype(np.int8)
    scale = (rng.random(given.outputs) * 0.01 + 0.001).astype(np.float32)
    x_scale, y_scale = np.float32(0.02), np.float32(0.02 * 0.006 * 64 * 37 * np.sqrt(weight.size / given.outputs) / 64)
    bias = rng.integers(-4000, 4000, given.outputs).astype(np.int32)
    per_channel = scale.reshape(-1, *[1] * (weight.ndim - 1)) if given.kernel else scale
    nodes: list[onnx.NodeProto] = []
    constants: dict[str, Array] = {"x_scale": x_scale, "x_zero": np.uint8(128), "y_scale": y_scale, "y_zero": np.uint8(0)}
    kind = TensorProto.UINT8 if quantised else TensorProto.FLOAT
    data, factor, added = "x", "w", "b"
    if quantised:
        constants |= {"w": weight, "w_scale": scale, "w_zero": np.zeros(given.outputs, np.int8)}
        constants |= {"b": bias, "b_scale": (x_scale * scale).astype(np.float32)}
        nodes.append(helper.make_node("DequantizeLinear", ["x", "x_scale", "x_zero"], ["x_real"]))
        axis = 0 if given.kernel else 1
        nodes.append(helper.make_node("DequantizeLinear", ["w", "w_scale", "w_zero"], ["w_real"], axis=axis))
        nodes.append(helper.make_node("DequantizeLinear", ["b", "b_scale"], ["b_real"], axis=0))
        data, factor, added = "x_real", "w_real", "b_real"
    else:
        constants |= {"w": (weight * per_channel).astype(np.float32), "b": (bias * x_scale * scale).astype(np.float32)}
    if given.kernel:
        pad = given.kernel // 2
        options = {"pads": [pad] * 4, "strides": [given.stride] * 2}
        nodes.append(helper.make_node("Conv", [data, factor, added], ["sum"], **options))
    else:
        nodes.append(helper.make_node("Gemm", [data, factor, added], ["sum"]))
    nodes.append(helper.make_node("Relu", ["sum"], ["relu" if quantised else "y"]))
    if quantised:
        nodes.append(helper.make_node("QuantizeLinear", ["relu", "y_scale", "y_zero"], ["y"]))
    used = {name for node in nodes for name in node.input}
    initial = [numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items() if name in used]
    inputs = [helper.make_tensor_value_info("x", kind, given.shape)]
    graph = helper.make_graph(nodes, given.name, inputs, [helper.make_tensor_value_info("y", kind, None)], initial)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def layer_input(given: Layer, quantised: bool) -> Array:
    drawn = np.random.default_rng(1).integers(0, 256, given.shape).astype(np.uint8)
    return drawn if quantised else (drawn.astype(np.float32) - 128) * np.float32(0.02)


# -- networks ------------------------------------------------------------------------------------------------------------


def whisper(name: str, batch: int) -> Network:
    """The encoder of Whisper tiny with random weights."""

    def build() -> Any:
        from zoo.architectures import get

        return _first_output(get("whisper").module)

    return models._exported(name, batch, build, {"x": models._image(batch, 80, 3000)})


def _first_output(module: Any) -> Any:
    import torch

    class First(torch.nn.Module):
        """A module whose first result is all that is wanted."""

        def __init__(self) -> None:
            super().__init__()
            self.inner = module

        def forward(self, x: Any) -> Any:
            return self.inner(x)[0]

    return First()


NETWORKS = ("resnet50", "mobilenet_v2", "bert_base", "whisper")


def real(name: str, batch: int = 1) -> Network:
    """A network in f32, as it is before it is quantised."""
    models.CACHE.mkdir(parents=True, exist_ok=True)
    return whisper(name, batch) if name == "whisper" else models.get(name, batch)


def network(name: str, batch: int = 1) -> Network:
    """A quantised network; its file is made when it is asked for the first time."""
    whole = real(name, batch)
    path = models.CACHE / f"{whole.path.stem}-int8.onnx"
    if not path.exists():
        static(whole, path, "QDQ")
    return replace(whole, name=f"{name}-int8", path=path, module=None)


def static(whole: Network, path: Path, form: str) -> None:
    """Quantises a network by ONNX Runtime's tool, in one of its forms: QDQ, or QOperator."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Random(CalibrationDataReader):
        """A few inputs like those of the network."""

        def __init__(self) -> None:
            self.left = iter([_like(whole.inputs, seed) for seed in range(_CALIBRATION)])

        def get_next(self) -> Mapping[str, Array] | None:
            return next(self.left, None)

    prepared = path.with_suffix(".prepared.onnx")
    quant_pre_process(str(whole.path), str(prepared), skip_symbolic_shape=True)
    quantize_static(
        str(prepared), str(path), Random(), quant_format=QuantFormat[form], per_channel=True,
        activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8,
    )  # fmt: skip
    prepared.unlink()


def _like(inputs: Mapping[str, Array], seed: int) -> dict[str, Array]:
    """Other numbers of the same kind: floats drawn anew, integers (tokens, masks) in another order."""
    rng = np.random.default_rng(seed)
    found = {}
    for name, array in inputs.items():
        drawn = rng.standard_normal(array.shape) if array.dtype.kind == "f" else rng.permuted(array, axis=-1)
        found[name] = drawn.astype(array.dtype)
    return found


# -- what is exact -------------------------------------------------------------------------------------------------------


def exact(graph: Graph, inputs: Mapping[str, Array]) -> list[Array]:
    """What a graph of integer products gives: these by NumPy in f64, which is exact for them, all else by the reference."""
    arrays: dict[str, Array] = {v.name: inputs[v.name] for v in graph.inputs} | dict(graph.constants)
    for node in graph.nodes:
        given = [arrays[name] for name in node.inputs]
        if node.operator in ("integer_conv", "integer_depthwise_conv"):
            results: Sequence[Array] = [_convolved(given[0], given[1], node.attributes, "depthwise" in node.operator)]
        elif node.operator == "integer_matmul":
            a, b = (np.swapaxes(x, -1, -2) if node.attributes.get(f"transpose_{n}") else x for n, x in zip("ab", given))
            results = [(a.astype(np.float64) @ b.astype(np.float64)).astype(np.int64).astype(np.int32)]
        else:
            results = operators.evaluate(node.operator, given, node.attributes)
        arrays |= {v.name: a for v, a in zip(node.outputs, results)}
    return [arrays[name] for _, name in graph.outputs]


def _convolved(x: Array, weight: Array, attributes: Mapping[str, Any], depthwise: bool) -> Array:
    """Channels-last, two dimensions or one; tap by tap."""
    pairs = [(0, 0), *attributes["padding"], (0, 0)]
    padded = np.pad(x.astype(np.float64), pairs, constant_values=attributes.get("fill", 0))
    kernel, strides, dilations = weight.shape[: x.ndim - 2], attributes["stride"], attributes["dilation"]
    places = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(padded.shape[1:-1], kernel, strides, dilations)]
    groups = 1 if depthwise else attributes.get("groups", 1)
    total = np.zeros((x.shape[0], *places, weight.shape[-1]))
    for tap in np.ndindex(*kernel):
        windows = [slice(t * d, t * d + s * (n - 1) + 1, s) for t, d, s, n in zip(tap, dilations, strides, places)]
        every = slice(None), *windows
        seen = padded[every]
        if depthwise:
            total += seen * weight[tap]
            continue
        each_in, each_out = seen.shape[-1] // groups, weight.shape[-1] // groups
        for g in range(groups):
            outs = slice(g * each_out, (g + 1) * each_out)
            total[..., outs] += seen[..., g * each_in : (g + 1) * each_in] @ weight[tap][:, outs].astype(np.float64)
    return total.astype(np.int64).astype(np.int32)
