"""A structure's statements with their numbers taken out, so that statements of many structures can be worked out as one.

Loops around a block are numbered from the block outwards (-1 is the innermost), those in it from 0. An `Outline` is what is left
that cannot be a number: what is computed, the kinds of loops in the block, which accesses there are. All else is in *slots*: steps
of loop -2, elements that it moves the second access by, ... A structure that lacks a slot has a number in it that means so: a
loop of one step is as good as none, wherever it is.

    for i: for j: block(k, lanes j)      outline (sum of products; reduce, lanes; store, read, read)
    for j: for i: block(k, lanes j)      the same outline; loops -1 and -2 have changed their numbers
    for j: block(k, lanes j)             the same outline; loop -2 has one step
"""

from __future__ import annotations

import functools
import operator
import weakref
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from tensorsmith.backends.cpu.features.access import Access, Dimension
from tensorsmith.backends.cpu.features.context import Contexts
from tensorsmith.backends.cpu.features.extract import Statement, structure
from tensorsmith.backends.cpu.features.nest import Array, Flag, Level, Nested, Num, flag
from tensorsmith.backends.cpu.features.operations import operations
from tensorsmith.backends.cpu.features.symbol import Graph, Symbol
from tensorsmith.lang.workload import Stage
from tensorsmith.program.lower import lower_decisions
from tensorsmith.space.sketch.sketch import Sketch

Slot = tuple[Any, ...]
_MOST = 8192  # different statements remembered, some kilobytes each


class _AccessOutline(NamedTuple):
    write: bool
    element: float
    held: bool
    loose: frozenset[int]  # dimensions, the last one is -1
    flats: int
    skipped: frozenset[int]


@dataclass(eq=False)
class Outline:
    """What statements have in common that are worked out as one, and a column for each of their slots."""

    body: Stage  # one that computes the same
    inner: tuple[tuple[str, bool], ...]  # loops in the block: kind, whether over a reduction
    held: bool
    accesses: tuple[_AccessOutline, ...]
    masks: int = 0  # the most that a structure has
    dimensions: list[int] = field(default_factory=list)  # by access: the most that a structure has
    columns: dict[Slot, int] = field(default_factory=dict)
    absent: list[int] = field(default_factory=list)  # by column: the node of a structure without the slot

    def statement(self, numbers: list[Num], outer: int) -> Statement:
        """The statement with a number in every column and `outer` loops around the block."""

        def get(*slot: Any) -> Num:
            return numbers[self.columns[slot]]

        def truth(*slot: Any) -> Flag:
            if slot not in self.columns:
                return False
            value = numbers[self.columns[slot]]
            return value > 0.5 if isinstance(value, np.ndarray) else bool(value)

        loops: dict[tuple[Any, ...], dict[str, Num]] = {}  # coefficients by what they are of
        spots: dict[int, dict[str, Flag]] = {}
        for slot in self.columns:
            if slot[0] in ("moves", "flat", "mask"):
                coefficient = get(*slot)
                if not isinstance(coefficient, float) or coefficient:  # else no statement at hand has it
                    loops.setdefault(slot[:-1], {})[str(slot[-1])] = coefficient
            elif slot[0] == "at":
                spots.setdefault(slot[1], {})[slot[2]] = truth(*slot)
        levels = []
        for n in range(-outer, len(self.inner)):
            kind, reduce = self.inner[n] if n >= 0 else ("outer", False)
            count = get("count", n)
            length = get("length", n) if n >= 0 else 0.0
            several = flag(count > 1)
            parallel, laid_out = truth("parallel", n), truth("laid_out", n)
            trips = get("trips", n)
            levels.append(Level(str(n), "", "", kind, reduce, count, several, trips, length, spots[n], parallel, laid_out))
        nested = Nested(
            self.body,
            tuple(levels),
            outer,
            get("outside") + outer,
            truth("root"),
            self.held,
            get("exists"),
            get("elements"),
            get("unroll"),
            truth("again"),
            tuple(loops.get(("mask", n), {}) for n in range(self.masks)),
        )
        accesses = []
        for a, x in enumerate(self.accesses):
            dimensions = [
                Dimension(
                    get("extent", a, d), loops.get(("moves", a, d), {}), d in x.loose, get("spread", a, d), get("offsets", a, d)
                )
                for d in range(-self.dimensions[a], 0)
            ]
            flats = [loops.get(("flat", a, f), {}) for f in range(x.flats)]
            skipped = frozenset(map(str, x.skipped))
            packed, gathered = truth("packed", a), truth("gathered", a)
            shared, partners = get("shared", a) + outer, get("partners", a)
            access = Access(str(a), packed, x.write, x.element, dimensions, flats, gathered, skipped, x.held, shared, partners)
            accesses.append(access)
        return Statement(nested, accesses)


@dataclass(frozen=True)
class _Traced:
    """A statement in any structure that has it."""

    outline: Outline
    nodes: Array  # by column
    holes: frozenset[str]  # that the nodes depend on
    loops: tuple[str, ...]  # around it
    buffers: tuple[str, ...]  # that it touches in memory


@dataclass(frozen=True)
class Outlined:
    """A statement of a structure: its outline, the nodes of its slots, and where it is in the program."""

    outline: Outline
    nodes: Array
    holes: frozenset[str]
    path: tuple[int, ...]  # numbers of the loops around it in the structure, after 0 for the whole program
    buffers: tuple[int, ...]  # numbers of the buffers


@dataclass(frozen=True)
class Structure:
    """All statements of a structure."""

    blocks: tuple[str, ...]
    statements: tuple[Outlined, ...]


class Outlines:
    """Remembers structures as long as they live, and their statements; a structure with a statement never seen costs a lowering."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self.graph = Graph()
        # by identity: a population's sketches are shared, and slow to compare. Those of a search are of no use after it
        self._structures: dict[int, tuple[weakref.ref[Sketch], Structure]] = {}
        self._outlines: dict[Any, Outline] = {}
        self._contexts = Contexts()
        self._traced: dict[int, _Traced] = {}  # by context

    def make_room(self) -> None:
        """To be called between populations only: what structures of one refer to must stay until they are worked out."""
        if len(self._traced) > _MOST:
            self.forget()

    def of(self, sketch: Sketch) -> Structure:
        key = id(sketch)
        found = self._structures.get(key)
        if found is None:
            structures = self._structures
            gone = weakref.ref(sketch, lambda _: structures.pop(key, None))
            found = structures[key] = gone, self._trace(sketch)
        return found[1]

    def _trace(self, sketch: Sketch) -> Structure:
        contexts = self._contexts.of(sketch)
        new = frozenset(stage for stage, context in contexts.items() if context not in self._traced)
        if new:
            holes: dict[str, Any] = {h: self.graph.hole(h) for h in sketch.holes}
            for s in structure(lower_decisions(sketch, holes), holes, new):
                self._traced[contexts[s.nested.stage]] = self._outline(s)
        loops: dict[str, int] = {}
        buffers: dict[str, int] = {}
        found = []
        for context in contexts.values():
            t = self._traced[context]
            path = (0, *(loops.setdefault(name, len(loops) + 1) for name in t.loops))
            touched = tuple(buffers.setdefault(name, len(buffers)) for name in t.buffers)
            found.append(Outlined(t.outline, t.nodes, t.holes, path, touched))
        return Structure(tuple(contexts), tuple(found))

    def _outline(self, s: Statement) -> _Traced:
        nested = s.nested
        slots: dict[Slot, Any] = {
            ("outside",): nested.outside - nested.outer,
            ("exists",): nested.exists,
            ("elements",): nested.elements,
            ("unroll",): nested.unroll,
            ("again",): nested.again,
            ("root",): nested.root,
        }
        place = {level.name: n - nested.outer for n, level in enumerate(nested.levels)}
        for level in nested.levels:
            n = place[level.name]
            slots[("count", n)], slots[("trips", n)] = level.count, level.trips
            slots[("laid_out", n)] = level.laid_out
            slots |= {("at", n, position): True for position in level.positions}
            if n < 0:
                slots[("parallel", n)] = level.parallel
            else:
                slots[("length", n)] = level.length
        for k, mask in enumerate(nested.masks):
            slots |= {("mask", k, place[loop]): c for loop, c in mask.items() if loop in place}
        for a, access in enumerate(s.accesses):
            slots[("shared", a)], slots[("partners", a)] = access.shared - nested.outer, access.partners
            slots[("gathered", a)], slots[("packed", a)] = access.gathered, access.packed
            for d, dim in enumerate(access.dimensions, -len(access.dimensions)):
                slots |= {("extent", a, d): dim.extent, ("spread", a, d): dim.spread, ("offsets", a, d): dim.offsets}
                slots |= {("moves", a, d, place[loop]): c for loop, c in dim.coefficients.items() if loop in place}
            for f, flat in enumerate(access.flats):
                slots |= {("flat", a, f, place[loop]): c for loop, c in flat.items() if loop in place}
        outline = self._find(s, place)
        outline.masks = max(outline.masks, len(nested.masks))
        outline.dimensions = [max(n, len(x.dimensions)) for n, x in zip(outline.dimensions, s.accesses)]
        for slot in slots:
            if slot not in outline.columns:
                outline.columns[slot] = len(outline.columns)
                outline.absent.append(self.graph.constant(_absent(slot)))
        nodes = list(outline.absent)
        for slot, value in slots.items():
            nodes[outline.columns[slot]] = self._node(value)
        loops = tuple(level.name for level in nested.around)
        live = tuple(x.name for x in s.accesses if not x.held)
        depends = functools.reduce(operator.or_, (self.graph.depends[n] for n in nodes))
        holes = frozenset(hole for hole, bit in self.graph.holes.items() if depends >> bit & 1)
        return _Traced(outline, np.array(nodes), holes, loops, live)

    def _node(self, value: Any) -> int:
        return value.node if isinstance(value, Symbol) else self.graph.constant(float(value))

    def _find(self, s: Statement, place: dict[str, int]) -> Outline:
        nested = s.nested
        inner = tuple((x.kind, x.reduce) for x in nested.levels[nested.outer :])
        accesses = tuple(
            _AccessOutline(
                x.write,
                x.element,
                x.held,
                frozenset(n - len(x.dimensions) for n, d in enumerate(x.dimensions) if d.loose),
                len(x.flats),
                frozenset(place[n] for n in x.skipped if n in place),
            )
            for x in s.accesses
        )
        body = nested.body
        parts = (tuple(operations(body).values()), body.reduction is not None, body.dtype, inner, nested.held, accesses)
        found = self._outlines.get(parts)
        if found is None:
            found = self._outlines[parts] = Outline(body, inner, nested.held, accesses, dimensions=[0] * len(accesses))
        return found


def _absent(slot: Slot) -> float:
    """The number that means that there is no such loop or dimension."""
    return 1.0 if slot[0] in ("count", "trips", "extent", "offsets") else 0.0
