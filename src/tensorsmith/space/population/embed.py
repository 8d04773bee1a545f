"""Where a candidate lies in a sketch: the options and sizes under which the sketch gives the same program.

A candidate that was resolved from the sketch has the very loops of its nests. One made otherwise (by hand, by the default
schedule, by an older version) may split its axes into fewer parts; it is a point of the sketch if its loops, those that run
once left out, are loops of the sketch in the same order:

    n.0 h.0 co.0 w.0 | kh.0 ci.0 w.1 co.1        lies in        n.0 h.0 co.0 w.0 h.1 w.1 co.1 | kh.0 ci.0 h.2 w.2 co.2
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from tensorsmith.errors import Refusal, UserError
from tensorsmith.lang.workload import Workload
from tensorsmith.space.population.geometry import Geometry
from tensorsmith.space.sketch.loops import NestLoop
from tensorsmith.space.sketch.nest import Choice, Nest
from tensorsmith.space.sketch.rewrite import Rfactor
from tensorsmith.space.sketch.sketch import Candidate, Sketch
from tensorsmith.targets.target import Target

_MAX_TRIES = 4096  # combinations of options that are looked at

Point = tuple[dict[str, int], dict[str, int]]  # options, decisions
Resolve = Callable[[Mapping[str, int]], Sketch]  # `sketch.resolve`, or one that remembers


def exact(sketch: Sketch, candidate: Candidate, resolve: Resolve) -> Point | None:
    """The point at which a sketch gives the very nests of a candidate; quick."""
    options: dict[str, int] = {}
    for choice in sketch.choices:
        option = option_of(choice, candidate.sketch)
        if option not in choice.options:
            return None
        options[choice.hole] = choice.options.index(option)
    resolved = resolve(options)
    if {n.stage: n for n in resolved.nests} != {n.stage: n for n in candidate.sketch.nests}:
        return None
    if not _same_rewrites(resolved, candidate.sketch):
        return None
    return options, dict(candidate.decisions)


def option_of(choice: Choice, sketch: Sketch) -> str:
    """What a resolved sketch has in place of a choice, written as an option; of other extents it need not be one of them."""
    nests = {n.stage: n for n in sketch.nests}
    if choice.kind == "factor":
        return next((str(r.factor) for r in sketch.rewrites if isinstance(r, Rfactor) and r.stage == choice.stage), "")
    if choice.kind == "rows":
        points = [nests[m].at for m in choice.members if m in nests]
        return next((str(p.depth) for p in points if p is not None and p.stage == choice.stage), "0")
    nest = nests.get(choice.stage)
    if choice.kind == "loops":
        return str(nest.loops) if nest else ""
    return "inline" if nest is None else str(nest.at or "root")


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
    kind: str  # "vector", "laid out", "parallel" or ""


@dataclass(frozen=True)
class _Form:
    """A nest without the loops that run once and without the numbers of the others' parts."""

    steps: tuple[_Step, ...]
    at: tuple[str, int, bool] | None  # inside how many steps of which stage; whether that is its register tile
    packed: tuple[str, ...]
    follows: str | None
    unroll: int


class Programs:
    """Tells candidates of one workload apart by their programs: rows of several sketches may stand for the same."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._known: dict[int, tuple[Sketch, Geometry, list[str]]] = {}  # by the identity of a sketch, which is held

    def key(self, candidate: Candidate) -> int:
        """Equal for two candidates that lower to the same program."""
        sketch = candidate.sketch
        if id(sketch) not in self._known:
            self._known[id(sketch)] = sketch, _geometry(sketch, self.target), sorted(map(str, sketch.rewrites))
        _, geometry, rewrites = self._known[id(sketch)]
        found = _forms(geometry, sketch, candidate.decisions)
        return hash((*rewrites, *sorted(found.items(), key=lambda item: item[0])))


def forms(sketch: Sketch, decisions: Mapping[str, int], target: Target) -> dict[str, _Form]:
    """By stage: equal for two candidates that lower to the same program, but for loops that run once and names of parts."""
    return _forms(_geometry(sketch, target), sketch, decisions)


def _geometry(sketch: Sketch, target: Target) -> Geometry:
    return Geometry(sketch, {h: n for n, h in enumerate(sketch.holes)}, target)


def _forms(geometry: Geometry, sketch: Sketch, decisions: Mapping[str, int]) -> dict[str, _Form]:
    found = geometry.measure(np.array([[decisions[h] for h in sketch.holes]], np.int32))
    counts = {n.stage: {loop: int(found.loop(n.stage, loop)[0]) for loop in n.loops.all} for n in sketch.nests}
    result = {}
    for nest in sketch.nests:
        mine = counts[nest.stage]
        shared = nest.outer[: decisions.get(f"{nest.stage}.parallel", 0)]
        steps = []
        for loop in nest.loops.all:
            if mine[loop] == 1:
                continue
            inner = [c for other, c in mine.items() if other.axis == loop.axis and other.part > loop.part]
            stride = int(np.prod(inner))
            kind = (
                "vector" if loop == nest.vector else "laid out" if loop in nest.unrolled else "parallel" if loop in shared else ""
            )
            steps.append(_Step(loop.axis, mine[loop], stride, loop in nest.outer, kind))
        at = None
        if nest.at is not None:
            stage, depth = nest.at
            outer = sketch.nest(stage).outer
            at = (stage, sum(counts[stage][n] > 1 for n in outer[:depth]), depth == len(outer))
        unroll = decisions.get(f"{nest.stage}.unroll", 1)
        result[nest.stage] = _Form(tuple(steps), at, tuple(sorted(nest.packed)), nest.follows, unroll)
    return result


def equivalent(sketch: Sketch, candidate: Candidate, target: Target, resolve: Resolve) -> Point | None:
    """A point at which a sketch gives the program of a candidate, whatever its loops are called; tries many structures."""
    stages = {n.stage for n in candidate.sketch.nests}
    if not _can_have(sketch, candidate.sketch):
        return None
    goal = forms(candidate.sketch, candidate.decisions, target)
    for options in itertools.islice(_options(sketch, candidate.sketch), _MAX_TRIES):
        try:
            resolved = resolve(options)
        except (Refusal, UserError):
            continue
        if {n.stage for n in resolved.nests} != stages or not _same_rewrites(resolved, candidate.sketch):
            continue
        decisions = _decisions(resolved, goal)
        if decisions is not None and forms(resolved, decisions, target) == goal:
            return options, decisions
    return None


def _can_have(sketch: Sketch, wanted: Sketch) -> bool:
    """Whether some options could lead to the wanted stages: those of the sketch, without some that may be inlined."""
    optional = {c.stage for c in sketch.choices if c.kind == "at" and "inline" in c.options}
    mine = {n.stage for n in sketch.nests}
    theirs = {n.stage for n in wanted.nests}
    return theirs <= mine and mine - theirs <= optional


def _options(sketch: Sketch, wanted: Sketch) -> Iterator[dict[str, int]]:
    """Options that may lead to the wanted structure."""
    nests = {n.stage: n for n in wanted.nests}
    allowed: list[list[int]] = []
    for c in sketch.choices:
        numbers = list(range(len(c.options)))
        nest = nests.get(c.stage)
        if c.kind == "factor":
            numbers = [n for n in numbers if c.options[n] == option_of(c, wanted)]
        elif c.kind == "at" and nest is not None and nest.at is not None:
            numbers = [n for n in numbers if c.options[n].startswith(f"{nest.at.stage}:")]
        elif c.kind == "at":
            numbers = [n for n in numbers if c.options[n] == option_of(c, wanted)]
        allowed.append(numbers)
    for chosen in itertools.product(*allowed):
        yield {c.hole: n for c, n in zip(sketch.choices, chosen)}


def _decisions(sketch: Sketch, goal: Mapping[str, _Form]) -> dict[str, int] | None:
    """Values for the holes of a sketch that give the nests their wanted steps."""
    decisions: dict[str, int] = {}
    for nest in sketch.nests:
        name, form = nest.stage, goal[nest.stage]
        matched = _match(nest, form.steps)
        if matched is None:
            return None
        for loop in nest.sized:
            decisions[f"{name}.{loop}"] = matched[loop].count if loop in matched else 1
        if f"{name}.parallel" in sketch.holes:
            shared = [n for n, loop in enumerate(nest.outer) if loop in matched and matched[loop].kind == "parallel"]
            decisions[f"{name}.parallel"] = shared[-1] + 1 if shared else 0
        if f"{name}.unroll" in sketch.holes:
            decisions[f"{name}.unroll"] = form.unroll
    return decisions


def _match(nest: Nest, steps: tuple[_Step, ...]) -> dict[NestLoop, _Step] | None:
    """The loops of a nest, in order, that can be the given steps."""
    loops = [(n, True) for n in nest.outer] + [(n, False) for n in nest.tile]

    def fits(loop: NestLoop, outer: bool, step: _Step) -> bool:
        if loop.axis != step.axis or outer != step.outer:
            return False
        return (loop in nest.unrolled) == (step.kind == "laid out") and (loop == nest.vector) == (step.kind == "vector")

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
