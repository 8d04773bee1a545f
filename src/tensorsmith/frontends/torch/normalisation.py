"""ATen's softmax and normalisations.

A normalisation is one operator without parameters; the scale and the shift after it are a multiplication and an addition, which
are fused to it like any others.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tensorsmith.errors import UserError
from tensorsmith.frontends.common.spatial import per_channel
from tensorsmith.frontends.common.values import as_type, reshaped, scalar
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
    return [_normal_of_batch(node, b)]


def _normal_of_batch(node: AtenNode, b: Builder) -> Value:
    """The input, each channel normalised by its own mean and deviation, scaled and shifted; f16 and bf16 are rounded once."""
    given, scale, shift = node.value("input"), node.optional("weight"), node.optional("bias")
    x, rank = _wide(b, given), len(given.shape)
    normal = b.add("normalize", [x], axes=_of_channel(x), epsilon=float(node.number("eps")))
    parts = [None if v is None else per_channel(b, as_type(b, v, x.dtype), rank) for v in (scale, shift)]
    return as_type(b, _scaled(b, normal, *parts), given.dtype)


def _wide(b: Builder, x: Value) -> Value:
    return as_type(b, x, "f32") if dtype(x.dtype).is_half else x


def _of_channel(x: Value) -> tuple[int, ...]:
    """The dimensions over which a channel extends."""
    return (0, *range(2, len(x.shape)))


@aten_operator("_native_batch_norm_legit_functional")
def batch_norm_in_training(node: AtenNode, b: Builder) -> Sequence[Value]:
    """As above, and the running mean and variance after the batch; that variance is the one without bias."""
    if not node.plain("training"):
        raise UserError(f"{node}: only the statistics of the batch are supported, not running ones")
    x, momentum = _wide(b, node.value("input")), float(node.number("momentum"))
    axes = _of_channel(x)
    count = prod(x.shape[d] for d in axes)
    if count < 2:
        raise UserError(f"{node}: {x} has one element for each channel, which has no variance")
    mean = b.add("reduce_mean", [x], axes=axes, keepdims=True)
    squares = b.add("square", [b.add("subtract", [x, mean])])
    total = b.add("reduce_sum", [squares], axes=axes)
    after = []
    for name, new, (shape, kind) in (
        ("running_mean", reshaped(b, mean, x.shape[1:2]), node.results[3]),
        ("running_var", b.add("multiply", [total, scalar(b, 1 / (count - 1), total)]), node.results[4]),
    ):
        old = as_type(b, node.value(name), new.dtype)
        kept = b.add("multiply", [old, scalar(b, 1 - momentum, new)])
        after.append(as_type(b, b.add("add", [kept, b.add("multiply", [new, scalar(b, momentum, new)])]), kind))
        assert after[-1].shape == shape
    moments = b.add_all("moments", [x], axes=axes, epsilon=float(node.number("eps")))
    saved = [as_type(b, reshaped(b, v, shape), kind) for v, (shape, kind) in zip(moments, node.results[1:3])]
    return [_normal_of_batch(node, b), *saved, *after]


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
