"""Which nodes of a graph we take: as few parts as possible, none of which has to wait for what others make of its own results.

    supported(graph)     the nodes that the importer takes, each with what it reads at some sizes
    joined(graph, ...)   those nodes in groups, merged as long as no path leads out of a group and back into it
    chosen(graph)        the parts that are worth a call

ONNX Runtime runs a part as one node, once all of its inputs are there. So the graph of parts and other nodes must have no circle:
two groups may be merged if no path from one to the other goes through a third.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence

from tensorsmith.errors import UserError
from tensorsmith.frontends.onnx.importer import not_imported
from tensorsmith.frontends.onnx.read import TYPES
from tensorsmith.onnxruntime.models import Piece, piece, sizes, typed
from tensorsmith.onnxruntime.reading import GraphRead

log = logging.getLogger(__name__)

#: Sizes that stand for all open dimensions while it is tried which nodes can be imported. Images want larger ones than texts; what
#: some size of these can import is enough.
_TRIED = (32, 224, 1)

#: Operators that move or name numbers and compute none: a part of nothing else would cost a call and gain nothing.
_MOVES = {"Cast", "Constant", "ConstantOfShape", "Dropout", "Expand", "Flatten", "Gather", "Identity", "Reshape"}
_MOVES |= {"Shape", "Size", "Slice", "Squeeze", "Transpose", "Unsqueeze"}


def chosen(graph: GraphRead) -> list[tuple[Piece, list[int]]]:
    """The parts that we take, each a model of its own and the numbers of its nodes. What is left out is logged with the reason."""
    nodes = range(len(graph.nodes))
    why = {n: graph.nodes[n].why for n in nodes if graph.nodes[n].why}
    whole = dict(why)  # of the graph as one
    while True:
        groups = joined(graph, [n for n in nodes if n not in whole])
        if not groups:
            return []
        pieces: list[Piece] = []
        failed: dict[int, str] = {}
        for number, group in enumerate(groups):
            unknown = _untyped(graph, group)
            if not unknown:
                pieces.append(piece(graph, group, f"part_{number}"))
                found = _not_imported(graph, pieces[-1])
                unknown = {group[n]: reason for n, reason in found.items()}
            failed |= unknown
        if not failed:
            break
        whole |= failed
    for n, reason in whole.items():
        log.info("%s is left to ONNX Runtime: %s", graph.nodes[n].proto.op_type, reason)
    worth = [any(graph.nodes[n].proto.op_type not in _MOVES for n in group) for group in groups]
    return [(p, group) for p, group, one in zip(pieces, groups, worth) if one and p.outputs]


def _untyped(graph: GraphRead, group: Sequence[int]) -> dict[int, str]:
    """The nodes of a group that read, from outside of it, what has no type of ours, no known rank, or sizes that may be other ones
    in every call: code is compiled for sizes, so they must be those of the graph's inputs."""
    own = {name for n in group for name in graph.nodes[n].proto.output}
    given = set() if graph.nested else set(graph.inputs)
    named = {d for name in given if name in graph.types for d in graph.types[name].dims or () if isinstance(d, str)}
    found = {}
    for n in group:
        for name in graph.nodes[n].proto.input:
            if not name or name in own or name in graph.constants:
                continue
            known = graph.types.get(name)
            if known is None or known.dims is None or not typed(known):
                found[n] = f"the type or the rank of {name!r} is not known"
            elif name not in given and not all(isinstance(d, int) or d in named for d in known.dims):
                found[n] = f"no input of the graph says how large {name!r} is"
    return found


def _not_imported(graph: GraphRead, part: Piece) -> dict[int, str]:
    """The nodes of a piece that cannot be imported at any of the sizes that are tried."""
    best: dict[int, str] | None = None
    for size in _TRIED if part.open else _TRIED[:1]:
        try:
            found = not_imported(part.proto, part.weights, sizes(part, size), _between(graph, size))
        except UserError as problem:
            found = {n: str(problem) for n in range(len(part.proto.graph.node))}
        if best is None or len(found) < len(best):
            best = found
        if not best:
            break
    return best or {}


def _between(graph: GraphRead, size: int) -> Mapping[str, tuple[str, tuple[int, ...]]]:
    """Type and shape of every value that has them, where open dimensions have that size."""
    found = {}
    for name, type_ in graph.types.items():
        if typed(type_) and type_.dims is not None:
            found[name] = TYPES[type_.element], tuple(d if isinstance(d, int) else size for d in type_.dims)
    return found


def joined(graph: GraphRead, supported: Iterable[int]) -> list[list[int]]:
    """Those nodes in groups, as large as they can be, in an order in which they can run."""
    free = set(supported)
    group = list(range(len(graph.nodes)))  # of every node: the number of the first node in it
    producers = {name: n for n, node in enumerate(graph.nodes) for name in node.proto.output if name}
    edges = {(producers[name], n) for n, node in enumerate(graph.nodes) for name in node.proto.input if name in producers}
    # merged along the graph first, without looking at paths: nodes of one level have no other between them
    level = [0] * len(graph.nodes)
    for before, n in sorted(edges, key=lambda edge: edge[1]):
        level[n] = max(level[n], level[before] + ((before in free) != (n in free)))
    first: dict[int, int] = {}
    for n in sorted(free):
        group[n] = first.setdefault(level[n], n)
    heads = list(first.values())
    for n, head in enumerate(heads):
        for other in heads[:n]:
            if group[other] == other and group[head] == head and _may_merge(group, edges, other, head):
                group = [other if g == head else g for g in group]
    found: dict[int, list[int]] = {}
    for n in sorted(free):
        found.setdefault(group[n], []).append(n)
    return list(found.values())


def _may_merge(group: Sequence[int], edges: Iterable[tuple[int, int]], one: int, other: int) -> bool:
    """Whether no path between two groups goes through a third."""
    after: dict[int, set[int]] = {}
    for a, b in edges:
        if group[a] != group[b]:
            after.setdefault(group[a], set()).add(group[b])
    return not _reaches(after, one, other) and not _reaches(after, other, one)


def _reaches(after: Mapping[int, set[int]], start: int, end: int) -> bool:
    """Whether a path of at least two edges leads from one group to another."""
    seen, left = set(), [g for g in after.get(start, ()) if g != end]
    while left:
        g = left.pop()
        if g == end:
            return True
        if g not in seen:
            seen.add(g)
            left += after.get(g, ())
    return False
