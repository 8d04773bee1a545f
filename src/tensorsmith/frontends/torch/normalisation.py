"""ATen's softmax and normalisations.

A normalisation is one operator without parameters; the scale and the shift after it are a multiplication and an addition, which
are fused to it like any others.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tensorsmith.errors import UserError
from tensorsmith.frontends.common.spatial import per_channel
from tensorsmith.frontends.common.values import as_type, reshaped
from tensorsmith.frontends.torch.movement import dimension
from tensorsmith.frontends.torch.table import AtenNode, aten_operator
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.graph import Value
from tensorsmith.lang.dtypes import dtype


def _softmax(name: str, operator: str) -> None:
    @aten_operator(name)
    def handler(node: AtenNode, b: Builder) -> Value:
        node.ignore("half_to_float", "dtype")  # the result's type says it
        x = as_type(b, node.value("self"), node.result[1])
        if 0 in x.shape:
            node.ignore("dim")
            return x
        whole = x if x.shape else reshaped(b, x, (1,))
        return reshaped(b, b.add(operator, [whole], axis=dimension(node, whole)), x.shape)


_softmax("_softmax", "softmax")
_softmax("_log_softmax", "log_softmax")
_softmax("_safe_softmax", "masked_softmax")


def _scaled(b: Builder, x: Value, scale: Value | None, shift: Value | None) -> Value:
    x = x if scale is None else b.add("multiply", [x, scale])
    return x if shift is None else b.add("add", [x, shift])


@aten_operator("_native_batch_norm_legit_no_training")
def batch_norm(node: AtenNode, b: Builder) -> Sequence[Value]:
    """A multiplication and an addition per channel, which a pass folds into the convolution before."""
    node.ignore("momentum")
    x, scale, shift = node.value("input"), node.optional("weight"), node.optional("bias")
    mean, variance = node.value("running_mean"), node.value("running_var")
    rank = len(x.shape)
    factor = b.add("inverse_deviation", [variance], epsilon=float(node.number("eps")))
    factor = factor if scale is None else b.add("multiply", [as_type(b, scale, factor.dtype), factor])
    offset = b.add("multiply", [mean, factor])
    offset = b.add("negative", [offset]) if shift is None else b.add("subtract", [as_type(b, shift, factor.dtype), offset])
    scaled = b.add("multiply", [x, per_channel(b, as_type(b, factor, x.dtype), rank)])
    return [b.add("add", [scaled, per_channel(b, as_type(b, offset, x.dtype), rank)])]


@aten_operator("_native_batch_norm_legit.no_stats")
def batch_statistics(node: AtenNode, b: Builder) -> Sequence[Value]:
    """By the statistics of the batch itself: what an instance norm becomes."""
    node.ignore("momentum", "training")
    x, scale, shift = node.value("input"), node.optional("weight"), node.optional("bias")
    rank = len(x.shape)
    normal = b.add("normalize", [x], axes=(0, *range(2, rank)), epsilon=float(node.number("eps")))
    parts = [None if v is None else per_channel(b, v, rank) for v in (scale, shift)]
    return [_scaled(b, normal, *parts)]


@aten_operator("native_layer_norm")
def layer_norm(node: AtenNode, b: Builder) -> Sequence[Value]:
    x, scale, shift = node.value("input"), node.optional("weight"), node.optional("bias")
    axes = _last(node, x)
    if 0 in x.shape:
        raise UserError(f"{node}: {x} is empty")
    epsilon = float(node.number("eps"))
    result = _scaled(b, b.add("normalize", [x], axes=axes, epsilon=epsilon), scale, shift)
    if not node.uses(1) and not node.uses(2):
        return [result]
    return [result, *b.add_all("moments", [x], axes=axes, epsilon=epsilon)]


def _last(node: AtenNode, x: Value) -> tuple[int, ...]:
    """The last dimensions, as many as are normalised together."""
    count = len(node.integers("normalized_shape"))
    return tuple(range(len(x.shape) - count, len(x.shape)))


@aten_operator("rms_norm")
def rms_norm(node: AtenNode, b: Builder) -> Value:
    x, scale = node.value("input"), node.optional("weight")
    epsilon = node.number("eps") if node.given("eps") else dtype(x.dtype).epsilon
    node.ignore("eps")
    if 0 in x.shape:
        raise UserError(f"{node}: {x} is empty")
    return _scaled(b, b.add("normalize", [x], axes=_last(node, x), epsilon=float(epsilon), centre=False), scale, None)


@aten_operator("native_group_norm")
def group_norm(node: AtenNode, b: Builder) -> Sequence[Value]:
    x, scale, shift = node.value("input"), node.optional("weight"), node.optional("bias")
    node.ignore("N", "C", "HxW")  # the input's shape says them
    groups = node.integer("group")
    if 0 in x.shape:
        raise UserError(f"{node}: {x} is empty")
    batch, channels, *rest = x.shape
    rows = reshaped(b, x, (batch, groups, channels // groups * prod(rest)))
    epsilon = float(node.number("eps"))
    normal = reshaped(b, b.add("normalize", [rows], axes=(2,), epsilon=epsilon), x.shape)
    result = _scaled(b, normal, *(None if v is None else per_channel(b, v, len(x.shape)) for v in (scale, shift)))
    if not node.uses(1) and not node.uses(2):
        return [result]
    moments = b.add_all("moments", [rows], axes=(2,), epsilon=epsilon)
    return [result, *(reshaped(b, v, (batch, groups)) for v in moments)]
