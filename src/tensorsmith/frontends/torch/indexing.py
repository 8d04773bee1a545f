"""ATen's gathers, scatters and sorts. An index from data that is out of range is limited to it, where PyTorch raises an error."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tensorsmith.errors import UserError
from tensorsmith.frontends.common.indexing import gathered, scattered
from tensorsmith.frontends.common.values import as_type, reshaped, scalar, sliced, transposed
from tensorsmith.frontends.torch.creation import filled
from tensorsmith.frontends.torch.movement import dimension, piece
from tensorsmith.frontends.torch.table import AtenNode, aten_operator
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.graph import Value
from tensorsmith.ops.common import normal_axis
from tensorsmith.ops.elementwise import broadcast_shape

_LONGEST_SORTED = 4096  # elements along a dimension: sorting compares each with each


@aten_operator("embedding")
def embedding(node: AtenNode, b: Builder) -> Value:
    node.ignore("padding_idx", "scale_grad_by_freq", "sparse")  # for gradients only
    return gathered(node, b, node.value("weight"), node.value("indices"), 0)


@aten_operator("index_select")
def index_select(node: AtenNode, b: Builder) -> Value:
    x, indices = node.value("self"), node.value("index")
    if not x.shape:
        return x
    return reshaped(b, gathered(node, b, x, reshaped(b, indices, (indices.elements,)), dimension(node, x)), node.result[0])


@aten_operator("index.Tensor", "_unsafe_index.Tensor")
def index(node: AtenNode, b: Builder) -> Value:
    x = node.value("self")
    where = _indices(node, b, "indices")
    dims = [d for d, i in enumerate(where) if i is not None]
    indices = {d: i for d, i in enumerate(where) if i is not None}
    if len(dims) == 1:
        return gathered(node, b, x, indices[dims[0]], dims[0])
    shape = broadcast_shape(*(i.shape for i in indices.values()))
    places = {d: _one_place(b, i, x.shape[d]) for d, i in indices.items()}
    searched = [d for d in dims if places[d] is None] or dims[-1:]
    for d, place in places.items():  # a dimension in which all indices are one is not looked up
        x = x if place is None or d in searched else piece(b, x, d, place, 1)
    rest = [d for d in range(len(x.shape)) if d not in dims]
    order = [*searched, *(d for d in dims if d not in searched), *rest]
    left = reshaped(b, transposed(b, x, order), [x.shape[d] for d in (*searched, *rest)])
    together = b.add("gather_nd", [left, _joined(b, [indices[d] for d in searched], shape)])
    new = len(shape)
    before = dims[0] if dims == list(range(dims[0], dims[-1] + 1)) else 0  # indices apart from each other come out in front
    return transposed(b, together, [*range(new, new + before), *range(new), *range(new + before, len(together.shape))])


def _one_place(b: Builder, indices: Value, extent: int) -> int | None:
    """The one element of a dimension that all indices mean; None if they may differ."""
    if extent == 1:
        return 0
    known = b.known(indices)
    if known is None or not known.size or known.min() != known.max() or not -extent <= known.min() < extent:
        return None
    return int(known.min()) % extent


def _indices(node: AtenNode, b: Builder, name: str) -> list[Value | None]:
    """The indices of each dimension. A mask's positions depend on data, unless the mask is known."""
    found: list[Value | None] = []
    for i in node.optional_values(name):
        if i is None or i.dtype not in ("bool", "u8"):
            found.append(i if i is None else as_type(b, i, "i64"))
            continue
        known = b.known(i)
        if known is None:
            raise UserError(f"{node}: a mask selects elements by data that is not known when the model is compiled")
        found += [b.constant(places) for places in np.nonzero(known)]
    if not any(i is not None for i in found):
        raise UserError(f"{node}: there is no index")
    return found


def _indexed_first(x: Value, dims: Sequence[int]) -> list[int]:
    return [*dims, *(d for d in range(len(x.shape)) if d not in dims)]


def _joined(b: Builder, indices: Sequence[Value], shape: tuple[int, ...]) -> Value:
    """Indices of several dimensions, broadcast to a shape, as the last dimension of one tensor."""
    full = [i if i.shape == shape else b.add("broadcast", [i], shape=shape) for i in indices]
    columns = [reshaped(b, i, (*shape, 1)) for i in full]
    return columns[0] if len(columns) == 1 else b.add("concat", columns, axis=len(shape))


@aten_operator("index_put", "_unsafe_index_put")
def index_put(node: AtenNode, b: Builder) -> Value:
    x, updates = node.value("self"), node.value("values")
    reduction = "add" if node.plain("accumulate") else "none"
    masked = _masked_put(node, b, x, updates) if reduction == "none" else None
    if masked is not None:
        return masked
    where = _indices(node, b, "indices")
    dims = [d for d, i in enumerate(where) if i is not None]
    order = _indexed_first(x, dims)
    given = [i for i in where if i is not None]
    indices = _joined(b, given, broadcast_shape(*(i.shape for i in given)))
    rest = tuple(x.shape[d] for d in order[len(dims) :])
    lead = indices.shape[:-1]
    before = dims[0] if dims == list(range(dims[0], dims[-1] + 1)) else 0
    wanted = (*rest[:before], *lead, *rest[before:])  # of what x[indices] would be
    full = updates if updates.shape == wanted else b.add("broadcast", [updates], shape=wanted)
    middle = range(before, before + len(lead))
    full = transposed(b, full, [*middle, *(d for d in range(len(wanted)) if d not in middle)])
    placed = scattered(node, b, transposed(b, x, order), indices, full, reduction)
    return transposed(b, placed, np.argsort(order).tolist())


def _masked_put(node: AtenNode, b: Builder, x: Value, updates: Value) -> Value | None:
    """One mask of the leading dimensions, and updates that are the same wherever it holds: a choice. None for all others."""
    masks = node.optional_values("indices")
    if len(masks) != 1 or masks[0] is None or masks[0].dtype != "bool":
        return None
    mask = masks[0]
    rest = len(x.shape) - len(mask.shape)
    if len(updates.shape) > rest and updates.elements != 1:
        return None
    updates = reshaped(b, updates, ()) if updates.elements == 1 else updates
    return b.add("where", [reshaped(b, mask, (*mask.shape, *[1] * rest)), updates, x])


@aten_operator("gather")
def gather(node: AtenNode, b: Builder) -> Value:
    node.ignore("sparse_grad")
    x, indices = _at_least_1d(b, node.value("self")), _at_least_1d(b, node.value("index"))
    axis = dimension(node, x)
    place = _one_place(b, indices, x.shape[axis]) if indices.elements == 1 else None
    if place is not None:
        return reshaped(b, sliced(b, x, [place if d == axis else 0 for d in range(len(x.shape))], indices.shape), node.result[0])
    return reshaped(b, b.add("gather_elements", [x, indices], axis=axis), node.result[0])


def _at_least_1d(b: Builder, x: Value) -> Value:
    return x if x.shape else reshaped(b, x, (1,))


@aten_operator("scatter.src", "scatter.value", "scatter.reduce", "scatter.value_reduce", "scatter_add")
def scatter(node: AtenNode, b: Builder) -> Value:
    name, reduction = str(node).split()[0], "none"
    if name.startswith("scatter_add"):
        reduction = "add"
    elif name.endswith("reduce"):
        word = node.plain("reduce")
        if word not in ("add", "multiply"):
            raise UserError(f"{node}: reduce is {word!r}; known are add and multiply")
        reduction = "add" if word == "add" else "mul"
    return _scattered_elements(node, b, reduction, "value" if "value" in name else "src")


@aten_operator("scatter_reduce.two")
def scatter_reduce(node: AtenNode, b: Builder) -> Value:
    known = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min"}
    word = node.plain("reduce")
    if word not in known or not node.plain("include_self"):
        raise UserError(f"{node}: reduce is {word!r}; known are {', '.join(known)}, with include_self")
    return _scattered_elements(node, b, known[word], "src")


def _scattered_elements(node: AtenNode, b: Builder, reduction: str, source: str) -> Value:
    x, indices = _at_least_1d(b, node.value("self")), _at_least_1d(b, node.value("index"))
    axis = dimension(node, x)
    if source == "value":
        updates = filled(b, indices.shape, node.number("value"), x.dtype)
    else:
        updates = _at_least_1d(b, node.value("src"))
        updates = sliced(b, updates, [0] * len(updates.shape), indices.shape)
    found = b.add("scatter_elements", [x, indices, as_type(b, updates, x.dtype)], axis=axis, reduction=reduction)
    return reshaped(b, found, node.result[0])


@aten_operator("topk")
def topk(node: AtenNode, b: Builder) -> Sequence[Value]:
    node.ignore("sorted")  # sorted is one of the orders that are allowed without it
    return _sorted(node, b, node.integer("k"), bool(node.plain("largest")), node.integer("dim"))


@aten_operator("sort", "sort.stable")
def sort(node: AtenNode, b: Builder) -> Sequence[Value]:
    node.ignore("stable")  # it always is
    x = node.value("self")
    dim = node.integer("dim")
    extent = x.shape[normal_axis(dim, len(x.shape), str(node))] if x.shape else 1
    return _sorted(node, b, extent, bool(node.plain("descending")), dim)


def _sorted(node: AtenNode, b: Builder, k: int, largest: bool, dim: int) -> Sequence[Value]:
    x = _at_least_1d(b, node.value("self"))
    axis = normal_axis(dim, len(x.shape), str(node))
    if x.shape[axis] > _LONGEST_SORTED:
        raise UserError(f"{node}: {x.shape[axis]} elements are too many to be sorted; {_LONGEST_SORTED} are possible")
    found = b.add_all("top_k", [x], k=k, axis=axis, largest=largest)
    return [reshaped(b, v, shape) for v, (shape, _) in zip(found, node.results)]


@aten_operator("cumsum")
def cumsum(node: AtenNode, b: Builder) -> Value:
    return _running(node, b, "cumulative_sum")


@aten_operator("cumprod")
def cumprod(node: AtenNode, b: Builder) -> Value:
    return _running(node, b, "cumulative_product")


def _running(node: AtenNode, b: Builder, operator: str) -> Value:
    node.ignore("dtype")  # the result's type says it
    x = _at_least_1d(b, as_type(b, node.value("self"), node.result[1]))
    axis = dimension(node, x)
    if not math.prod(x.shape):
        return reshaped(b, x, node.result[0])
    return reshaped(b, b.add(operator, [x], axis=axis), node.result[0])


@aten_operator("histc")
def histc(node: AtenNode, b: Builder) -> Value:
    """How many elements each of the bins from `min` to `max` has; those beyond, and NaN, are in none."""
    x, bins = node.value("self"), node.integer("bins")
    low, high = float(node.number("min")), float(node.number("max"))
    if not low < high:
        raise UserError(f"{node}: bins from {low} to {high}; limits that come from data are not supported")
    wide = as_type(b, reshaped(b, x, (1, x.elements)), x.dtype if x.dtype == "f64" else "f32")
    above = b.add("subtract", [wide, scalar(b, low, wide)])
    part = b.add("multiply", [b.add("divide", [above, scalar(b, high - low, wide)]), scalar(b, bins, wide)])
    place = b.add("clip", [b.add("floor", [part])], high=float(bins - 1))
    numbers = b.constant(np.arange(bins).reshape(bins, 1).astype(np.float64 if wide.dtype == "f64" else np.float32))
    inside = b.add("logical_and", [b.add("equal", [place, numbers]), b.add("less_equal", [wide, scalar(b, high, wide)])])
    return as_type(b, b.add("reduce_sum", [as_type(b, inside, "i64")], axes=(1,)), node.result[1])
