"""ONNX's operators that only move elements, by numbers that are known when the model is compiled."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tensorsmith.errors import UserError
from tensorsmith.frontends.common.values import reshaped, sliced, transposed
from tensorsmith.frontends.onnx.table import OnnxNode, onnx_operator
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.graph import Value
from tensorsmith.ops.common import normal_axis
from tensorsmith.ops.elementwise import broadcast_shape
from tensorsmith.show.line import many


def numbers(array: np.ndarray) -> list[int]:
    """The whole numbers of an array of any shape."""
    return [int(n) for n in array.reshape(-1)]


def axes_of(node: OnnxNode, n: int, since: int) -> list[int] | None:
    """The axes: an attribute before version `since`, input n from then on; None where they are left out."""
    if node.version < since or node.has("axes"):
        given = node.attribute("axes")
        return None if given is None else list(given)
    array = node.optional_constant(n, "the axes")
    return None if array is None else numbers(array)


@onnx_operator("Transpose")
def transpose(node: OnnxNode, b: Builder) -> Value:
    x = node.required(0)
    return transposed(b, x, node.attribute("perm", tuple(reversed(range(len(x.shape))))))


@onnx_operator("Reshape")
def reshape_by_attribute(node: OnnxNode, b: Builder) -> Value:
    return _reshape(node, b, node.needed("shape"), allow_zero=False)


@onnx_operator("Reshape", since=5)
def reshape(node: OnnxNode, b: Builder) -> Value:
    return _reshape(node, b, numbers(node.constant(1, "the shape")), bool(node.version >= 14 and node.attribute("allowzero", 0)))


def _reshape(node: OnnxNode, b: Builder, wanted: Sequence[int], allow_zero: bool) -> Value:
    """0 copies a dimension (or is a 0), -1 is what is left."""
    x = node.required(0)
    shape = list(wanted)
    if not allow_zero:
        if any(n == 0 and d >= len(x.shape) for d, n in enumerate(shape)):
            raise UserError(f"{node}: {x} has no dimension to copy for a 0 in {list(wanted)}")
        shape = [x.shape[d] if n == 0 else n for d, n in enumerate(shape)]
    if shape.count(-1) > 1 or any(n < -1 for n in shape):
        raise UserError(f"{node}: {list(wanted)} is no shape")
    if -1 in shape:  # dimensions that are copied do not count: they may be empty
        copied = [d for d, n in enumerate(wanted) if n == 0 and not allow_zero]
        left = math.prod(n for d, n in enumerate(x.shape) if d not in copied)
        rest = math.prod(n for d, n in enumerate(shape) if n != -1 and d not in copied)
        if rest == 0 or left % rest:
            raise UserError(f"{node}: {x} cannot be reshaped to {list(wanted)}")
        shape[shape.index(-1)] = left // rest
    return reshaped(b, x, shape)


@onnx_operator("Flatten")
def flatten(node: OnnxNode, b: Builder) -> Value:
    x, axis = node.required(0), node.attribute("axis", 1)
    if not -len(x.shape) <= axis <= len(x.shape):
        raise UserError(f"{node}: {x} cannot be flattened at dimension {axis}")
    axis = axis % len(x.shape) if axis < 0 else axis
    rows = int(np.prod(x.shape[:axis], dtype=np.int64))
    return reshaped(b, x, (rows, int(np.prod(x.shape[axis:], dtype=np.int64))))


@onnx_operator("Squeeze")
def squeeze(node: OnnxNode, b: Builder) -> Value:
    x, axes = node.required(0), axes_of(node, 1, 13)
    if axes is None:
        return reshaped(b, x, [n for n in x.shape if n != 1])
    dims = {normal_axis(d, len(x.shape), str(node)) for d in axes}
    if any(x.shape[d] != 1 for d in dims):
        raise UserError(f"{node}: {x} is not 1 long in the dimensions {axes}")
    return reshaped(b, x, [n for d, n in enumerate(x.shape) if d not in dims])


@onnx_operator("Unsqueeze")
def unsqueeze(node: OnnxNode, b: Builder) -> Value:
    x, axes = node.required(0), axes_of(node, 1, 13)
    if axes is None:
        raise UserError(f"{node}: the axes are missing")
    rank = len(x.shape) + len(axes)
    dims = {normal_axis(d, rank, str(node)) for d in axes}
    if len(dims) != len(axes):
        raise UserError(f"{node}: a dimension is named twice in {axes}")
    old = iter(x.shape)
    return reshaped(b, x, [1 if d in dims else next(old) for d in range(rank)])


@onnx_operator("Expand")
def expand(node: OnnxNode, b: Builder) -> Value:
    x = node.required(0)
    shape = broadcast_shape(x.shape, tuple(numbers(node.constant(1, "the shape"))))
    return x if shape == x.shape else b.add("broadcast", [x], shape=shape)


@onnx_operator("Tile")
def tile_one_axis(node: OnnxNode, b: Builder) -> Value:
    x = node.required(0)
    axis = normal_axis(int(node.constant(2, "the axis").reshape(())), len(x.shape), str(node))
    count = int(node.constant(1, "the number of tiles").reshape(()))
    return b.add("tile", [x], repeats=tuple(count if d == axis else 1 for d in range(len(x.shape))))


@onnx_operator("Tile", since=6)
def tile(node: OnnxNode, b: Builder) -> Value:
    return b.add("tile", [node.required(0)], repeats=tuple(numbers(node.constant(1, "the repeats"))))


@onnx_operator("Concat")
def concat(node: OnnxNode, b: Builder) -> Value:
    parts = node.every()
    if not parts:
        raise UserError(f"{node} has no inputs")
    axis = node.attribute("axis", 1) if node.version < 4 else node.needed("axis")
    return parts[0] if len(parts) == 1 else b.add("concat", parts, axis=axis)


@onnx_operator("Split")
def split_by_attribute(node: OnnxNode, b: Builder) -> list[Value]:
    sizes = node.attribute("split")
    if sizes is None and node.optional(1) is not None:  # version 1
        sizes = numbers(node.constant(1, "the sizes"))
    return _split(node, b, sizes)


@onnx_operator("Split", since=13)
def split(node: OnnxNode, b: Builder) -> list[Value]:
    sizes = node.optional_constant(1, "the sizes")
    return _split(node, b, None if sizes is None else numbers(sizes))


def _split(node: OnnxNode, b: Builder, sizes: Sequence[int] | None) -> list[Value]:
    x = node.required(0)
    axis = normal_axis(node.attribute("axis", 0), len(x.shape), str(node))
    extent = x.shape[axis]
    count = node.attribute("num_outputs", node.output_count) if node.version >= 18 else node.output_count
    if sizes is not None and count != len(sizes):
        raise UserError(f"{node}: num_outputs is {count}, but {many(len(sizes), 'size')} are given")
    if sizes is None:
        if not 1 <= count <= max(extent, node.output_count):
            raise UserError(f"{node} is to give {count} parts of dimension {axis} of {x}")
        each = -(-extent // count)
        sizes = [max(0, min(each, extent - n * each)) for n in range(count)]
    if sum(sizes) != extent or any(n < 0 for n in sizes):
        raise UserError(f"{node}: the sizes {list(sizes)} do not make up dimension {axis} of {x}")
    parts, start = [], 0
    for size in sizes:
        starts = [start if d == axis else 0 for d in range(len(x.shape))]
        parts.append(sliced(b, x, starts, [size if d == axis else n for d, n in enumerate(x.shape)]))
        start += size
    return parts


@onnx_operator("Slice")
def slice_by_attributes(node: OnnxNode, b: Builder) -> Value:
    starts, ends = node.needed("starts"), node.needed("ends")
    return _slice(node, b, starts, ends, node.attribute("axes"), None)


@onnx_operator("Slice", since=10)
def slice_(node: OnnxNode, b: Builder) -> Value:
    starts, ends = numbers(node.constant(1, "the starts")), numbers(node.constant(2, "the ends"))
    axes, steps = node.optional_constant(3, "the axes"), node.optional_constant(4, "the steps")
    return _slice(node, b, starts, ends, None if axes is None else numbers(axes), None if steps is None else numbers(steps))


def _slice(
    node: OnnxNode, b: Builder, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int] | None, steps: Sequence[int] | None
) -> Value:
    """Starts and ends are limited to the dimension, as in Python."""
    x = node.required(0)
    axes = list(range(len(starts))) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise UserError(f"{node}: starts {list(starts)}, ends {list(ends)}, axes {list(axes)} and steps {list(steps)} do not fit")
    first, size, step = [0] * len(x.shape), list(x.shape), [1] * len(x.shape)
    for start, end, axis, s in zip(starts, ends, axes, steps):
        d = normal_axis(axis, len(x.shape), str(node))
        found = range(*slice(start, end, s).indices(x.shape[d]))
        first[d], size[d], step[d] = (found[0] if len(found) else 0), len(found), s
    return sliced(b, x, first, size, step)


@onnx_operator("Pad")
def pad_by_attributes(node: OnnxNode, b: Builder) -> Value:
    pads = node.needed("paddings" if node.version < 2 else "pads")
    return _pad(node, b, pads, None, node.attribute("value", 0.0))


@onnx_operator("Pad", since=11)
def pad(node: OnnxNode, b: Builder) -> Value:
    pads = numbers(node.constant(1, "the pads"))
    axes = node.optional_constant(3, "the axes")
    value = node.optional_constant(2, "the value of the padding")
    if value is not None and value.size != 1:
        raise UserError(f"{node}: the value of the padding must be one number, not {list(value.shape)}")
    return _pad(node, b, pads, None if axes is None else numbers(axes), 0 if value is None else value.reshape(()).item())


def _pad(node: OnnxNode, b: Builder, pads: Sequence[int], axes: Sequence[int] | None, value: float) -> Value:
    x = node.required(0)
    dims = [normal_axis(d, len(x.shape), str(node)) for d in (range(len(x.shape)) if axes is None else axes)]
    if len(pads) != 2 * len(dims):
        raise UserError(f"{node}: {many(len(pads), 'pad')} for {many(len(dims), 'dimension')} of {x}")
    pairs = [(0, 0)] * len(x.shape)
    for n, d in enumerate(dims):
        pairs[d] = (pads[n], pads[n + len(dims)])
    mode = node.attribute("mode", "constant")  # heeded even where nothing is padded
    if not any(map(any, pairs)):
        return x
    return b.add("pad", [x], pairs=tuple(pairs), value=value, mode=mode)


#: whether the place in a block, or the channel, is the outer part of the depth
_MODES = ("DCR", "CRD")


@onnx_operator("DepthToSpace")
def depth_to_space(node: OnnxNode, b: Builder) -> Value:
    x, size = node.required(0), node.needed("blocksize")
    n, c, h, w = _image(node, x)
    if size < 1 or c % (size * size):
        raise UserError(f"{node}: {c} channels do not make blocks of {size} x {size}")
    depth = c // (size * size)
    if node.choice("mode", "DCR", _MODES) == "DCR":
        parts, order = (n, size, size, depth, h, w), (0, 3, 4, 1, 5, 2)
    else:
        parts, order = (n, depth, size, size, h, w), (0, 1, 4, 2, 5, 3)
    return reshaped(b, transposed(b, reshaped(b, x, parts), order), (n, depth, h * size, w * size))


@onnx_operator("SpaceToDepth")
def space_to_depth(node: OnnxNode, b: Builder) -> Value:
    x, size = node.required(0), node.needed("blocksize")
    n, c, h, w = _image(node, x)
    if size < 1 or h % size or w % size:
        raise UserError(f"{node}: {x} does not divide into blocks of {size} x {size}")
    parts = reshaped(b, x, (n, c, h // size, size, w // size, size))
    order = (0, 3, 5, 1, 2, 4) if node.choice("mode", "DCR", _MODES) == "DCR" else (0, 1, 3, 5, 2, 4)
    return reshaped(b, transposed(b, parts, order), (n, c * size * size, h // size, w // size))


def _image(node: OnnxNode, x: Value) -> tuple[int, int, int, int]:
    if len(x.shape) != 4:
        raise UserError(f"{node}: {x} must have four dimensions, batch, channels, height, width")
    n, c, h, w = x.shape
    return n, c, h, w


@onnx_operator("Trilu")
def trilu(node: OnnxNode, b: Builder) -> Value:
    diagonal = node.optional_constant(1, "the diagonal")
    k = 0 if diagonal is None else int(diagonal.reshape(()))
    return b.add("triangle", [node.required(0)], upper=bool(node.attribute("upper", 1)), diagonal=k)


@onnx_operator("ReverseSequence")
def reverse_sequence(node: OnnxNode, b: Builder) -> Value:
    time, batch = node.attribute("time_axis", 0), node.attribute("batch_axis", 1)
    return b.add("reverse_sequence", [node.required(0), node.required(1)], time_axis=time, batch_axis=batch)
