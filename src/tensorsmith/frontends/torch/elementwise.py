"""ATen's maps of one tensor: functions and activations."""

from __future__ import annotations

import math

from tensorsmith.errors import UserError
from tensorsmith.frontends.common.values import as_type, scalar, scalar_of
from tensorsmith.frontends.torch.table import AtenNode, aten_operator
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.graph import Value
from tensorsmith.lang.dtypes import dtype, is_float

#: of the type of the argument
_SAME = {
    "abs": "absolute", "neg": "negative", "relu": "relu", "ceil": "ceil", "floor": "floor", "trunc": "truncate",
    "round": "round",
}  # fmt: skip
#: of integers, a float
_FLOAT = {
    "acos": "acos", "acosh": "acosh", "asin": "asin", "asinh": "asinh", "atan": "atan", "atanh": "atanh", "cos": "cos",
    "cosh": "cosh", "erf": "erf", "exp": "exp", "expm1": "expm1", "log": "log", "log1p": "log1p", "reciprocal": "reciprocal",
    "sigmoid": "sigmoid", "sin": "sin", "sinh": "sinh", "sqrt": "sqrt", "tan": "tan", "tanh": "tanh",
}  # fmt: skip
#: floats only
_ACTIVATIONS = {"silu": "silu", "mish": "mish", "hardswish": "hard_swish"}
_ROUNDING = ("ceil", "floor", "trunc", "round")


def real(node: AtenNode, b: Builder, name: str = "self") -> Value:
    """An argument, in the type of the result where it is of whole numbers."""
    return as_type(b, node.value(name), node.result[1])


def _same(name: str, operator: str) -> None:
    @aten_operator(name)
    def handler(node: AtenNode, b: Builder) -> Value:
        x = node.value("self")
        if x.dtype == "bool" or (name in _ROUNDING and not is_float(x.dtype)):
            return x  # as it is: |True|, the sign of True, a whole number rounded
        return b.add(operator, [x])


def _float(name: str, operator: str) -> None:
    @aten_operator(name)
    def handler(node: AtenNode, b: Builder) -> Value:
        return b.add(operator, [real(node, b)])


for _name, _operator in _SAME.items():
    _same(_name, _operator)
for _name, _operator in {**_FLOAT, **_ACTIVATIONS}.items():
    _float(_name, _operator)


@aten_operator("sign")
def sign(node: AtenNode, b: Builder) -> Value:
    """1 or -1, and 0 of anything else: PyTorch's sign of NaN is 0, as that of -0.0 is."""
    x = node.value("self")
    if x.dtype == "bool":
        return x
    zero, one = scalar(b, 0, x), scalar(b, 1, x)
    if dtype(x.dtype).kind == "u":
        return b.add("where", [b.add("less", [zero, x]), one, zero])
    below = b.add("where", [b.add("less", [x, zero]), scalar(b, -1, x), zero])
    return b.add("where", [b.add("less", [zero, x]), one, below])


@aten_operator("rsqrt")
def rsqrt(node: AtenNode, b: Builder) -> Value:
    return b.add("reciprocal", [b.add("sqrt", [real(node, b)])])


def _logarithm(name: str, base: float) -> None:
    @aten_operator(name)
    def handler(node: AtenNode, b: Builder) -> Value:
        natural = b.add("log", [real(node, b)])
        return b.add("multiply", [natural, scalar(b, 1 / math.log(base), natural)])


_logarithm("log2", 2)
_logarithm("log10", 10)


@aten_operator("round.decimals")
def round_decimals(node: AtenNode, b: Builder) -> Value:
    x, decimals = node.value("self"), node.integer("decimals")
    if not is_float(x.dtype):
        raise UserError(f"{node}: whole numbers rounded to {decimals} decimals are not supported")
    wide = as_type(b, x, "f32") if dtype(x.dtype).is_half else x  # in f16 a product with a power of ten may overflow
    factor = scalar(b, 10.0 ** abs(decimals), wide)
    there, back = ("multiply", "divide") if decimals >= 0 else ("divide", "multiply")
    return as_type(b, b.add(back, [b.add("round", [b.add(there, [wide, factor])]), factor]), x.dtype)


@aten_operator("isnan")
def isnan(node: AtenNode, b: Builder) -> Value:
    return _only_floats(node, b, "is_nan")


@aten_operator("isinf")
def isinf(node: AtenNode, b: Builder) -> Value:
    return _only_floats(node, b, "is_inf")


def _only_floats(node: AtenNode, b: Builder, operator: str) -> Value:
    """What no whole number is."""
    x = node.value("self")
    if is_float(x.dtype):
        return b.add(operator, [x])
    return b.add("broadcast", [scalar_of(b, False, "bool")], shape=x.shape)


@aten_operator("gelu")
def gelu(node: AtenNode, b: Builder) -> Value:
    approximate = node.plain("approximate")
    if approximate not in ("none", "tanh"):
        raise UserError(f"{node}: approximate is {approximate!r}; known are none and tanh")
    return b.add("gelu", [node.value("self")], approximate=approximate == "tanh")


@aten_operator("leaky_relu")
def leaky_relu(node: AtenNode, b: Builder) -> Value:
    return b.add("leaky_relu", [node.value("self")], slope=float(node.number("negative_slope")))


@aten_operator("elu")
def elu(node: AtenNode, b: Builder) -> Value:
    """scale * x above 0, scale * alpha * expm1(input_scale * x) below: also SELU and CELU."""
    alpha, scale, gain = (float(node.number(name)) for name in ("alpha", "scale", "input_scale"))
    return b.add("elu", [node.value("self")], alpha=alpha, scale=scale, gain=gain)


@aten_operator("hardtanh")
def hardtanh(node: AtenNode, b: Builder) -> Value:
    return b.add("clip", [node.value("self")], low=node.number("min_val"), high=node.number("max_val"))


@aten_operator("hardsigmoid")
def hardsigmoid(node: AtenNode, b: Builder) -> Value:
    return b.add("hard_sigmoid", [node.value("self")], alpha=1 / 6, beta=0.5)


@aten_operator("softplus")
def softplus(node: AtenNode, b: Builder) -> Value:
    """log(1 + exp(beta * x)) / beta, and x itself where beta * x is above a threshold."""
    x, beta, threshold = node.value("self"), float(node.number("beta")), float(node.number("threshold"))
    scaled = x if beta == 1 else b.add("multiply", [x, scalar(b, beta, x)])
    soft = b.add("softplus", [scaled])
    soft = soft if beta == 1 else b.add("divide", [soft, scalar(b, beta, x)])
    return b.add("where", [b.add("less", [scalar(b, threshold, x), scaled]), x, soft])


@aten_operator("clone", "alias")
def same_tensor(node: AtenNode, b: Builder) -> Value:
    return node.value("self")


@aten_operator("_to_copy")
def to_copy(node: AtenNode, b: Builder) -> Value:
    node.ignore("dtype")  # the result's type says it
    return as_type(b, node.value("self"), node.result[1])
