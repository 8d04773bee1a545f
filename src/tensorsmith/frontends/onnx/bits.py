"""Operators on the bits of integers."""

from __future__ import annotations

import numpy as np
from onnx import helper

from tensorsmith.errors import UserError
from tensorsmith.frontends.onnx.read import type_of
from tensorsmith.frontends.onnx.table import OnnxNode, onnx_operator
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.graph import Value


def _binary(kind: str, operator: str) -> None:
    @onnx_operator(kind, since=18)
    def handler(node: OnnxNode, b: Builder) -> Value:
        return b.add(operator, [node.required(0), node.required(1)])


_binary("BitwiseAnd", "bitwise_and")
_binary("BitwiseOr", "bitwise_or")
_binary("BitwiseXor", "bitwise_xor")


@onnx_operator("BitwiseNot", since=18)
def bitwise_not(node: OnnxNode, b: Builder) -> Value:
    return b.add("bitwise_not", [node.required(0)])


@onnx_operator("BitShift", since=11)
def bit_shift(node: OnnxNode, b: Builder) -> Value:
    left = node.needed("direction") == "LEFT"
    node.choice("direction", "", ("LEFT", "RIGHT"))
    return b.add("shift", [node.required(0), node.required(1)], left=left)


@onnx_operator("BitCast", since=26)
def bit_cast(node: OnnxNode, b: Builder) -> Value:
    """Of what is known."""
    number = node.needed("to")
    type_of(number, f"{node}: the result")
    to, x = np.dtype(helper.tensor_dtype_to_np_dtype(number)), node.constant(0, "the data")
    if x.dtype.itemsize != to.itemsize:
        raise UserError(f"{node}: {x.dtype.itemsize * 8} bits cannot be taken for {to.name}, which has {to.itemsize * 8}")
    return b.constant(np.ascontiguousarray(x).view(to).reshape(x.shape))
