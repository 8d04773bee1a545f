"""Features of a whole population at once: of candidates of many structures, even of several sketches.

    structures  ->  statements of one template together (`templates.py`)  ->  the numbers in their blanks, a column per candidate
    ->  footprints  ->  bodies, back in each program  ->  features, a row per statement

What a structure costs is a few indices. The first time that it is seen it costs a lowering as well.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tensorsmith.backends.cpu.features.analysis import Analysis
from tensorsmith.backends.cpu.features.extract import fill
from tensorsmith.backends.cpu.features.numbers import Array, Integer, Num
from tensorsmith.backends.cpu.features.schema import SCHEMA
from tensorsmith.backends.cpu.features.statement import Statement
from tensorsmith.backends.cpu.features.symbol import Graph
from tensorsmith.backends.cpu.features.templates import Filled, Structure, Template, Templates
from tensorsmith.backends.cpu.memory import spacing
from tensorsmith.backends.cpu.rates import DEFAULT, Machine
from tensorsmith.backends.cpu.target import CpuTarget
from tensorsmith.learn.features.rows import Batch, FeatureMatrix, FeatureRows, Section
from tensorsmith.program.layout import Spacing

_MOST_DIFFERENT = 0.8  # share of the rows: above it looking for equal ones is not worth it


@functools.cache
def templates(given: Spacing) -> Templates:
    """What was seen so far, by how memory is laid out: targets that agree in that share it."""
    return Templates(given)


def extract_groups(groups: Sequence[Batch], target: CpuTarget, machine: Machine = DEFAULT) -> list[FeatureMatrix]:
    """The features of every group: candidates of one structure, as `extract_decisions` gives them."""
    return extract_rows(groups, target, machine).matrices()


def extract_rows(groups: Sequence[Batch], target: CpuTarget, machine: Machine = DEFAULT) -> FeatureRows:
    """The features of all candidates of all groups, statement by statement: what a model wants."""
    if not groups:
        return FeatureRows(np.empty((0, len(SCHEMA)), np.float32), np.empty(0, np.int64), 0, (), SCHEMA)
    seen = templates(spacing(target))
    seen.make_room()
    structures = [seen.of(sketch) for sketch, _ in groups]
    columns = _Columns(seen.graph, structures, [decisions for _, decisions in groups])
    merged: dict[int, _Merged] = {}
    for g, structure in enumerate(structures):
        for one in structure.statements:
            merged.setdefault(id(one.template), _Merged(one.template)).add(g, one, columns.sizes[g])
    analysis = Analysis(target, machine)
    for m in merged.values():
        m.align(columns)
        m.statement = m.build(columns)
        analysis.footprints(m.statement)
        m.touch(analysis.line)
    _exchange(structures, list(merged.values()), columns.count)
    count = sum(m.size for m in merged.values())
    values = np.zeros((len(SCHEMA), count), np.float32)
    candidate = np.empty(count, np.int64)
    start = 0
    for m in merged.values():
        analysis.describe(m.statement)
        here = values[:, start : start + m.size]
        fill(here, m.statement.values, m.share)
        fill(here, analysis.traffic(m.statement, m.bodies(), m.spread))
        candidate[start : start + m.size] = m.rows
        m.start = start
        start += m.size
    found = []
    for g, structure in enumerate(structures):
        first = tuple(merged[id(s.template)].place(g, s) for s in structure.statements)
        found.append(Section(structure.stages, first, columns.sizes[g]))
    return FeatureRows(values.T, candidate, columns.count, tuple(found), SCHEMA)


class _Columns:
    """The decisions of all candidates, and what symbols come to."""

    def __init__(self, graph: Graph, structures: Sequence[Structure], decisions: Sequence[Mapping[str, Integer]]) -> None:
        self.graph = graph
        self.sizes = [max((len(v) for v in d.values() if isinstance(v, np.ndarray) and v.ndim), default=1) for d in decisions]
        self.starts = np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.int64)
        self.count = int(self.starts[-1])
        holes: dict[str, Array] = {}
        for start, stop, one in zip(self.starts.tolist(), self.starts[1:].tolist(), decisions):
            for hole, value in one.items():
                if hole not in holes:
                    holes[hole] = np.ones(self.count)  # any number does for candidates without the hole
                holes[hole][start:stop] = value
        self.holes = {hole: value.astype(np.int64) for hole, value in holes.items()}
        used = np.zeros(len(graph.nodes), bool)
        used[np.concatenate([s.nodes for x in structures for s in x.statements])] = True
        wanted = np.flatnonzero(used)
        self.position = np.cumsum(used) - 1  # of a node among those that are used
        self.values = np.empty((len(wanted), self.count))
        found = graph.evaluate(wanted.tolist(), holes)
        for n, node in enumerate(wanted.tolist()):
            self.values[n] = found[node]


@dataclass(eq=False)
class _Merged:
    """Statements of one template, over all groups."""

    template: Template
    statement: Statement = field(init=False)  # of candidates that differ
    members: list[tuple[int, Filled]] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    places: dict[tuple[int, int], int] = field(default_factory=dict)  # by group and statement: its first row here
    size: int = 0
    outer: int = 0
    loops: Array = field(init=False)  # around a statement of a candidate, as a place in a table of all candidates
    around: Array = field(init=False)  # bytes of lines that a step of these touches
    start: int = 0  # among the rows of all

    def add(self, group: int, one: Filled, size: int) -> None:
        self.places[group, id(one)] = self.size
        self.members.append((group, one))
        self.sizes.append(size)
        self.size += size
        self.outer = max(self.outer, len(one.path) - 1)

    def place(self, group: int, one: Filled) -> int:
        return self.start + self.places[group, id(one)]

    def align(self, columns: _Columns) -> None:
        """Finds the member and the candidate of every row, and rows that differ in nothing that this statement depends on."""
        self.which: Array = np.repeat(np.arange(len(self.members)), self.sizes)
        first = np.cumsum([0, *self.sizes[:-1]])
        begins = columns.starts[[g for g, _ in self.members]]
        self.rows: Array = np.arange(self.size) + (begins - first)[self.which]
        variants: dict[bytes, int] = {}
        variant = np.array([variants.setdefault(one.nodes.tobytes(), len(variants)) for _, one in self.members])
        code = variant[self.which]  # equal where rows are
        most = len(variants)
        for hole in sorted(frozenset.union(*(one.holes for _, one in self.members))):
            needed = np.array([hole in one.holes for _, one in self.members])
            value = columns.holes[hole]
            high = int(value.max()) + 1
            if most * high >= 1 << 62:
                code = np.unique(code, return_inverse=True)[1]
                most = int(code.max()) + 1
            code = code * high + value[self.rows] * needed[self.which]
            most *= high
        _, different, share = np.unique(code, return_index=True, return_inverse=True)
        self.different: Array | slice = slice(None)  # a row of each kind
        self.share: Array | None = None  # by row: which of these it is like; None where most are different
        if len(different) < _MOST_DIFFERENT * self.size:
            self.different, self.share = different, share

    def spread(self, value: Any) -> Any:
        """A number of the rows that differ as a number of all rows."""
        return value if self.share is None or np.ndim(value) == 0 else value.take(self.share, mode="clip")

    def build(self, columns: _Columns) -> Statement:
        """The statement with the numbers of every row that differs from others."""
        nodes = np.tile(np.array(self.template.absent), (len(self.members), 1))
        for n, (_, one) in enumerate(self.members):
            nodes[n, : len(one.nodes)] = one.nodes
        which, rows = self.which[self.different], self.rows[self.different]
        graph = columns.graph
        same = (nodes == nodes[0]).all(axis=0)
        numbers: list[Num] = []
        for c, node in enumerate(nodes[0].tolist()):
            if not same[c]:
                place = columns.position[nodes[:, c]] * columns.count
                numbers.append(columns.values.take(place[which] + rows, mode="clip"))
            elif (known := graph.number(node)) is not None:
                numbers.append(known)
            else:
                numbers.append(columns.values[columns.position[node]].take(rows, mode="clip"))
        return self.template.statement(numbers, self.outer)

    def touch(self, line: float) -> None:
        """Bytes of lines that each access touches, in the whole program and in a step of each loop around."""
        live = [a for a in self.statement.accesses if not a.held]
        self.touched: Array = np.empty((len(live), self.outer + 1, self.size))
        for n, access in enumerate(live):
            for k in range(self.outer + 1):
                self.touched[n, k] = self.spread(access.lines[k])
        self.touched *= line
        inside = range(self.outer + 1, len(self.statement.nested.levels) + 1)
        self.inside: list[Num] = [self.spread(sum((a.lines[k] for a in live), 0.0) * line) for k in inside]

    def bodies(self) -> list[Num]:
        return [*self.around, *self.inside]


def _exchange(structures: Sequence[Structure], merged: Sequence[_Merged], candidates: int) -> None:
    """Finds what all statements of each program together touch in each loop."""
    loops = 1 + max(max(s.path) for x in structures for s in x.statements)
    buffers = 1 + max(max(s.buffers, default=0) for x in structures for s in x.statements)
    together = np.zeros((buffers, loops, candidates))
    flat = together.reshape(-1)
    for m in merged:
        # loops that a structure does not have stand for the whole program
        paths = np.array([(0,) * (m.outer + 1 - len(s.path)) + s.path for _, s in m.members]).T
        m.loops = paths[:, m.which] * candidates + m.rows
        for n, lines in enumerate(m.touched):
            buffer = np.array([s.buffers[n] for _, s in m.members]) * (loops * candidates)
            at = m.loops + buffer[m.which]
            flat[at] = np.maximum(flat[at], lines)
    total = together.sum(axis=0).reshape(-1)
    for m in merged:
        m.around = total[m.loops]
