"""The proof that a network of larger sizes can stand in for one of smaller sizes.

    small: y[i, j] = relu(sum(x[i, k] * w[k, j], over k < 64) + b[j])      i < 5
    large: the same                                                        i < 8

Claim: every value of the small network is the leading corner of the same value of the large one, if that holds for the inputs,
whatever else is in the larger inputs. By induction over the nodes, in order. Both networks define each value by the same stages. Of
each stage the bodies are the same expressions, and the sums run over the same points; only the axes of the result may be longer in
the large one. So each element of the small value is computed from the elements at the same indices, and these are inside of the
small operands, because a workload's loads are proved to be: there, by induction, the large network has the same numbers.

Whatever mixes rows of an open dimension differs in one of these: a softmax or a mean over it sums over more points, a reshape that
takes it apart or a flip of it has its size as a number in an index, a concatenation along it in a condition. That is refused.
An index from data is limited to the size of what it looks into, so that size must be the same in both. Constants must be corners of
each other too: a table of positions may be longer, a number made of the size (the mean of a batch, written by hand) may not differ.

A reshape may put an open dimension inside of another: [6, n, 32] -> [6 * n, 32], as PyTorch does before a product. A row of the
small value is then not the row of that number in the large one, but the one with the same digits l and i of l * n + i
(`graph/digits.py`). Such an axis may only be walked along, as a product does with its rows, until a reshape takes it apart again;
outputs must have none.

Nothing is said about a third size: every pair needs a proof of its own.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tensorsmith.graph import operators
from tensorsmith.graph.digits import Digits, Maps, regrouped, sizes
from tensorsmith.graph.graph import Array, Attribute, Graph, Value, dtype_name
from tensorsmith.graph.stages import tidied
from tensorsmith.lang.affine import Affine, affine
from tensorsmith.lang.define import placeholder, workload
from tensorsmith.lang.expr import Expr, Var, loads, walk
from tensorsmith.lang.workload import Stage, Workload

_HELD = 1 << 20  # bytes: of larger constants a digest is enough, they are weights and the same for all sizes

Types = tuple[tuple[tuple[int, ...], str], ...]


@dataclass(frozen=True)
class _Known:
    """A constant: its content, or for a large one what tells it from others."""

    shape: tuple[int, ...]
    dtype: str
    digest: bytes
    array: Array | None

    @staticmethod
    def of(array: Array) -> _Known:
        whole = np.ascontiguousarray(array)
        digest = hashlib.sha256(whole.reshape(-1).view(np.uint8).data).digest()
        return _Known(array.shape, dtype_name(array), digest, array if array.nbytes <= _HELD else None)


@dataclass(frozen=True)
class _Made:
    """A node, and all that its definition follows from."""

    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    types: Types
    attributes: tuple[tuple[str, Attribute], ...]
    origin: str

    def __str__(self) -> str:
        return f"{self.operator} {self.origin}".rstrip()


@dataclass(frozen=True)
class Outline:
    """What a proof needs of a graph: everything but the content of its weights."""

    inputs: tuple[Value, ...]
    outputs: tuple[tuple[str, Value], ...]
    nodes: tuple[_Made, ...]
    constants: dict[str, _Known]

    @staticmethod
    def of(graph: Graph) -> Outline:
        values = graph.values
        nodes = tuple(
            _Made(
                node.operator,
                node.inputs,
                tuple(v.name for v in node.outputs),
                tuple((values[x].shape, values[x].dtype) for x in node.inputs),
                tuple(sorted(node.attributes.items())),
                node.origin,
            )
            for node in graph.nodes
        )
        outputs = tuple((outside, values[name]) for outside, name in graph.outputs)
        return Outline(graph.inputs, outputs, nodes, {name: _Known.of(a) for name, a in graph.constants.items()})

    @property
    def output_shapes(self) -> tuple[tuple[int, ...], ...]:
        return tuple(value.shape for _, value in self.outputs)


def why_not_a_prefix(small: Outline, large: Outline) -> str | None:
    """Why it is not proved that the values of the small graph are the corners of those of the large one; None if it is."""
    try:
        return _Pair(small, large).problem()
    except RecursionError:
        return "an expression is too deep to be compared"


class _Pair:
    def __init__(self, small: Outline, large: Outline) -> None:
        self.small, self.large = small, large
        self.names: dict[str, str] = {}  # of a value in the small graph: its name in the large one
        self.maps: dict[str, Maps] = {}  # of values with an axis that is not simply longer in the large graph

    def problem(self) -> str | None:
        small, large = self.small, self.large
        counts = [(len(g.inputs), len(g.nodes), len(g.outputs)) for g in (small, large)]
        if counts[0] != counts[1]:
            return "the two sizes give graphs of different operators"
        for a, b in zip(small.inputs, large.inputs):
            if a.name != b.name or a.dtype != b.dtype or not _corner(a.shape, b.shape):
                return f"input {a.name} is {a} and {b}"
            self.names[a.name] = b.name
        for mine, theirs in zip(small.nodes, large.nodes):
            why = self._node(mine, theirs)
            if why is not None:
                return f"{mine}: {why}"
        for (outside, a), (other, b) in zip(small.outputs, large.outputs):
            why = "it is another value" if outside != other else self._same_value(a.name, b.name)
            if why is None and any(self._maps(a.name, a.shape)):
                why = "its rows are in another order"
            if why is not None:
                return f"output {outside}: {why}"
        return None

    def _same_value(self, mine: str, theirs: str) -> str | None:
        if mine not in self.names:
            a, b = self.small.constants.get(mine), self.large.constants.get(theirs)
            if a is None or b is None or not _constant_corner(a, b):
                return "a constant depends on the size"
            self.names[mine] = theirs
        return None if self.names[mine] == theirs else "it reads other values"

    def _node(self, mine: _Made, theirs: _Made) -> str | None:
        if mine.operator != theirs.operator or len(mine.inputs) != len(theirs.inputs) or len(mine.outputs) != len(theirs.outputs):
            return f"{theirs} stands in its place"
        for a, b in zip(mine.inputs, theirs.inputs):
            why = self._same_value(a, b)
            if why is not None:
                return why
        for (_, a_type), (_, b_type) in zip(mine.types, theirs.types):
            if a_type != b_type:
                return "it reads another type"
        self.names |= dict(zip(mine.outputs, theirs.outputs))
        if mine.types == theirs.types and mine.attributes == theirs.attributes:
            return None  # the same function of operands of the same shapes
        maps = tuple(self._maps(name, shape) for name, (shape, _) in zip(mine.inputs, mine.types))
        small = _definition(mine.operator, mine.types, mine.attributes)
        large = _definition(theirs.operator, theirs.types, theirs.attributes)
        found = _compared(small, large, maps)
        if isinstance(found, str) and mine.operator == "reshape":
            shapes = [(node.types[0][0], dict(node.attributes)["shape"]) for node in (mine, theirs)]
            again = regrouped(maps[0], (shapes[0][0], shapes[1][0]), (shapes[0][1], shapes[1][1]))
            found = found if again is None else (again,)
        if isinstance(found, str):
            return found
        self.maps |= {name: own for name, own in zip(mine.outputs, found) if any(own)}
        return None

    def _maps(self, name: str, shape: Sequence[int]) -> Maps:
        return self.maps.get(name, (None,) * len(shape))


@dataclass(frozen=True)
class _Definition:
    """The stages of an operator on inputs `in0`, `in1`, ..., and the tensors that are its results."""

    whole: Workload | None  # None: it gives back its inputs
    results: tuple[str, ...]


@functools.lru_cache(maxsize=1 << 12)
def _definition(operator: str, types: Types, attributes: tuple[tuple[str, Attribute], ...]) -> _Definition:
    tensors = [placeholder(shape, dtype, name=f"in{n}") for n, (shape, dtype) in enumerate(types)]
    made = operators.define(operator, tensors, dict(attributes))
    computed = {t.name: t for t in made if t.stage is not None}
    whole = workload([*tensors, *computed.values()]).check() if computed else None
    return _Definition(whole, tuple(t.name for t in made))


def _compared(small: _Definition, large: _Definition, maps: Sequence[Maps]) -> tuple[Maps, ...] | str:
    """How the axes of the results correspond, given how those of the operands do; or why that is not proved."""
    known: dict[str, Maps] = {f"in{n}": own for n, own in enumerate(maps)}
    if small.results != large.results or (small.whole is None) != (large.whole is None):
        return "it is defined in another way"
    if small.whole is not None and large.whole is not None:
        if [s.name for s in small.whole.stages] != [s.name for s in large.whole.stages]:
            return "it is defined in another way"
        for a, b in zip(small.whole.stages, large.whole.stages):
            found = _stages_compared(a, b, small.whole, large.whole, known)
            if isinstance(found, str):
                return found
            known[a.name] = found
    return tuple(known[name] for name in small.results)


def _stages_compared(a: Stage, b: Stage, small: Workload, large: Workload, known: dict[str, Maps]) -> Maps | str:
    names = [[x.name for x in s.all_axes] for s in (a, b)]
    if names[0] != names[1] or a.reduction != b.reduction or not _corner(a.shape, b.shape):
        return "it is defined in another way"
    for x, y in zip(a.reduce_axes, b.reduce_axes):
        if x.extent != y.extent:
            return f"it combines {x.extent} elements at the one size and {y.extent} at the other"
    if any(any(known[load.tensor]) for load in (*loads(a.body), *loads(b.body))):
        return _walked_along(a, b, known)
    here = replace(b, axes=a.axes)  # on the points that the small one has
    ones = frozenset(x.name for x in a.all_axes if x.extent == 1)
    if a.body is not b.body and not _Alike(ones)(tidied(a).body, tidied(here).body):
        return "its indices depend on the size"
    return _clamped_apart(a, b, small, large) or (None,) * len(a.axes)


def _clamped_apart(a: Stage, b: Stage, small: Workload, large: Workload) -> str | None:
    """Why indices from data are not limited in the same way at both sizes; None if they are."""
    bounds = a.bounds()
    for load in (*loads(a.body), *loads(b.body)):
        extents = [w.buffers[load.tensor].shape for w in (small, large)]
        for index, m, n in zip(load.indices, *extents):
            if m != n and bounds.range(index) is None:
                return f"it looks up indices from data in {m} elements at the one size and {n} at the other"
    return None


def _walked_along(a: Stage, b: Stage, known: dict[str, Maps]) -> Maps | str:
    """How the axes of a stage correspond that reads tensors with axes that are not simply longer.

    Each such axis must be read by one axis of the stage as it is, and that one may be used for nothing else.
    """
    if a.body is not b.body:
        return "its indices depend on the size"
    reduced = {x.name for x in a.reduce_axes}
    found: dict[str, Digits] = {}
    for load in loads(a.body):
        for index, digits in zip(load.indices, known[load.tensor]):
            if isinstance(index, Var):
                if found.setdefault(index.name, digits) != digits:
                    return f"it walks along axis {index.name} in two orders"
            elif digits is not None:
                return "it reads rows that are in another order by a computed index"
    special = {name: digits for name, digits in found.items() if digits is not None}
    if any(name in reduced for name in special) or _occurrences(a.body, special) != _bare(a.body, special):
        return "it uses the number of a row that has another number at the other size"
    if any(_unbounded(index, a) for load in loads(a.body) for index in load.indices):
        return "it looks up indices from data"
    for x, y in zip(a.axes, b.axes):
        if x.name in special and sizes(special[x.name]) != (x.extent, y.extent):
            return "it is defined in another way"
    return tuple(special.get(x.name) for x in a.axes)


def _unbounded(index: Expr, stage: Stage) -> bool:
    return stage.bounds().range(index) is None


def _occurrences(body: Expr, names: Mapping[str, object]) -> int:
    """How many operands in an expression are one of these variables."""
    return sum(isinstance(x, Var) and x.name in names for e in walk(body) for x in e.operands)


def _bare(body: Expr, names: Mapping[str, object]) -> int:
    """How many of them are indices of loads."""
    return sum(isinstance(x, Var) and x.name in names for load in loads(body) for x in load.indices)


class _Alike:
    """Whether two expressions have the same value at every point; the variables in `ones` are always 0 there."""

    def __init__(self, ones: frozenset[str]) -> None:
        self.ones = ones
        self.known: dict[tuple[Expr, Expr], bool] = {}

    def __call__(self, a: Expr, b: Expr) -> bool:
        if a is b:
            return True
        if (a, b) not in self.known:
            self.known[a, b] = self._look(a, b)
        return self.known[a, b]

    def _look(self, a: Expr, b: Expr) -> bool:
        form, other = self._form(a), self._form(b)
        if form is not None and other is not None:
            return a.dtype == b.dtype and form == other
        if type(a) is not type(b) or len(a.operands) != len(b.operands) or isinstance(a, Var):
            return False
        if a.with_operands(b.operands) is not b:  # equal nodes are one object: they differ in more than their operands
            return False
        return all(self(x, y) for x, y in zip(a.operands, b.operands))

    def _form(self, e: Expr) -> tuple[dict[str, int], int] | None:
        """An index as an affine form, without what is always 0."""
        found: Affine | None = affine(e) if e.dtype == "i64" else None
        return None if found is None else ({v: k for v, k in found.terms.items() if v not in self.ones}, found.offset)


def _corner(small: Sequence[int], large: Sequence[int]) -> bool:
    return len(small) == len(large) and all(a <= b for a, b in zip(small, large))


def _constant_corner(a: _Known, b: _Known) -> bool:
    if a.dtype != b.dtype or not _corner(a.shape, b.shape):
        return False
    if a.shape == b.shape:
        return a.digest == b.digest
    if a.array is None or b.array is None:
        return False
    corner: Any = b.array[tuple(slice(n) for n in a.shape)]
    return np.ascontiguousarray(corner).tobytes() == np.ascontiguousarray(a.array).tobytes()
