"""A valid node of every operator of the importer's table, in the form that it has at a version of the operator set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import TensorProto, helper
from tests.frontends.onnx_nodes import random


@dataclass(frozen=True)
class Sample:
    """The inputs of a node (None: left out), which of them are constants, its attributes, and how many outputs it has."""

    arrays: list[Any]
    constants: tuple[int, ...] = ()
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1


IMAGE = random(2, 4, 6, 6)
MATRIX = random(4, 6)
SIGNAL = random(2, 8, 1)
FLAGS = IMAGE > 0
BYTES = (np.abs(IMAGE) * 100).astype("u1")
SCALE = np.array(0.5, "f4")
ZERO = np.array(3, "u1")
COUNTS = (np.abs(IMAGE) * 100).astype("i4")
#: of a recurrent layer: 3 steps, a batch of 2, 4 inputs, 5 hidden elements
STEPS = random(3, 2, 4)


def integers(*numbers: int) -> Any:
    return np.array(numbers, "i8")


def samples(kind: str, version: int) -> list[Sample]:
    """Nodes of an operator at a version: several where attributes mean something only beside others."""
    if kind == "Resize" and version >= 11:
        scales, crop = np.array([1, 1, 1.4, 0.4], "f4"), np.array([0, 0, 0, 0, 1, 1, 1.5, 1.5], "f4")
        cubic = Sample([IMAGE, None, scales], (2,), {"mode": "cubic", "cubic_coeff_a": -0.6})
        cropped = {"mode": "nearest", "coordinate_transformation_mode": "tf_crop_and_resize"}
        return [cubic, Sample([IMAGE, crop, None, integers(2, 4, 8, 5)], (1, 3), cropped)]
    if kind.startswith("Reduce") and version >= (13 if kind == "ReduceSum" else 18):
        return [_sample(kind, version), Sample([IMAGE])]
    if kind in ("RNN", "GRU", "LSTM"):
        plain, names = _sample(kind, version), {"RNN": 1, "GRU": 2, "LSTM": 3}
        with_numbers = {**plain.attributes, "activations": ["HardSigmoid"] * names[kind]}
        return [plain, Sample(plain.arrays, plain.constants, with_numbers, plain.outputs)]
    return [_sample(kind, version)]


def _sample(kind: str, version: int) -> Sample:
    """One float image is the input of those that have nothing else to say."""
    make = _SPECIAL.get(kind)
    if make is not None:
        return make(version)
    if kind.startswith("Reduce"):
        return _with_axes(IMAGE, integers(1, 2), version, 13 if kind == "ReduceSum" else 18)
    if kind in ("Squeeze", "Unsqueeze"):
        return _with_axes(random(1, 4, 1, 6), integers(0), version, 13)
    return Sample([IMAGE])


def _with_axes(x: Any, axes: Any, version: int, since: int) -> Sample:
    return Sample([x, axes], (1,)) if version >= since else Sample([x], attributes={"axes": axes.tolist()})


def _always(*arrays: Any, constants: tuple[int, ...] = (), outputs: int = 1, **attributes: Any) -> Callable[[int], Sample]:
    return lambda version: Sample(list(arrays), constants, attributes, outputs)


def _recurrent(gates: int, outputs: int) -> Callable[[int], Sample]:
    return _always(
        STEPS, random(1, gates * 5, 4), random(1, gates * 5, 5), constants=(1, 2), outputs=outputs, hidden_size=5
    )  # fmt: skip


def _graph(*values: float) -> Any:
    """A graph without inputs that gives constants."""
    names = [f"c{n}" for n in range(len(values))]
    nodes = [helper.make_node("Constant", [], [name], value_float=float(v)) for name, v in zip(names, values)]
    return helper.make_graph(nodes, "inner", [], [helper.make_tensor_value_info(name, TensorProto.FLOAT, []) for name in names])


def _values(*names: str) -> list[Any]:
    return [helper.make_empty_tensor_value_info(name) for name in names]


def _loop_body() -> Any:
    """Doubles what it carries, and gives it negated."""
    nodes = [
        helper.make_node("Identity", ["going"], ["go_on"]),
        helper.make_node("Add", ["v", "v"], ["twice"]),
        helper.make_node("Neg", ["v"], ["out"]),
    ]
    return helper.make_graph(nodes, "body", _values("n", "going", "v"), _values("go_on", "twice", "out"))


def scan_body() -> Any:
    """Doubles its state, and gives what is scanned negated."""
    nodes = [helper.make_node("Add", ["state", "state"], ["twice"]), helper.make_node("Neg", ["row"], ["out"])]
    return helper.make_graph(nodes, "body", _values("state", "row"), _values("twice", "out"))


def _cast(version: int) -> Sample:
    return Sample([IMAGE], attributes={"to": "INT32" if version < 6 else TensorProto.INT32})


def _batch_norm(version: int) -> Sample:
    return Sample([IMAGE, random(4), random(4), random(4), np.ones(4, "f4")])


def _constant(version: int) -> Sample:
    return Sample([], attributes={"value": helper.make_tensor("t", TensorProto.FLOAT, [2], [1.0, 2.0])})


def _reshape(version: int) -> Sample:
    return Sample([IMAGE], attributes={"shape": [8, -1]}) if version < 5 else Sample([random(2, 0, 3), integers(0, 0, 5)], (1,))


def _tile(version: int) -> Sample:
    if version < 6:
        return Sample([IMAGE, integers(2), integers(1)], (1, 2))
    return Sample([IMAGE, integers(1, 2, 1, 1)], (1,))


def _split(version: int) -> Sample:
    return Sample([IMAGE], outputs=2, attributes={"num_outputs": 2} if version >= 18 else {})


def _slice(version: int) -> Sample:
    if version < 10:
        return Sample([IMAGE], attributes={"starts": [0, 1], "ends": [2, 3]})
    return Sample([IMAGE, integers(0, 1), integers(2, 3)], (1, 2))


def _pad(version: int) -> Sample:
    pads = [0, 0, 1, 1, 0, 0, 1, 1]
    if version < 11:
        return Sample([IMAGE], attributes={"paddings" if version < 2 else "pads": pads})
    return Sample([IMAGE, integers(*pads)], (1,))


def _top_k(version: int) -> Sample:
    return Sample([IMAGE], outputs=2, attributes={"k": 2}) if version < 10 else Sample([IMAGE, integers(2)], (1,), outputs=2)


def _upsample(version: int) -> Sample:
    scales = np.array([1, 1, 2, 2], "f4")
    return Sample([IMAGE, scales], (1,)) if version >= 9 else Sample([IMAGE], attributes={"scales": scales.tolist()})


def _dropout(version: int) -> Sample:
    return Sample([IMAGE]) if version < 12 else Sample([IMAGE, SCALE, np.array(False)], (1, 2))


def _pair(version: int) -> Sample:
    """Before version 7 the second input is told where it stands in the first."""
    return Sample([IMAGE, random(4)], (), {"broadcast": 1, "axis": 1}) if version < 7 else Sample([IMAGE, -IMAGE])


def _flags(version: int) -> Sample:
    s = _pair(version)
    return Sample([a > 0 for a in s.arrays], (), s.attributes)


def _gemm(version: int) -> Sample:
    if version < 7:
        return Sample([MATRIX, random(6, 4), random(4)], attributes={"broadcast": 1})
    return Sample([MATRIX, random(6, 4), random(4, 4)])


def _clip(version: int) -> Sample:
    return Sample([IMAGE, SCALE * -1, SCALE]) if version >= 11 else Sample([IMAGE], attributes={"min": -0.5})


def _group_norm(version: int) -> Sample:
    count = 2 if version < 21 else 4
    return Sample([IMAGE, random(count), random(count)], attributes={"num_groups": 2})


def _dft(version: int) -> Sample:
    return Sample([SIGNAL])


_POOL = _always(IMAGE, kernel_shape=[2, 2], pads=[1, 0, 0, 0], strides=[2, 2])
_CONV = {"pads": [1, 0, 0, 0]}
_SCATTER = _always(MATRIX, integers(1, 0, 1).reshape(1, 3), random(1, 3))

_SPECIAL: dict[str, Callable[[int], Sample]] = {
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "Pow", "Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"), _pair),
    **dict.fromkeys(("Max", "Min", "Sum", "Mean"), _always(IMAGE, -IMAGE)),
    **dict.fromkeys(("And", "Or", "Xor"), _flags),
    "Mod": _always(COUNTS, COUNTS + 3),
    "Not": _always(FLAGS),
    "PRelu": _always(IMAGE, random(1)),
    "Where": _always(FLAGS, IMAGE, -IMAGE),
    "ArgMax": _always(IMAGE),
    "Attention": _always(*(random(2, 2, 4, 8, seed=n) for n in range(3)), random(4, 4), outputs=4),
    "AveragePool": _POOL,
    "LpPool": _POOL,
    "MaxPool": lambda version: Sample([IMAGE], (), _POOL(1).attributes, 2 if version >= 8 else 1),
    "BatchNormalization": _batch_norm,
    "Cast": _cast,
    "CastLike": _always(IMAGE, COUNTS),
    "Clip": _clip,
    "Compress": _always(IMAGE, np.array([False, True]), constants=(1,)),
    "Concat": _always(IMAGE, IMAGE, axis=1),
    "Constant": _constant,
    "ConstantOfShape": _always(integers(2, 3), constants=(0,)),
    "Conv": _always(IMAGE, random(4, 4, 3, 3), constants=(1,), **_CONV),
    "ConvInteger": _always(BYTES, BYTES[:, :, :3, :3], constants=(1,), **_CONV),
    "ConvTranspose": _always(IMAGE, random(4, 4, 3, 3), constants=(1,), strides=[2, 2], **_CONV),
    "CumSum": _always(IMAGE, integers(1), constants=(1,)),
    "DFT": _dft,
    "DepthToSpace": _always(IMAGE[:, [0, 1, 2, 3, 0, 1, 2, 3]], blocksize=2),
    "SpaceToDepth": _always(IMAGE, blocksize=2),
    "DequantizeLinear": _always(BYTES, random(4), np.arange(4, dtype="u1")),
    "QuantizeLinear": _always(IMAGE, random(4) + 2),
    "Dropout": _dropout,
    "Einsum": _always(MATRIX, MATRIX, equation="ij,kj->ik"),
    "Expand": _always(random(4, 1), integers(2, 4, 6), constants=(1,)),
    "EyeLike": _always(MATRIX),
    "GRU": _recurrent(3, 2),
    "LSTM": _recurrent(4, 3),
    "RNN": _recurrent(1, 2),
    "Gather": _always(IMAGE, integers(1, 0, 0)),
    "GatherElements": _always(MATRIX, integers(*([0, 1, 2] * 4)).reshape(4, 3)),
    "GatherND": _always(random(2, 2, 4), integers(0, 1, 1, 0).reshape(2, 2)),
    "Scatter": _SCATTER,
    "ScatterElements": _SCATTER,
    "ScatterND": _always(MATRIX, integers(1, 3).reshape(2, 1), random(2, 6)),
    "Gemm": _gemm,
    "GridSample": _always(IMAGE, random(2, 3, 3, 2) * 1.4),
    "GroupNormalization": _group_norm,
    "If": _always(np.array(True), then_branch=_graph(1.0), else_branch=_graph(2.0)),
    "InstanceNormalization": _always(IMAGE, random(4), random(4)),
    "LayerNormalization": _always(IMAGE, random(6), random(6)),
    "RMSNormalization": _always(IMAGE, random(6)),
    "LRN": _always(IMAGE, size=3),
    "MatMul": _always(MATRIX, random(6, 4)),
    "MatMulInteger": _always(BYTES, BYTES),
    "MeanVarianceNormalization": _always(IMAGE),
    "NonZero": _always(MATRIX, constants=(0,)),
    "OneHot": _always(integers(0, 2), integers(3), random(2), constants=(1,)),
    "Pad": _pad,
    "QLinearConv": _always(
        BYTES, SCALE, ZERO, BYTES[:, :, :3, :3], SCALE, ZERO, SCALE, ZERO, constants=(1, 2, 3, 4, 5, 6, 7), **_CONV
    ),
    "QLinearMatMul": _always(BYTES, SCALE, ZERO, BYTES, SCALE, ZERO, SCALE, ZERO),
    "Range": _always(*(np.array(n, "f4") for n in (0, 5, 1)), constants=(0, 1, 2)),
    "Reshape": _reshape,
    "BitCast": _always(COUNTS, constants=(0,), to=TensorProto.FLOAT),
    "BitShift": _always(BYTES, BYTES % 8, direction="LEFT"),
    **dict.fromkeys(("BitwiseAnd", "BitwiseOr", "BitwiseXor"), _always(COUNTS, COUNTS + 1)),
    "BitwiseNot": _always(COUNTS),
    "CumProd": _always(IMAGE, integers(1), constants=(1,)),
    "Col2Im": _always(random(2, 8, 20), integers(5, 6), integers(2, 2), constants=(1, 2)),
    "RoiAlign": _always(IMAGE, np.array([[0, 1, 4, 5]], "f4"), integers(1), sampling_ratio=2, output_height=2),
    "DeformConv": _always(IMAGE, random(4, 4, 3, 3), random(2, 18, 5, 5), constants=(1,), **_CONV),
    "Loop": _always(integers(3), None, SCALE, constants=(0,), outputs=2, body=_loop_body()),
    "NonMaxSuppression": _always(
        np.array([[[0, 0, 1, 1], [1, 1, 2, 2]]], "f4"),
        np.array([[[0.9, 0.8]]], "f4"),
        integers(3),
        constants=(0, 1, 2),
    ),
    "Scan": _always(SCALE, MATRIX, outputs=2, num_scan_inputs=1, body=scan_body()),
    "TensorScatter": _always(random(2, 6, 8), random(2, 3, 8), integers(1, 2)),
    "Unique": _always(np.array([[3, 1], [3, 1], [0, 2]], "f4"), constants=(0,), outputs=4),
    "Resize": _always(IMAGE, np.array([1, 1, 1.4, 0.4], "f4"), constants=(1,)),
    "ReverseSequence": _always(random(4, 2, 3), integers(2, 3)),
    "STFT": _always(random(2, 16), integers(4)[0], None, integers(8)[0], constants=(1, 3)),
    "Slice": _slice,
    "Split": _split,
    "Tile": _tile,
    "TopK": _top_k,
    "Trilu": _always(MATRIX),
    "Upsample": _upsample,
}
