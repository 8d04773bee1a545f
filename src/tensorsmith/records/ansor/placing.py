"""Candidates for replayed programs: the sketch of our space that has their loops, and the values of its holes.

The loops of each stage, those that run once left out, are laid on the loops of a nest in their order: same axis, same binding, the
same loops around what is attached. What the loops do not show is read off otherwise: threads of a kernel without tiles, widths of
what is fetched, steps of a reduction in a row.

    i.0@block j.0@block | vthread | thread | i.3 j.3          the rest of an axis that was split, fused or not
    F.0@block F.1@thread   of F = i@j@k fused                 i.0@grid j.0@grid k.0@grid, threads F.1
    F.0 F.1@thread F.2 vector   of a copy                     d0.0@thread d1.0@thread | d1.1, or several steps in a row
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tensorsmith.errors import Refusal, UserError
from tensorsmith.program.unrolling import steps_under_pragma
from tensorsmith.records.ansor.extents import Extents
from tensorsmith.records.ansor.state import Array, Iterator, StageState, State, Unplaced
from tensorsmith.space.holes.at import INLINE, ROOT
from tensorsmith.space.population.population import Plan, Space
from tensorsmith.space.sketch.loops import BLOCK, GRID, THREAD, VTHREAD, AttachPoint, NestLoop
from tensorsmith.space.sketch.nest import Choice, Nest
from tensorsmith.space.sketch.rewrite import Fetch, Inline, Rfactor
from tensorsmith.space.sketch.sketch import Candidate, Sketch

_BINDINGS = {"blockIdx.x": BLOCK, "vthread": VTHREAD, "threadIdx.x": THREAD}
_MOST_TRIES = 4096


@dataclass(frozen=True)
class Entry:
    """A loop of a stage that runs more than once in some record."""

    axis: str
    extent: Array
    mark: str  # a binding, "parallel", "vectorize", "unroll" or nothing
    place: int  # of the stage's loops


@dataclass
class Lines:
    """A stage as its loops in terms of its axes, and what they do not show."""

    stage: StageState
    entries: list[Entry]
    threads: Array | None = None  # of a kernel without tiles
    width: Array | None = None  # elements in a row that a thread fetches
    shared_by: Array | None = None  # threads that share the loops of a copy


@dataclass
class Placed:
    """Programs of a template as rows of one structure."""

    sketch: Sketch
    decisions: dict[str, Array]
    state: State
    notes: dict[str, Any] = field(default_factory=dict)  # one step that has no counterpart: records in which it matters

    def candidate(self, row: int) -> Candidate:
        return Candidate(self.sketch, {h: int(v[row]) for h, v in self.decisions.items()})


def place(state: State, space: Space) -> Placed:
    """The candidates of a replayed template in a space. Raises `Unplaced`."""
    extents = Extents(state, frozenset(r.copy for r in state.rewrites if isinstance(r, Fetch)))
    lines = {s.name: _lines(s, extents) for s in state.computed}
    worst = Unplaced("no sketch with these stages")
    for plan in space.plans:
        mine = {n.stage for n in plan.sketch.nests}
        if set(lines) - mine or mine - set(lines) - _optional(plan.sketch):
            continue
        for options in _options(plan, state):
            try:
                resolved = plan.sketch.resolve(options) if plan.sketch.choices else plan.sketch
            except (Refusal, UserError):
                continue
            if {n.stage for n in resolved.nests} != set(lines) or not _same(resolved, state):
                continue
            try:
                return _laid(resolved, state, lines)
            except Unplaced as problem:
                worst = problem
    raise worst


def _optional(sketch: Sketch) -> set[str]:
    return {c.stage for c in sketch.choices if INLINE in c.options}


def _same(sketch: Sketch, state: State) -> bool:
    """Whether rewrites come to the same stages."""
    mine, theirs = sorted(map(str, sketch.rewrites)), sorted(map(str, state.rewrites))
    return mine == theirs or _texts(sketch.rewritten.stages) == _texts(state.workload.stages)


def _texts(stages: Sequence[object]) -> list[str]:
    return sorted(map(str, stages))


def _options(plan: Plan, state: State) -> list[dict[str, int]]:
    """Options that may lead to the structure of a state, the likeliest first."""
    allowed = [_possible(c, state) for c in plan.sketch.choices]
    found = itertools.islice(itertools.product(*allowed), _MOST_TRIES)
    return [{c.hole: n for c, n in zip(plan.sketch.choices, chosen)} for chosen in found]


def _possible(choice: Choice, state: State) -> list[int]:
    every = list(range(len(choice.options)))
    if choice.kind == "factor":
        factors = [str(r.factor) for r in state.rewrites if isinstance(r, Rfactor) and r.stage == choice.stage]
        return [n for n in every if choice.options[n] in factors]
    if choice.kind != "at":
        return every
    if any(isinstance(r, Inline) and r.stage == choice.stage for r in state.rewrites):
        return [n for n in every if choice.options[n] == INLINE]
    stage = next((s for s in state.stages if s.name == choice.stage), None)
    if stage is None or stage.at is None:
        return [n for n in every if choice.options[n] == ROOT]
    owners: set[str] = set()
    owner: tuple[StageState, Iterator] | None = stage.at
    while owner is not None:  # inside no loop that runs, it may be where its owner is
        owners.add(owner[0].name)
        owner = owner[0].at
    points = {n: AttachPoint.read(choice.options[n]) for n in every if choice.options[n] not in (ROOT, INLINE)}
    return [n for n, point in points.items() if point.stage in owners]


# -- loops in terms of axes ----------------------------------------------------------------------------------------------


def _lines(stage: StageState, extents: Extents) -> Lines:
    found = Lines(stage, [])
    loops = stage.loops
    whole = _dealt(stage, loops)
    if whole is not None:
        whole_loops, threads = whole
        found.threads = threads
        place = 1
        for leaf in whole_loops:
            _add(found, leaf, GRID, place)
        rest = [(n, x) for n, x in enumerate(loops) if x.annotation not in _BINDINGS]
    elif stage.name in extents.shared:
        return _fetched(stage)
    else:
        rest = list(enumerate(loops))
        reduction = _shared(stage, loops)
        if reduction is not None:
            rest = rest[:-2]
            found.shared_by = reduction[1]
    for place, loop in rest:
        mark = _BINDINGS.get(loop.annotation, loop.annotation)
        if mark.startswith(("blockIdx", "threadIdx", "tensorize")):
            raise Unplaced(f"a loop bound to {loop.annotation}")
        for leaf in loop.leaves():
            if _root(leaf).fused:
                raise Unplaced(
                    "a reduction over several axes that threads share" if loop.reduce else "loops split after they were fused"
                )
            _add(found, leaf, mark, place)
    if whole is None and reduction is not None:
        for leaf in reduction[0]:
            _add(found, leaf, THREAD, len(loops) - 2)
    return found


def _shared(stage: StageState, loops: Sequence[Iterator]) -> tuple[tuple[Iterator, ...], Array] | None:
    """The axes of a reduction whose steps threads share in rounds, and how many threads: of several axes, or inside of others."""
    if len(loops) < 2 or [x.annotation for x in loops[-2:]] != ["", "threadIdx.x"] or loops[-1].parent is None:
        return None
    whole = loops[-1].parent
    if loops[-2].parent is not whole or len(whole.parts) != 2 or (not whole.fused and stage.at is None):
        return None
    leaves = tuple(leaf for one in (whole.fused or (whole,)) for leaf in one.leaves())
    assert loops[-1].extent is not None
    return (leaves, loops[-1].extent) if all(leaf.axis and leaf.reduce for leaf in leaves) else None


def _add(found: Lines, leaf: Iterator, mark: str, place: int) -> None:
    assert leaf.extent is not None
    if (leaf.extent > 1).any():
        found.entries.append(Entry(_root(leaf).axis, leaf.extent, mark, place))


def _root(loop: Iterator) -> Iterator:
    while loop.parent is not None:
        loop = loop.parent
    return loop


def _dealt(stage: StageState, loops: Sequence[Iterator]) -> tuple[tuple[Iterator, ...], Array] | None:
    """The axes of a kernel without tiles, all of which one loop of blocks and one of threads share, and how many threads."""
    bound = [x for x in loops if x.annotation in _BINDINGS]
    if stage.at is not None or not bound or any(x.annotation == "vthread" for x in bound) or list(loops[: len(bound)]) != bound:
        return None
    spatial = {x for x in stage.own if not x.reduce}
    threads = bound[-1].extent
    whole: Iterator | None = bound[0]
    if [x.annotation for x in bound] == ["blockIdx.x", "threadIdx.x"]:
        whole = bound[0].parent if bound[0].parent is bound[1].parent else None
        if whole is None or len(whole.parts) != 2:
            return None
    elif [x.annotation for x in bound] != ["threadIdx.x"]:
        return None
    assert whole is not None
    leaves = tuple(leaf for one in (whole.fused or (whole,)) for leaf in one.leaves())
    assert threads is not None
    return (leaves, threads) if set(leaves) == spatial else None


def _fetched(stage: StageState) -> Lines:
    """A copy in shared memory: all of its loops fused, then rounds, threads and a vector."""
    marks = [x.annotation for x in stage.loops]
    if marks != ["", "threadIdx.x", "vectorize"]:
        raise Unplaced("a copy in shared memory with other loops than rounds, threads and a vector")
    rounds, threads, vector = stage.loops
    whole = _root(vector)
    leaves = whole.fused or (whole,)
    if rounds.parent is not threads.parent or any(leaf.axis == "" for leaf in leaves):
        raise Unplaced("a copy in shared memory with other loops than rounds, threads and a vector")
    found = Lines(stage, [], width=vector.length, shared_by=threads.length)
    for leaf in leaves:
        assert leaf.extent is not None
        found.entries.append(Entry(leaf.axis, leaf.extent, THREAD, 0))
    return found


# -- loops laid on those of nests ----------------------------------------------------------------------------------------


def _laid(sketch: Sketch, state: State, lines: Mapping[str, Lines]) -> Placed:
    found = Placed(sketch, {}, state)
    rows = len(state.numbers)
    ones = np.ones(rows, np.int64)
    matched: dict[str, dict[NestLoop, Entry]] = {}
    for nest in sketch.nests:
        line = lines[nest.stage]
        _same_place(sketch, nest, line, lines)
        matched[nest.stage] = {} if line.width is not None else _aligned(sketch, nest, line, lines)
    for hole in sketch.numbers:
        nest, line = sketch.nest(hole.stage), lines[hole.stage]
        mine = matched[hole.stage]
        if hole.loop is not None:
            found.decisions[hole.name] = mine[hole.loop].extent if hole.loop in mine else ones
        elif hole.kind == "parallel":
            found.decisions[hole.name] = ones * _parallel(nest, mine, line)
        elif hole.kind == "threads":
            given = line.threads if line.threads is not None else line.shared_by
            found.decisions[hole.name] = given if given is not None else ones
        elif hole.kind == "unroll":
            found.decisions[hole.name] = _in_a_row(nest, mine, line, ones)
        elif hole.kind in ("pad",):
            found.decisions[hole.name] = 0 * ones
        elif hole.kind in ("buffers", "run"):
            found.decisions[hole.name] = ones
        else:
            raise Unplaced(f"a sketch with the hole {hole.kind}")
    for nest in sketch.nests:
        if lines[nest.stage].width is not None:
            _widths(found, sketch, nest, lines[nest.stage])
        if lines[nest.stage].shared_by is not None and nest.at is not None:
            _by_all(found, lines[nest.stage], lines)
    return found


def _same_place(sketch: Sketch, nest: Nest, line: Lines, lines: Mapping[str, Lines]) -> None:
    if (nest.at is None) != (line.stage.at is None):
        raise Unplaced("a stage computed at another place")
    if nest.at is None or line.stage.at is None:
        return
    owner = line.stage.at[0]
    if nest.at.stage == owner.name:
        return
    cut = _cut(line)  # inside no loop of its owner that runs: it is where the owner is
    above = sketch.nest(owner.name).at
    if above is None or above != nest.at or any(e.place < cut for e in lines[owner.name].entries):
        raise Unplaced("a stage computed at another place")


def _cut(line: Lines) -> int:
    """How many loops of its owner a stage is inside of."""
    assert line.stage.at is not None
    owner, loop = line.stage.at
    return owner.loops.index(loop) + 1


def _aligned(sketch: Sketch, nest: Nest, line: Lines, lines: Mapping[str, Lines]) -> dict[NestLoop, Entry]:
    """The loops of a nest that the entries of a stage are, the innermost first."""
    loops = [(n, n_at) for n_at, n in enumerate(nest.loops.all)]
    cuts = []
    for other in sketch.nests:
        there = lines[other.stage]
        if other.at is not None and other.at.stage == nest.stage and there.stage.at is not None and there.stage.at[0] is line.stage:
            cuts.append((_cut(there), other.at.depth))
    bindings = nest.loops.bindings
    reduced = {x.axis for x in line.stage.own if x.reduce}
    entries = line.entries
    shareable = next((n for n, loop in enumerate(nest.outer) if loop.axis in reduced), len(nest.outer))  # by threads

    def fits(entry: Entry, loop: NestLoop, at: int) -> bool:
        if loop.axis != entry.axis or any((entry.place < cut) != (at < depth) for cut, depth in cuts):
            return False
        mark = bindings.get(loop, "")
        if mark != (entry.mark if entry.mark in (BLOCK, VTHREAD, THREAD, GRID) else ""):
            return False
        if entry.mark == "vectorize" and loop != nest.vector:
            return False
        if loop == nest.vector and loop.axis in reduced and entry.mark != "vectorize":  # lanes would add up in another order
            return False
        if entry.mark == "parallel" and at >= shareable:
            return False
        return entry.mark != "unroll" or loop in nest.unrolled or (at >= len(nest.outer) and loop.axis not in reduced)

    @functools.cache
    def search(number: int, before: int) -> tuple[tuple[NestLoop, int], ...] | None:
        if number < 0:
            return ()
        for loop, at in reversed(loops[:before]):
            if fits(entries[number], loop, at):
                rest = search(number - 1, at)
                if rest is not None:
                    return (*rest, (loop, number))
        return None

    found = search(len(entries) - 1, len(loops))
    if found is None:
        raise Unplaced("loops that no nest of ours has in this order")
    return {loop: entries[number] for loop, number in found}


def _parallel(nest: Nest, mine: Mapping[NestLoop, Entry], line: Lines) -> int:
    """How many outer loops threads share."""
    shared = [at for at, loop in enumerate(nest.outer) if loop in mine and mine[loop].mark == "parallel"]
    if not shared:
        return 0
    if any(loop in mine and mine[loop].mark != "parallel" for loop in nest.outer[: shared[-1]]):
        raise Unplaced("threads that share loops inside of others")
    return shared[-1] + 1


def _in_a_row(nest: Nest, mine: Mapping[NestLoop, Entry], line: Lines, ones: Array) -> Array:
    """Steps of a reduction in a row under the pragma of a stage, or of the one around it."""
    pragma = line.stage.pragma
    owner = line.stage.at
    while pragma is None and owner is not None:
        pragma, owner = owner[0].pragma, owner[0].at
    if pragma is None:
        return ones
    reduced = {x.axis for x in line.stage.own if x.reduce}
    counts, stores = [], ones
    for loop in nest.tile:
        extent = mine[loop].extent if loop in mine else ones
        if loop.axis in reduced:
            counts.append(extent)
        elif loop != nest.vector or mine.get(loop) is None or mine[loop].mark != "vectorize":
            stores = stores * extent
    return np.asarray(steps_under_pragma(counts, stores, pragma), np.int64) * ones


def _widths(found: Placed, sketch: Sketch, nest: Nest, line: Lines) -> None:
    """Elements that a thread fetches at once: along the last axis as far as they divide its row, the rest as steps in a row."""
    assert line.width is not None and line.shared_by is not None
    rows = len(found.state.numbers)
    width = np.asarray(line.width, np.int64)
    lanes = np.ones(rows, np.int64)
    if nest.vector is not None:
        inside = False
        length = np.ones(rows, np.int64)
        for entry in reversed(line.entries):  # axes behind that of the vector are one element each
            if entry.axis == nest.vector.axis:
                length, inside = entry.extent, True
                break
            if (entry.extent > 1).any():
                break
        if inside:
            lanes = np.gcd(width, length)
        found.decisions[f"{nest.stage}.{nest.vector}"] = lanes
    run = width // lanes
    if f"{nest.stage}.run" in sketch.holes:
        found.decisions[f"{nest.stage}.run"] = run
    elif (run > 1).any():
        found.notes["vectors across rows of a tile that is fetched"] = run > 1


def _by_all(found: Placed, line: Lines, lines: Mapping[str, Lines]) -> None:
    """What the threads of a block share all of them share."""
    threads = np.ones(len(found.state.numbers), np.int64)
    for entry in lines[_kernel(line.stage).name].entries:
        if entry.mark == THREAD:
            threads = threads * entry.extent
    if (threads != line.shared_by).any():
        found.notes["loops shared by other threads than those of the block"] = threads != line.shared_by


def _kernel(stage: StageState) -> StageState:
    while stage.at is not None:
        stage = stage.at[0]
    return stage
