"""Numbers that are not known yet: what a structure computes from its decisions, as a graph.

Lowering a sketch with a `Symbol` for every decision gives a program whose counts and strides are symbols. The same expression is
the same symbol in every structure, so a whole population needs each only once, whatever structures its candidates have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
Known: TypeAlias = int | float | bool | np.generic  # a number that is the same for all candidates
Numbers: TypeAlias = "Known | Array"

_OPERATORS: dict[str, Callable[..., Array]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "floor_divide": lambda a, b: np.floor(a / b),  # exact below 2^52, and many times faster than the integers' own
    "remainder": lambda a, b: a - b * np.floor(a / b),  # likewise
    "divide": np.true_divide,
    "negative": np.negative,
    "absolute": np.abs,
    "minimum": np.minimum,
    "maximum": np.maximum,
    "ceil": np.ceil,
    "floor": np.floor,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "invert": np.invert,
    "where": np.where,
}
_TRUTHS = ("greater", "greater_equal", "less", "less_equal", "equal", "not_equal", "bitwise_and", "bitwise_or", "invert")


class Node(NamedTuple):
    """A hole ("hole", its name), a number ("number", the type and the value), or an operator with the numbers of its arguments."""

    kind: str
    made_of: tuple[Any, ...]


class Graph:
    """Symbols by what they are made of."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.holes: dict[str, int] = {}  # a number for each
        self.depends: list[int] = []  # by node: the holes that it is made from, a bit for each
        self._numbers: dict[tuple[object, ...], int] = {}

    def node(self, *key: Any) -> int:
        """The number of a node: its kind, then what it is made of."""
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.nodes)
            self.nodes.append(Node(key[0], key[1:]))
            self.depends.append(self._holes_of(self.nodes[-1]))
        return number

    def _holes_of(self, node: Node) -> int:
        if node.kind == "hole":
            return 1 << self.holes.setdefault(node.made_of[0], len(self.holes))
        found = 0
        for argument in node.made_of if node.kind != "number" else ():
            found |= self.depends[argument]
        return found

    def constant(self, value: Known) -> int:
        """The node of a number."""
        if isinstance(value, np.generic):
            value = value.item()
        return self.node("number", type(value), value)

    def number(self, node: int) -> float | None:
        """The number that a node is for all candidates; None if it depends on decisions."""
        return float(self.nodes[node].made_of[1]) if self.nodes[node].kind == "number" else None

    def hole(self, name: str) -> Symbol:
        return Symbol(self, self.node("hole", name))

    def evaluate(self, wanted: Sequence[int], holes: Mapping[str, Array]) -> dict[int, Numbers]:
        """The values of nodes and of all that they are made of, given those of all holes, float64."""
        needed: set[int] = set()
        ahead = list(wanted)
        while ahead:
            n = ahead.pop()
            if n not in needed:
                needed.add(n)
                kind, made_of = self.nodes[n]
                if kind not in ("hole", "number"):
                    ahead.extend(made_of)
        values: dict[int, Numbers] = {}
        with np.errstate(all="ignore"):  # rows whose structure does not have a hole
            for n in sorted(needed):  # arguments have lower numbers than what is made of them
                kind, made_of = self.nodes[n]
                if kind == "hole":
                    values[n] = holes[made_of[0]]
                elif kind == "number":
                    values[n] = made_of[1]
                else:
                    values[n] = _OPERATORS[kind](*[values[a] for a in made_of])
        return values


class Symbol:
    """A node of a graph, to compute with as with an array."""

    __slots__ = ("graph", "node")
    ndim = 1  # as an array of one entry per candidate

    def __init__(self, graph: Graph, node: int) -> None:
        self.graph, self.node = graph, node

    def _make(self, kind: str, *arguments: Operand) -> Symbol:
        graph = self.graph
        return Symbol(graph, graph.node(kind, *[a.node if isinstance(a, Symbol) else graph.constant(a) for a in arguments]))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Operand, **keywords: object) -> Symbol:
        if method != "__call__" or keywords or ufunc.__name__ not in _OPERATORS:
            raise TypeError(f"no symbolic form of {ufunc.__name__}.{method}")
        return self._make(ufunc.__name__, *inputs)

    def __array_function__(
        self, function: Callable[..., object], types: object, inputs: Sequence[Operand], keywords: Mapping[str, object]
    ) -> Symbol | bool:
        if function is np.any:  # of some candidate it may be true
            return True
        if function is not np.where or keywords:
            raise TypeError(f"no symbolic form of {function.__name__}")
        return self._make("where", *inputs)

    def astype(self, _: object) -> Symbol:
        return self._make("multiply", self, 1.0) if self.graph.nodes[self.node].kind in _TRUTHS else self  # else float64 already

    def __bool__(self) -> bool:
        raise TypeError("a symbol is neither true nor false")

    def __hash__(self) -> int:
        return self.node

    def __add__(self, other: Operand) -> Symbol:
        return self if type(other) is int and other == 0 else self._make("add", self, other)

    __radd__ = __add__

    def __sub__(self, other: Operand) -> Symbol:
        return self._make("subtract", self, other)

    def __rsub__(self, other: Operand) -> Symbol:
        return self._make("subtract", other, self)

    def __mul__(self, other: Operand) -> Symbol:
        return self if type(other) is int and other == 1 else self._make("multiply", self, other)

    __rmul__ = __mul__

    def __floordiv__(self, other: Operand) -> Symbol:
        return self._make("floor_divide", self, other)  # of whole numbers

    def __rfloordiv__(self, other: Operand) -> Symbol:
        return self._make("floor_divide", other, self)

    def __mod__(self, other: Operand) -> Symbol:
        return self._make("remainder", self, other)  # of whole numbers

    def __truediv__(self, other: Operand) -> Symbol:
        return self._make("divide", self, other)

    def __rtruediv__(self, other: Operand) -> Symbol:
        return self._make("divide", other, self)

    def __neg__(self) -> Symbol:
        return self._make("negative", self)

    def __abs__(self) -> Symbol:
        return self._make("absolute", self)

    def __invert__(self) -> Symbol:
        return self._make("invert", self)

    def __and__(self, other: Operand) -> Symbol:
        return self._make("bitwise_and", self, other)

    __rand__ = __and__

    def __or__(self, other: Operand) -> Symbol:
        return self._make("bitwise_or", self, other)

    __ror__ = __or__

    def __gt__(self, other: Operand) -> Symbol:
        return self._make("greater", self, other)

    def __ge__(self, other: Operand) -> Symbol:
        return self._make("greater_equal", self, other)

    def __lt__(self, other: Operand) -> Symbol:
        return self._make("less", self, other)

    def __le__(self, other: Operand) -> Symbol:
        return self._make("less_equal", self, other)

    def __eq__(self, other: Operand) -> Symbol:  # type: ignore[override]
        return self._make("equal", self, other)

    def __ne__(self, other: Operand) -> Symbol:  # type: ignore[override]
        return self._make("not_equal", self, other)


Operand: TypeAlias = Symbol | Known  # what a symbol can be computed with
