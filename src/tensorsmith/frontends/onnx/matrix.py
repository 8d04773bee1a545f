"""Matrix products."""

from __future__ import annotations

from tensorsmith.errors import UserError
from tensorsmith.frontends.common.matrix import product
from tensorsmith.frontends.common.values import scalar
from tensorsmith.frontends.onnx.table import OnnxNode, onnx_operator
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.graph import Value
from tensorsmith.lang.dtypes import is_float


@onnx_operator("MatMul")
def matmul(node: OnnxNode, b: Builder) -> Value:
    return product(node, b, node.required(0), node.required(1))


@onnx_operator("Gemm")
def gemm(node: OnnxNode, b: Builder) -> Value:
    """alpha * A B + beta * C. Transposes and factors of constants are done here and now."""
    left, right, added = node.required(0), node.required(1), node.optional(2)
    alpha, beta = float(node.attribute("alpha", 1.0)), float(node.attribute("beta", 1.0))
    if len(left.shape) != 2 or len(right.shape) != 2:
        raise UserError(f"{node}: the inputs have the shapes {list(left.shape)} and {list(right.shape)}; expected two matrices")
    flip_left, flip_right = bool(node.attribute("transA", 0)), bool(node.attribute("transB", 0))
    if flip_left and b.known(left) is not None:
        left, flip_left = b.add("transpose", [left], order=(1, 0)), False
    if flip_right and b.known(right) is not None:
        right, flip_right = b.add("transpose", [right], order=(1, 0)), False
    if alpha != 1 and b.known(right) is not None:
        right, alpha = _times(node, b, right, alpha), 1.0
    result = _times(node, b, b.add("matmul", [left, right], transpose_a=flip_left, transpose_b=flip_right), alpha)
    whole = node.version < 7 and not node.attribute("broadcast", 0)  # C must have all elements itself
    if added is None or beta == 0:
        return result
    if whole and added.shape != result.shape:
        raise UserError(f"{node}: C is {added}, the result {list(result.shape)}, and broadcast is 0")
    return b.add("add", [result, _times(node, b, added, beta)])


def _times(node: OnnxNode, b: Builder, x: Value, factor: float) -> Value:
    if factor == 1:
        return x
    if not is_float(x.dtype):
        raise UserError(f"{node}: alpha and beta must be 1 for {x.dtype}, not {factor}")
    return b.add("multiply", [x, scalar(b, factor, x)])
