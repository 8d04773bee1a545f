"""The network of the demo, as an ONNX file made on the spot: a small image classifier with the layers of ResNet and MobileNet.

    stem 3x3 -> residual block of two 3x3 -> 3 inverted residuals (1x1, depthwise 3x3, 1x1) -> global pool -> dense

Every convolution has a batch norm behind it, as networks have when they are trained. Weights are random, scaled so that activations
keep their size through the layers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tensorsmith.errors import UserError, install

_SIZE, _CLASSES, _OPSET, _IR_VERSION = 96, 100, 17, 9


class _Network:
    """Nodes and weights as they are added; every method gives the name of its result."""

    def __init__(self, onnx: Any) -> None:
        self.onnx = onnx
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.random = np.random.default_rng(0)

    def node(self, kind: str, inputs: list[str], **attributes: Any) -> str:
        name = f"{kind}_{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(kind, inputs, [name], name, **attributes))
        return name

    def weight(self, array: np.ndarray[Any, Any]) -> str:
        name = f"weight_{len(self.weights)}"
        self.weights.append(self.onnx.numpy_helper.from_array(array.astype(np.float32), name))
        return name

    def conv(self, x: str, ci: int, co: int, kernel: int, stride: int = 1, groups: int = 1, relu: bool = True) -> str:
        """Convolution, batch norm and, unless asked not to, ReLU; He's initialisation."""
        fan_in = ci // groups * kernel**2
        w = self.random.standard_normal((co, ci // groups, kernel, kernel)) * np.sqrt((2 if relu else 1) / fan_in)
        sizes = {"kernel_shape": [kernel] * 2, "pads": [kernel // 2] * 4, "strides": [stride] * 2, "group": groups}
        y = self.node("Conv", [x, self.weight(w)], **sizes)
        scale, shift, mean = self.random.uniform(0.9, 1.1, co), *self.random.normal(0, 0.1, (2, co))
        variance = self.random.uniform(0.9, 1.1, co)
        y = self.node("BatchNormalization", [y, *map(self.weight, (scale, shift, mean, variance))])
        return self.node("Relu", [y]) if relu else y

    def residual(self, x: str, channels: int) -> str:
        y = self.conv(self.conv(x, channels, channels, 3), channels, channels, 3, relu=False)
        return self.node("Relu", [self.node("Add", [x, y])])

    def inverted_residual(self, x: str, ci: int, co: int, stride: int) -> str:
        middle = 4 * ci
        y = self.conv(self.conv(x, ci, middle, 1), middle, middle, 3, stride, groups=middle)
        y = self.conv(y, middle, co, 1, relu=False)
        return self.node("Add", [x, y]) if stride == 1 and ci == co else y

    def classifier(self, x: str, ci: int) -> str:
        y = self.node("Flatten", [self.node("GlobalAveragePool", [x])])
        w = self.random.standard_normal((_CLASSES, ci)) / np.sqrt(ci)
        return self.node("Gemm", [y, self.weight(w), self.weight(np.zeros(_CLASSES))], transB=1)


def write(path: Path) -> None:
    """Writes the network to an ONNX file: input `image`, output `logits`."""
    try:
        import onnx
    except ImportError as problem:
        raise UserError(f"the demo makes an ONNX file, which needs the onnx package: {install('onnx')}") from problem
    n = _Network(onnx)
    y = n.conv("image", 3, 32, 3, stride=2)
    y = n.conv(y, 32, 32, 3, stride=2)
    y = n.residual(y, 32)
    y = n.inverted_residual(y, 32, 64, 2)
    y = n.inverted_residual(y, 64, 64, 1)
    y = n.inverted_residual(y, 64, 64, 1)
    y = n.classifier(y, 64)
    n.nodes[-1].output[0] = "logits"
    helper, float32 = onnx.helper, onnx.TensorProto.FLOAT
    image = helper.make_tensor_value_info("image", float32, (1, 3, _SIZE, _SIZE))
    logits = helper.make_tensor_value_info("logits", float32, (1, _CLASSES))
    graph = helper.make_graph(n.nodes, "smallnet", [image], [logits], n.weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION)
    onnx.checker.check_model(model, full_check=True)
    path.write_bytes(model.SerializeToString())
