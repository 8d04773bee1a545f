"""Spaces made of knobs: a schedule that is fixed but for some numbers, each with a list of values (AutoTVM's templates,
FlexTensor).

    tile_x   (-1, 1, 1)  (-1, 1, 2)  (-1, 2, 1)  ...      how an axis of 512 is split in three; -1 is what is left
    unroll   (0,)  (1,)

A *point* has the number of a value for each knob; points are numbered, the first knob counting fastest. A point becomes a row of
the one sketch that the schedule has, and so a candidate like any other.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tensorsmith.space.holes.kind import Array, Matrix
from tensorsmith.space.holes.size import divisors
from tensorsmith.space.population.population import Plan, Space
from tensorsmith.space.population.repair import repair
from tensorsmith.space.sketch.sketch import Candidate

Value = tuple[int, ...]
Point = tuple[int, ...]

_LANES = 16  # AutoTVM splits the last loop of a stage without knobs by this
_SHARED = 3  # outer loops of it that threads share, at most


@dataclass(frozen=True)
class Knob:
    """What is open, and what it may be."""

    name: str
    values: tuple[Value, ...]

    def __len__(self) -> int:
        return len(self.values)


@functools.lru_cache(maxsize=1 << 10)
def splits(extent: int, parts: int, policy: str = "factors", most: int | None = None) -> tuple[Value, ...]:
    """All ways to split an axis (spec: baselines.md, section 1.2); the outermost part is written as -1.

    `factors`: divisors; `power2`: powers of two; `verbose`: both. The latter two need not divide the axis. `most` limits the last.
    """
    powers = [1 << n for n in range(extent.bit_length()) if 1 << n <= extent]
    sizes = {"factors": divisors(extent), "power2": powers, "verbose": sorted({*divisors(extent), *powers})}[policy]
    found = []
    for inner in itertools.product(sizes, repeat=parts - 1):
        total = math.prod(inner)
        exact = total <= extent and extent % total == 0
        if (exact or (policy != "factors" and total < extent)) and (most is None or not inner or inner[-1] <= most):
            found.append((-1, *inner))
    return tuple(found)


def factorings(extent: int, parts: int) -> tuple[Value, ...]:
    """All ordered exact factorings of an extent."""
    return tuple((extent // math.prod(s[1:]), *s[1:]) for s in splits(extent, parts))


@dataclass(frozen=True, eq=False)
class Template:
    """One schedule with knobs; `holes` says what decisions the values of all knobs come to, by name."""

    name: str
    space: Space  # of one sketch
    knobs: tuple[Knob, ...]
    holes: Callable[[Mapping[str, Value]], Mapping[str, int]]
    _valid: dict[Point, bool] = field(default_factory=dict)

    @property
    def plan(self) -> Plan:
        return self.space.plans[0]

    @property
    def size(self) -> int:
        """How many points there are."""
        return math.prod(map(len, self.knobs))

    # -- points ------------------------------------------------------------------------------------------------------

    def point(self, number: int) -> Point:
        """The point of a number, the first knob counting fastest."""
        found = []
        for knob in self.knobs:
            number, rest = divmod(number, len(knob))
            found.append(rest)
        return tuple(found)

    def number(self, point: Point) -> int:
        found = 0
        for knob, value in zip(reversed(self.knobs), reversed(point)):
            found = found * len(knob) + value
        return found

    def points(self) -> Iterator[Point]:
        return map(self.point, range(self.size))

    def random(self, rng: np.random.Generator) -> Point:
        return tuple(int(rng.integers(len(knob))) for knob in self.knobs)

    def walk(self, point: Point, rng: np.random.Generator) -> Point:
        """A neighbour: knobs drawn anew, one after the other, until the point is another one (section 1.2)."""
        if self.size == 1:
            return point
        new = list(point)
        while tuple(new) == point:
            knob = int(rng.integers(len(self.knobs)))
            new[knob] = int(rng.integers(len(self.knobs[knob])))
        return tuple(new)

    def values(self, point: Point) -> dict[str, Value]:
        return {knob.name: knob.values[n] for knob, n in zip(self.knobs, point)}

    # -- rows and candidates -----------------------------------------------------------------------------------------

    @functools.cached_property
    def fixed(self) -> Array:
        """A row with what is not open: stages without knobs are split by vectors, and threads share their outer loops."""
        row = []
        for c in self.plan.columns:
            if c.kind == "parallel":
                stage = self.plan.geometry.stages[c.stage]
                row.append(min(_SHARED, max(1, len(stage.axes) - 1)))
            elif c.loop is not None:
                row.append(min(_LANES, c.high) if c.vector else 1)
            else:
                row.append(c.low)
        return np.array(row, np.int32)

    def rows(self, points: Sequence[Point]) -> Matrix:
        """A row for each point, as it is wanted, whether or not it can be built."""
        rows = np.tile(self.fixed, (len(points), 1))
        for n, point in enumerate(points):
            for hole, value in self.holes(self.values(point)).items():
                column = self.plan.names.get(hole)
                if column is not None:
                    rows[n, column] = min(max(value, int(self.plan.low[column])), int(self.plan.high[column]))
        return rows

    def valid(self, points: Sequence[Point]) -> Array:
        """Which points can be built: register tiles and code of a size that the machine's tactics would not change."""
        new = [p for p in dict.fromkeys(points) if p not in self._valid]
        if new:
            rows = self.rows(new)
            smaller = rows.copy()
            self.plan.tactics.shrink(self.plan, smaller)
            self._valid.update(zip(new, (rows == smaller).all(axis=1).tolist()))
        return np.array([self._valid[p] for p in points], bool)

    def candidate(self, point: Point) -> Candidate:
        return self.plan.candidate(repair(self.plan, self.rows([point]))[0])

    def find(self, candidate: Candidate) -> Point | None:
        """The point of a candidate, if it is one of this template."""
        if candidate.sketch.workload.key != self.space.workload.key:
            return None
        found = self.space.find(candidate)
        if found is None:
            return None
        wanted = repair(self.plan, found[1][None, :])[0]
        point = tuple(self._value_of(n, found[1]) for n in range(len(self.knobs)))
        return point if (repair(self.plan, self.rows([point]))[0] == wanted).all() else None

    def _value_of(self, knob: int, row: Array) -> int:
        """The value of a knob whose holes are most like those of a row; a knob without holes has its first."""
        best, nearest = 0, -1
        start = [0] * len(self.knobs)
        for n in range(len(self.knobs[knob])):
            start[knob] = n
            holes = self.holes(self.values(tuple(start)))
            alike = sum(self.plan.names.get(h) is not None and row[self.plan.names[h]] == v for h, v in holes.items())
            if alike > nearest:
                best, nearest = n, alike
        return best
