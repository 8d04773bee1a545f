"""ATen's operators that only move elements. A view is what it shows: nobody writes to tensors of the exported graph."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tensorsmith.errors import UserError
from tensorsmith.frontends.common.values import LARGEST_MADE, as_type, reshaped, sliced, transposed
from tensorsmith.frontends.torch.table import AtenNode, aten_operator
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.graph import Value
from tensorsmith.ops.common import normal_axis


def dimension(node: AtenNode, x: Value, name: str = "dim") -> int:
    """An argument that names a dimension of x; a number has one to name, too."""
    return normal_axis(node.integer(name), max(len(x.shape), 1), str(node))


@aten_operator("view", "_unsafe_view")
def view(node: AtenNode, b: Builder) -> Value:
    node.ignore("size")  # the result says it, without a -1
    return reshaped(b, node.value("self"), node.result[0])


@aten_operator("unsqueeze", "squeeze.dims")
def other_shape(node: AtenNode, b: Builder) -> Value:
    node.ignore("dim")
    return reshaped(b, node.value("self"), node.result[0])


@aten_operator("permute")
def permute(node: AtenNode, b: Builder) -> Value:
    x = node.value("self")
    return transposed(b, x, [d % len(x.shape) for d in node.integers("dims")])


@aten_operator("expand")
def expand(node: AtenNode, b: Builder) -> Value:
    node.ignore("size", "implicit")
    x, shape = node.value("self"), node.result[0]
    return x if shape == x.shape else b.add("broadcast", [x], shape=shape)


@aten_operator("repeat")
def repeat(node: AtenNode, b: Builder) -> Value:
    x, times = node.value("self"), node.integers("repeats")
    if not times:
        return x
    x = reshaped(b, x, (*[1] * (len(times) - len(x.shape)), *x.shape))
    return b.add("tile", [x], repeats=times)


@aten_operator("cat")
def cat(node: AtenNode, b: Builder) -> Value:
    """Tensors of shape [0] fit any others, and count for nothing."""
    dtype = node.result[1]
    given = node.values("tensors")
    parts = [as_type(b, p, dtype) for p in given if p.shape != (0,)] or [as_type(b, given[0], dtype)]
    axis = dimension(node, parts[0])
    return parts[0] if len(parts) == 1 else b.add("concat", parts, axis=axis)


def piece(b: Builder, x: Value, axis: int, start: int, size: int, step: int = 1) -> Value:
    """Some elements along one dimension."""
    starts = [start if d == axis else 0 for d in range(len(x.shape))]
    sizes = [size if d == axis else n for d, n in enumerate(x.shape)]
    return sliced(b, x, starts, sizes, [step if d == axis else 1 for d in range(len(x.shape))])


@aten_operator("slice.Tensor")
def slice_(node: AtenNode, b: Builder) -> Value:
    x = node.value("self")
    axis = dimension(node, x)
    found = _range(node, x.shape[axis])
    return piece(b, x, axis, found.start if len(found) else 0, len(found), found.step)


def _range(node: AtenNode, extent: int) -> range:
    """Start, end and step of a slice, limited to the dimension as in Python."""
    start, end, step = node.plain("start"), node.plain("end"), node.integer("step")
    return range(*slice(start, end, step).indices(extent))


@aten_operator("select.int")
def select(node: AtenNode, b: Builder) -> Value:
    x = node.value("self")
    axis = dimension(node, x)
    index = normal_axis(node.integer("index"), x.shape[axis], str(node))
    return reshaped(b, piece(b, x, axis, index, 1), node.result[0])


@aten_operator("split_with_sizes")
def split(node: AtenNode, b: Builder) -> Sequence[Value]:
    node.ignore("split_sizes")  # the results say them
    x = node.value("self")
    axis = dimension(node, x)
    parts, start = [], 0
    for shape, _ in node.results:
        parts.append(piece(b, x, axis, start, shape[axis]))
        start += shape[axis]
    return parts


def _with_piece(node: AtenNode, b: Builder, start: int, step: int, source: Value) -> Value:
    """A tensor, some of its elements along a dimension replaced: before, between and after them stay its own."""
    x = node.value("self")
    axis = dimension(node, x)
    source, count = as_type(b, source, x.dtype), source.shape[axis]
    if not count:
        return x
    if count == x.shape[axis]:
        return source
    if step == 1:
        end = start + count
        parts = [piece(b, x, axis, 0, start), source, piece(b, x, axis, end, x.shape[axis] - end)]
        return b.add("concat", [p for p in parts if p.shape[axis]], axis=axis)
    position = np.full(x.shape[axis], -1, np.int64)
    position[start : start + (count - 1) * step + 1 : step] = np.arange(count)
    order = [axis, *(d for d in range(len(x.shape)) if d != axis)]
    placed = b.add("overlay", [transposed(b, x, order), transposed(b, source, order), b.constant(position)])
    return transposed(b, placed, np.argsort(order).tolist())


@aten_operator("slice_scatter")
def slice_scatter(node: AtenNode, b: Builder) -> Value:
    x, source = node.value("self"), node.value("src")
    found = _range(node, x.shape[dimension(node, x)])
    return _with_piece(node, b, found.start if len(found) else 0, found.step, source)


@aten_operator("select_scatter")
def select_scatter(node: AtenNode, b: Builder) -> Value:
    x, source = node.value("self"), node.value("src")
    axis = dimension(node, x)
    index = normal_axis(node.integer("index"), x.shape[axis], str(node))
    return _with_piece(node, b, index, 1, reshaped(b, source, (*x.shape[:axis], 1, *x.shape[axis + 1 :])))


@aten_operator("copy")
def copy(node: AtenNode, b: Builder) -> Value:
    x, source = node.value("self"), node.value("src")
    source = as_type(b, source, x.dtype)
    return source if source.shape == x.shape else b.add("broadcast", [source], shape=x.shape)


@aten_operator("flip")
def flip(node: AtenNode, b: Builder) -> Value:
    x = node.value("self")
    dims = {d % max(len(x.shape), 1) for d in node.integers("dims")}
    if not x.shape or 0 in x.shape:
        return x
    starts = [n - 1 if d in dims else 0 for d, n in enumerate(x.shape)]
    return sliced(b, x, starts, x.shape, [-1 if d in dims else 1 for d in range(len(x.shape))])


@aten_operator("roll")
def roll(node: AtenNode, b: Builder) -> Value:
    """Along each dimension the end comes first; without dimensions the elements are rolled as one row."""
    x, dims = node.value("self"), node.integers("dims")
    shifts = node.integers("shifts")
    if not dims:
        flat = reshaped(b, x, (x.elements,))
        return reshaped(b, _rolled(b, flat, 0, shifts[0]), x.shape)
    for shift, axis in zip(shifts, dims):
        x = _rolled(b, x, normal_axis(axis, len(x.shape), str(node)), shift)
    return x


def _rolled(b: Builder, x: Value, axis: int, shift: int) -> Value:
    extent = x.shape[axis]
    first = -shift % extent if extent else 0
    if not first:
        return x
    return b.add("concat", [piece(b, x, axis, first, extent - first), piece(b, x, axis, 0, first)], axis=axis)


@aten_operator("constant_pad_nd")
def constant_pad(node: AtenNode, b: Builder) -> Value:
    """Pads are given from the last dimension on."""
    return _padded(node, b, "constant", node.number("value"), "pad")


def _padded(node: AtenNode, b: Builder, mode: str, value: float, name: str) -> Value:
    x, pads = node.value("self"), node.integers(name)
    given = [(pads[n], pads[n + 1]) for n in range(0, len(pads), 2)][::-1]
    pairs = ((0, 0),) * (len(x.shape) - len(given)) + tuple(given)
    return b.add("pad", [x], pairs=pairs, value=value, mode=mode) if any(map(any, pairs)) else x


@aten_operator("reflection_pad1d", "reflection_pad2d", "reflection_pad3d")
def reflection_pad(node: AtenNode, b: Builder) -> Value:
    return _padded(node, b, "reflect", 0, "padding")


@aten_operator("replication_pad1d", "replication_pad2d", "replication_pad3d")
def replication_pad(node: AtenNode, b: Builder) -> Value:
    return _padded(node, b, "edge", 0, "padding")


def _triangle(name: str, upper: bool) -> None:
    @aten_operator(name)
    def handler(node: AtenNode, b: Builder) -> Value:
        return b.add("triangle", [node.value("self")], upper=upper, diagonal=node.integer("diagonal"))


_triangle("tril", False)
_triangle("triu", True)


@aten_operator("diagonal")
def diagonal(node: AtenNode, b: Builder) -> Value:
    """Every element of it is a fixed distance from the one before: it is picked from the two dimensions taken as one."""
    x = node.value("self")
    first, second = dimension(node, x, "dim1"), dimension(node, x, "dim2")
    offset = node.integer("offset")
    order = [d for d in range(len(x.shape)) if d not in (first, second)] + [first, second]
    rows, columns = x.shape[first], x.shape[second]
    shape = node.result[0]
    if 0 in shape:
        raise UserError(f"{node}: diagonal {offset} of {x} is empty")
    flat = reshaped(b, transposed(b, x, order), (*shape[:-1], rows * columns))
    start = offset if offset >= 0 else -offset * columns
    return piece(b, flat, len(shape) - 1, start, shape[-1], columns + 1)


@aten_operator("as_strided")
def as_strided(node: AtenNode, b: Builder) -> Value:
    """Elements by their place in memory: looked up in a table of places, where the tensor fills its memory without gaps."""
    x, size, stride = node.value("self"), node.integers("size"), node.integers("stride")
    offset = node.plain("storage_offset") or 0
    own = node.strides("self")
    order = sorted(range(len(x.shape)), key=lambda d: (-own[d], d))
    dense = [math.prod(x.shape[e] for e in order[n + 1 :]) for n in range(len(order))]
    if any(own[d] != step and x.shape[d] != 1 for d, step in zip(order, dense)):
        raise UserError(f"{node}: {x} with the strides {list(own)} does not lie in one piece of memory")
    if math.prod(size) > LARGEST_MADE:
        raise UserError(f"{node}: {list(size)} has more elements than a table of places may have")
    places = np.full((), offset, np.int64)
    for n, step in zip(size, stride):
        places = places[..., None] + np.arange(n) * step
    flat = reshaped(b, transposed(b, x, order), (x.elements,))
    if places.size and places.max() >= x.elements:
        raise UserError(f"{node} reads beyond the end of {x}")
    return b.add("gather", [flat, b.constant(places, "places")], axis=0)


@aten_operator("unfold")
def unfold(node: AtenNode, b: Builder) -> Value:
    given, size, step = node.value("self"), node.integer("size"), node.integer("step")
    x = given if given.shape else reshaped(b, given, (1,))
    axis = normal_axis(node.integer("dimension"), len(x.shape), str(node))
    return reshaped(b, b.add("windows", [x], axis=axis, size=size, step=step), node.result[0])
