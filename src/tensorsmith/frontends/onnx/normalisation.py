"""Softmax and normalisations.

A normalisation is one operator without parameters; the scale and the shift after it are a multiplication and an addition, which
are fused to it like any others.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from tensorsmith.errors import UserError
from tensorsmith.frontends.common.spatial import channels_first, channels_last, per_channel
from tensorsmith.frontends.common.values import as_type, scalar
from tensorsmith.frontends.onnx.table import OnnxNode, onnx_operator
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.graph import Value


def _axis(node: OnnxNode, rank: int, default: int) -> int:
    axis = node.attribute("axis", default)
    if not -rank <= axis < max(rank, 1):
        raise UserError(f"{node}: axis is {axis}; the input has {rank} dimensions")
    return int(axis) % rank if rank else 0


def _flattened(operator: str) -> None:
    """Registers an operator that, before version 13, worked on all dimensions from `axis` on taken as one."""

    @onnx_operator(operator)
    def flat(node: OnnxNode, b: Builder) -> Value:
        x = node.required(0)
        axis = _axis(node, len(x.shape), 1)
        if x.shape[axis:] and prod(x.shape[axis + 1 :]) == 1:
            return b.add(_NAMES[operator], [x], axis=axis)
        rows = b.add("reshape", [x], shape=(prod(x.shape[:axis]), prod(x.shape[axis:])))
        return b.add("reshape", [b.add(_NAMES[operator], [rows], axis=1)], shape=x.shape)

    @onnx_operator(operator, since=13)
    def along(node: OnnxNode, b: Builder) -> Value:
        x = node.required(0)
        if not x.shape:  # the softmax of one number
            one = b.add("reshape", [x], shape=(1,))
            return b.add("reshape", [b.add(_NAMES[operator], [one], axis=0)], shape=())
        return b.add(_NAMES[operator], [x], axis=_axis(node, len(x.shape), -1))


_NAMES = {"Softmax": "softmax", "LogSoftmax": "log_softmax"}
for _name in _NAMES:
    _flattened(_name)


@onnx_operator("BatchNormalization")
def batch_normalization(node: OnnxNode, b: Builder) -> Value | Sequence[Value]:
    """As a multiplication and an addition per channel, which a pass folds into the convolution before.

    In training mode the statistics are those of the batch, and the running ones are results.
    """
    x = node.required(0)
    if node.attribute("spatial", 1) == 0:
        raise UserError(f"{node}: spatial is 0: statistics per element are not supported")
    scale, shift, mean, variance = (node.required(n) for n in (1, 2, 3, 4))
    channels = x.shape[1] if len(x.shape) > 1 else 1
    for name, v in (("scale", scale), ("B", shift), ("mean", mean), ("var", variance)):
        if v.shape != (channels,):
            raise UserError(f"{node}: {name} has the shape {list(v.shape)}; expected [{channels}], one per channel")
    running: list[Value] = []
    if node.attribute("training_mode", 0):
        batch = _statistics(b, x)
        running = [_running(node, b, old, new) for old, new in zip((mean, variance), batch)]
        mean, variance = batch
    deviation = b.add("inverse_deviation", [variance], epsilon=float(node.attribute("epsilon", 1e-5)))
    factor = b.add("multiply", [as_type(b, scale, deviation.dtype), deviation])
    offset = b.add("subtract", [as_type(b, shift, factor.dtype), b.add("multiply", [mean, factor])])
    rank = len(x.shape)
    scaled = b.add("multiply", [x, per_channel(b, as_type(b, factor, x.dtype), rank)])
    return [b.add("add", [scaled, per_channel(b, as_type(b, offset, x.dtype), rank)]), *running]


def _statistics(b: Builder, x: Value) -> tuple[Value, Value]:
    """Mean and variance of each channel of a batch."""
    rank = len(x.shape)
    axes = (0, *range(2, rank))
    mean = b.add("reduce_mean", [x], axes=axes, keepdims=False)
    off = b.add("subtract", [x, per_channel(b, mean, rank)])
    return mean, b.add("reduce_mean", [b.add("square", [off])], axes=axes, keepdims=False)


def _running(node: OnnxNode, b: Builder, old: Value, new: Value) -> Value:
    """The running statistics a batch leaves behind."""
    momentum = float(node.attribute("momentum", 0.9))
    kept = b.add("multiply", [old, scalar(b, momentum, old)])
    return b.add("add", [kept, b.add("multiply", [as_type(b, new, old.dtype), scalar(b, 1 - momentum, old)])])


@onnx_operator("InstanceNormalization")
def instance_normalization(node: OnnxNode, b: Builder) -> Value:
    x, scale, shift = node.required(0), node.required(1), node.required(2)
    rank = len(x.shape)
    if rank < 3:
        raise UserError(f"{node}: the input has the shape {list(x.shape)}; expected N, C and spatial dimensions")
    normal = b.add("normalize", [x], axes=tuple(range(2, rank)), epsilon=float(node.attribute("epsilon", 1e-5)))
    return b.add("add", [b.add("multiply", [normal, per_channel(b, scale, rank)]), per_channel(b, shift, rank)])


@onnx_operator("GroupNormalization", since=18)
def group_normalization(node: OnnxNode, b: Builder) -> Value:
    """Scale and shift are per group before version 21, then per channel."""
    x, scale, shift = node.required(0), node.required(1), node.required(2)
    groups = int(node.needed("num_groups"))
    batch, channels, *rest = x.shape
    if groups < 1 or channels % groups:
        raise UserError(f"{node}: num_groups is {groups}, which does not divide the {channels} channels")
    if node.version < 21:
        times = channels // groups
        scale, shift = (b.add("repeat", [v], times=(times,)) for v in (scale, shift))
    rows = b.add("reshape", [x], shape=(batch, groups, channels // groups * prod(rest)))
    normal = b.add("normalize", [rows], axes=(2,), epsilon=float(node.attribute("epsilon", 1e-5)))
    back, rank = b.add("reshape", [normal], shape=x.shape), len(x.shape)
    return b.add("add", [b.add("multiply", [back, per_channel(b, scale, rank)]), per_channel(b, shift, rank)])


@onnx_operator("LayerNormalization")  # of the standard since 17; ONNX Runtime writes it into older files
def layer_normalization(node: OnnxNode, b: Builder) -> Value | Sequence[Value]:
    x, scale, shift = node.required(0), node.required(1), node.optional(2)
    axes = tuple(range(_axis(node, len(x.shape), -1), len(x.shape)))
    epsilon = float(node.attribute("epsilon", 1e-5))
    result = b.add("multiply", [b.add("normalize", [x], axes=axes, epsilon=epsilon), scale])
    if shift is not None:
        result = b.add("add", [result, shift])
    if node.output_count == 1:
        return result
    return [result, *b.add_all("moments", [x], axes=axes, epsilon=epsilon)]


@onnx_operator("RMSNormalization", since=23)
def rms_normalization(node: OnnxNode, b: Builder) -> Value:
    x, scale = node.required(0), node.required(1)
    axes = tuple(range(_axis(node, len(x.shape), -1), len(x.shape)))
    normal = b.add("normalize", [x], axes=axes, epsilon=float(node.attribute("epsilon", 1e-5)), centre=False)
    return b.add("multiply", [normal, scale])


@onnx_operator("MeanVarianceNormalization", since=9)
def mean_variance_normalization(node: OnnxNode, b: Builder) -> Value:
    axes = tuple(node.attribute("axes", (0, 2, 3)))
    return b.add("normalize", [node.required(0)], axes=axes, epsilon=1e-18)  # ONNX adds 1e-9 to the square root


@onnx_operator("LRN")
def lrn(node: OnnxNode, b: Builder) -> Value:
    defaults = {"alpha": 1e-4, "beta": 0.75, "bias": 1.0}
    options: dict[str, Any] = {name: float(node.attribute(name, default)) for name, default in defaults.items()}
    x = channels_last(b, node.required(0))
    return channels_first(b, b.add("local_response_norm", [x], size=int(node.needed("size")), **options))


@onnx_operator("LpNormalization")
def lp_normalization(node: OnnxNode, b: Builder) -> Value:
    x = node.required(0)
    return b.add("lp_normalize", [x], axis=_axis(node, len(x.shape), -1), p=int(node.attribute("p", 2)))
