"""If: a branch that is known to be taken is built alone; else both are, and their results chosen from.

Loop and Scan are laid out step by step, so the number of steps must be known when the model is compiled.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensorsmith.errors import UserError
from tensorsmith.frontends.common.values import reshaped, sliced
from tensorsmith.frontends.onnx.table import OnnxNode, Subgraph, onnx_operator
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.graph import Value
from tensorsmith.ops.common import normal_axis
from tensorsmith.show.line import many

_MOST_STEPS = 1024  # each is a copy of the body


@onnx_operator("If")
def if_(node: OnnxNode, b: Builder) -> list[Value]:
    """Nothing in a branch has side effects, so computing both is right; their results must agree in shape and type then."""
    condition = node.required(0)
    if condition.elements != 1 or condition.dtype != "bool":
        raise UserError(f"{node}: the condition is {condition}; it must be one bool")
    branches = {taken: node.needed("then_branch" if taken else "else_branch") for taken in (True, False)}
    if not all(isinstance(branch, Subgraph) for branch in branches.values()):
        raise UserError(f"{node}: the branches must be graphs")
    known = b.known(condition)
    if known is not None:
        return list(branches[bool(known.reshape(()))].build([]))
    then, otherwise = branches[True].build([]), branches[False].build([])
    if [(v.shape, v.dtype) for v in then] != [(v.shape, v.dtype) for v in otherwise]:
        left, right = ", ".join(map(str, then)), ", ".join(map(str, otherwise))
        node.known(condition, f"the condition of branches with different results, {left} and {right},")
    flag = b.add("reshape", [condition], shape=())
    return [b.add("where", [flag, x, y]) for x, y in zip(then, otherwise)]


def _body(node: OnnxNode) -> Subgraph:
    body = node.needed("body")
    if not isinstance(body, Subgraph):
        raise UserError(f"{node}: the body must be a graph")
    return body


def _check_steps(node: OnnxNode, steps: int) -> None:
    if steps > _MOST_STEPS:
        raise UserError(f"{node} takes more than {_MOST_STEPS} steps; every step is laid out, and that many are not supported")


def _stacked(b: Builder, parts: Sequence[Value], axis: int) -> Value:
    """Values of one shape, side by side along a new axis."""
    shape = parts[0].shape
    rows = [reshaped(b, p, (*shape[:axis], 1, *shape[axis:])) for p in parts]
    return rows[0] if len(rows) == 1 else b.add("concat", rows, axis=axis)


@onnx_operator("Loop")
def loop(node: OnnxNode, b: Builder) -> list[Value]:
    """The values carried from step to step as the last one leaves them, then those collected from every step."""
    body, count = _body(node), node.optional_constant(0, "the number of steps")
    start, carried = node.optional(1), [node.required(n) for n in range(2, node.input_count)]
    limit = None if count is None else max(int(count.reshape(())), 0)
    going = start is None or bool(node.known(start, "whether to start").reshape(()))
    if limit is None and start is None:
        raise UserError(f"{node} has neither a number of steps nor a condition: it never ends")
    condition = b.constant(np.array(True)) if start is None else start
    collected: list[list[Value]] = []
    while going and (limit is None or len(collected) < limit):
        _check_steps(node, len(collected) + 1)
        condition, *results = body.build([b.constant(np.array(len(collected), np.int64)), condition, *carried])
        carried, step = results[: len(carried)], results[len(carried) :]
        collected.append(step)
        if limit is None or len(collected) < limit:  # what the last step says of a next one does not matter
            going = bool(node.known(condition, f"whether step {len(collected)} follows").reshape(()))
    if not collected and node.output_count > len(carried):
        raise UserError(f"{node} takes no step, so what it collects from the steps has no shape")
    return [*carried, *(_stacked(b, parts, 0) for parts in zip(*collected))]


@onnx_operator("Scan", since=9)
def scan(node: OnnxNode, b: Builder) -> list[Value]:
    """The states as the last step leaves them, then the results of every step side by side."""
    body, count = _body(node), int(node.needed("num_scan_inputs"))
    values = node.every()
    if not 0 < count <= len(values):
        raise UserError(f"{node}: num_scan_inputs is {count}, the node has {many(len(values), 'input')}")
    states, scanned = values[: len(values) - count], values[len(values) - count :]
    axes = [normal_axis(a, len(x.shape), str(node)) for a, x in zip(_each(node, "scan_input_axes", count), scanned)]
    lengths = {x.shape[axis] for x, axis in zip(scanned, axes)}
    if len(lengths) != 1 or 0 in lengths:
        raise UserError(f"{node}: the scanned inputs have the lengths {sorted(lengths)}; expected one, which is not 0")
    steps = lengths.pop()
    _check_steps(node, steps)
    backwards = _each(node, "scan_input_directions", count)
    every: list[list[Value]] = []
    for step in range(steps):
        places = [steps - 1 - step if back else step for back in backwards]
        parts = [_part(b, x, axis, place) for x, axis, place in zip(scanned, axes, places)]
        results = body.build([*states, *parts])
        states = list(results[: len(states)])
        every.append(list(results[len(states) :]))
    collected = list(zip(*every))
    axes = _each(node, "scan_output_axes", len(collected))
    orders = [-1 if back else 1 for back in _each(node, "scan_output_directions", len(collected))]
    stacks = [
        _stacked(b, parts[::order], normal_axis(axis, len(parts[0].shape) + 1, str(node)))
        for parts, axis, order in zip(collected, axes, orders)
    ]
    return [*states, *stacks]


def _each(node: OnnxNode, name: str, count: int) -> list[int]:
    """An attribute with a number for each of the scanned inputs or results; 0 by default."""
    given = list(node.attribute(name) or [0] * count)
    if len(given) != count:
        raise UserError(f"{node}: {name} is {given}; expected {count} numbers")
    return given


def _part(b: Builder, x: Value, axis: int, place: int) -> Value:
    """The slice of x at a place along an axis, without it."""
    sizes = [1 if d == axis else n for d, n in enumerate(x.shape)]
    piece = sliced(b, x, [place if d == axis else 0 for d in range(len(sizes))], sizes)
    return reshaped(b, piece, [n for d, n in enumerate(sizes) if d != axis])
