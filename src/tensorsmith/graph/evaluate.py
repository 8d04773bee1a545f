"""What a graph computes, node by node, by the reference evaluator: the oracle of passes and executables."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tensorsmith.errors import UserError
from tensorsmith.graph import operators
from tensorsmith.graph.graph import Array, Graph
from tensorsmith.runtime.arguments import CALL_NUMBER


def evaluate(graph: Graph, inputs: Mapping[str, Array], call: int = 0) -> dict[str, Array]:
    """The outputs by the names the outside knows. Where a graph draws random numbers, those of a call's number."""
    inputs = {CALL_NUMBER: np.array(call, np.uint32), **inputs}
    missing = [v.name for v in graph.inputs if v.name not in inputs]
    if missing:
        raise UserError(f"input {missing[0]} is missing; {graph.name} takes {', '.join(v.name for v in graph.inputs)}")
    arrays: dict[str, Array] = {v.name: inputs[v.name] for v in graph.inputs} | dict(graph.constants)
    for node in graph.nodes:
        results = operators.evaluate(node.operator, [arrays[name] for name in node.inputs], node.attributes)
        arrays |= {v.name: a for v, a in zip(node.outputs, results)}
    return {outside: arrays[name] for outside, name in graph.outputs}
