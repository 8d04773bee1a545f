"""ATen's matrix products."""

from __future__ import annotations

from tensorsmith.errors import UserError
from tensorsmith.frontends.common.matrix import product
from tensorsmith.frontends.common.values import as_type, reshaped
from tensorsmith.frontends.torch.arithmetic import times
from tensorsmith.frontends.torch.table import AtenNode, aten_operator
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.graph import Value


@aten_operator("mm", "bmm")
def matrices(node: AtenNode, b: Builder) -> Value:
    return product(node, b, node.value("self"), node.value("mat2"))


@aten_operator("matmul")
def matmul(node: AtenNode, b: Builder) -> Value:
    return product(node, b, node.value("self"), node.value("other"))


@aten_operator("mv")
def matrix_vector(node: AtenNode, b: Builder) -> Value:
    return product(node, b, node.value("self"), node.value("vec"))


@aten_operator("dot")
def dot(node: AtenNode, b: Builder) -> Value:
    return product(node, b, node.value("self"), node.value("tensor"))


@aten_operator("linear")
def linear(node: AtenNode, b: Builder) -> Value:
    """x weight^T + bias"""
    x, weight, bias = node.value("input"), node.value("weight"), node.optional("bias")
    if len(weight.shape) != 2:
        raise UserError(f"{node}: the weight is {weight}; expected a matrix")
    result = product(node, b, x, b.add("transpose", [weight], order=(1, 0)))
    return result if bias is None else b.add("add", [result, bias])


@aten_operator("addmm", "baddbmm", "addmv")
def added_product(node: AtenNode, b: Builder) -> Value:
    """beta * self + alpha * the product; with beta 0, self does not count, even if it is NaN."""
    names = {"addmm": ("mat1", "mat2"), "baddbmm": ("batch1", "batch2"), "addmv": ("mat", "vec")}[str(node).split(".")[0]]
    result = times(b, product(node, b, node.value(names[0]), node.value(names[1])), node.number("alpha"))
    beta, added = node.number("beta"), node.value("self")
    result = result if beta == 0 else b.add("add", [result, times(b, added, beta)])
    return reshaped(b, result, node.result[0])


@aten_operator("_grouped_mm", "transformers.grouped_mm_fallback.default")
def grouped_mm(node: AtenNode, b: Builder) -> Value:
    """Rows that are sorted by groups, each group times a matrix of its own: a mixture of experts."""
    named = ("input", "weight") if "grouped_mm_fallback" in str(node) else ("self", "mat2")
    x, weights = (node.value(name) for name in named)
    if (len(x.shape), len(weights.shape)) != (2, 3) or not node.given("offs"):
        raise UserError(f"{node}: groups of {x} times {weights}; supported are rows (2 dimensions) times matrices (3), with offs")
    node.ignore("out_dtype")  # the result's type says it
    return as_type(b, b.add("grouped_product", [x, weights, node.value("offs")]), node.result[1])
