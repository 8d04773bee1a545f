"""Comparisons, logic, and choices between elements."""

from __future__ import annotations

from tensorsmith.frontends.onnx.elementwise import old_broadcast
from tensorsmith.frontends.onnx.table import OnnxNode, onnx_operator
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.graph import Value

#: operator of ours, and whether the inputs change places
_COMPARISONS = {
    "Equal": ("equal", False), "Less": ("less", False), "LessOrEqual": ("less_equal", False),
    "Greater": ("less", True), "GreaterOrEqual": ("less_equal", True),
    "And": ("logical_and", False), "Or": ("logical_or", False), "Xor": ("logical_xor", False),
}  # fmt: skip


def _comparison(kind: str, operator: str, swapped: bool) -> None:
    @onnx_operator(kind)
    def handler(node: OnnxNode, b: Builder) -> Value:
        left, right = old_broadcast(node, b)
        return b.add(operator, [right, left] if swapped else [left, right])


for _kind, (_operator, _swapped) in _COMPARISONS.items():
    _comparison(_kind, _operator, _swapped)


@onnx_operator("Not")
def logical_not(node: OnnxNode, b: Builder) -> Value:
    return b.add("logical_not", [node.required(0)])


@onnx_operator("Where")
def where(node: OnnxNode, b: Builder) -> Value:
    return b.add("where", [node.required(0), node.required(1), node.required(2)])
