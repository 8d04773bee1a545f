"""ATen's LSTM, GRU and RNN, laid out step by step over a sequence of fixed length.

As in the ONNX front end, the products of the inputs are one matrix product for all steps of a layer; a step is then the product of
the state with the recurrent weight, and a cell. Cells want their gates in ONNX's order, so the rows of weights change places.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorsmith.errors import UserError
from tensorsmith.frontends.common.values import reshaped, sliced, transposed
from tensorsmith.frontends.torch.table import AtenNode, aten_operator
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.graph import Value
from tensorsmith.lang.dtypes import dtype
from tensorsmith.ops.recurrent import ACTIVATIONS

States = list[Value]  # of a cell: the hidden state, and an LSTM's inner one


@dataclass(frozen=True)
class Kind:
    """A kind of layer: for every gate of a cell, in its order, the number that PyTorch has it under; the cell's activations; how
    many of the gates get the bias of the state added to that of the input; the cell."""

    order: tuple[int, ...]
    activations: tuple[str, ...]
    added: int
    cell: str


@dataclass(frozen=True)
class Weights:
    """Of one layer in one direction: (gates * hidden, inputs), (gates * hidden, size of the state), biases of the gates, if any,
    and for an LSTM perhaps (size of the state, hidden), which makes the state of what a cell gives."""

    inputs: Value
    state: Value
    bias: Value | None
    state_bias: Value | None
    projection: Value | None


_LSTM = Kind((0, 3, 1, 2), ("Sigmoid", "Tanh", "Tanh"), 4, "lstm_cell")
_GRU = Kind((1, 0, 2), ("Sigmoid", "Tanh"), 2, "gru_cell_linear")


@aten_operator("lstm.input")
def lstm(node: AtenNode, b: Builder) -> Sequence[Value]:
    return _network(node, b, _LSTM, node.values("hx"))


@aten_operator("gru.input")
def gru(node: AtenNode, b: Builder) -> Sequence[Value]:
    return _network(node, b, _GRU, [node.value("hx")])


def _plain(name: str, activation: str) -> None:
    @aten_operator(name)
    def handler(node: AtenNode, b: Builder) -> Sequence[Value]:
        return _network(node, b, Kind((0,), (activation,), 1, "rnn_cell"), [node.value("hx")])


_plain("rnn_tanh.input", "Tanh")
_plain("rnn_relu.input", "Relu")


def _network(node: AtenNode, b: Builder, kind: Kind, initial: Sequence[Value]) -> Sequence[Value]:
    """All layers: the states of the last one at every step, then the last states of all layers."""
    if node.plain("train") and node.number("dropout") != 0:
        raise UserError(f"{node}: dropout is {node.number('dropout')}: it drops elements at random, for training")
    node.ignore("dropout")
    x, first = node.value("input"), bool(node.plain("batch_first"))
    if len(x.shape) != 3 or 0 in x.shape:
        raise UserError(f"{node}: the input is {x}; expected three dimensions, none of them empty")
    x = transposed(b, x, (1, 0, 2)) if first else x
    directions = (False, True) if node.plain("bidirectional") else (False,)
    weights = _weights(node, len(directions))
    last: list[States] = []
    for layer in range(node.integer("num_layers")):
        rows = []
        for n, backwards in enumerate(directions):
            number = layer * len(directions) + n
            before = [_row(b, states, number) for states in initial]
            every, final = _layer(b, kind, x, weights[number], before, backwards)
            joined = b.add("concat", every, axis=0) if len(every) > 1 else every[0]
            rows.append(reshaped(b, joined, (*x.shape[:2], joined.shape[1])))
            last.append(final)
        x = b.add("concat", rows, axis=2) if len(rows) > 1 else rows[0]
    stacked = [_stacked(b, [states[n] for states in last]) for n in range(len(initial))]
    return [transposed(b, x, (1, 0, 2)) if first else x, *stacked]


def _weights(node: AtenNode, directions: int) -> list[Weights]:
    given = node.values("params")
    biases = 2 if node.plain("has_biases") else 0
    count = node.integer("num_layers") * directions
    each = len(given) // count
    found = []
    for n in range(count):
        inputs, state, *more = given[n * each : (n + 1) * each]
        bias, state_bias = more[:biases] or (None, None)
        found.append(Weights(inputs, state, bias, state_bias, more[biases] if len(more) > biases else None))
    return found


def _row(b: Builder, states: Value, number: int) -> Value:
    """One of the states (layers * directions, batch, hidden)."""
    return reshaped(b, sliced(b, states, (number, 0, 0), (1, *states.shape[1:])), states.shape[1:])


def _stacked(b: Builder, states: States) -> Value:
    rows = [reshaped(b, s, (1, *s.shape)) for s in states]
    return b.add("concat", rows, axis=0) if len(rows) > 1 else rows[0]


def _layer(b: Builder, kind: Kind, x: Value, weights: Weights, before: Sequence[Value], backwards: bool) -> tuple[States, States]:
    """One direction of one layer: the hidden states by step, and the last states."""
    steps, batch, size = x.shape
    hidden = weights.state.shape[0] // len(kind.order)

    def turn(weight: Value) -> Value:
        return _reordered(b, weight, kind.order, hidden)

    rows = b.add("matmul", [reshaped(b, x, (steps * batch, size)), transposed(b, turn(weights.inputs), (1, 0))])
    inner = None if weights.state_bias is None else turn(weights.state_bias)
    if weights.bias is not None and inner is not None:
        rows = b.add("add", [rows, b.add("add", [turn(weights.bias), _cut(b, inner, kind.added * hidden)])])
    gates = reshaped(b, rows, (steps, batch, len(kind.order) * hidden))
    state_weight = transposed(b, turn(weights.state), (1, 0))
    options: dict[str, Any] = {"activations": tuple((name, *ACTIVATIONS[name][:2]) for name in kind.activations), "clip": None}
    projection = None if weights.projection is None else transposed(b, weights.projection, (1, 0))
    rest = _last_bias(b, inner, hidden, x) if kind is _GRU else None
    states, every = list(before), {}
    for step in reversed(range(steps)) if backwards else range(steps):
        product = b.add("matmul", [states[0], state_weight])
        if kind is _LSTM:
            given, cell = b.add_all(kind.cell, [gates, product, states[1]], step=step, input_forget=False, **options)
            states = [given if projection is None else b.add("matmul", [given, projection]), cell]
        elif rest is not None:
            states = [b.add(kind.cell, [gates, product, rest, states[0]], step=step, **options)]
        else:
            states = [b.add(kind.cell, [gates, product], step=step, **options)]
        every[step] = states[0]
    return [every[step] for step in range(steps)], states


def _reordered(b: Builder, weight: Value, order: Sequence[int], hidden: int) -> Value:
    """The rows of a weight, or of a bias, gate by gate in another order."""
    tail = [0] * (len(weight.shape) - 1)
    parts = [sliced(b, weight, (gate * hidden, *tail), (hidden, *weight.shape[1:])) for gate in order]
    return b.add("concat", parts, axis=0) if len(parts) > 1 else parts[0]


def _cut(b: Builder, bias: Value, size: int) -> Value:
    """The first elements of a bias, zeros for the others."""
    if size == bias.shape[0]:
        return bias
    zeros = b.constant(np.zeros(bias.shape[0] - size, dtype(bias.dtype).numpy), "zeros")
    return b.add("concat", [sliced(b, bias, (0,), (size,)), zeros], axis=0)


def _last_bias(b: Builder, bias: Value | None, hidden: int, like: Value) -> Value:
    """Of the state's share of a GRU's last gate, which the reset gate multiplies."""
    if bias is None:
        return b.constant(np.zeros(hidden, dtype(like.dtype).numpy), "zeros")
    return sliced(b, bias, (2 * hidden,), (hidden,))
