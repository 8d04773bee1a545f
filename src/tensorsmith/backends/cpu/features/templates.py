"""Statements with blanks for their numbers, so that statements of many structures can be worked out as one.

Loops around a block are numbered from the block outwards (-1 is the innermost), those in it from 0. A `Template` is what is left
that cannot be a number: what is computed, the kinds of loops in the block, which accesses there are. All else goes into *blanks*:
steps of loop -2, elements that it moves the second access by, ... A structure that lacks a blank has a number in it that means
so: a loop of one step is as good as none, wherever it is.

    for i: for j: block(k, lanes j)      template (sum of products; reduce, lanes; store, read, read)
    for j: for i: block(k, lanes j)      the same template; loops -1 and -2 have changed their numbers
    for j: block(k, lanes j)             the same template; loop -2 has one step
"""

from __future__ import annotations

import functools
import operator
import weakref
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from tensorsmith.backends.cpu.features.access import Access, Dimension
from tensorsmith.backends.cpu.features.nest import Level, Nested
from tensorsmith.backends.cpu.features.numbers import Array, Num
from tensorsmith.backends.cpu.features.operations import operations
from tensorsmith.backends.cpu.features.statement import Statement, statements
from tensorsmith.backends.cpu.features.statement_keys import StatementKeys
from tensorsmith.backends.cpu.features.symbol import Graph, Symbol
from tensorsmith.lang.workload import Stage
from tensorsmith.program.flags import Flag, flag
from tensorsmith.program.layout import Spacing
from tensorsmith.program.lower import lower_decisions
from tensorsmith.space.sketch.sketch import Sketch

Blank = tuple[Any, ...]
_MOST = 8192  # different statements remembered, some kilobytes each


class _AccessTemplate(NamedTuple):
    write: bool
    element: float
    held: bool
    loose: frozenset[int]  # dimensions, the last one is -1
    flats: int
    skipped: frozenset[int]


@dataclass(eq=False)
class Template:
    """What statements have in common that are worked out as one, and a column for each of their blanks."""

    body: Stage  # one that computes the same
    inner: tuple[tuple[str, bool], ...]  # loops in the block: kind, whether over a reduction
    held: bool
    accesses: tuple[_AccessTemplate, ...]
    lane_bytes: int  # of the elements that vectors are counted in
    masks: int = 0  # the most that a structure has
    dimensions: list[int] = field(default_factory=list)  # by access: the most that a structure has
    columns: dict[Blank, int] = field(default_factory=dict)
    absent: list[int] = field(default_factory=list)  # by column: the node of a structure without the blank

    def statement(self, numbers: list[Num], outer: int) -> Statement:
        """The statement with a number in every column and `outer` loops around the block."""

        def get(*blank: Any) -> Num:
            return numbers[self.columns[blank]]

        def truth(*blank: Any) -> Flag:
            if blank not in self.columns:
                return False
            value = numbers[self.columns[blank]]
            return value > 0.5 if isinstance(value, np.ndarray) else bool(value)

        loops: dict[tuple[Any, ...], dict[str, Num]] = {}  # coefficients by what they are of
        spots: dict[int, dict[str, Flag]] = {}
        for blank in self.columns:
            if blank[0] in ("moves", "flat", "mask"):
                coefficient = get(*blank)
                if not isinstance(coefficient, float) or coefficient:  # else no statement at hand has it
                    loops.setdefault(blank[:-1], {})[str(blank[-1])] = coefficient
            elif blank[0] == "at":
                spots.setdefault(blank[1], {})[blank[2]] = truth(*blank)
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
            self.lane_bytes,
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
            accesses.append(
                Access(
                    str(a),
                    packed,
                    x.write,
                    x.element,
                    dimensions,
                    flats,
                    gathered,
                    skipped,
                    x.held,
                    get("span", a),
                    shared,
                    partners,
                )
            )
        return Statement(nested, accesses)


@dataclass(frozen=True)
class _Traced:
    """A statement in any structure that has it."""

    template: Template
    nodes: Array  # by column
    holes: frozenset[str]  # that the nodes depend on
    loops: tuple[str, ...]  # around it
    buffers: tuple[str, ...]  # that it touches in memory


@dataclass(frozen=True)
class Filled:
    """A statement of a structure: its template, the nodes of its blanks, and where it is in the program."""

    template: Template
    nodes: Array
    holes: frozenset[str]
    path: tuple[int, ...]  # numbers of the loops around it in the structure, after 0 for the whole program
    buffers: tuple[int, ...]  # numbers of the buffers


@dataclass(frozen=True)
class Structure:
    """All statements of a structure."""

    stages: tuple[str, ...]  # that the statements compute, in the order they run
    statements: tuple[Filled, ...]


class Templates:
    """Remembers structures as long as they live, and their statements; a structure with a statement never seen costs a lowering."""

    def __init__(self, spacing: Spacing) -> None:
        self.spacing = spacing  # of the memory that the programs have for themselves
        self.forget()

    def forget(self) -> None:
        self.graph = Graph()
        # by identity: a population's sketches are shared, and slow to compare. Those of a search are of no use after it
        self._structures: dict[int, tuple[weakref.ref[Sketch], Structure]] = {}
        self._templates: dict[Any, Template] = {}
        self._keys = StatementKeys()
        self._traced: dict[int, _Traced] = {}  # by key

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
        keys = self._keys.of(sketch)
        new = frozenset(stage for stage, key in keys.items() if key not in self._traced)
        if new:
            holes: dict[str, Any] = {h: self.graph.hole(h) for h in sketch.holes}
            for s in statements(lower_decisions(sketch, holes), self.spacing, holes, new):
                self._traced[keys[s.nested.stage]] = self._template(s)
        loops: dict[str, int] = {}
        buffers: dict[str, int] = {}
        found = []
        for key in keys.values():
            t = self._traced[key]
            path = (0, *(loops.setdefault(name, len(loops) + 1) for name in t.loops))
            touched = tuple(buffers.setdefault(name, len(buffers)) for name in t.buffers)
            found.append(Filled(t.template, t.nodes, t.holes, path, touched))
        return Structure(tuple(keys), tuple(found))

    def _template(self, s: Statement) -> _Traced:
        nested = s.nested
        blanks: dict[Blank, Any] = {
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
            blanks[("count", n)], blanks[("trips", n)] = level.count, level.trips
            blanks[("laid_out", n)] = level.laid_out
            blanks |= {("at", n, position): True for position in level.positions}
            if n < 0:
                blanks[("parallel", n)] = level.parallel
            else:
                blanks[("length", n)] = level.length
        for k, mask in enumerate(nested.masks):
            blanks |= {("mask", k, place[loop]): c for loop, c in mask.items() if loop in place}
        for a, access in enumerate(s.accesses):
            blanks[("shared", a)], blanks[("partners", a)] = access.shared - nested.outer, access.partners
            blanks[("gathered", a)], blanks[("packed", a)], blanks[("span", a)] = access.gathered, access.packed, access.span
            for d, dim in enumerate(access.dimensions, -len(access.dimensions)):
                blanks |= {("extent", a, d): dim.extent, ("spread", a, d): dim.spread, ("offsets", a, d): dim.offsets}
                blanks |= {("moves", a, d, place[loop]): c for loop, c in dim.coefficients.items() if loop in place}
            for f, flat in enumerate(access.flats):
                blanks |= {("flat", a, f, place[loop]): c for loop, c in flat.items() if loop in place}
        template = self._find(s, place)
        template.masks = max(template.masks, len(nested.masks))
        template.dimensions = [max(n, len(x.dimensions)) for n, x in zip(template.dimensions, s.accesses)]
        for blank in blanks:
            if blank not in template.columns:
                template.columns[blank] = len(template.columns)
                template.absent.append(self.graph.constant(_absent(blank)))
        nodes = list(template.absent)
        for blank, value in blanks.items():
            nodes[template.columns[blank]] = self._node(value)
        loops = tuple(level.name for level in nested.around)
        live = tuple(x.name for x in s.accesses if not x.held)
        depends = functools.reduce(operator.or_, (self.graph.depends[n] for n in nodes))
        holes = frozenset(hole for hole, bit in self.graph.holes.items() if depends >> bit & 1)
        return _Traced(template, np.array(nodes), holes, loops, live)

    def _node(self, value: Any) -> int:
        return value.node if isinstance(value, Symbol) else self.graph.constant(float(value))

    def _find(self, s: Statement, place: dict[str, int]) -> Template:
        nested = s.nested
        inner = tuple((x.kind, x.reduce) for x in nested.levels[nested.outer :])
        accesses = tuple(
            _AccessTemplate(
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
        lanes = nested.lane_bytes
        computed = tuple(operations(body, nested.group_steps).values())
        parts = (computed, body.reduction is not None, body.dtype, inner, nested.held, accesses, lanes)
        found = self._templates.get(parts)
        if found is None:
            found = self._templates[parts] = Template(body, inner, nested.held, accesses, lanes, dimensions=[0] * len(accesses))
        return found


def _absent(blank: Blank) -> float:
    """The number that means that there is no such loop or dimension."""
    return 1.0 if blank[0] in ("count", "trips", "extent", "offsets") else 0.0
