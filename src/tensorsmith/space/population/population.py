"""Populations: candidates as rows of integers, a matrix for each sketch.

A `Plan` says what the columns of a sketch's matrix are: first its open numbers (tile sizes, parallel, unroll), then its
choices, whose values are numbers of options. A hole that a row's structure does not have (the sizes of a stage that is inlined)
holds the column's `idle` value, so that equal candidates are equal rows.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.workload import Workload
from tensorsmith.show.line import line, many
from tensorsmith.space.derive import derive
from tensorsmith.space.holes.kind import Array, Column, Matrix
from tensorsmith.space.holes.registry import choice_kind, number_kind
from tensorsmith.space.population.embed import Point, equivalent, exact
from tensorsmith.space.population.geometry import Geometry
from tensorsmith.space.rules.base import Rule
from tensorsmith.space.sketch.sketch import Candidate, Sketch
from tensorsmith.space.tactics import Tactics
from tensorsmith.targets.target import Target


@dataclass(frozen=True)
class Group:
    """Rows of one structure, ready to be lowered as one: `lower_decisions(group.sketch, group.decisions)`."""

    options: Mapping[str, int]
    rows: Array  # their numbers in the matrix
    sketch: Sketch  # resolved
    decisions: Mapping[str, Array]


@dataclass(frozen=True)
class Population:
    """Rows of one sketch of a space."""

    plan: int  # the number of the sketch
    matrix: Matrix

    def __len__(self) -> int:
        return len(self.matrix)

    def __repr__(self) -> str:
        return line(self, f"of sketch {self.plan}: {many(len(self), 'row')}")

    def take(self, rows: Array) -> Population:
        return Population(self.plan, self.matrix[rows])


@dataclass(frozen=True, eq=False)
class Plan:
    """The columns of a sketch's matrix."""

    sketch: Sketch  # open
    tactics: Tactics
    _resolved: dict[tuple[int, ...], Sketch] = field(default_factory=dict)

    def __repr__(self) -> str:
        return line(self, repr(self.sketch))

    @functools.cached_property
    def columns(self) -> tuple[Column, ...]:
        """Open numbers in the order of the sketch's holes, then choices."""
        return (*(number_kind(h.kind).column(self, h) for h in self.sketch.numbers), *self.choices)

    @functools.cached_property
    def choices(self) -> tuple[Column, ...]:
        return tuple(Column(c.hole, c.kind, c.stage, 0, len(c.options) - 1, options=c.options, idle=0) for c in self.sketch.choices)

    @functools.cached_property
    def names(self) -> dict[str, int]:
        """The column of each hole."""
        return {h: n for n, h in enumerate((*self.sketch.holes, *(c.hole for c in self.sketch.choices)))}

    @functools.cached_property
    def geometry(self) -> Geometry:
        return Geometry(self.sketch, self.names)

    @functools.cached_property
    def axes(self) -> Array:
        """By column: a number for the axis of a size, that of its first column; -1 for other holes."""
        first: dict[tuple[str, str], int] = {}
        found = [first.setdefault((c.stage, c.loop.axis), n) if c.loop is not None else -1 for n, c in enumerate(self.columns)]
        return np.array(found, np.int64)

    @functools.cached_property
    def lanes(self) -> Array:
        """By column: elements of a vector, for the size of a loop in lanes; 1 for other holes."""
        return np.array([self.lanes_of(c.stage) if c.vector else 1 for c in self.columns], np.int64)

    def lanes_of(self, stage: str) -> int:
        """Elements of a stage in a vector."""
        return self.tactics.lanes(dtype(self.geometry.stages[stage].dtype).lane_bytes)

    @functools.cached_property
    def logarithmic(self) -> Array:
        """By column: whether 1 and 2 are as far apart as 8 and 16."""
        kinds = [number_kind(c.kind).logarithmic for c in self.columns[: self.numbers]]
        return np.array(kinds + [False] * len(self.choices), bool)

    @functools.cached_property
    def places(self) -> list[int]:
        """The columns that say where one stage is computed."""
        return [n for n, c in enumerate(self.choices, self.numbers) if choice_kind(c.kind).places]

    @functools.cached_property
    def numbers(self) -> int:
        """How many columns are open numbers; the rest are choices."""
        return len(self.sketch.holes)

    @functools.cached_property
    def low(self) -> Matrix:
        return np.array([c.low for c in self.columns], np.int32)

    @functools.cached_property
    def high(self) -> Matrix:
        return np.array([c.high for c in self.columns], np.int32)

    # -- rows and candidates ---------------------------------------------------------------------------------------

    def options(self, row: Array) -> dict[str, int]:
        return {c.hole: int(row[self.names[c.hole]]) for c in self.choices}

    def resolve(self, row: Array) -> Sketch:
        """The structure of a row."""
        return self._resolve(self.options(row))

    def _resolve(self, options: Mapping[str, int]) -> Sketch:
        key = tuple(options[c.hole] for c in self.sketch.choices)
        if key not in self._resolved:
            self._resolved[key] = self.sketch.resolve(options)
        return self._resolved[key]

    def candidate(self, row: Array) -> Candidate:
        """The candidate that a row stands for."""
        sketch = self.resolve(row)
        return Candidate(sketch, {h: int(row[self.names[h]]) for h in sketch.holes})

    def row(self, candidate: Candidate) -> Array | None:
        """The row of a candidate, if it is a point of this sketch: found by its stages, axes and loops, whatever made it."""
        row = self._exact(candidate)
        return row if row is not None else self._equivalent(candidate)

    def _exact(self, candidate: Candidate) -> Array | None:
        return self._at(exact(self.sketch, candidate, self._resolve))

    def _equivalent(self, candidate: Candidate) -> Array | None:
        return self._at(equivalent(self.sketch, candidate, self._resolve))

    def _at(self, point: Point | None) -> Array | None:
        if point is None:
            return None
        values = {**point[0], **point[1]}
        return np.array([values.get(c.hole, c.idle) for c in self.columns], np.int32)

    def structures(self, matrix: Matrix) -> Array:
        """A number for the structure of each row: equal where the structures are."""
        code = np.zeros(len(matrix), np.int64)
        for n in range(self.numbers, len(self.columns)):
            code = code * (self.columns[n].high + 1) + matrix[:, n]
        return code

    def groups(self, matrix: Matrix) -> list[Group]:
        """The rows, those of one structure together."""
        if not len(matrix):
            return []
        _, first, inverse = np.unique(self.structures(matrix), return_index=True, return_inverse=True)
        order = np.argsort(inverse, kind="stable")
        bounds = np.cumsum(np.bincount(inverse))[:-1]
        found = []
        for one, rows in zip(first, np.split(order, bounds)):
            sketch = self.resolve(matrix[one])
            decisions = {h: matrix[rows, self.names[h]].astype(np.int64) for h in sketch.holes}
            found.append(Group(self.options(matrix[one]), rows, sketch, decisions))
        return found


class Space:
    """All candidates of a workload on a target: a plan for each sketch that the rules derive.

    `backends.space_of` makes one with the rules and tactics of the target's backend.
    """

    def __init__(self, workload: Workload, target: Target, rules: Sequence[Rule], tactics: Tactics) -> None:
        self.workload, self.target, self.rules, self.tactics = workload, target, tuple(rules), tactics
        self.plans = tuple(Plan(s, tactics) for s in derive(workload, target, rules))

    def __repr__(self) -> str:
        return line(self, f"of {self.workload.title} on {self.target.key}: {many(len(self.plans), 'sketch plan')}")

    def like(self, workload: Workload) -> Space:
        """The space of another workload, by the same rules on the same target."""
        return Space(workload, self.target, self.rules, self.tactics)

    def candidates(self, populations: Sequence[Population]) -> Iterator[Candidate]:
        for p in populations:
            for row in p.matrix:
                yield self.plans[p.plan].candidate(row)

    def find(self, candidate: Candidate) -> tuple[int, Array] | None:
        """The sketch and the row of a candidate, if it is a point of this space."""
        for find in (Plan._exact, Plan._equivalent):  # the latter takes long: first all sketches without it
            for number, plan in enumerate(self.plans):
                row = find(plan, candidate)
                if row is not None:
                    return number, row
        return None


def unique(matrix: Matrix) -> Matrix:
    """Each row once, in the order in which they come."""
    if not len(matrix):
        return matrix
    rows = np.ascontiguousarray(matrix)
    whole = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
    _, first = np.unique(whole, return_index=True)
    return rows[np.sort(first)]
