"""ONNX's maps over elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import TensorProto

from tensorsmith.errors import UserError
from tensorsmith.frontends.common.elementwise import power_of
from tensorsmith.frontends.common.values import scalar
from tensorsmith.frontends.onnx.read import TYPES, type_of
from tensorsmith.frontends.onnx.table import OnnxNode, onnx_operator
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.graph import Value
from tensorsmith.lang.dtypes import is_float

Numbers = dict[str, Any]  # attributes

_UNARY = {
    "Abs": "absolute", "Acos": "acos", "Acosh": "acosh", "Asin": "asin", "Asinh": "asinh", "Atan": "atan", "Atanh": "atanh",
    "Ceil": "ceil", "Cos": "cos", "Cosh": "cosh", "Erf": "erf", "Exp": "exp", "Floor": "floor", "HardSwish": "hard_swish",
    "Log": "log", "Mish": "mish", "Neg": "negative", "Reciprocal": "reciprocal", "Relu": "relu", "Round": "round",
    "Sigmoid": "sigmoid", "Sign": "sign", "Sin": "sin", "Sinh": "sinh", "Softplus": "softplus", "Softsign": "softsign",
    "Sqrt": "sqrt", "Tan": "tan", "Tanh": "tanh",
}  # fmt: skip
_BINARY = {"Add": "add", "Sub": "subtract", "Mul": "multiply", "Div": "divide"}
_MANY = {"Max": "maximum", "Min": "minimum", "Sum": "add"}


def _unary(kind: str, operator: str) -> None:
    @onnx_operator(kind)
    def handler(node: OnnxNode, b: Builder) -> Value:
        return b.add(operator, [node.required(0)])


def _binary(kind: str, operator: str) -> None:
    @onnx_operator(kind)
    def handler(node: OnnxNode, b: Builder) -> Value:
        return b.add(operator, old_broadcast(node, b))


def _many(kind: str, operator: str) -> None:
    @onnx_operator(kind)
    def handler(node: OnnxNode, b: Builder) -> Value:
        return combined(node, b, operator)


def old_broadcast(node: OnnxNode, b: Builder) -> list[Value]:
    """The two inputs. Before version 7, `axis` said where the dimensions of the second stand in the first."""
    left, right = node.required(0), node.required(1)
    if node.version >= 7:
        return [left, right]
    axis = node.attribute("axis")
    if not node.attribute("broadcast", 0):
        if left.shape != right.shape:  # an axis says nothing about equal shapes
            raise UserError(f"{node}: {left} and {right} with axis {axis}: without broadcast, shapes must be equal")
    elif axis is not None:
        axis = axis % max(len(left.shape), 1)
        behind = len(left.shape) - axis - len(right.shape)
        if behind < 0:
            raise UserError(f"{node}: {right} does not fit {left} at axis {axis}")
        right = b.add("reshape", [right], shape=(*right.shape, *(1,) * behind))
    return [left, right]


def combined(node: OnnxNode, b: Builder, operator: str) -> Value:
    """A binary operator over all inputs, from the first to the last."""
    result, *others = [node.required(0), *node.every()[1:]]
    for other in others:
        result = b.add(operator, [result, other])
    return result


for _kind, _operator in _UNARY.items():
    _unary(_kind, _operator)
for _kind, _operator in _BINARY.items():
    _binary(_kind, _operator)
for _kind, _operator in _MANY.items():
    _many(_kind, _operator)


@onnx_operator("Mean")
def mean(node: OnnxNode, b: Builder) -> Value:
    total = combined(node, b, "add")
    return b.add("divide", [total, scalar(b, node.input_count, total)])


@onnx_operator("PRelu")
def prelu_of_channels(node: OnnxNode, b: Builder) -> Value:
    """Before version 7 a slope with one dimension is one for each channel."""
    x, slope = node.required(0), node.required(1)
    if len(slope.shape) == 1 and slope.elements > 1:
        slope = b.add("reshape", [slope], shape=(slope.elements, *(1,) * (len(x.shape) - 2)))
    return b.add("prelu", [x, slope])


@onnx_operator("PRelu", since=7)
def prelu(node: OnnxNode, b: Builder) -> Value:
    return b.add("prelu", [node.required(0), node.required(1)])


def _with_attributes(kind: str, operator: str, defaults: Numbers, rename: Callable[[Numbers], Numbers]) -> None:
    @onnx_operator(kind)
    def handler(node: OnnxNode, b: Builder) -> Value:
        given = {name: node.attribute(name, default) for name, default in defaults.items()}
        return b.add(operator, [node.required(0)], **rename(given))


_with_attributes("LeakyRelu", "leaky_relu", {"alpha": 0.01}, lambda a: {"slope": a["alpha"]})
_with_attributes("HardSigmoid", "hard_sigmoid", {"alpha": 0.2, "beta": 0.5}, lambda a: a)
_with_attributes("Elu", "elu", {"alpha": 1.0}, lambda a: a)
_with_attributes("Celu", "elu", {"alpha": 1.0}, lambda a: {"alpha": a["alpha"], "gain": 1 / a["alpha"]})
_with_attributes("ThresholdedRelu", "thresholded_relu", {"alpha": 1.0}, lambda a: a)
_with_attributes("Shrink", "shrink", {"bias": 0.0, "lambd": 0.5}, lambda a: {"bias": a["bias"], "limit": a["lambd"]})
_with_attributes(
    "Selu", "elu", {"alpha": 1.6732632423543772, "gamma": 1.0507009873554805}, lambda a: {"alpha": a["alpha"], "scale": a["gamma"]}
)


@onnx_operator("Gelu")
def gelu(node: OnnxNode, b: Builder) -> Value:
    return b.add("gelu", [node.required(0)], approximate=node.choice("approximate", "none", ("none", "tanh")) == "tanh")


@onnx_operator("Swish")
def swish(node: OnnxNode, b: Builder) -> Value:
    x, alpha = node.required(0), node.attribute("alpha", 1.0)
    if alpha == 1.0:
        return b.add("silu", [x])
    return b.add("multiply", [x, b.add("sigmoid", [b.add("multiply", [x, scalar(b, alpha, x)])])])


@onnx_operator("Clip")
def clip_by_attributes(node: OnnxNode, b: Builder) -> Value:
    return _clip(node.required(0), node.attribute("min"), node.attribute("max"), b)


@onnx_operator("Clip", since=11)
def clip(node: OnnxNode, b: Builder) -> Value:
    x, low, high = node.required(0), node.optional(1), node.optional(2)
    known = [None if v is None else b.known(v) for v in (low, high)]
    if all(v is None or (array is not None and array.size == 1) for v, array in zip((low, high), known)):
        numbers = [None if array is None else array.reshape(()).item() for array in known]
        return _clip(x, numbers[0], numbers[1], b)
    x = x if low is None else b.add("maximum", [x, low])
    return x if high is None else b.add("minimum", [x, high])


def _clip(x: Value, low: float | None, high: float | None, b: Builder) -> Value:
    if is_float(x.dtype):  # exporters write the limits of the type for none
        limits = np.finfo(np.float32)
        low = None if low is not None and low <= float(limits.min) else low
        high = None if high is not None and high >= float(limits.max) else high
    if low is None and high is None:
        return x
    return b.add("clip", [x], low=low, high=high)


@onnx_operator("Pow")
def power(node: OnnxNode, b: Builder) -> Value:
    """Powers that real models use are written out: a square costs a multiplication, a general power a hundred."""
    x, exponent = old_broadcast(node, b)
    known = b.known(exponent)
    if known is not None and known.size == 1 and len(exponent.shape) <= len(x.shape):
        written_out = power_of(b, x, float(known.reshape(())))
        if written_out is not None:
            return written_out
    return b.add("power", [x, exponent])


@onnx_operator("Mod")
def modulo(node: OnnxNode, b: Builder) -> Value:
    return b.add("remainder" if node.attribute("fmod", 0) else "modulo", [node.required(0), node.required(1)])


@onnx_operator("IsNaN")
def is_nan(node: OnnxNode, b: Builder) -> Value:
    return b.add("is_nan", [node.required(0)])


@onnx_operator("IsInf")
def is_inf(node: OnnxNode, b: Builder) -> Value:
    positive, negative = node.attribute("detect_positive", 1), node.attribute("detect_negative", 1)
    return b.add("is_inf", [node.required(0)], positive=bool(positive), negative=bool(negative))


def cast_to(x: Value, number: int, b: Builder, what: str) -> Value:
    """A cast to a type of ONNX."""
    to = type_of(number, what)
    return x if x.dtype == to else b.add("cast", [x], to=to)


def _type_numbers() -> dict[str, int]:
    return {TensorProto.DataType.Name(n): int(n) for n in TYPES}


_OLD_NAMES = {"BOOLEAN": "BOOL"}


@onnx_operator("Cast")
def cast(node: OnnxNode, b: Builder) -> Value:
    to = node.needed("to")
    if isinstance(to, str):  # until version 6
        name = _OLD_NAMES.get(to.upper(), to.upper())
        to = _type_numbers().get(name, -1)
    return cast_to(node.required(0), to, b, f"{node}: the result")


@onnx_operator("CastLike")
def cast_like(node: OnnxNode, b: Builder) -> Value:
    x, to = node.required(0), node.required(1).dtype
    return x if x.dtype == to else b.add("cast", [x], to=to)


@onnx_operator("Identity")
def identity(node: OnnxNode, b: Builder) -> Value:
    return node.required(0)


@onnx_operator("Dropout")
def dropout(node: OnnxNode, b: Builder) -> list[Value]:
    """In inference, nothing is dropped; the mask is all true."""
    x = node.required(0)
    ratio, training = (
        (node.optional(1), node.optional_constant(2, "whether it is training")) if node.version >= 12 else (None, None)
    )
    if training is not None and training.any() and (ratio is None or node.known(ratio, "the ratio").any()):
        raise UserError(f"{node} drops elements at random, for training; only inference is supported")
    if node.output_count == 1:
        return [x]
    mask = b.constant(np.ones((), bool))
    return [x, b.add("broadcast", [mask], shape=x.shape)]
