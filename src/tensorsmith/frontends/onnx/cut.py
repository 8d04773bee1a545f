"""Which part of a graph is wanted: the nodes that some tensors are computed by. The rest is not looked at.

x -> Conv -> boxes -> NonMaxSuppression -> chosen            outputs=["boxes"]:   x -> Conv -> boxes
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from onnx import AttributeProto, GraphProto, NodeProto

from tensorsmith.errors import Parameter, Part, UserError
from tensorsmith.show.line import many

_NEAR = 5  # names that are close to one that is not there, and are listed
_SHAPES = ("Shape", "Size", "Constant")  # operators whose results are known when the model is compiled


@dataclass(frozen=True)
class Piece:
    """Nodes in the order of the file; the inputs and initializers they read are in `read`."""

    outputs: tuple[str, ...]
    nodes: tuple[NodeProto, ...]
    read: frozenset[str]


def whole(graph: GraphProto) -> Piece:
    """All that the outputs of a graph need."""
    return _needed(graph, [v.name for v in graph.output])


def cut(graph: GraphProto, outputs: Sequence[str]) -> Piece:
    """All that some tensors need. Raises `UserError` for names that the graph does not have."""
    known = list(_tensors(graph))
    if isinstance(outputs, str) or not all(isinstance(name, str) for name in outputs):
        raise UserError(Parameter("outputs", repr(outputs)), ": give a list of names of tensors, ", _named(known[-1:]))
    if not outputs:
        raise UserError(Parameter("outputs", "[]"), ": name at least one tensor of the model")
    for n, name in enumerate(outputs):
        if name in outputs[:n]:
            raise UserError(Parameter("outputs"), f": {name!r} is named twice")
        if name not in known:
            near = difflib.get_close_matches(name, known, _NEAR)
            near += [other for other in known if name and name.lower() in other.lower() and other not in near][: _NEAR - len(near)]
            hint = (
                f"near it are {', '.join(map(repr, near))}" if near else f"its outputs are {_listed(v.name for v in graph.output)}"
            )
            raise UserError(
                Parameter("outputs"), f": the model has no tensor {name!r} among its {many(len(known), 'tensor')}; {hint}"
            )
    return _needed(graph, outputs)


def before(graph: GraphProto, part: Piece, refused: Callable[[NodeProto], bool], known: Collection[str] = ()) -> list[Part]:
    """What to say where nodes are refused: a list of tensors that can be computed without them. Nothing where there is none.

    `known` are the names of tensors that are known to be constants; others are found out here as far as the nodes tell.
    """
    inputs = {v.name for v in graph.input} - {t.name for t in graph.initializer}
    varying, behind = set(inputs), set[str]()  # computed from inputs; computed by way of a refused node
    wanted: dict[str, None] = {}
    for node in part.nodes:
        reads = list(reads_of(node))
        if refused(node) or any(name in behind for name in reads):
            behind.update(node.output)
            fed = [name for name in reads if name in varying and name not in known]
            wanted |= dict.fromkeys(name for name in fed if name not in inputs)
        elif node.op_type not in _SHAPES and any(name in varying for name in reads):
            varying.update(node.output)
    wanted = {name: None for name in part.outputs if name not in behind} | {n: None for n in wanted if n not in behind}
    return [_named(list(wanted))] if wanted else []


def reads_of(node: NodeProto) -> Iterator[str]:
    """The names that a node reads, those of graphs inside it that are not their own too."""
    yield from (name for name in node.input if name)
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield from _captured(attribute.g)


def _captured(graph: GraphProto) -> Iterator[str]:
    own = {v.name for v in graph.input} | {t.name for t in graph.initializer} | {n for node in graph.node for n in node.output}
    reads = [*(name for node in graph.node for name in reads_of(node)), *(v.name for v in graph.output)]
    yield from (name for name in reads if name not in own)


def _needed(graph: GraphProto, outputs: Sequence[str]) -> Piece:
    wanted, kept = set(outputs), list[NodeProto]()
    for node in reversed(graph.node):
        if any(name in wanted for name in node.output):
            kept.append(node)
            wanted.update(reads_of(node))
    return Piece(tuple(outputs), tuple(reversed(kept)), frozenset(wanted))


def _tensors(graph: GraphProto) -> Iterator[str]:
    """Every name, once, in the order of the file."""
    given = (*(v.name for v in graph.input), *(t.name for t in graph.initializer))
    yield from dict.fromkeys(name for name in (*given, *(n for node in graph.node for n in node.output)) if name)


def _named(names: Sequence[str]) -> Parameter:
    return Parameter("outputs", "[" + ", ".join(f'"{name}"' for name in names) + "]")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names)) or "none"
