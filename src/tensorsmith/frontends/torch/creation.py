"""Tensors that are made and not computed: all of them are constants."""

from __future__ import annotations

import numpy as np

from tensorsmith.errors import UserError
from tensorsmith.frontends.common.values import LARGEST_MADE, scalar_of
from tensorsmith.frontends.torch.table import AtenNode, aten_operator
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.graph import Value
from tensorsmith.lang.dtypes import dtype as facts


def filled(b: Builder, shape: tuple[int, ...], number: float, dtype: str) -> Value:
    """A tensor of one number over and over."""
    one = scalar_of(b, bool(number) if dtype == "bool" else number, dtype)
    return b.add("broadcast", [one], shape=shape) if shape else one


@aten_operator("full", "full_like")
def full(node: AtenNode, b: Builder) -> Value:
    node.ignore("size", "self", "dtype")  # the result says them
    return filled(b, node.result[0], node.number("fill_value"), node.result[1])


@aten_operator("empty.memory_format", "empty_like")
def empty(node: AtenNode, b: Builder) -> Value:
    """Its content is undefined: zeros are as good as any."""
    node.ignore("size", "self", "dtype")
    return filled(b, node.result[0], 0, node.result[1])


@aten_operator("scalar_tensor")
def scalar_tensor(node: AtenNode, b: Builder) -> Value:
    node.ignore("dtype")
    return scalar_of(b, node.number("s"), node.result[1])


@aten_operator("fill.Scalar", "fill.Tensor")
def fill(node: AtenNode, b: Builder) -> Value:
    node.ignore("self")
    shape, dtype = node.result
    return b.add("broadcast", [node.operand("value", dtype)], shape=shape)


@aten_operator("arange.start_step")
def arange(node: AtenNode, b: Builder) -> Value:
    """Computed as PyTorch does, start + i * step, in f64 or whole numbers, then rounded to the type."""
    node.ignore("dtype")
    (count,), dtype = node.result
    if count > LARGEST_MADE:
        raise UserError(f"{node}: {count} numbers are more than are made when a model is compiled")
    start, step = node.number("start"), node.number("step")
    node.ignore("end")  # the result's shape says it
    return b.constant(np.asarray(start + np.arange(count) * step).astype(facts(dtype).numpy), "arange")
