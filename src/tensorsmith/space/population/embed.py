"""Where a candidate lies in a sketch: the options and sizes under which the sketch gives the same program.

A candidate that was resolved from the sketch has the very loops of its nests. One made otherwise (by hand, by the default
schedule, by an older version) may split its axes into fewer parts; it is a point of the sketch if its loops, those that run
once left out, are loops of the sketch in the same order:

    n.0 h.0 co.0 w.0 | kh.0 ci.0 w.1 co.1        lies in        n.0 h.0 co.0 w.0 h.1 w.1 co.1 | kh.0 ci.0 h.2 w.2 co.2
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from tensorsmith.errors import Refusal, UserError
from tensorsmith.lang.workload import Workload
from tensorsmith.space.holes.registry import choice_kind, number_kind
from tensorsmith.space.population.geometry import Geometry
from tensorsmith.space.sketch.loops import NestLoop
from tensorsmith.space.sketch.nest import Nest
from tensorsmith.space.sketch.sketch import Candidate, Sketch

VECTOR, LAID_OUT, GROUPED = "vector", "laid out", "grouped"
_MAX_TRIES = 4096  # combinations of options that are looked at

Point = tuple[dict[str, int], dict[str, int]]  # options, decisions
Resolve = Callable[[Mapping[str, int]], Sketch]  # `sketch.resolve`, or one that remembers


def exact(sketch: Sketch, candidate: Candidate, resolve: Resolve) -> Point | None:
    """The point at which a sketch gives the very nests of a candidate; quick."""
    options: dict[str, int] = {}
    for choice in sketch.choices:
        option = choice_kind(choice.kind).option_of(choice, candidate.sketch)
        if option not in choice.options:
            return None
        options[choice.hole] = choice.options.index(option)
    resolved = resolve(options)
    if {n.stage: n for n in resolved.nests} != {n.stage: n for n in candidate.sketch.nests}:
        return None
    if not _same_rewrites(resolved, candidate.sketch):
        return None
    return options, dict(candidate.decisions)


def _same_rewrites(a: Sketch, b: Sketch) -> bool:
    """The same rewrites, or others that come to the same."""
    return sorted(map(str, a.rewrites)) == sorted(map(str, b.rewrites)) or _stages(a.rewritten) == _stages(b.rewritten)


def _stages(workload: Workload) -> tuple[object, ...]:
    return (*workload.outputs, *sorted(map(str, workload.stages)))


# -- other loops, the same program -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Step:
    """A loop of a nest that runs more than once."""

    axis: str
    count: int
    stride: int
    outer: bool
    mark: str  # VECTOR, LAID_OUT, GROUPED, the kind of hole that marks it ("parallel"), or ""


@dataclass(frozen=True)
class _Form:
    """A nest without the loops that run once and without the numbers of the others' parts."""

    steps: tuple[_Step, ...]
    at: tuple[str, int, bool] | None  # inside how many steps of which stage; whether that is its register tile
    packed: tuple[str, ...]
    follows: str | None
    numbers: tuple[tuple[str, int], ...]  # by hole: what does not show in the loops


class Programs:
    """Tells candidates of one workload apart by their programs: rows of several sketches may stand for the same."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Sketch, Geometry, list[str]]] = {}  # by the identity of a sketch, which is held

    def key(self, candidate: Candidate) -> int:
        """Equal for two candidates that lower to the same program."""
        sketch = candidate.sketch
        if id(sketch) not in self._known:
            self._known[id(sketch)] = sketch, _geometry(sketch), sorted(map(str, sketch.rewrites))
        _, geometry, rewrites = self._known[id(sketch)]
        found = _forms(geometry, sketch, candidate.decisions)
        return hash((*rewrites, *sorted(found.items(), key=lambda item: item[0])))


def forms(sketch: Sketch, decisions: Mapping[str, int]) -> dict[str, _Form]:
    """By stage: equal for two candidates that lower to the same program, but for loops that run once and names of parts."""
    return _forms(_geometry(sketch), sketch, decisions)


def _geometry(sketch: Sketch) -> Geometry:
    return Geometry(sketch, {h: n for n, h in enumerate(sketch.holes)})


def _forms(geometry: Geometry, sketch: Sketch, decisions: Mapping[str, int]) -> dict[str, _Form]:
    found = geometry.measure(np.array([[decisions[h] for h in sketch.holes]], np.int32))
    counts = {n.stage: {loop: int(found.loop(n.stage, loop)[0]) for loop in n.loops.all} for n in sketch.nests}
    marks: dict[str, dict[NestLoop, str]] = {n.stage: dict.fromkeys(n.unrolled, LAID_OUT) for n in sketch.nests}
    numbers: dict[str, list[tuple[str, int]]] = {n.stage: [] for n in sketch.nests}
    for hole in sketch.numbers:
        kind, value = number_kind(hole.kind), decisions[hole.name]
        for loop in kind.marked(sketch.nest(hole.stage), value):
            marks[hole.stage].setdefault(loop, kind.name)
        if not kind.in_loops and value != kind.absent:
            numbers[hole.stage].append((hole.name, value))
    result = {}
    for nest in sketch.nests:
        mine = counts[nest.stage]
        if nest.vector is not None:
            marks[nest.stage][nest.vector] = VECTOR
        if nest.group is not None:
            marks[nest.stage][nest.group] = GROUPED
        steps = []
        for loop in nest.loops.all:
            if mine[loop] == 1:
                continue
            inner = [c for other, c in mine.items() if other.axis == loop.axis and other.part > loop.part]
            mark = marks[nest.stage].get(loop, "")
            steps.append(_Step(loop.axis, mine[loop], math.prod(inner), loop in nest.outer, mark))
        at = None
        if nest.at is not None:
            stage, depth = nest.at
            outer = sketch.nest(stage).outer
            at = (stage, sum(counts[stage][n] > 1 for n in outer[:depth]), depth == len(outer))
        result[nest.stage] = _Form(tuple(steps), at, tuple(sorted(nest.packed)), nest.follows, tuple(numbers[nest.stage]))
    return result


def equivalent(sketch: Sketch, candidate: Candidate, resolve: Resolve) -> Point | None:
    """A point at which a sketch gives the program of a candidate, whatever its loops are called; tries many structures."""
    stages = {n.stage for n in candidate.sketch.nests}
    if not _can_have(sketch, candidate.sketch):
        return None
    goal = forms(candidate.sketch, candidate.decisions)
    for options in itertools.islice(_options(sketch, candidate.sketch), _MAX_TRIES):
        try:
            resolved = resolve(options)
        except (Refusal, UserError):
            continue
        if {n.stage for n in resolved.nests} != stages or not _same_rewrites(resolved, candidate.sketch):
            continue
        decisions = _decisions(resolved, goal)
        if decisions is not None and forms(resolved, decisions) == goal:
            return options, decisions
    return None


def _can_have(sketch: Sketch, wanted: Sketch) -> bool:
    """Whether some options could lead to the wanted stages: those of the sketch, without some that may be inlined."""
    optional = {c.stage for c in sketch.choices if choice_kind(c.kind).removes(c)}
    mine = {n.stage for n in sketch.nests}
    theirs = {n.stage for n in wanted.nests}
    return theirs <= mine and mine - theirs <= optional


def _options(sketch: Sketch, wanted: Sketch) -> Iterator[dict[str, int]]:
    """Options that may lead to the wanted structure."""
    allowed = [choice_kind(c.kind).possible(c, wanted) for c in sketch.choices]
    for chosen in itertools.product(*allowed):
        yield {c.hole: n for c, n in zip(sketch.choices, chosen)}


def _decisions(sketch: Sketch, goal: Mapping[str, _Form]) -> dict[str, int] | None:
    """Values for the holes of a sketch that give the nests their wanted steps."""
    matched: dict[str, dict[NestLoop, _Step]] = {}
    for nest in sketch.nests:
        found = _match(nest, goal[nest.stage].steps)
        if found is None:
            return None
        matched[nest.stage] = found
    return {
        h.name: number_kind(h.kind).decided(h, sketch.nest(h.stage), matched[h.stage], dict(goal[h.stage].numbers))
        for h in sketch.numbers
    }


def _match(nest: Nest, steps: tuple[_Step, ...]) -> dict[NestLoop, _Step] | None:
    """The loops of a nest, in order, that can be the given steps."""
    loops = [(n, True) for n in nest.outer] + [(n, False) for n in nest.tile]

    def fits(loop: NestLoop, outer: bool, step: _Step) -> bool:
        if loop.axis != step.axis or outer != step.outer:
            return False
        if loop == nest.group and nest.group_size not in (None, step.count):
            return False
        marks = {LAID_OUT: loop in nest.unrolled, VECTOR: loop == nest.vector, GROUPED: loop == nest.group}
        return all(marked == (step.mark == mark) for mark, marked in marks.items())

    def search(at: int, number: int) -> dict[NestLoop, _Step] | None:
        if number == len(steps):
            return {}
        for n in range(at, len(loops)):
            if fits(*loops[n], steps[number]):
                rest = search(n + 1, number + 1)
                if rest is not None:
                    return {loops[n][0]: steps[number], **rest}
        return None

    return search(0, 0)
