"""Numbers that are not known yet: what a structure computes from its decisions, as a graph.

Lowering a sketch with a `Symbol` for every decision gives a program whose counts and strides are symbols. The same expression is
the same symbol in every structure, so a whole population needs each only once, whatever structures its candidates have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

_OPERATORS: dict[str, Callable[..., Any]] = {
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


class Graph:
    """Symbols by what they are made of: a node is a hole, a number, or an operator with its arguments."""

    def __init__(self) -> None:
        self.nodes: list[tuple[Any, ...]] = []
        self.holes: dict[str, int] = {}  # a number for each
        self.depends: list[int] = []  # by node: the holes that it is made from, a bit for each
        self._numbers: dict[tuple[Any, ...], int] = {}

    def node(self, *made_of: Any) -> int:
        number = self._numbers.get(made_of)
        if number is None:
            number = self._numbers[made_of] = len(self.nodes)
            self.nodes.append(made_of)
            self.depends.append(self._holes_of(made_of))
        return number

    def _holes_of(self, made_of: tuple[Any, ...]) -> int:
        kind, *rest = made_of
        if kind == "number":
            return 0
        if kind == "hole":
            return 1 << self.holes.setdefault(rest[0], len(self.holes))
        found = 0
        for argument in rest:
            found |= self.depends[argument]
        return found

    def constant(self, value: Any) -> int:
        if isinstance(value, Symbol):
            return value.node
        if type(value) not in (int, float, bool):
            value = value.item()
        return self.node("number", type(value), value)

    def hole(self, name: str) -> Symbol:
        return Symbol(self, self.node("hole", name))

    def evaluate(self, wanted: Sequence[int], holes: Mapping[str, Array]) -> dict[int, Any]:
        """The values of nodes and of all that they are made of, given those of all holes, float64."""
        needed: set[int] = set()
        ahead = list(wanted)
        while ahead:
            n = ahead.pop()
            if n not in needed:
                needed.add(n)
                if self.nodes[n][0] not in ("hole", "number"):
                    ahead.extend(self.nodes[n][1:])
        values: dict[int, Any] = {}
        with np.errstate(all="ignore"):  # rows whose structure does not have a hole
            for n in sorted(needed):  # arguments have lower numbers than what is made of them
                kind, *rest = self.nodes[n]
                if kind == "hole":
                    values[n] = holes[rest[0]]
                elif kind == "number":
                    values[n] = rest[1]
                else:
                    values[n] = _OPERATORS[kind](*[values[a] for a in rest])
        return values


class Symbol:
    """A node of a graph, to compute with as with an array."""

    __slots__ = ("graph", "node")
    ndim = 1  # as an array of one entry per candidate

    def __init__(self, graph: Graph, node: int) -> None:
        self.graph, self.node = graph, node

    def _make(self, kind: str, *arguments: Any) -> Symbol:
        graph = self.graph
        return Symbol(graph, graph.node(kind, *[a.node if type(a) is Symbol else graph.constant(a) for a in arguments]))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **keywords: Any) -> Symbol:
        if method != "__call__" or keywords or ufunc.__name__ not in _OPERATORS:
            raise TypeError(f"no symbolic form of {ufunc.__name__}.{method}")
        return self._make(ufunc.__name__, *inputs)

    def __array_function__(self, function: Any, types: Any, inputs: Any, keywords: Any) -> Any:
        if function is np.any:  # of some candidate it may be true
            return True
        if function is not np.where or keywords:
            raise TypeError(f"no symbolic form of {function.__name__}")
        return self._make("where", *inputs)

    def astype(self, _: Any) -> Symbol:
        return self._make("multiply", self, 1.0) if self.graph.nodes[self.node][0] in _TRUTHS else self  # else float64 already

    def __bool__(self) -> bool:
        raise TypeError("a symbol is neither true nor false")

    def __hash__(self) -> int:
        return self.node

    def __add__(self, other: Any) -> Symbol:
        return self if type(other) is int and other == 0 else self._make("add", self, other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Symbol:
        return self._make("subtract", self, other)

    def __rsub__(self, other: Any) -> Symbol:
        return self._make("subtract", other, self)

    def __mul__(self, other: Any) -> Symbol:
        return self if type(other) is int and other == 1 else self._make("multiply", self, other)

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Symbol:
        return self._make("floor_divide", self, other)  # of whole numbers

    def __rfloordiv__(self, other: Any) -> Symbol:
        return self._make("floor_divide", other, self)

    def __mod__(self, other: Any) -> Symbol:
        return self._make("remainder", self, other)  # of whole numbers

    def __truediv__(self, other: Any) -> Symbol:
        return self._make("divide", self, other)

    def __rtruediv__(self, other: Any) -> Symbol:
        return self._make("divide", other, self)

    def __neg__(self) -> Symbol:
        return self._make("negative", self)

    def __abs__(self) -> Symbol:
        return self._make("absolute", self)

    def __invert__(self) -> Symbol:
        return self._make("invert", self)

    def __and__(self, other: Any) -> Symbol:
        return self._make("bitwise_and", self, other)

    __rand__ = __and__

    def __or__(self, other: Any) -> Symbol:
        return self._make("bitwise_or", self, other)

    __ror__ = __or__

    def __gt__(self, other: Any) -> Symbol:
        return self._make("greater", self, other)

    def __ge__(self, other: Any) -> Symbol:
        return self._make("greater_equal", self, other)

    def __lt__(self, other: Any) -> Symbol:
        return self._make("less", self, other)

    def __le__(self, other: Any) -> Symbol:
        return self._make("less_equal", self, other)

    def __eq__(self, other: Any) -> Any:
        return self._make("equal", self, other)

    def __ne__(self, other: Any) -> Any:
        return self._make("not_equal", self, other)
