"""LSTM, GRU and RNN, laid out step by step over a sequence of fixed length.

The products of the inputs are one matrix product for all steps; a step is then the product of the state with the recurrent weight,
and a cell. A sequence of 64 thus takes some 200 nodes. What a step reads of all steps is a row of its own in memory, and so is what
it gives: steps differ in those places alone, and are calls of the same kernels.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from tensorsmith.errors import UserError
from tensorsmith.frontends.onnx.table import OnnxNode, onnx_operator
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.graph import Value
from tensorsmith.lang.dtypes import dtype
from tensorsmith.ops.recurrent import ACTIVATIONS, Activation


@dataclass(frozen=True)
class Layer:
    """What the three kinds of layer share. Values have their direction in front, if they have one."""

    node: OnnxNode
    b: Builder
    gates: int
    x: Value  # steps, batch, inputs
    hidden: int
    directions: tuple[bool, ...]  # of each, whether it goes backwards
    activations: tuple[tuple[Activation, ...], ...]  # of each direction
    clip: float | None
    lengths: Value | None  # of each sequence of the batch; None: all are full

    @property
    def steps(self) -> int:
        return self.x.shape[0]

    @property
    def batch(self) -> int:
        return self.x.shape[1]

    def part(self, value: Value, direction: int, first: int = 0, count: int | None = None) -> Value:
        """Rows `first`..`first + count` of what a value has for a direction."""
        count = value.shape[1] - first if count is None else count
        starts, sizes = (direction, first, *[0] * (len(value.shape) - 2)), (1, count, *value.shape[2:])
        return self.b.add("reshape", [self.b.add("slice", [value], starts=starts, sizes=sizes)], shape=sizes[1:])

    def transposed(self, value: Value, direction: int, first: int = 0, count: int | None = None) -> Value:
        """The same of a weight (directions, rows, columns), as (columns, rows): the right side of a product."""
        return self.b.add("transpose", [self.part(value, direction, first, count)], order=(1, 0))

    def product(self, rows: Value, n: int, direction: int) -> Value:
        """Rows times a weight of a direction, input n of the node."""
        return self.b.add("matmul", [rows, self.transposed(self.node.required(n), direction)])

    @staticmethod
    def weight_shapes(directions: int, gates: int, inputs: int, hidden: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """What the weights of inputs and of states must be like; `gates` counts the elements of all gates."""
        return (directions, gates, inputs), (directions, gates, hidden)

    def projected(self, direction: int, bias: Value | None) -> Value:
        """The inputs' share of the gates, for all steps at once, with a bias."""
        b = self.b
        rows = b.add("reshape", [self.x], shape=(self.steps * self.batch, self.x.shape[2]))
        product = self.product(rows, 1, direction)
        product = product if bias is None else b.add("add", [product, bias])
        return b.add("reshape", [product], shape=(self.steps, self.batch, self.gates * self.hidden))

    def biases(self, direction: int, recurrent: int) -> Value | None:
        """The bias of the inputs, plus that of the state for the first `recurrent` gates."""
        bias = self.node.optional(3)
        if bias is None:
            return None
        size = self.gates * self.hidden
        own = self.part(bias, direction, 0, size)
        added = self.part(bias, direction, size, recurrent * self.hidden)
        if recurrent < self.gates:
            rest = self.zeros((size - recurrent * self.hidden,))
            added = self.b.add("concat", [added, rest], axis=0)
        return self.b.add("add", [own, added])

    def at(self, gates: Value, step: int) -> Value:
        """What `projected` has for a step (1, batch, gates)."""
        return self.b.add("slice", [gates], starts=(step, 0, 0), sizes=(1, *gates.shape[1:]))

    def zeros(self, shape: Sequence[int]) -> Value:
        return self.b.constant(np.zeros(shape, dtype(self.x.dtype).numpy), "zeros")

    def initial(self, n: int, direction: int) -> Value:
        """The state before the first step, from input n; zeros where it is left out."""
        given = self.node.optional(n)
        if given is None:
            return self.zeros((self.batch, self.hidden))
        if self.node.attribute("layout", 0):
            given = self.b.add("transpose", [given], order=(1, 0, 2))
        return self.part(given, direction)

    def options(self, direction: int) -> dict[str, Any]:
        """The attributes of a direction's cells."""
        return {"activations": self.activations[direction], "clip": self.clip}

    def going_on(self, step: int, new: Value, old: Value | None = None) -> Value:
        """`new` for the sequences that reach a step, `old` (zeros by default) for those that are shorter."""
        reached = self.reached
        if reached is None:
            return new
        own = self.b.add("slice", [reached], starts=(step * self.batch, 0), sizes=(self.batch, 1))
        known = self.b.known(own)
        if known is not None and known.all():
            return new
        return self.b.add("where", [own, new, self.nothing if old is None else old])

    @functools.cached_property
    def reached(self) -> Value | None:
        """Of each step and sequence (steps * batch, 1), whether the sequence is that long; None if all are."""
        if self.lengths is None:
            return None
        b = self.b
        steps = b.constant(np.arange(self.steps, dtype=dtype(self.lengths.dtype).numpy).reshape(-1, 1), "steps")
        return b.add("reshape", [b.add("less", [steps, self.lengths])], shape=(self.steps * self.batch, 1))

    @functools.cached_property
    def nothing(self) -> Value:
        """What a sequence gives behind its end."""
        return self.zeros((self.batch, self.hidden))

    def order(self, direction: int) -> list[int]:
        """The steps in the order they are taken."""
        return list(reversed(range(self.steps))) if self.directions[direction] else list(range(self.steps))


#: what runs one direction of a layer: the state after every step, by its place in the sequence, and the last states
Runner = Callable[[Layer, int], tuple[list[Value], list[Value]]]


#: of each direction that a layer has, whether it goes backwards; ONNX spells the default of GRU's version 1 without an r
_DIRECTIONS = {"forward": (False,), "foward": (False,), "reverse": (True,), "bidirectional": (False, True)}


L = TypeVar("L", bound=Layer)


def _layer(node: OnnxNode, b: Builder, gates: int, defaults: Sequence[str], kind: type[L]) -> L:
    x, weight, recurrent = node.required(0), node.required(1), node.required(2)
    directions = _DIRECTIONS.get(node.attribute("direction", "forward"))
    if directions is None:
        raise UserError(f"{node}: direction is {node.attribute('direction')!r}; known are forward, reverse and bidirectional")
    if len(x.shape) != 3:
        raise UserError(f"{node}: the input has the shape {list(x.shape)}; expected steps, batch, inputs")
    if node.attribute("layout", 0):
        x = b.add("transpose", [x], order=(1, 0, 2))
    hidden = int(node.attribute("hidden_size", min(recurrent.shape[1:], default=0)))  # its other size is that of all gates
    wanted = kind.weight_shapes(len(directions), gates * hidden, x.shape[2], hidden)
    if (weight.shape, recurrent.shape) != wanted:
        raise UserError(
            f"{node}: W and R have the shapes {list(weight.shape)} and {list(recurrent.shape)}; expected {list(wanted[0])} "
            f"and {list(wanted[1])}"
        )
    if not x.shape[0]:
        raise UserError(f"{node}: the sequence is empty")
    lengths = node.optional(4)
    if lengths is not None and lengths.shape != x.shape[1:2]:
        raise UserError(f"{node}: sequence_lens has the shape {list(lengths.shape)}; expected [{x.shape[1]}], one per sequence")
    clip = node.attribute("clip")
    names = tuple(node.attribute("activations") or tuple(defaults) * len(directions))
    if (
        len(directions) == 1 and names == names[: len(defaults)] * 2
    ):  # RNN's default, written out: the second direction is not there
        names = names[: len(defaults)]
    if len(names) != len(defaults) * len(directions):
        raise UserError(f"{node}: activations are {list(names)}; expected {len(defaults)} for each of {len(directions)} directions")
    functions = _activations(node, names)
    each = tuple(functions[n * len(defaults) : (n + 1) * len(defaults)] for n in range(len(directions)))
    return kind(node, b, gates, x, hidden, directions, each, None if clip is None else float(clip), lengths)


def _activations(node: OnnxNode, names: Sequence[str]) -> tuple[Activation, ...]:
    """With their parameters: the file lists those of the activations that have some, in order."""
    alphas, betas = list(node.attribute("activation_alpha") or ()), list(node.attribute("activation_beta") or ())
    with_alpha = ("Affine", "LeakyRelu", "ThresholdedRelu", "ScaledTanh", "HardSigmoid", "Elu")
    with_beta = ("Affine", "ScaledTanh", "HardSigmoid")
    known = {name.lower(): name for name in ACTIVATIONS}
    found = []
    for given in names:
        name = known.get(given.lower())
        if name is None:
            raise UserError(f"{node}: the activation {given!r} is not known; known are {', '.join(ACTIVATIONS)}")
        alpha, beta, _ = ACTIVATIONS[name]
        alpha = float(alphas.pop(0)) if name in with_alpha and alphas else alpha
        beta = float(betas.pop(0)) if name in with_beta and betas else beta
        found.append((name, alpha, beta))
    ignored = not any(name in with_alpha for name, _, _ in found), not any(name in with_beta for name, _, _ in found)
    if (alphas and not ignored[0]) or (betas and not ignored[1]):
        raise UserError(f"{node}: activation_alpha and activation_beta have more numbers than the activations {list(names)} take")
    return tuple(found)


def _outputs(layer: Layer, run: Runner) -> list[Value]:
    """Y (steps, directions, batch, hidden), then each of the last states (directions, batch, hidden)."""
    b, shape = layer.b, (layer.batch, layer.hidden)
    every: list[list[Value]] = []
    last: list[list[Value]] = []
    for direction in range(len(layer.directions)):
        states, final = run(layer, direction)
        every.append(states)
        last.append([b.add("reshape", [s], shape=(1, *shape)) for s in final])
    rows = [state for step in zip(*every) for state in step]
    joined = b.add("concat", rows, axis=0) if len(rows) > 1 else rows[0]
    results = [b.add("reshape", [joined], shape=(layer.steps, len(every), *shape))]
    for states_of in zip(*last):
        results.append(b.add("concat", list(states_of), axis=0) if len(states_of) > 1 else states_of[0])
    if layer.node.attribute("layout", 0):
        orders = [(2, 0, 1, 3), *[(1, 0, 2)] * (len(results) - 1)]
        results = [b.add("transpose", [v], order=o) for v, o in zip(results, orders)]
    return results


@onnx_operator("RNN")
def rnn(node: OnnxNode, b: Builder) -> Sequence[Value]:
    def run(layer: Layer, direction: int) -> tuple[list[Value], list[Value]]:
        weight = layer.transposed(node.required(2), direction)
        gates = layer.projected(direction, layer.biases(direction, 1))
        options = layer.options(direction)
        states, state = {}, layer.initial(5, direction)
        for step in layer.order(direction):
            new = b.add("rnn_cell", [layer.at(gates, step), b.add("matmul", [state, weight])], step=0, **options)
            state, states[step] = layer.going_on(step, new, state), layer.going_on(step, new)
        return [states[s] for s in range(layer.steps)], [state]

    return _outputs(_layer(node, b, 1, ["Tanh"], Layer), run)


@onnx_operator("LSTM")
def lstm(node: OnnxNode, b: Builder) -> Sequence[Value]:
    return lstm_layer(node, b, Layer)


def lstm_layer(node: OnnxNode, b: Builder, kind: type[Layer]) -> Sequence[Value]:
    """The outputs of an LSTM whose weights are of a kind."""

    def run(layer: Layer, direction: int) -> tuple[list[Value], list[Value]]:
        gates = layer.projected(direction, layer.biases(direction, 4))
        peephole = node.optional(7)
        extra = [] if peephole is None else [layer.part(peephole, direction)]
        options = layer.options(direction)
        coupled = bool(node.attribute("input_forget", 0))
        states, state, cell = {}, layer.initial(5, direction), layer.initial(6, direction)
        for step in layer.order(direction):
            inputs = [layer.at(gates, step), layer.product(state, 2, direction), cell, *extra]
            new, new_cell = b.add_all("lstm_cell", inputs, step=0, input_forget=coupled, **options)
            state, cell = layer.going_on(step, new, state), layer.going_on(step, new_cell, cell)
            states[step] = layer.going_on(step, new)
        return [states[s] for s in range(layer.steps)], [state, cell]

    return _outputs(_layer(node, b, 4, ["Sigmoid", "Tanh", "Tanh"], kind), run)


@onnx_operator("GRU")
def gru(node: OnnxNode, b: Builder) -> Sequence[Value]:
    linear = bool(node.attribute("linear_before_reset", 0))

    def run(layer: Layer, direction: int) -> tuple[list[Value], list[Value]]:
        size = layer.hidden
        recurrent, bias = node.required(2), node.optional(3)
        both = layer.transposed(recurrent, direction, 0, 3 * size if linear else 2 * size)
        last = layer.transposed(recurrent, direction, 2 * size)
        inner = layer.zeros((size,)) if bias is None else layer.part(bias, direction, 5 * size)
        gates = layer.projected(direction, layer.biases(direction, 2 if linear else 3))
        options = layer.options(direction)
        states, state = {}, layer.initial(5, direction)
        for step in layer.order(direction):
            product, own = b.add("matmul", [state, both]), layer.at(gates, step)
            if linear:
                new = b.add("gru_cell_linear", [own, product, inner, state], step=0, **options)
            else:
                kept = b.add("gru_reset", [own, product, state], step=0, **options)
                new = b.add("gru_cell", [own, product, b.add("matmul", [kept, last]), state], step=0, **options)
            state, states[step] = layer.going_on(step, new, state), layer.going_on(step, new)
        return [states[s] for s in range(layer.steps)], [state]

    return _outputs(_layer(node, b, 3, ["Sigmoid", "Tanh"], Layer), run)
