"""Networks made node by node for the benchmark of compile times: recurrences of every form, and 200 nodes of other kinds.

Weights are random, and small enough that packing them is not what is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
_FLOAT = TensorProto.FLOAT


class Maker:
    """Nodes of one ONNX graph; what `op` gives is the name of a value."""

    def __init__(self, seed: int = 0) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.random = np.random.default_rng(seed)

    def op(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        names = [f"{kind.lower()}_{len(self.nodes)}_{n}" for n in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, **attributes))
        return names[0] if outputs == 1 else names

    def weight(self, *shape: int) -> str:
        scale = np.float32(1 / np.sqrt(max(1, int(np.prod(shape[1:] if len(shape) > 2 else shape[:1])))))
        return self.constant(self.random.standard_normal(shape).astype(np.float32) * scale)

    def constant(self, array: Any) -> str:
        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def graph(self, name: str, inputs: dict[str, Sequence[int]], outputs: Sequence[str], integers: Sequence[str] = ()) -> Any:
        taken = [helper.make_tensor_value_info(n, _integer_or_float(n, integers), shape) for n, shape in inputs.items()]
        given = [helper.make_tensor_value_info(n, _FLOAT, None) for n in outputs]
        return helper.make_graph(self.nodes, name, taken, given, self.constants)

    def model(self, name: str, inputs: dict[str, Sequence[int]], *outputs: str, integers: Sequence[str] = ()) -> onnx.ModelProto:
        opsets = [helper.make_opsetid("", 17)]
        return helper.make_model(self.graph(name, inputs, outputs, integers), opset_imports=opsets, ir_version=9)


def _integer_or_float(name: str, integers: Sequence[str]) -> int:
    return TensorProto.INT32 if name in integers else _FLOAT


# -- recurrences -------------------------------------------------------------------------------------------------------


def recurrent_layer(
    m: Maker, x: str, kind: str, inputs: int, hidden: int, both_ways: bool = False, lengths: str = "", **attributes: Any
) -> str:
    """The output (steps, directions, batch, hidden) of one LSTM, GRU or RNN node."""
    ways, size = 2 if both_ways else 1, _GATES[kind] * hidden
    weights = m.weight(ways, size, inputs), m.weight(ways, size, hidden), m.weight(ways, 2 * size)
    direction = "bidirectional" if both_ways else "forward"
    result: str = m.op(kind, x, *weights, *([lengths] if lengths else []), hidden_size=hidden, direction=direction, **attributes)
    return result


def recurrent(
    kind: str,
    steps: int,
    hidden: int = 128,
    inputs: int = 80,
    layers: int = 1,
    batch: int = 1,
    both_ways: bool = False,
    lengths: bool = False,
    **attributes: Any,
) -> onnx.ModelProto:
    """Layers of one kind, one behind the other."""
    m, x, width = Maker(), "x", inputs
    for _ in range(layers):
        y = recurrent_layer(m, x, kind, width, hidden, both_ways, "lengths" if lengths else "", **attributes)
        width = hidden * (2 if both_ways else 1)
        x = m.op("Reshape", m.op("Transpose", y, perm=[0, 2, 1, 3]), m.constant(np.array([steps, batch, width])))
    taken = {"x": (steps, batch, inputs)} | ({"lengths": (batch,)} if lengths else {})
    return m.model(f"{kind.lower()}_{steps}", taken, x, integers=["lengths"])


def speech(frames: int = 500, features: int = 80, hidden: int = 256, layers: int = 3, letters: int = 32) -> onnx.ModelProto:
    """An encoder of speech: stacked bidirectional LSTMs over the frames of a clip (100 a second), letters for each frame."""
    m, x, width = Maker(), "x", features
    for _ in range(layers):
        y = recurrent_layer(m, x, "LSTM", width, hidden, both_ways=True)
        width = 2 * hidden
        x = m.op("Reshape", m.op("Transpose", y, perm=[0, 2, 1, 3]), m.constant(np.array([frames, 1, width])))
    y = m.op("LogSoftmax", m.op("Add", m.op("MatMul", x, m.weight(width, letters)), m.weight(letters)), axis=-1)
    return m.model("speech", {"x": (frames, 1, features)}, y)


def _cell(m: Maker, x: str, state: str, inputs: int, hidden: int) -> str:
    """A GRU written out, as exporters do that know no recurrent nodes."""
    gates = m.op(
        "Add", m.op("Add", m.op("MatMul", x, m.weight(inputs, 2 * hidden)), m.op("MatMul", state, m.weight(hidden, 2 * hidden))),
        m.weight(2 * hidden),
    )  # fmt: skip
    z, r = m.op("Split", m.op("Sigmoid", gates), outputs=2, axis=-1)
    kept = m.op("MatMul", m.op("Mul", r, state), m.weight(hidden, hidden))
    new = m.op("Tanh", m.op("Add", m.op("MatMul", x, m.weight(inputs, hidden)), kept))
    result: str = m.op("Add", m.op("Mul", z, state), m.op("Mul", m.op("Sub", m.constant(np.float32(1)), z), new))
    return result


def scan(steps: int, hidden: int = 64, inputs: int = 40, batch: int = 1, axis: int = 0) -> onnx.ModelProto:
    """A Scan over a GRU that is written out."""
    body = Maker(1)
    state = _cell(body, "frame", "state", inputs, hidden)
    kept = body.op("Identity", state)
    graph = body.graph("body", {"state": (batch, hidden), "frame": (batch, inputs)}, [state, kept])
    m = Maker()
    start = m.constant(np.zeros((batch, hidden), np.float32))
    shape = [batch, inputs]
    shape.insert(axis, steps)
    _, every = m.op(
        "Scan", start, "x", outputs=2, body=graph, num_scan_inputs=1, scan_input_axes=[axis], scan_output_axes=[axis]
    )  # fmt: skip
    return m.model("scan", {"x": shape}, every)


def loop(steps: int, hidden: int = 64, inputs: int = 40) -> onnx.ModelProto:
    """A Loop over a GRU that is written out; a step takes its frame by its number, and weighs it by that as well."""
    body = Maker(1)
    frame = body.op("Gather", "x", "number", axis=0)
    age = body.op("Cast", "number", to=_FLOAT)
    weighed = body.op("Mul", frame, body.op("Exp", body.op("Mul", age, body.constant(np.float32(-0.01)))))
    state = _cell(body, weighed, "state", inputs, hidden)
    going = body.op("Identity", "going")
    every = body.op("Identity", state)
    taken = [
        helper.make_tensor_value_info("number", TensorProto.INT64, ()),
        helper.make_tensor_value_info("going", TensorProto.BOOL, ()),
        helper.make_tensor_value_info("state", _FLOAT, (1, hidden)),
    ]
    given = [
        helper.make_tensor_value_info(going, TensorProto.BOOL, ()),
        helper.make_tensor_value_info(state, _FLOAT, None),
        helper.make_tensor_value_info(every, _FLOAT, None),
    ]
    graph = helper.make_graph(body.nodes, "body", taken, given, body.constants)
    m = Maker()
    count, start = m.constant(np.array(steps)), m.constant(np.zeros((1, hidden), np.float32))
    _, states = m.op("Loop", count, m.constant(np.array(True)), start, outputs=2, body=graph)
    return m.model("loop", {"x": (steps, 1, inputs)}, states)


def _conv1d(m: Maker, x: str, inputs: int, outputs: int, kernel: int, stride: int = 1, padding: int = 0) -> str:
    weights = m.weight(outputs, inputs, kernel), m.weight(outputs)
    result: str = m.op("Conv", x, *weights, strides=[stride], pads=[padding, padding])
    return result


def _voice(m: Maker, window: str, state: str, cell: str, size: int = 576) -> tuple[str, str, str]:
    """How likely a window of sound is speech, in the manner of Silero: a filter bank, convolutions, a step of an LSTM."""
    banks = 129
    x = m.op("Reshape", window, m.constant(np.array([1, 1, size])))
    real, imaginary = m.op("Split", _conv1d(m, x, 1, 2 * banks, 256, 128), outputs=2, axis=1)
    x = m.op("Sqrt", m.op("Add", m.op("Mul", real, real), m.op("Mul", imaginary, imaginary)))
    width = banks
    for out, stride in ((128, 1), (64, 2), (64, 2), (128, 1)):
        x, width = m.op("Relu", _conv1d(m, x, width, out, 3, stride, 1)), out
    x = m.op("ReduceMean", x, axes=[2], keepdims=0)
    x = m.op("Reshape", x, m.constant(np.array([1, 1, width])))
    size = 4 * width
    weights = m.weight(1, size, width), m.weight(1, size, width), m.weight(1, 2 * size)
    _, state, cell = m.op("LSTM", x, *weights, "", state, cell, outputs=3, hidden_size=width)
    likely = m.op("Sigmoid", m.op("MatMul", m.op("Relu", state), m.weight(width, 1)))
    return likely, state, cell


def voice() -> onnx.ModelProto:
    """One window, its states handed in and out."""
    m = Maker()
    likely, state, cell = _voice(m, "x", "h", "c")
    return m.model("voice", {"x": (1, 576), "h": (1, 1, 128), "c": (1, 1, 128)}, likely, state, cell)


def voice_clip(windows: int = 156) -> onnx.ModelProto:
    """All windows of a clip of 5 s, one after the other."""
    body = Maker(1)
    likely, state, cell = _voice(body, "window", "h", "c")
    every = body.op("Reshape", likely, body.constant(np.array([1])))
    shapes = {"h": (1, 1, 128), "c": (1, 1, 128), "window": (1, 576)}
    graph = body.graph("body", shapes, [state, cell, every])
    m = Maker()
    zeros = m.constant(np.zeros((1, 1, 128), np.float32))
    *_, speech_ = m.op("Scan", zeros, zeros, "x", outputs=3, body=graph, num_scan_inputs=1)
    return m.model("voice_clip", {"x": (windows, 1, 576)}, speech_)


# -- 200 nodes of other kinds ------------------------------------------------------------------------------------------


def _norm(m: Maker, x: str, width: int) -> str:
    result: str = m.op("LayerNormalization", x, m.constant(np.ones(width, np.float32)), m.weight(width), axis=-1)
    return result


def _gelu(m: Maker, x: str) -> str:
    half, one, root = (m.constant(np.float32(v)) for v in (0.5, 1.0, np.sqrt(2)))
    result: str = m.op("Mul", m.op("Mul", x, half), m.op("Add", m.op("Erf", m.op("Div", x, root)), one))
    return result


def _mlp(m: Maker, x: str, width: int, inner: int) -> str:
    x = _gelu(m, m.op("Add", m.op("MatMul", x, m.weight(width, inner)), m.weight(inner)))
    result: str = m.op("Add", m.op("MatMul", x, m.weight(inner, width)), m.weight(width))
    return result


def mixer(blocks: int = 8, patches: int = 64, width: int = 128) -> onnx.ModelProto:
    """An MLP-Mixer: layers along the patches and along the channels in turn."""
    m, x = Maker(), "x"
    for _ in range(blocks):
        turned = m.op("Transpose", _norm(m, x, width), perm=[0, 2, 1])
        x = m.op("Add", x, m.op("Transpose", _mlp(m, turned, patches, 2 * patches), perm=[0, 2, 1]))
        x = m.op("Add", x, _mlp(m, _norm(m, x, width), width, 2 * width))
    return m.model("mixer", {"x": (1, patches, width)}, x)


def convolutions(count: int = 100, size: int = 56) -> onnx.ModelProto:
    """Convolutions and activations in turn, no two alike: of 1 x 1, 3 x 3 and 5 x 5, each pair of channels of its own."""
    m, x, channels = Maker(), "x", 16
    for n in range(count):
        out, kernel, stride = 4 * (4 + 7 * n % 41), (1, 3, 1, 5, 3)[n % 5], 2 if n % 40 == 39 else 1
        weights = m.weight(out, channels, kernel, kernel), m.weight(out)
        x = m.op("Relu", m.op("Conv", x, *weights, pads=[kernel // 2] * 4, strides=[stride, stride]))
        channels = out
    return m.model("convolutions", {"x": (1, 16, size, size)}, x)


def transformer(layers: int = 12, length: int = 64, width: int = 256, heads: int = 4) -> onnx.ModelProto:
    """An encoder with attention written out."""
    m, x, own = Maker(), "x", width // heads
    apart, together = m.constant(np.array([1, length, heads, own])), m.constant(np.array([1, length, width]))
    for _ in range(layers):
        y = _norm(m, x, width)
        q, k, v = (
            m.op("Reshape", m.op("Add", m.op("MatMul", y, m.weight(width, width)), m.weight(width)), apart) for _ in range(3)
        )
        q, v = m.op("Transpose", q, perm=[0, 2, 1, 3]), m.op("Transpose", v, perm=[0, 2, 1, 3])
        scores = m.op("Mul", m.op("MatMul", q, m.op("Transpose", k, perm=[0, 2, 3, 1])), m.constant(np.float32(own**-0.5)))
        y = m.op("Transpose", m.op("MatMul", m.op("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
        y = m.op("Add", m.op("MatMul", m.op("Reshape", y, together), m.weight(width, width)), m.weight(width))
        x = m.op("Add", x, y)
        x = m.op("Add", x, _mlp(m, _norm(m, x, width), width, 4 * width))
    return m.model("transformer", {"x": (1, length, width)}, x)


#: by name
MADE: dict[str, Callable[[], onnx.ModelProto]] = {
    "lstm_100": lambda: recurrent("LSTM", 100),
    "lstm_500": lambda: recurrent("LSTM", 500),
    "bilstm_500": lambda: recurrent("LSTM", 500, both_ways=True),
    "bilstm_lengths_200": lambda: recurrent("LSTM", 200, both_ways=True, batch=4, lengths=True),
    "gru_200": lambda: recurrent("GRU", 200),
    "gru_linear_200": lambda: recurrent("GRU", 200, linear_before_reset=1),
    "birnn_300": lambda: recurrent("RNN", 300, both_ways=True),
    "speech_5s": speech,
    "loop_100": lambda: loop(100),
    "scan_200": lambda: scan(200),
    "scan_axis_1_200": lambda: scan(200, batch=4, axis=1),
    "voice": voice,
    "voice_clip_5s": voice_clip,
    "mixer_200": mixer,
    "cnn_200": convolutions,
    "transformer_12": transformer,
}
