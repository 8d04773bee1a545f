"""ONNX's reductions, running sums and Einsum."""

from __future__ import annotations

import math

import numpy as np

from tensorsmith.errors import UserError
from tensorsmith.frontends.common.values import reshaped
from tensorsmith.frontends.onnx.movement import axes_of
from tensorsmith.frontends.onnx.table import OnnxNode, onnx_operator
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.graph import Value
from tensorsmith.lang.dtypes import dtype, is_int
from tensorsmith.ops.common import normal_axis
from tensorsmith.show.line import many

#: operator of ours, and the version from which the axes are an input
_REDUCTIONS = {
    "ReduceL1": ("reduce_l1", 18), "ReduceL2": ("reduce_l2", 18), "ReduceLogSum": ("reduce_log_sum", 18),
    "ReduceLogSumExp": ("reduce_log_sum_exp", 18), "ReduceMax": ("reduce_max", 18), "ReduceMean": ("reduce_mean", 18),
    "ReduceMin": ("reduce_min", 18), "ReduceProd": ("reduce_prod", 18), "ReduceSum": ("reduce_sum", 13),
    "ReduceSumSquare": ("reduce_sum_square", 18),
}  # fmt: skip


def _reduction(kind: str, operator: str, since: int) -> None:
    @onnx_operator(kind)
    def handler(node: OnnxNode, b: Builder) -> Value:
        """No axes: all, or nothing if noop_with_empty_axes (only the function of each element is left then)."""
        x, axes = node.required(0), axes_of(node, 1, since)
        keepdims = bool(node.attribute("keepdims", 1))
        none = bool(node.version >= since and node.attribute("noop_with_empty_axes", 0))  # says nothing beside axes
        if not axes:
            axes = [] if none else list(range(len(x.shape)))
        dims = tuple(sorted(normal_axis(d, len(x.shape), str(node)) for d in axes))
        if "log" in operator and is_int(x.dtype):  # a logarithm of integers is an integer again, rounded towards zero
            real = b.add(operator, [b.add("cast", [x], to="f64")], axes=dims, keepdims=keepdims)
            return b.add("cast", [real], to=x.dtype)
        return b.add(operator, [x], axes=dims, keepdims=keepdims)


for _kind, (_operator, _since) in _REDUCTIONS.items():
    _reduction(_kind, _operator, _since)


def _position(kind: str, operator: str) -> None:
    @onnx_operator(kind)
    def handler(node: OnnxNode, b: Builder) -> Value:
        keepdims, last = bool(node.attribute("keepdims", 1)), bool(node.attribute("select_last_index", 0))
        return b.add(operator, [node.required(0)], axis=node.attribute("axis", 0), keepdims=keepdims, last=last)


_position("ArgMax", "argmax")
_position("ArgMin", "argmin")


def _cumulative(kind: str, operator: str) -> None:
    @onnx_operator(kind)
    def handler(node: OnnxNode, b: Builder) -> Value:
        axis = int(node.constant(1, "the axis").reshape(()))
        exclusive, reverse = bool(node.attribute("exclusive", 0)), bool(node.attribute("reverse", 0))
        return b.add(operator, [node.required(0)], axis=axis, exclusive=exclusive, reverse=reverse)


_cumulative("CumSum", "cumulative_sum")
_cumulative("CumProd", "cumulative_product")


@onnx_operator("Hardmax")
def hardmax(node: OnnxNode, b: Builder) -> Value:
    """1 at the first largest element along the axis, 0 elsewhere. Before version 13 all dimensions from the axis on are one."""
    x = node.required(0)
    shape, axis = x.shape, normal_axis(node.attribute("axis", 1 if node.version < 13 else -1), len(x.shape), str(node))
    if node.version < 13:
        x, axis = reshaped(b, x, (math.prod(shape[:axis]), math.prod(shape[axis:]))), 1
    first = b.add("argmax", [x], axis=axis, keepdims=False)
    values = b.constant(np.array([0, 1], dtype(x.dtype).numpy))
    return reshaped(b, b.add("one_hot", [first, values], depth=x.shape[axis], axis=axis), shape)


@onnx_operator("Einsum")
def einsum(node: OnnxNode, b: Builder) -> Value:
    """Terms are contracted from the first to the last, two at a time."""
    operands = node.every()
    terms, output = _letters(node, operands)
    value, term = operands[0], terms[0]
    for n in range(1, len(operands)):
        later = set("".join(terms[n + 1 :])) | set(output)
        kept = "".join(dict.fromkeys(c for c in term + terms[n] if c in later))
        result = output if n == len(operands) - 1 else kept
        value, term = b.add("einsum", [value, operands[n]], inputs=(term, terms[n]), output=result), result
    if len(operands) == 1:
        return b.add("einsum", [value], inputs=(term,), output=output)
    return value


def _letters(node: OnnxNode, operands: list[Value]) -> tuple[list[str], str]:
    """The terms and the result with a letter for each dimension; an ellipsis gets letters of its own, aligned at its end."""
    equation = node.needed("equation").replace(" ", "")
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        raise UserError(f"{node}: {equation!r} has {many(len(terms), 'term')}, the node {many(len(operands), 'input')}")
    hidden = 0  # dimensions that an ellipsis stands for
    for term, x in zip(terms, operands):
        named = len(term.replace("...", ""))
        fits = named <= len(x.shape) if "..." in term else named == len(x.shape)
        if not fits or (named and not term.replace("...", "").isalpha()):
            raise UserError(f"{node}: the term {term!r} of {equation!r} does not fit {x}")
        hidden = max(hidden, len(x.shape) - named)
    free = [chr(code) for code in range(0x3B1, 0x3B1 + hidden)]  # Greek letters: ONNX has Latin ones only
    full = [
        term.replace("...", "".join(free[hidden - (len(x.shape) - len(term.replace("...", ""))) :]))
        for term, x in zip(terms, operands)
    ]
    if arrow:
        return full, right.replace("...", "".join(free))
    letters = "".join(terms).replace(".", "")
    once = sorted(c for c in set(letters) if letters.count(c) == 1)
    return full, "".join(free) + "".join(once)
