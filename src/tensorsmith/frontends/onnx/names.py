"""In a graph or a function of a file every name is defined once; a file where it is not has no one meaning."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from onnx import FunctionProto, GraphProto, NodeProto

from tensorsmith.errors import UserError

Definition = tuple[str, str]  # a name, and what defines it


def check_graph(graph: GraphProto, what: str) -> None:
    """Raises a `UserError` where two of the inputs, initializers and nodes of a graph define one name."""
    initializers = [t.name for t in (*graph.initializer, *(s.values for s in graph.sparse_initializer))]
    inputs = [v.name for v in graph.input if v.name not in set(initializers)]  # older files repeat the initializers there
    _check([*(("input", name) for name in inputs), *(("initializer", name) for name in initializers)], graph.node, what)


def check_function(function: FunctionProto) -> None:
    """The same of a function, which has inputs and nodes."""
    _check([("input", name) for name in function.input], function.node, f"function {function.name}")


def _check(given: Iterable[Definition], nodes: Iterable[NodeProto], what: str) -> None:
    seen: dict[str, str] = {}
    for kind, name in (*given, *_outputs(nodes)):
        if not name:
            raise UserError(f"{what}: an {kind} has no name")
        if name in seen:
            raise UserError(f"{what}: {name!r} is defined twice, by an {seen[name]} and by an {kind}")
        seen[name] = kind


def _outputs(nodes: Iterable[NodeProto]) -> Iterator[Definition]:
    for node in nodes:
        for name in node.output:
            if name:
                yield f"output of {node.op_type} {node.name}".rstrip(), name
