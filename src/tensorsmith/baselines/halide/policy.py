"""Halide's auto-scheduler of 2019 (Adams et al., "Learning to Optimize Halide with Tree Search and Random Programs").

Stages are scheduled one after the other, outputs first, by two decisions each: where and in what tiles it is computed, and how a
stage that has loops of its own is shared among threads. A beam of partial schedules goes on with the 32 that look cheapest. There
are five passes, from coarse to fine: in each, states that are alike in more and more detail are penalised, unless they led to
something good in the pass before.

    halide        the autotuning loop: batches of 32, one of a whole beam and 31 of greedy runs in which states are dropped by
                  chance; then the model learns
    halide-beam   the model never learns: the first program is the plain answer of the auto-scheduler

A partial schedule is scored as a whole program: stages that are not decided are inlined where that is cheap, else computed at the
root. Costs are those of the model on our features, in place of Halide's 39 + 280 features. `model="halide"` is Halide's own
network, with its cost terms, on features of ours that are nearest to its own. There are no sliding windows, because a nest here
has one place for its memory and its loops, and reductions are not tiled.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from tensorsmith.backends import backend_of
from tensorsmith.baselines.halide.tilings import tilings
from tensorsmith.baselines.ledger import Ledger
from tensorsmith.errors import Refusal, UserError
from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.inline import fits
from tensorsmith.lang.workload import Axis, Stage, Workload
from tensorsmith.learn.models.model import Array, CostModel, Samples
from tensorsmith.learn.models.prior import PriorModel
from tensorsmith.learn.models.registry import as_model
from tensorsmith.search.policy import Preset, never
from tensorsmith.search.scores import features_for
from tensorsmith.search.transfer import described
from tensorsmith.search.trial import Trial
from tensorsmith.space.analysis import is_strictly_inlinable, lane_axis, needs_tiling
from tensorsmith.space.population.population import Space
from tensorsmith.space.rules.base import levels, names, simple_nest, tiled
from tensorsmith.space.rules.root import AtTheRoot
from tensorsmith.space.sketch.nest import Nest
from tensorsmith.space.sketch.rewrite import Inline, apply_rewrites
from tensorsmith.space.sketch.sketch import Candidate, Sketch


@dataclass(frozen=True)
class Settings:
    """Constants of `AutoSchedule.cpp` and its tuning script (spec: baselines.md, section 3.1)."""

    beam: int = 32
    passes: int = 5  # 1 where the beam is 1
    batch: int = 32  # programs of a round: one by the whole beam, the others greedy with dropout
    dropout: float = 0.01  # the chance that a greedy run drops nothing
    registers: int = 12  # inner loops of up to so many steps are laid out
    recomputed: float = 8.0  # times the least work of a stage that inlining may cost
    tasks: int = 16  # for each core, at most
    waste: float = 1.2  # idle cores that a division of the work may have, beside the best one
    blessed: float = 1.2  # times the best cost, of states whose structures the next pass may use
    unblessed: int = 10  # added to the penalty of other structures
    patience: int = 8  # rounds in which nothing new came out, until the space is taken for exhausted
    learns: bool = True


SETTINGS = Settings()


@dataclass(frozen=True)
class Decision:
    """Of one stage. Sizes are by axis of more than one element: steps of the inner loops, in vectors along the lanes."""

    place: str  # "inline", "root" or "inside"
    depth: int = 0  # of the reader's loops, where it is inside: 1 its tasks, 2 its tiles
    inner: tuple[int, ...] = ()
    tasks: tuple[int, ...] = ()  # of the outermost loops, that threads share


State = tuple[tuple[str, Decision], ...]  # decisions in the order in which they were made


class HalidePolicy:
    """Beam searches over per-stage decisions."""

    def __init__(
        self,
        space: Space,
        *,
        seed: int = 0,
        hints: Sequence[Candidate] = (),
        model: CostModel | None = None,
        settings: Settings = SETTINGS,
    ) -> None:
        """Of `space` only the workload and the target count; `hints` are for policies that use them."""
        self.space, self.settings = space, settings
        self.workload, self.target = space.workload, space.target
        self.rng = np.random.default_rng(seed)
        self.model = model if model is not None else as_model("trees", backend_of(space.target).schema)
        self.ledger = Ledger(space.workload)
        self.order = [s.name for s in reversed(space.workload.stages)]
        self.schedules = Schedules(space)
        self.costs: dict[State, float] = {}
        self.told: dict[int, tuple[Candidate, float | None]] = {}
        self.waiting: list[State] = []
        self._stale = False
        self._whole = True  # a whole beam is next

    # -- ask and tell ----------------------------------------------------------------------------------------------------

    def ask(self, count: int, stop: Callable[[], bool] = never) -> list[Candidate]:
        found: list[Candidate] = []
        dry = 0
        while len(found) < count and dry < self.settings.patience and not stop():
            if not self.waiting:
                self.waiting = self._round(stop)
                dry += 1
            while self.waiting and len(found) < count:
                candidate = self.schedules.candidate(self.waiting.pop(0))
                if candidate is not None and self.ledger.take(candidate):
                    found.append(candidate)
                    dry = 0
        return found

    def tell(self, trials: Sequence[Trial]) -> None:
        for told in self.ledger.tell(trials):
            self.told[told.program] = told.candidate, told.seconds
            self._stale = True

    def finish(self, count: int) -> list[Candidate]:
        return []

    @property
    def best_seconds(self) -> float | None:
        return self.ledger.best_seconds

    # -- rounds ----------------------------------------------------------------------------------------------------------

    def _round(self, stop: Callable[[], bool]) -> list[State]:
        """The end of a whole beam, the best first, or of greedy runs with dropout."""
        self._learn()
        if self._whole:
            ends = self._passes(self.settings.beam, 1.0, stop)
            if not stop():
                self._whole = False
            return ends[:1] if self.settings.learns else ends
        found: list[State] = []
        for _ in range(self.settings.batch - 1):
            if stop():
                break
            found += self._passes(1, self.settings.dropout, stop)[:1]
        self._whole = self.settings.learns and self._stale
        return found

    def _learn(self) -> None:
        if not self._stale or not self.settings.learns:
            return
        best, samples = self.best_seconds, Samples()
        candidates = list(self.told.values())
        for n, rows, prior in described([c for c, _ in candidates], self.target, self.model):
            took = candidates[n][1]
            samples.add(rows, best / took if best and took else 0.0, self.workload.key, prior)
        self.model.update(samples)
        self.costs.clear()
        self._stale = False

    # -- the beam --------------------------------------------------------------------------------------------------------

    def _passes(self, beam: int, kept: float, stop: Callable[[], bool]) -> list[State]:
        """All final states of the passes, the cheapest first. `kept`: the chance that no state is dropped."""
        blessed: set[object] = set()
        ends: dict[State, float] = {}
        for number in range(self.settings.passes if beam > 1 else 1):
            final = self._pass(number, beam, kept, blessed, stop)
            if stop() or not final:
                break
            ends.update(final)
            best = min(final.values())
            good = heapq.nsmallest(
                beam, (s for s in final if final[s] <= best + math.log2(self.settings.blessed)), key=lambda s: final[s]
            )
            for state in good:
                blessed |= {outline(state[:n], number) for n in range(1, len(state) + 1)}
        return sorted(ends, key=lambda s: ends[s])

    def _pass(self, number: int, beam: int, kept: float, blessed: set[object], stop: Callable[[], bool]) -> dict[State, float]:
        """One beam search; costs are logarithms."""
        states: dict[State, float] = {(): 0.0}
        for stage in self.order:
            for phase in (0, 1):
                if stop():
                    return {}
                expanded = self._popped(states, number, beam, kept, blessed)
                children = list(dict.fromkeys(c for s in expanded for c in self.schedules.children(s, stage, phase, self.settings)))
                costs = self._costs(children, stop)
                states = {c: costs[c] for c in children if c in costs}
                if not states:
                    return {}
        return dict(heapq.nsmallest(beam, states.items(), key=lambda one: one[1]))

    def _popped(self, states: dict[State, float], number: int, beam: int, kept: float, blessed: set[object]) -> list[State]:
        """The states to go on with, in the order of their costs; what is like others comes later."""
        survival = survives(kept, len(self.order))
        queue = [(cost, n, state, False) for n, (state, cost) in enumerate(states.items())]
        heapq.heapify(queue)
        seen: dict[object, int] = {}
        found: list[State] = []
        while queue and len(found) < beam:
            cost, n, state, penalised = heapq.heappop(queue)
            if not penalised:
                fine = outline(state, number + 1)
                seen[fine] = seen.get(fine, 0) + 1
                penalty = seen[fine]
                if number > 0 and outline(state, number - 1) not in blessed and state:
                    penalty += self.settings.unblessed
                if penalty > 1 and queue and cost + math.log2(penalty) > queue[0][0]:
                    heapq.heappush(queue, (cost + math.log2(penalty), n, state, True))
                    continue
            if queue and self.rng.random() >= survival:
                continue
            found.append(state)
        return found

    def _costs(self, states: Sequence[State], stop: Callable[[], bool]) -> dict[State, float]:
        """The logarithm of what each state takes, completed; of those that can be built."""
        new = [s for s in states if s not in self.costs]
        if new and not stop():
            groups: dict[int, tuple[Sketch, list[State], list[dict[str, int]]]] = {}
            for state in new:
                made = self.schedules.made(state)
                if made is not None:
                    _, members, decisions = groups.setdefault(id(made[0]), (made[0], [], []))
                    members.append(state)
                    decisions.append(made[1])
            batches = [
                (sketch, {h: np.array([d[h] for d in decisions], np.int64) for h in sketch.holes})
                for sketch, _, decisions in groups.values()
            ]
            if batches:
                model: CostModel = self.model if self.model.ready() else PriorModel()
                scores: Array = model.predict(*features_for(model, batches, self.target))
                order = itertools.chain.from_iterable(members for _, members, _ in groups.values())
                self.costs.update(zip(order, (-scores).tolist()))
        return {s: self.costs[s] for s in states if s in self.costs}


def survives(kept: float, stages: int) -> float:
    """The chance of each state to survive dropout, where `kept` is that of a run to drop nothing."""
    return float(kept ** (1.0 / (2 * stages)))


def outline(state: State, depth: int) -> object:
    """A structural hash: at depth 0 the places of stages, at 1 which loops there are, from 2 on their sizes."""
    if depth <= 0:
        return tuple((stage, d.place, d.depth) for stage, d in state)
    if depth == 1:
        return tuple((stage, d.place, d.depth, *(x > 1 for x in d.inner), *(x > 1 for x in d.tasks)) for stage, d in state)
    return state


# -- schedules -----------------------------------------------------------------------------------------------------------------


class Schedules:
    """What decisions there are, and the programs that they come to."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self._sketches: dict[object, Sketch | None] = {}
        self._inlined: dict[tuple[str, ...], Workload] = {}
        self._lanes: dict[int, tuple[Stage, int, list[Axis]]] = {}  # by the identity of a stage, which is held
        self._cheap: dict[tuple[int, str], tuple[Workload, bool]] = {}  # by the identity of a workload, likewise

    def now(self, state: State) -> Workload:
        """The workload with all that is inlined by then."""
        gone = tuple(stage for stage, d in state if d.place == "inline")
        if gone not in self._inlined:
            self._inlined[gone] = apply_rewrites(self.space.workload, [Inline(name) for name in gone])
        return self._inlined[gone]

    def children(self, state: State, name: str, phase: int, settings: Settings) -> Iterator[State]:
        """The state with one more decision, every way."""
        now = self.now(state)
        stage = now.stage(name) if now.is_stage(name) else None
        if stage is None:
            yield state
        elif phase == 0:
            for decision in self._places(state, now, stage, settings):
                yield (*state, (name, decision))
        else:
            yield from self._shared(state, stage, settings)

    def _places(self, state: State, now: Workload, stage: Stage, settings: Settings) -> Iterator[Decision]:
        output = stage.name in now.outputs
        if not output and self.can_inline(now, stage, settings):
            yield Decision("inline")
            if is_strictly_inlinable(stage):  # as cheap as reading it: the only way
                return
        width, axes = self.lanes(stage)
        plain = tuple(1 for _ in axes)
        inner = [plain]
        if width:
            extents = [-(-a.extent // width) if n == len(axes) - 1 else a.extent for n, a in enumerate(axes)]
            inner += [tuple(-(-e // o) for e, o in zip(extents, outer)) for outer in tilings(extents)]
        for one in dict.fromkeys(inner):
            yield Decision("root", inner=one)
        reader = self.reader(now, stage)
        if not output and reader is not None and any(s == reader and d.place == "root" for s, d in state):
            small = [one for one in dict.fromkeys(inner) if math.prod(one) <= settings.registers]
            for depth in (1, 2):
                yield from (Decision("inside", depth, one) for one in small)

    def _shared(self, state: State, stage: Stage, settings: Settings) -> Iterator[State]:
        """Divisions of the work of the last stage among threads."""
        *before, (name, decision) = state
        cores = self.space.target.cores
        width, axes = self.lanes(stage)
        if decision.place != "root" or cores < 2 or not width:
            yield state
            return
        whole = tuple(
            -(-a.extent // (size * (width if n == len(axes) - 1 else 1))) for n, (a, size) in enumerate(zip(axes, decision.inner))
        )
        options = [whole, *tilings(whole)] if math.prod(decision.inner) <= settings.registers else [whole]
        kept = [t for t in options if t == whole or cores <= math.prod(t) <= settings.tasks * cores]
        kept = [t for t in kept if math.prod(t) <= settings.tasks * cores] or kept
        ranked = sorted(dict.fromkeys(kept), key=lambda t: _idle(math.prod(t), cores))
        for n, tasks in enumerate(ranked):
            if n == 0 or _idle(math.prod(tasks), cores) <= settings.waste:
                yield (*before, (name, replace(decision, tasks=tasks)))

    def can_inline(self, now: Workload, stage: Stage, settings: Settings) -> bool:
        """Whether a stage can be computed in its readers, without computing it too often."""
        key = id(now), stage.name
        if key not in self._cheap:
            own = math.prod(stage.shape)
            used = sum(math.prod(a.extent for a in now.stage(r).all_axes) for r in now.consumers[stage.name])
            can = not stage.reduction and bool(now.consumers[stage.name]) and fits(now, stage.name)
            self._cheap[key] = now, can and used <= settings.recomputed * own
        return self._cheap[key][1]

    def reader(self, now: Workload, stage: Stage) -> str | None:
        readers = now.consumers[stage.name]
        return readers[0] if len(readers) == 1 else None

    def lanes(self, stage: Stage) -> tuple[int, list[Axis]]:
        """Elements of a vector and the axes that are tiled, that in lanes last; 0 where lanes run along a reduction."""
        if id(stage) not in self._lanes:
            axes = [a for a in stage.axes if tiled(a)]
            along = lane_axis(stage) in {a.name for a in axes} or (bool(axes) and needs_tiling(stage))
            self._lanes[id(stage)] = stage, self.space.tactics.lanes(dtype(stage.dtype).lane_bytes) if along else 0, axes
        return self._lanes[id(stage)][1:]

    # -- programs ----------------------------------------------------------------------------------------------------

    def candidate(self, state: State) -> Candidate | None:
        made = self.made(state)
        return None if made is None else Candidate(*made)

    def made(self, state: State) -> tuple[Sketch, dict[str, int]] | None:
        """The structure and the numbers of a state, with what is not decided yet filled in; None if it cannot be."""
        decided = dict(self.completed(state))
        key = tuple((name, d.place, d.depth, len(d.inner)) for name, d in decided.items())
        if key not in self._sketches:
            self._sketches[key] = self._sketch(decided)
        sketch = self._sketches[key]
        return None if sketch is None else (sketch, self._numbers(sketch, decided))

    def completed(self, state: State) -> State:
        now, rest = self.now(state), []
        known = {name for name, _ in state}
        for stage in reversed(self.space.workload.stages):
            if stage.name in known:
                continue
            here = now.stage(stage.name)
            if stage.name not in now.outputs and self.can_inline(now, here, SETTINGS):
                rest.append((stage.name, Decision("inline")))
                now = self.now((*state, *rest))
            else:
                rest.append((stage.name, Decision("root", inner=tuple(1 for _ in self.lanes(here)[1]))))
        return (*state, *rest)

    def _sketch(self, decided: dict[str, Decision]) -> Sketch | None:
        gone = [Inline(name) for name, d in decided.items() if d.place == "inline"]
        try:
            now = apply_rewrites(self.space.workload, gone)
            nests = [self._nest(stage, decided[stage.name]) for stage in now.stages]
            at = {n.stage: n for n in nests}
            placed = []
            for stage, nest in zip(now.stages, nests):
                d = decided[stage.name]
                if d.place == "inside":
                    reader = now.stage(str(self.reader(now, stage)))
                    depth = len(reader.axes) if d.depth == 1 else len(at[reader.name].outer)
                    nest = Nest(nest.stage, nest.loops, nest.vector, f"{reader.name}:{depth}", nest.packed)
                placed.append(nest)
            return Sketch(self.space.workload, tuple(placed), tuple(gone)).check()
        except (Refusal, UserError):
            return None

    def _nest(self, stage: Stage, decision: Decision) -> Nest:
        if not self.lanes(stage)[0]:
            return simple_nest(stage)
        own = [a for a in stage.axes if tiled(a)]
        inside = decision.place == "inside"
        outer = levels(stage.axes, 0) if inside else names(levels(stage.axes, 0), levels(own, 1))
        last = 1 if inside else 2
        return Nest(stage.name, names(outer, "|", levels(stage.reduce_axes, 0), levels(own, last)), vector=f"{own[-1].name}.{last}")

    def _numbers(self, sketch: Sketch, decided: dict[str, Decision]) -> dict[str, int]:
        found = dict.fromkeys(sketch.holes, 1)
        for nest in sketch.nests:
            stage, d = sketch.rewritten.stage(nest.stage), decided[nest.stage]
            width, _ = self.lanes(stage)
            if f"{nest.stage}.parallel" in found:
                found[f"{nest.stage}.parallel"] = len(stage.axes)
            if not width:
                if nest.vector is not None and f"{nest.stage}.{nest.vector}" in found:
                    found[f"{nest.stage}.{nest.vector}"] = self.space.tactics.lanes(dtype(stage.dtype).lane_bytes)
                continue
            own = [a for a in stage.axes if tiled(a)]
            in_registers = math.prod(d.inner) <= SETTINGS.registers
            for n, (a, size) in enumerate(zip(own, d.inner)):
                lanes = width if n == len(own) - 1 else 1
                if d.place == "inside":
                    found[f"{nest.stage}.{a.name}.1"] = size * lanes
                    continue
                found[f"{nest.stage}.{a.name}.2"] = size * lanes if in_registers else lanes
                if not in_registers:
                    found[f"{nest.stage}.{a.name}.1"] = size
                elif d.tasks:
                    found[f"{nest.stage}.{a.name}.1"] = max(1, -(-a.extent // (size * lanes * d.tasks[n])))
        return found


def _idle(tasks: int, cores: int) -> float:
    """By how much longer it takes because some cores have nothing to do at the end."""
    each = tasks / cores
    return math.ceil(each) / each


_CHEAP = (AtTheRoot(),)  # the sketches of a workload are not looked at: its own decisions are its space

PRESET = Preset("halide", HalidePolicy, rules=_CHEAP, model="trees", transfer=False, formulations="direct")
ONE_SHOT = replace(SETTINGS, learns=False)
BEAM = Preset(
    "halide-beam", partial(HalidePolicy, settings=ONE_SHOT), rules=_CHEAP, model="prior", transfer=False, formulations="direct"
)
