"""What the definition of a node says that matters to fusion: its kind, what it costs, how it moves elements, how often it reads."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tensorsmith.graph import operators
from tensorsmith.graph.graph import Graph, Node
from tensorsmith.graph.operators import Kind
from tensorsmith.graph.stages import tidied
from tensorsmith.lang.affine import affine
from tensorsmith.lang.define import placeholder, workload
from tensorsmith.lang.expr import EXPENSIVE, Binary, Load, Unary, walk
from tensorsmith.lang.workload import Workload


@dataclass(frozen=True)
class NodeFacts:
    """What fusion asks of a node."""

    kind: Kind
    expensive: bool  # calls a function of many instructions
    moves: bool  # every element is an element of the input, found without a division


def facts_of(graph: Graph) -> list[NodeFacts]:
    """The facts of each node; nodes of one operator on values of one type are alike, and where elements are not moved, their
    shapes do not matter."""
    known: dict[tuple[object, ...], NodeFacts] = {}
    found = []
    for node in graph.nodes:
        shapes = tuple(graph.values[x].shape for x in node.inputs) if operators.kind(node) >= Kind.INJECTIVE else ()
        key = (node.operator, len(node.outputs), shapes, tuple(graph.values[x].dtype for x in node.inputs), node.options)
        if key not in known:
            known[key] = _facts(graph, node)
        found.append(known[key])
    return found


def _facts(graph: Graph, node: Node) -> NodeFacts:
    kind = operators.kind(node)
    if len(node.outputs) > 1:
        return NodeFacts(Kind.OPAQUE, True, False)
    if kind > Kind.INJECTIVE or node.operator == "concat":  # whose definition is long, and known
        return NodeFacts(kind, False, False)
    bodies = [tidied(s).body for s in _definition(graph, node).stages]
    expensive = any(isinstance(e, (Unary, Binary)) and e.op in EXPENSIVE for body in bodies for e in walk(body))
    plain = [isinstance(body, Load) and all(affine(i) is not None for i in body.indices) for body in bodies]
    return NodeFacts(kind, expensive, kind is Kind.INJECTIVE and len(node.inputs) == 1 and all(plain))


def _definition(graph: Graph, node: Node) -> Workload:
    tensors = [placeholder(graph.values[x].shape, graph.values[x].dtype, name=f"in{n}") for n, x in enumerate(node.inputs)]
    made = operators.define(node.operator, tensors, node.attributes)
    stages = {t.name: t for t in made if t.stage is not None}
    return workload([*tensors, *stages.values()]) if stages else Workload((), (), ())


def reads(graph: Graph, node: Node, name: str) -> float:
    """How often a node reads each element of an input, on average."""
    defined = _definition(graph, node)
    names = {f"in{n}" for n, x in enumerate(node.inputs) if x == name}
    reached = set(names)
    for stage in defined.stages:  # padding and the like hand it on
        if not stage.reduction and any(x.tensor in reached for x in stage.reads):
            reached.add(stage.name)
    points = 0
    for stage in defined.stages:
        times = sum(x.tensor in reached for x in stage.reads)
        points += times * math.prod(a.extent for a in stage.all_axes)
    return points / max(1, graph.values[name].elements)
