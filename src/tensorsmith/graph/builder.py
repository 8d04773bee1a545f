"""Building a graph node by node; whatever is known already is computed at once.

A node whose inputs are all constants becomes a constant (shape arithmetic, reshaped and transposed weights), and a node that is
there already is not added again. So the long chains of Shape, Gather, Concat and Reshape that exporters write never get into it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import numpy as np

from tensorsmith.errors import UserError
from tensorsmith.graph import operators
from tensorsmith.graph.graph import Array, Attribute, Graph, Node, Value, constant_value, pruned

#: what a pass does to one node: other values for its results, or None to keep it
Rewrite = Callable[["Builder", Node, Sequence[Value]], Sequence[Value] | None]

#: operators that take weights apart: folded, they would be as large as they were before. Passes say what becomes of them
_KEPT = ("dequantize_blocks",)
_LARGEST_FOLD = 1 << 27  # elements: what would be larger as a constant (an Expand of a number) is computed when it is needed


class Builder:
    """Makes a `Graph`. Values are handled as `Value`s; `add` applies an operator."""

    def __init__(self, name: str = "model") -> None:
        self.name = name
        self._inputs: list[Value] = []
        self._outputs: list[tuple[str, str]] = []
        self._nodes: list[Node] = []
        self._constants: dict[str, Array] = {}
        self._taken: set[str] = set()
        self._used: dict[str, int] = {}  # the number to try next for a name that is taken
        self._known: dict[tuple[object, ...], tuple[Value, ...]] = {}
        self._producers: dict[str, Node] = {}
        self._values: dict[str, Value] = {}  # those that nodes read or give
        self.origin = ""  # of the nodes added from now on

    @staticmethod
    def of(graph: Graph) -> Builder:
        """One that has built a graph."""
        builder = Builder(graph.name)
        builder._inputs, builder._outputs, builder._nodes = list(graph.inputs), list(graph.outputs), list(graph.nodes)
        builder._constants, builder._producers, builder._values = dict(graph.constants), dict(graph.producers), dict(graph.values)
        builder._taken = set(graph.values)
        builder._known = {(node.operator, node.inputs, node.options): node.outputs for node in graph.nodes}
        return builder

    def input(self, name: str, shape: Sequence[int], dtype: str) -> Value:
        """A new input of the graph."""
        value = Value(self._fresh(name), tuple(shape), dtype)
        self._inputs.append(value)
        return value

    def constant(self, array: Array, name: str = "constant") -> Value:
        """A constant. The array is kept, not copied: do not change it afterwards."""
        value = constant_value(self._fresh(name), np.asarray(array))
        self._constants[value.name] = np.asarray(array)
        return value

    def known(self, value: Value) -> Array | None:
        """The array of a constant; None for what is computed."""
        return self._constants.get(value.name)

    def sources(self, value: Value) -> list[str]:
        """The inputs of the graph that a value is computed from."""
        wanted = {value.name}
        for node in reversed(self._nodes):
            if any(v.name in wanted for v in node.outputs):
                wanted.update(node.inputs)
        return [v.name for v in self._inputs if v.name in wanted]

    def producer(self, value: Value) -> Node | None:
        """The node that gives a value; None for inputs and constants."""
        return self._producers.get(value.name)

    def read(self, node: Node) -> list[Value]:
        """The values that a node of this graph reads."""
        return [self._values[name] for name in node.inputs]

    def add(self, operator: str, inputs: Sequence[Value], /, name: str = "", **attributes: Attribute) -> Value:
        """The result of an operator that gives one value."""
        (value,) = self.add_all(operator, inputs, name=name, **attributes)
        return value

    def add_all(self, operator: str, inputs: Sequence[Value], /, name: str = "", **attributes: Attribute) -> tuple[Value, ...]:
        """The results of an operator. Raises `UserError` where the inputs do not fit it."""
        key = (operator, tuple(v.name for v in inputs), tuple(sorted(attributes.items())))
        if key in self._known:
            return self._known[key]
        types = _types(operator, tuple((v.shape, v.dtype) for v in inputs), key[2])
        arrays = [self.known(v) for v in inputs]
        small = sum(math.prod(shape) for shape, _ in types) <= _LARGEST_FOLD
        kept = operator in _KEPT or _stays_quantised(operator, inputs)
        if small and not kept and all(a is not None for a in arrays):
            made = operators.evaluate(operator, [a for a in arrays if a is not None], attributes)
            values = tuple(self.constant(a, name or operator) for a in made)
        else:
            values = tuple(Value(self._fresh(name or operator), shape, dtype) for shape, dtype in types)
            self._append(Node(operator, key[1], values, attributes, self.origin), inputs)
        self._known[key] = values
        return values

    def again(self, node: Node, inputs: Sequence[Value]) -> tuple[Value, ...]:
        """The results of a node of another graph, on `inputs` of the types that it reads there.

        Most nodes stay as they are in most passes, and are taken over without a second look.
        """
        names = tuple(v.name for v in inputs)
        new = names != node.inputs or any(v.name in self._taken for v in node.outputs)
        if new or (node.operator not in _KEPT and all(name in self._constants for name in names)):
            return self.add_all(node.operator, inputs, name=node.outputs[0].name, **node.attributes)
        key = (node.operator, names, node.options)
        if key not in self._known:
            self._append(node, inputs)
            self._taken.update(v.name for v in node.outputs)
            self._known[key] = node.outputs
        return self._known[key]

    def _append(self, node: Node, inputs: Sequence[Value]) -> None:
        self._nodes.append(node)
        for value in node.outputs:
            self._producers[value.name] = node
            self._values[value.name] = value
        for value in inputs:
            self._values[value.name] = value

    def output(self, name: str, value: Value) -> None:
        """Lets a value leave the graph under a name."""
        if any(name == known for known, _ in self._outputs):
            raise UserError(f"two outputs are called {name!r}")
        self._outputs.append((name, value.name))

    def graph(self) -> Graph:
        """What was built, without what no output needs."""
        whole = Graph(tuple(self._inputs), tuple(self._outputs), tuple(self._nodes), self._constants, self.name)
        return pruned(whole).check()

    def _fresh(self, wanted: str) -> str:
        name, n = wanted, self._used.get(wanted, 1)
        while name in self._taken:
            name, n = f"{wanted}_{n}", n + 1
        self._taken.add(name)
        self._used[wanted] = n
        return name


def _stays_quantised(operator: str, inputs: Sequence[Value]) -> bool:
    """Whether a node is left to the passes: they multiply bytes as they are (`passes/integer.py`), and compute the others."""
    return operator == "dequantize" and inputs[0].dtype in ("i8", "u8")


@functools.lru_cache(maxsize=1 << 14)  # passes build the same nodes again and again
def _types(
    operator: str, inputs: tuple[tuple[tuple[int, ...], str], ...], attributes: tuple[tuple[str, Attribute], ...]
) -> list[tuple[tuple[int, ...], str]]:
    """Shape and type of each result of an operator."""
    values = [Value(f"in{n}", shape, dtype) for n, (shape, dtype) in enumerate(inputs)]
    return operators.infer(operator, values, dict(attributes))


def rebuilt(graph: Graph, rewriting: Callable[[], Rewrite]) -> Graph:
    """The graph made anew, node by node; `rewriting()` gives what may give other values for the results of a node.

    Folding and the removal of doubles happen on the way. Most passes find nothing in most graphs, and give the graph itself: a
    rewrite looks at all nodes as they are first, and another one begins anew if there is something to do.
    """
    return graph if _stays(graph, rewriting()) else _made_anew(graph, rewriting())


def _stays(graph: Graph, rewrite: Rewrite) -> bool:
    builder = Builder.of(graph)
    values = graph.values
    for node in graph.nodes:
        found = rewrite(builder, node, [values[name] for name in node.inputs])
        if found is not None and tuple(found) != node.outputs:
            return False
    return True


def _made_anew(graph: Graph, rewrite: Rewrite) -> Graph:
    builder = Builder(graph.name)
    new: dict[str, Value] = {v.name: builder.input(v.name, v.shape, v.dtype) for v in graph.inputs}
    new |= {name: builder.constant(array, name) for name, array in graph.constants.items()}
    for node in graph.nodes:
        builder.origin = node.origin
        inputs = [new[name] for name in node.inputs]
        values = rewrite(builder, node, inputs)
        if values is None:
            values = builder.again(node, inputs)
        for old, value in zip(node.outputs, values):
            new[old.name] = value
    for outside, name in graph.outputs:
        builder.output(outside, new[name])
    return builder.graph()
