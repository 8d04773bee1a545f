"""FlexTensor (Zheng et al., ASPLOS 2020), with the constants of its code: one general schedule for CPUs, explored from point to
point.

Every axis of the stage with most work is split in four parts, all exact factorings. The results of a tile are computed into a
buffer and copied out; threads share the outermost level. Each stage that can be inlined is, or is not.

    C.cache:  i.1 j.1 k.1 i.2 j.2 k.2 | k.3 i.3 j.3      in      C:  i.0 j.0 i.1 ... | i.3 j.3

A neighbour has one factor moved from a part of an axis to another, or one inlined stage more or less.

    flextensor      Q: a small network for each knob picks one direction to go in; they learn from how much faster it got
    flextensor-p    P: all neighbours of a point that is good, more or less

One step of either is several programs; here every program counts as a trial. The search begins with some hundred random points, as
the source does, so it needs long runs. What differs: the third level of the source's loops is laid out, here it is loops; the knob
for unrolling, which its generator for CPUs ignores, is left out; what cannot be built is no point; nothing is measured twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from tensorsmith.baselines.knobs import Knob, Point, Template, Value, factorings
from tensorsmith.baselines.ledger import Ledger
from tensorsmith.baselines.tuners import Unvisited
from tensorsmith.lang.inline import fits
from tensorsmith.lang.workload import Stage
from tensorsmith.learn.layers import Adadelta, Array, Layers
from tensorsmith.learn.models.model import CostModel
from tensorsmith.search.policy import Preset, never
from tensorsmith.search.trial import Trial
from tensorsmith.space.analysis import needs_tiling, reduces_constant
from tensorsmith.space.population.population import Space
from tensorsmith.space.rules.base import Derived, Rule, State, Verdict, levels, names, simple_nest, tiled
from tensorsmith.space.rules.root import AtTheRoot
from tensorsmith.space.sketch.nest import Choice, Nest
from tensorsmith.space.sketch.rewrite import CacheWrite
from tensorsmith.space.sketch.sketch import Candidate
from tensorsmith.targets.target import Target

PARTS = 4  # max(slevel, rlevel): section 2.2, "On CPU both levels"


@dataclass(frozen=True)
class Settings:
    """Constants of `scheduler.py` (spec: baselines.md, section 2.3)."""

    method: str = "q"  # or "p"
    warm_up: int = 200  # random points first: 10 x 20, and 20 x 20 for the P method
    gamma: float = 0.5  # a point is gone on from with probability exp(-gamma * how much slower it is than the best)
    parallel: int = 8  # fresh random points after every step of P, and points that Q goes on from
    trials: int = 50  # op_trial: the shares below are of these
    revive: int = 20  # retired points come back after every such share of the trials
    train: int = 5  # the networks learn after every such share of the trials
    explore: float = 0.8  # a random direction: at first,
    explore_decay: float = 0.01  # falling by this with each trial,
    explore_least: float = 0.1  # to this
    future: float = 0.9  # of the reward that comes later
    width: int = 64
    layers: int = 4
    rate: float = 0.02  # of Adadelta
    epochs: int = 20
    batch: int = 32
    memory: int = 1000  # steps that are learned from, the last ones


SETTINGS = Settings()


class FlexTensorPolicy:
    """A walk over the points of one general schedule."""

    def __init__(
        self,
        space: Space,
        *,
        seed: int = 0,
        hints: Sequence[Candidate] = (),
        model: CostModel | None = None,
        settings: Settings = SETTINGS,
    ) -> None:
        """Of `space` only the workload and the target count; `hints` and `model` are for policies that use them."""
        self.space, self.settings = space, settings
        self.rng = np.random.default_rng(seed)
        self.template = general_template(space)
        self.ledger = Ledger(space.workload)
        self.unvisited = Unvisited(self.template, self.rng)
        self.heap: dict[Point, float] = {}  # points that may be gone on from, and their seconds
        self.retired: dict[Point, float] = {}  # local minima
        self.queue: list[tuple[Point, _Step | None]] = []
        self.where: dict[int, Point] = {}  # by program
        self.steps: dict[Point, _Step] = {}  # by the point that they lead to, until its time is known
        self.learners = [Learner(n, self.template, settings, self.rng) for n in range(len(self.template.knobs))]
        self.trial = 0
        self.warm = settings.warm_up
        self._best_before: float | None = None

    @property
    def programs(self) -> int:
        """How many points there are."""
        return self.template.size

    # -- ask and tell ----------------------------------------------------------------------------------------------------

    def ask(self, count: int, stop: Callable[[], bool] = never) -> list[Candidate]:
        found: list[Candidate] = []
        while len(found) < count and not stop():
            if not self.queue and not self._step():
                break
            point, step = self.queue.pop(0)
            candidate = self._candidate(point)
            if candidate is not None:
                found.append(candidate)
                if step is not None:
                    self.steps[point] = step
        return found

    def _candidate(self, point: Point) -> Candidate | None:
        """What is new and can be built."""
        self.unvisited.visit(point)
        if not self.template.valid([point])[0]:
            return None
        candidate = self.template.candidate(point)
        program = self.ledger.program(candidate)
        self.where.setdefault(program, point)
        return candidate if self.ledger.take(candidate) else None

    def tell(self, trials: Sequence[Trial]) -> None:
        for told in self.ledger.tell(trials):
            point = self.where.get(told.program) or self.template.find(told.candidate)
            if point is None:
                continue
            self.where[told.program] = point
            self.unvisited.visit(point)
            step = self.steps.pop(point, None)
            if step is not None:
                self.learners[step.knob].note(step, point, told.seconds)
            if told.seconds is None:
                self.heap.pop(point, None)
            elif point not in self.retired and (self.warm > 0 or self._accepts(told.seconds)):
                self.heap[point] = told.seconds

    def finish(self, count: int) -> list[Candidate]:
        return []

    @property
    def best_seconds(self) -> float | None:
        return self.ledger.best_seconds

    # -- a step ----------------------------------------------------------------------------------------------------------

    def _step(self) -> bool:
        """Puts points into the queue: at first random ones, then those around good ones. False: there are no more."""
        s = self.settings
        if self.warm > 0 or not (self.heap or self.retired):
            self.warm -= 1
            return self._random(1)
        self._retire()
        self.trial += 1
        if self.trial % max(1, s.trials // s.revive) == 0 or not self.heap:
            self.heap.update(self.retired)
            self.retired.clear()
        if s.method == "q" and self.trial % max(1, s.trials // s.train) == 0:
            for learner in self.learners:
                learner.train(self.rng)
        around = self._everywhere() if s.method == "p" else self._directed()
        self.queue += [(point, step) for point, step in around if point not in self.unvisited.visited]
        if s.method == "p" or not self.queue:
            self._random(s.parallel)
        return bool(self.queue)

    def _random(self, count: int) -> bool:
        points = [p for _ in range(count) if (p := self.unvisited.take()) is not None]
        self.queue += [(p, None) for p in points]
        return bool(points)

    def _retire(self) -> None:
        """A best point whose neighbours brought nothing is a local minimum."""
        best = self.best_seconds
        if self._best_before is not None and best == self._best_before and self.heap:
            top = min(self.heap, key=lambda p: (self.heap[p], p))
            self.retired[top] = self.heap.pop(top)
        self._best_before = best

    def _accepts(self, seconds: float) -> bool:
        best = self.best_seconds
        worse = 0.0 if best is None else (seconds - best) / best
        return bool(self.rng.random() < math.exp(-self.settings.gamma * worse))

    def _everywhere(self) -> list[tuple[Point, _Step | None]]:
        """All neighbours of one point: any in the heap, if it is good enough, else the best."""
        points = sorted(self.heap, key=lambda p: (self.heap[p], p))
        chosen = points[int(self.rng.integers(len(points)))]
        start = chosen if self._accepts(self.heap[chosen]) else points[0]
        return [
            (p, None) for knob in range(len(self.template.knobs)) for p in neighbours(self.template, start, knob) if p is not None
        ]

    def _directed(self) -> list[tuple[Point, _Step | None]]:
        """From each of the best points, one step in the direction that the network of each knob picks."""
        s = self.settings
        points = sorted(self.heap, key=lambda p: (self.heap[p], p))[: s.parallel]
        explore = max(s.explore * math.exp(-s.explore_decay * self.trial), s.explore_least)
        found: list[tuple[Point, _Step | None]] = []
        for start in points:
            for learner in self.learners:
                around = neighbours(self.template, start, learner.knob)
                possible = [n for n, p in enumerate(around) if p is not None]
                if not possible:
                    continue
                direction = learner.direction(start, possible, explore, self.rng)
                goal = around[direction]
                assert goal is not None
                found.append((goal, _Step(learner.knob, direction, start, self.heap[start])))
        return found


# -- neighbours ----------------------------------------------------------------------------------------------------------------


def directions(knob: Knob) -> list[tuple[int, int]]:
    """From which part to which a factor may go, `(to, from)`; of a knob that is no split: one value on, one back."""
    parts = len(knob.values[0])
    return [(i, j) for i in range(parts) for j in range(parts) if i != j] if parts > 1 else [(1, 0), (-1, 0)]


def moved(value: Value, to: int, of: int) -> Value | None:
    """The smallest factor of one part goes to another; None if that part is 1."""
    if value[of] == 1:
        return None
    factor = next(n for n in range(2, value[of] + 1) if value[of] % n == 0)
    new = list(value)
    new[of] //= factor
    new[to] *= factor
    return tuple(new)


def neighbours(template: Template, point: Point, knob: int) -> list[Point | None]:
    """By direction of one knob: the next point, or None if there is none."""
    of = template.knobs[knob]
    found: list[Point | None] = []
    for to, part in directions(of):
        if len(of.values[0]) > 1:
            value = moved(of.values[point[knob]], to, part)
            new = None if value is None else of.values.index(value)
        else:
            new = (point[knob] + to) % len(of)
        found.append(None if new is None or new == point[knob] else (*point[:knob], new, *point[knob + 1 :]))
    return found


# -- Q-learning ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Step:
    """From where, and in which direction of which knob."""

    knob: int
    direction: int
    start: Point
    seconds: float  # at the start


class Learner:
    """What directions of one knob are worth, from the values of all knobs: a deep Q-network."""

    def __init__(self, knob: int, template: Template, settings: Settings, rng: np.random.Generator) -> None:
        self.knob, self.template, self.settings = knob, template, settings
        inputs = sum(len(k.values[0]) for k in template.knobs)
        outputs = len(directions(template.knobs[knob]))
        self.net = Layers((inputs, *[settings.width] * (settings.layers - 1), outputs), rng, gain=1 / 3)  # PyTorch's
        self.optimiser = Adadelta(self.net.parameters, settings.rate)
        self.memory: list[tuple[Array, int, float, Array]] = []

    def state(self, point: Point) -> Array:
        """The values of all knobs in a row, as powers of two: raw sizes, which the source has, let the networks run away."""
        return np.log2(np.array([1 + x for knob, n in zip(self.template.knobs, point) for x in knob.values[n]], np.float32))

    def direction(self, point: Point, possible: Sequence[int], explore: float, rng: np.random.Generator) -> int:
        """One of the possible directions: the best, or now and then any."""
        if rng.random() < explore:
            return int(possible[int(rng.integers(len(possible)))])
        worth = self.net.forward(self.state(point)[None])[0]
        return int(max(possible, key=lambda n: worth[n]))

    def note(self, step: _Step, goal: Point, seconds: float | None) -> None:
        """The reward is what was gained, in milliseconds, squashed."""
        reward = 0.0 if seconds is None else math.tanh(max(step.seconds - seconds, 0.0) * 1e3)
        self.memory = [*self.memory, (self.state(step.start), step.direction, reward, self.state(goal))][-self.settings.memory :]

    def train(self, rng: np.random.Generator) -> None:
        if not self.memory:
            return
        s = self.settings
        starts, goals = (np.stack([one[n] for one in self.memory]) for n in (0, 3))
        taken = np.array([one[1] for one in self.memory])
        rewards = np.array([one[2] for one in self.memory], np.float32)
        for _ in range(s.epochs):
            later = self.net.copy()  # the target's copy
            wanted = rewards + s.future * later.forward(goals).max(axis=1)
            order = rng.permutation(len(taken))
            for at in range(0, len(order), s.batch):
                some = order[at : at + s.batch]
                worth = self.net.forward(starts[some], keep=True)
                slope = np.zeros_like(worth)
                lines = np.arange(len(some))
                slope[lines, taken[some]] = 2 * (worth[lines, taken[some]] - wanted[some]) / len(some)
                self.optimiser.apply(self.net.backward(slope)[0])


# -- the schedule (section 2.2) ------------------------------------------------------------------------------------------------


def general_template(space: Space) -> Template:
    """The one schedule of a workload, with its knobs."""
    workload = space.workload
    heavy = [s for s in workload.stages if s.reduction and needs_tiling(s) and not reduces_constant(workload, s)]
    stage = max(heavy, key=lambda s: math.prod(a.extent for a in s.all_axes)) if heavy else None
    rules: list[Rule] = [_InlineOrNot(), *([_General(stage.name)] if stage is not None else []), AtTheRoot()]
    own = Space(workload, space.target, rules, space.tactics)
    sketch = own.plans[0].sketch
    split = [a for a in stage.all_axes if tiled(a)] if stage is not None else []
    bits = [c.stage for c in sketch.choices if c.kind == "at" and c.options == _INLINE]
    knobs = (
        *(Knob(f"split_{a.name}", factorings(a.extent, PARTS)) for a in split),
        *(Knob(f"inline_{name}", ((1,), (0,))) for name in bits),
    )
    return Template("general", own, knobs, partial(_holes, stage, tuple(bits)))


_INLINE = ("root", "inline")


def _holes(stage: Stage | None, bits: tuple[str, ...], values: Mapping[str, Value]) -> dict[str, int]:
    found = {f"{name}.at": values[f"inline_{name}"][0] for name in bits}
    if stage is None:
        return found
    copy, cache = stage.name, CacheWrite(stage.name).cache
    own = [a.name for a in stage.axes if tiled(a)]
    found[f"{copy}.parallel"] = len(stage.axes)
    inside = next((n for n, a in enumerate(own) if values[f"split_{a}"][1] > 1), None)  # level 1's first axis that is split
    found[f"{cache}.at"] = 0 if inside is None else inside + 1
    for n, a in enumerate(own):
        for part in range(1, PARTS):
            size = values[f"split_{a}"][part]
            found[f"{copy}.{a}.{part}"] = size
            around = part == 1 and inside is not None and n <= inside
            found[f"{cache}.{a}.{part}"] = 1 if around else size
    for axis in stage.reduce_axes:
        if tiled(axis):
            found.update({f"{cache}.{axis.name}.{part}": values[f"split_{axis.name}"][part] for part in range(1, PARTS)})
    return found


class _InlineOrNot:
    """A stage that reduces nothing and is no output: inlined or at the root, one bit."""

    name = "inline or not"

    def condition(self, state: State, index: int, target: Target) -> Verdict:
        stage = state.stage(index)
        free = not stage.reduction and stage.name not in state.now.outputs and state.nest(stage.name) is None
        return Verdict.APPLY_AND_SKIP_REST if free and fits(state.now, stage.name) else Verdict.SKIP

    def apply(self, state: State, index: int, target: Target) -> Derived:
        stage = state.stage(index)
        return [(state.with_nest(simple_nest(stage)).with_places(stage, _INLINE), index - 1)]


class _General:
    """Four levels of tiles, results in a buffer for each tile of the first two.

    C[i, j] = sum(...)    ->    for i.0 j.0 i.1: { C.cache: ... | k.3 i.3 j.3 }; C: j.1 i.2 j.2 | i.3 j.3
    """

    name = "general"

    def __init__(self, stage: str) -> None:
        self.stage = stage

    def condition(self, state: State, index: int, target: Target) -> Verdict:
        return Verdict.APPLY_AND_SKIP_REST if state.stage(index).name == self.stage else Verdict.SKIP

    def apply(self, state: State, index: int, target: Target) -> Derived:
        stage = state.stage(index)
        write = CacheWrite(stage.name)
        new = state.rewritten(write)
        own = [a for a in stage.axes if tiled(a)]
        reduce = [a for a in stage.reduce_axes if tiled(a)]
        single = [a for a in stage.reduce_axes if not tiled(a)]
        last = PARTS - 1
        lanes = f"{own[-1].name}.{last}"
        outer = names(levels(stage.axes, 0), *(levels(own, n) for n in range(1, last)))
        copy = Nest(stage.name, f"{outer} | {levels(own, last)}", vector=lanes)
        inner = names(*(names(levels(stage.axes if n == 0 else own, n), levels(reduce, n)) for n in range(last)), levels(single, 0))
        first = len(stage.axes)
        points = [f"{stage.name}:{depth}" for depth in range(first, first + len(own) + 1)]
        cache = Nest(write.cache, f"{inner} | {levels(reduce, last)} {levels(own, last)}", vector=lanes, at=points[0])
        new = new.with_nest(copy).with_nest(cache)
        return [(new.with_choice(Choice(write.cache, "at", tuple(points))), index - 1)]


_CHEAP = (AtTheRoot(),)  # the sketches of a workload are not looked at: the general schedule is its space

PRESET = Preset("flextensor", FlexTensorPolicy, rules=_CHEAP, model="random", transfer=False, formulations="direct")
P_METHOD = Preset(
    "flextensor-p",
    partial(FlexTensorPolicy, settings=Settings(method="p", warm_up=400)),
    rules=_CHEAP,
    model="random",
    transfer=False,
    formulations="direct",
)
