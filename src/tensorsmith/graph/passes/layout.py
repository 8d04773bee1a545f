"""Layout: transposes sink through what does not care for the order of dimensions, until they meet their inverse.

    t = transpose(conv(x, w), (0, 3, 1, 2)); r = relu(t); conv(transpose(r, (0, 2, 3, 1)), v)
        ->    r = relu(conv(x, w)); conv(r, v)

A network that was written channels-first arrives with every convolution between two transposes; after this pass only those at
its inputs and outputs are left. A transpose sinks where that does not move more bytes than before: other operands are transposed
the other way (free for constants, and where only dimensions of extent 1 move), and the result costs a transpose, unless those who
read it undo it anyway. What is done to an input of the network before it is transposed (a scale, an offset, padding) is done
behind the transpose instead, where it may get into weights.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tensorsmith.graph import operators
from tensorsmith.graph.builder import Builder, rebuilt
from tensorsmith.graph.graph import Attribute, Graph, Node, Value
from tensorsmith.graph.operators import Kind
from tensorsmith.graph.passes.movement import Order, inverse, is_reshape, reshaped, runs, transpose_of, turned
from tensorsmith.graph.pieces import MANY

_ALONG = (  # an `axis`
    "softmax", "log_softmax", "masked_softmax", "hardmax", "lp_normalize", "cumulative_sum", "cumulative_product", "resample",
)  # fmt: skip
_PER_DIMENSION = {  # attributes with an entry for each dimension
    "pad": ("pairs",),
    "slice": ("starts", "sizes", "steps"),
    "tile": ("repeats",),
    "repeat": ("times",),
    "broadcast": ("shape",),
}


def run(graph: Graph) -> Graph:
    """The graph with transposes as far down as pays, most of them gone."""
    wishes = _wishes(graph)
    prepared = _prepared(graph)

    def rewrite(builder: Builder, node: Node, inputs: Sequence[Value]) -> Sequence[Value] | None:
        if len(node.outputs) != 1:
            return None
        if node.operator == "transpose":
            turn = _raised if node.inputs[0] in prepared else turned
            return [turn(builder, inputs[0], node.attributes["order"])]
        wish = wishes.get(node.output.name)
        if operators.kind(node) is Kind.ELEMENTWISE or node.operator == "concat":
            return _through_many(builder, node, inputs, wish)
        source = transpose_of(builder, inputs[0]) if inputs else None
        if source is None or (node.operator == "pad" and builder.producer(source[0]) is None):
            return None
        if node.operator == "slice" and len(graph.consumers[node.inputs[0]]) > MANY:  # transposed for the sake of many (`rows`)
            return None
        if node.operator == "reshape":
            return _through_reshape(builder, node, *source, wish)
        return _through_one(builder, node, [source[0], *inputs[1:]], source[1])

    return rebuilt(graph, lambda: rewrite)


def _wishes(graph: Graph) -> dict[str, Order]:
    """The transpose that most readers of a value apply to it, some behind nodes that do not care for order."""
    found: dict[str, Order] = {}
    for node in reversed(graph.nodes):
        for value in node.outputs:
            wanted: Counter[Order] = Counter()
            for reader in graph.consumers[value.name]:
                if reader.operator == "transpose":
                    wanted[reader.attributes["order"]] += 1
                elif _indifferent(reader) and reader.output.name in found and len(reader.output.shape) == len(value.shape):
                    wanted[found[reader.output.name]] += 1
            if wanted and 2 * max(wanted.values()) >= len(graph.consumers[value.name]):
                found[value.name] = wanted.most_common(1)[0][0]
    return found


def _prepared(graph: Graph) -> set[str]:
    """Values computed from one input of the graph by padding and elementwise nodes with constants, each read once."""
    found = {v.name for v in graph.inputs}
    for node in graph.nodes:
        varying = [name for name in node.inputs if name not in graph.constants]
        if len(node.outputs) != 1 or not _prepares(node) or len(varying) != 1:
            continue
        alone = len(graph.consumers[node.output.name]) == 1 and node.output.name not in graph.returned
        if alone and varying[0] in found and len(graph.values[varying[0]].shape) == len(node.output.shape):
            found.add(node.output.name)
    return found


def _prepares(node: Node) -> bool:
    return node.operator == "pad" or operators.kind(node) is Kind.ELEMENTWISE


def _raised(builder: Builder, value: Value, order: Order) -> Value:
    """transpose(multiply(x, c)) -> multiply(transpose(x), c transposed)"""
    node = builder.producer(value)
    if node is None or not _prepares(node):
        return turned(builder, value, order)
    if node.operator == "pad":
        attributes = {**node.attributes, "pairs": tuple(node.attributes["pairs"][d] for d in order)}
        return builder.add("pad", [_raised(builder, builder.read(node)[0], order)], **attributes)
    operands = [
        _aligned(builder, v, order, len(order)) if builder.known(v) is not None else _raised(builder, v, order)
        for v in builder.read(node)
    ]
    return builder.add(node.operator, operands, **node.attributes)


def _indifferent(node: Node) -> bool:
    if len(node.outputs) != 1:
        return False
    known = node.operator == "concat" or node.operator in _ALONG or node.operator in _PER_DIMENSION or _reduces(node)
    return known or operators.kind(node) is Kind.ELEMENTWISE


def _reduces(node: Node) -> bool:
    return (node.operator.startswith("reduce_") or node.operator in ("argmax", "argmin")) and bool(node.attributes.get("keepdims"))


# -- nodes with several operands ---------------------------------------------------------------------------------------


def _through_many(builder: Builder, node: Node, inputs: Sequence[Value], wish: Order | None) -> list[Value] | None:
    """add(transpose(x), y) -> transpose(add(x, y transposed the other way)), and concat likewise."""
    rank = len(node.output.shape)
    sizes: Counter[Order] = Counter()
    for value in inputs:
        source = transpose_of(builder, value)
        if source is not None and len(source[1]) == rank:
            sizes[source[1]] += value.bytes
    if not sizes:
        return None
    order, removed = sizes.most_common(1)[0]
    back = inverse(order)
    inserted = sum(_cost(builder, value, back, rank) for value in inputs)
    after = 0 if wish == back or is_reshape(order, [node.output.shape[d] for d in back]) else node.output.bytes
    at_input = all(builder.producer(s[0]) is None for v in inputs if (s := transpose_of(builder, v)) is not None)
    if removed < inserted + after or (at_input and removed == inserted + after):
        return None
    attributes = dict(node.attributes)
    if node.operator == "concat":
        attributes["axis"] = order[attributes["axis"] % rank]
        operands = [turned(builder, value, back) for value in inputs]
    else:
        operands = [_aligned(builder, value, back, rank) for value in inputs]
    return [turned(builder, builder.add(node.operator, operands, name=node.output.name, **attributes), order)]


def _cost(builder: Builder, value: Value, order: Order, rank: int) -> int:
    """Bytes moved by transposing an operand, broadcast to a rank, another time."""
    shape = (1,) * (rank - len(value.shape)) + value.shape
    source = transpose_of(builder, value)
    if source is not None and len(source[1]) == rank and inverse(source[1]) == order:
        return 0
    return 0 if builder.known(value) is not None or is_reshape(order, shape) else value.bytes


def _aligned(builder: Builder, value: Value, order: Order, rank: int) -> Value:
    """An operand, broadcast to a rank, transposed; without leading dimensions of extent 1 that broadcasting gives anyway."""
    if value.elements == 1 and len(value.shape) < rank:
        return value
    result = turned(builder, reshaped(builder, value, (1,) * (rank - len(value.shape)) + value.shape), order)
    if len(value.shape) < rank or builder.known(result) is not None:
        result = reshaped(builder, result, _without_leading_ones(result.shape))
    return result


def _without_leading_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    while len(shape) > 1 and shape[0] == 1:
        shape = shape[1:]
    return shape


# -- nodes with one operand that matters --------------------------------------------------------------------------------


def _through_one(builder: Builder, node: Node, inputs: Sequence[Value], order: Order) -> list[Value] | None:
    """softmax(transpose(x), axis) -> transpose(softmax(x, the axis it comes from)), and others with numbers of dimensions."""
    rank = len(order)
    attributes: dict[str, Attribute] = dict(node.attributes)
    after = order
    if node.operator in _ALONG:
        axis = attributes["axis"] % rank
        if node.operator != "resample" and axis == rank - 1 != order[axis]:
            return None  # rows in memory are worth more than a transpose
        attributes["axis"] = order[axis]
    elif node.operator == "normalize":
        axes = [a % rank for a in attributes["axes"]]
        if rank - 1 in axes and rank - 1 not in [order[a] for a in axes]:
            return None
        attributes["axes"] = tuple(sorted(order[a] for a in axes))
    elif node.operator in _PER_DIMENSION:
        if len(node.output.shape) != rank:
            return None
        back = inverse(order)
        for key in _PER_DIMENSION[node.operator]:
            if attributes.get(key) is not None:
                attributes[key] = tuple(attributes[key][back[d]] for d in range(rank))
    elif node.operator.startswith("reduce_") or node.operator in ("argmax", "argmin"):
        after = _reduced(node, attributes, order)
    else:
        return None
    return [turned(builder, builder.add(node.operator, inputs, name=node.output.name, **attributes), after)]


def _reduced(node: Node, attributes: dict[str, Attribute], order: Order) -> Order:
    """Maps the dimensions that a node reduces, and gives the transpose of what is left."""
    rank = len(order)
    if node.operator in ("argmax", "argmin"):
        axes = [attributes.get("axis", 0) % rank]
        attributes["axis"] = order[axes[0]]
        keep = attributes.get("keepdims", True)
    else:
        given = attributes.get("axes")
        axes = list(range(rank)) if given is None else [a % rank for a in given]
        attributes["axes"] = tuple(sorted(order[a] for a in axes))
        keep = attributes.get("keepdims", False)
    if keep:
        return order
    left = [order[d] for d in range(rank) if d not in axes]
    return tuple(sorted(left).index(d) for d in left)


def _through_reshape(builder: Builder, node: Node, source: Value, order: Order, wish: Order | None) -> list[Value] | None:
    """reshape(transpose(x, (0, 3, 1, 2)), (n, c, hw)) -> transpose(reshape(x, (n, hw, c)), (0, 2, 1)), for readers that transpose.

    Where that is not possible, because dimensions that become one are no neighbours in x, x is transposed so that they are, and so
    that the readers' transpose has nothing left to do.
    """
    old, new = [source.shape[d] for d in order], node.output.shape
    if 0 in old:
        return None
    pieces = runs(old, new)
    kept = [([order[d] for d in left], right) for left, right in pieces]
    if all(_neighbours(places, source.shape) for places, _ in kept):
        moved = _with_ones([d for _, right in sorted(kept) for d in right], new)
        after = inverse(tuple(moved))
        if wish is not None or is_reshape(after, [new[d] for d in moved]):
            return [turned(builder, reshaped(builder, source, tuple(new[d] for d in moved)), after)]
    if wish is None or not all(_neighbours([wish.index(d) for d in right], [new[d] for d in wish]) for _, right in pieces):
        return None
    wanted = sorted(kept, key=lambda piece: wish.index(piece[1][0]))
    turn = tuple(_with_ones([d for places, _ in wanted for d in places], source.shape))
    ready = reshaped(builder, turned(builder, source, turn), tuple(new[d] for d in wish))
    return [turned(builder, ready, inverse(wish))]


def _neighbours(places: list[int], shape: Sequence[int]) -> bool:
    """Whether dimensions follow each other, but for some of extent 1."""
    return places == [d for d in range(places[0], places[-1] + 1) if shape[d] != 1]


def _with_ones(dimensions: list[int], shape: Sequence[int]) -> list[int]:
    """Dimensions in some order, and those of extent 1 where the shape has them, as far as that can be."""
    result = list(dimensions)
    for d in range(len(shape)):
        if shape[d] == 1:
            result.insert(min(d, len(result)), d)
    return result
