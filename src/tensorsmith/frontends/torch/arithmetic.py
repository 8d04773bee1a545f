"""ATen's maps of several tensors, with the types that PyTorch computes in."""

from __future__ import annotations

from tensorsmith.errors import UserError
from tensorsmith.frontends.common.elementwise import power_of
from tensorsmith.frontends.common.values import as_type, scalar
from tensorsmith.frontends.torch.table import AtenNode, aten_operator
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.graph import Value
from tensorsmith.lang.dtypes import is_float


def pair(node: AtenNode, left: str = "self", right: str = "other") -> tuple[Value, Value]:
    """Two arguments in the type of the result."""
    dtype = node.result[1]
    return node.operand(left, dtype), node.operand(right, dtype)


def times(b: Builder, x: Value, factor: float) -> Value:
    """x times a number of its type."""
    return x if factor == 1 else b.add("multiply", [x, scalar(b, factor, x)])


@aten_operator("add.Tensor", "add.Scalar")
def add(node: AtenNode, b: Builder) -> Value:
    left, right = pair(node)
    alpha = node.number("alpha")
    if left.dtype == "bool":
        if alpha != 1:
            raise UserError(f"{node}: a sum of bools with alpha {alpha} is not supported")
        return b.add("logical_or", [left, right])
    return b.add("add", [left, times(b, right, alpha)])


@aten_operator("sub.Tensor", "sub.Scalar")
def subtract(node: AtenNode, b: Builder) -> Value:
    left, right = pair(node)
    return b.add("subtract", [left, times(b, right, node.number("alpha"))])


@aten_operator("mul.Tensor", "mul.Scalar")
def multiply(node: AtenNode, b: Builder) -> Value:
    left, right = pair(node)
    return b.add("logical_and" if left.dtype == "bool" else "multiply", [left, right])


@aten_operator("div.Tensor", "div.Scalar")
def divide(node: AtenNode, b: Builder) -> Value:
    """Of whole numbers a float."""
    return b.add("divide", list(pair(node)))


@aten_operator("div.Tensor_mode", "div.Scalar_mode")
def divide_rounded(node: AtenNode, b: Builder) -> Value:
    mode = node.plain("rounding_mode")
    left, right = pair(node)
    if mode is None:
        return b.add("divide", [left, right])
    if mode not in ("trunc", "floor"):
        raise UserError(f"{node}: rounding_mode is {mode!r}; known are trunc and floor")
    if mode == "trunc":
        quotient = b.add("divide", [left, right])
        return b.add("truncate", [quotient]) if is_float(quotient.dtype) else quotient
    return b.add("floor_divide", [left, right])


@aten_operator("remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor")
def remainder(node: AtenNode, b: Builder) -> Value:
    """Of the divisor's sign."""
    return b.add("modulo", list(pair(node)))


@aten_operator("fmod.Tensor", "fmod.Scalar")
def fmod(node: AtenNode, b: Builder) -> Value:
    """Of the dividend's sign."""
    return b.add("remainder", list(pair(node)))


@aten_operator("maximum")
def maximum(node: AtenNode, b: Builder) -> Value:
    left, right = pair(node)
    return b.add("logical_or" if left.dtype == "bool" else "maximum", [left, right])


@aten_operator("minimum")
def minimum(node: AtenNode, b: Builder) -> Value:
    left, right = pair(node)
    return b.add("logical_and" if left.dtype == "bool" else "minimum", [left, right])


_MOST_SQUARINGS = 64  # exponents of whole numbers up to this are written out as products


@aten_operator("pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar")
def power(node: AtenNode, b: Builder) -> Value:
    dtype = node.result[1]
    base = node.operand("self", dtype)
    if not node.is_tensor("exponent"):
        exponent = node.number("exponent")
        written_out = power_of(b, base, exponent)
        if written_out is not None:
            return written_out
        if not is_float(dtype):
            return _whole_power(node, b, base, exponent)
    if not is_float(dtype):
        raise UserError(f"{node}: powers of {dtype} with computed exponents are not supported")
    return b.add("power", [base, node.operand("exponent", dtype)])


def _whole_power(node: AtenNode, b: Builder, x: Value, exponent: float) -> Value:
    """By squaring: it wraps around as PyTorch's does."""
    if not isinstance(exponent, int) or not 0 <= exponent <= _MOST_SQUARINGS:
        raise UserError(f"{node}: the power {exponent} of {x.dtype} is not supported")
    result: Value | None = None
    for digit in bin(exponent)[2:]:
        result = None if result is None else b.add("multiply", [result, result])
        if digit == "1":
            result = x if result is None else b.add("multiply", [result, x])
    return b.add("broadcast", [scalar(b, 1, x)], shape=x.shape) if result is None else result


@aten_operator("atan2")
def atan2(node: AtenNode, b: Builder) -> Value:
    return b.add("atan2", list(pair(node)))


@aten_operator("clamp", "clamp.Tensor")
def clamp(node: AtenNode, b: Builder) -> Value:
    dtype = node.result[1]
    x = as_type(b, node.value("self"), dtype)
    for name, operator in (("min", "maximum"), ("max", "minimum")):
        if node.given(name) and node.is_tensor(name):
            x = b.add(operator, [x, node.operand(name, dtype)])
        elif node.given(name):
            limit = node.number(name)
            limit = limit if is_float(dtype) else _whole(node, limit, name)
            x = b.add("clip", [x], low=limit) if name == "min" else b.add("clip", [x], high=limit)
    return _broadcast_to(b, x, node.result[0])


def _whole(node: AtenNode, number: float, name: str) -> int:
    if number != int(number):
        raise UserError(f"{node}: {name} is {number}; for whole numbers it must be one")
    return int(number)


def _broadcast_to(b: Builder, x: Value, shape: tuple[int, ...]) -> Value:
    return x if x.shape == shape else b.add("broadcast", [x], shape=shape)


@aten_operator("where.self")
def where(node: AtenNode, b: Builder) -> Value:
    condition = as_type(b, node.value("condition"), "bool")
    return b.add("where", [condition, *pair(node)])
