"""A network as a graph of operators on tensors of fixed shapes.

    x: f32[1, 8, 8, 3]
    conv = conv(x, w, stride=(1, 1), padding=((1, 1), (1, 1)))     : f32[1, 8, 8, 16]
    relu = relu(conv)                                              : f32[1, 8, 8, 16]
    return y=relu

Every value has a name; a node reads values and gives new ones. What a node computes is said by its operator, which is a definition
in `lang` (`graph.operators`): the one source of its shape, its type, its value and its code. Nodes are in an order in which each
follows what it reads. A graph is never changed: passes make new ones.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tensorsmith.errors import InternalError
from tensorsmith.lang.dtypes import Array as Array
from tensorsmith.lang.dtypes import canonical, dtype
from tensorsmith.show.line import line, many, plain, short_digest

Attribute = Any  # None, bool, int, float, str, or a (nested) tuple of those: hashable, and equal where the meaning is


@dataclass(frozen=True)
class Value:
    """A tensor that flows along an edge."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        return self.elements * dtype(self.dtype).bytes

    def __repr__(self) -> str:
        return line(self, f"{self.name}: {self}")

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"


@dataclass(frozen=True)
class Node:
    """One operator applied to values. `origin` says where it came from, for people ("Conv_12" of the ONNX file)."""

    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[Value, ...]
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    origin: str = ""

    @property
    def output(self) -> Value:
        (value,) = self.outputs
        return value

    @functools.cached_property
    def options(self) -> tuple[tuple[str, Attribute], ...]:
        """The attributes in a form that can be compared and hashed."""
        return tuple(sorted(self.attributes.items()))

    def __repr__(self) -> str:
        return line(self, self, f" {short_digest(str(self))}")

    def __str__(self) -> str:
        arguments = [*self.inputs, *(f"{k}={v}" for k, v in self.attributes.items())]
        return plain(f"{', '.join(v.name for v in self.outputs)} = {self.operator}({', '.join(arguments)})")


@dataclass(frozen=True)
class Graph:
    """`outputs` pairs the names that the outside knows with the values they are: a value may go out twice, or be an input."""

    inputs: tuple[Value, ...]
    outputs: tuple[tuple[str, str], ...]
    nodes: tuple[Node, ...]
    constants: Mapping[str, Array]
    name: str = "model"  # one line that can be printed, whatever it is called in its file

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", plain(self.name))

    @functools.cached_property
    def values(self) -> dict[str, Value]:
        """Every value by its name."""
        found = {v.name: v for v in self.inputs}
        found |= {name: constant_value(name, array) for name, array in self.constants.items()}
        found |= {v.name: v for node in self.nodes for v in node.outputs}
        return found

    @functools.cached_property
    def producers(self) -> dict[str, Node]:
        """The node that gives each value; inputs and constants have none."""
        return {v.name: node for node in self.nodes for v in node.outputs}

    @functools.cached_property
    def consumers(self) -> dict[str, list[Node]]:
        """The nodes that read each value, in order, each once."""
        found: dict[str, list[Node]] = {name: [] for name in self.values}
        for node in self.nodes:
            for name in dict.fromkeys(node.inputs):
                found[name].append(node)
        return found

    @functools.cached_property
    def returned(self) -> frozenset[str]:
        """The values that leave the graph."""
        return frozenset(name for _, name in self.outputs)

    def check(self) -> Graph:
        """Itself, if every value is defined once and before it is read."""
        known = {v.name for v in self.inputs} | set(self.constants)
        if len(known) != len(self.inputs) + len(self.constants):
            raise InternalError(f"graph {self.name}: an input and a constant share a name")
        for node in self.nodes:
            for name in node.inputs:
                if name not in known:
                    raise InternalError(f"graph {self.name}: `{node}` reads {name!r}, which is not there yet")
            for v in node.outputs:
                if v.name in known:
                    raise InternalError(f"graph {self.name}: {v.name!r} is given twice, once by `{node}`")
                known.add(v.name)
        for outside, name in self.outputs:
            if name not in known:
                raise InternalError(f"graph {self.name}: output {outside!r} is {name!r}, which nobody gives")
        return self

    def __repr__(self) -> str:
        counts = f"{many(len(self.nodes), 'node')}, {many(len(self.constants), 'constant')}"
        return line(self, f"{self.name}: {counts}", f" {short_digest(str(self))}")

    def __reduce__(self) -> tuple[object, ...]:
        """Its fields alone: what was worked out from them is worked out again."""
        return Graph, (self.inputs, self.outputs, self.nodes, dict(self.constants), self.name)

    def __str__(self) -> str:
        lines = [f"{v.name}: {v}" for v in self.inputs]
        lines += [f"{name}: constant {self.values[name]}" for name in self.constants]
        lines += [f"{node}  : {', '.join(map(str, node.outputs))}" for node in self.nodes]
        lines.append("return " + ", ".join(f"{outside}={name}" for outside, name in self.outputs))
        return "\n".join(map(plain, lines))


def constant_value(name: str, array: Array) -> Value:
    """The type of a constant."""
    return Value(name, array.shape, dtype_name(array))


def dtype_name(array: Array) -> str:
    """Our name of an array's type."""
    return canonical(array.dtype)


def pruned(graph: Graph, nodes: Sequence[Node] | None = None) -> Graph:
    """The graph without nodes and constants that no output needs."""
    kept: list[Node] = []
    needed = set(graph.returned)
    for node in reversed(graph.nodes if nodes is None else nodes):
        if any(v.name in needed for v in node.outputs):
            kept.append(node)
            needed.update(node.inputs)
    constants = {name: array for name, array in graph.constants.items() if name in needed}
    return Graph(graph.inputs, graph.outputs, tuple(reversed(kept)), constants, graph.name)
