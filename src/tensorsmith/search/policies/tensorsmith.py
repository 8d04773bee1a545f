"""Our policy: sample, evolve under the cost model, measure the most promising, learn, again. It grew out of Ansor's.

The first candidates are the default schedule, what was good for similar workloads, carried over to these extents,
hardware-aligned seeds, and the samples that the analytic prior likes best. Then a population of samples and of children of the
best measured rows evolves for some generations under the learned model; the best are proposed, not too many of one structure
nor too near to each other, with some random ones among them. `finish` proposes the neighbours of the best candidates, one hole
changed at a time (coordinate descent).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorsmith.backends import backend_of
from tensorsmith.errors import Refusal
from tensorsmith.learn.models.model import CostModel, Samples
from tensorsmith.learn.models.prior import PriorModel
from tensorsmith.learn.models.registry import as_model
from tensorsmith.search.picking import Pick, pick
from tensorsmith.search.policy import Preset, never
from tensorsmith.search.scores import Scorer, describe
from tensorsmith.search.seen import Seen
from tensorsmith.search.trial import Trial
from tensorsmith.show.line import line
from tensorsmith.show.units import time
from tensorsmith.space.population.adapt import adapt
from tensorsmith.space.population.evolve import Mutation, mutate, offspring
from tensorsmith.space.population.population import Plan, Population, Space, unique
from tensorsmith.space.population.repair import repair
from tensorsmith.space.population.sampling import Sampling, sample
from tensorsmith.space.population.seeds import seeds
from tensorsmith.space.sketch.sketch import Candidate

Array = np.ndarray[Any, np.dtype[Any]]
Key = tuple[int, bytes]  # sketch and row


class _Stopped(Exception):
    """A search was ended before it was done."""


@dataclass(frozen=True)
class Settings:
    """Knobs of the policy; what counts is quality per second on two cores."""

    population: int = 1024  # rows that evolve: above this the model, not the number, limits what is found
    generations: int = 3  # 0: the best of the samples are measured as they are
    crossover: bool = False  # children of two rows, as in the paper: found nothing better than changed copies of one
    structures: int = 18  # drawn at a time, of all sketches together: a structure that is new costs a lowering
    new_structures: int = 12  # made by mutation and crossover in a generation, of all sketches together
    sampling: str = "target"  # how rows are drawn: with the machine in mind, or "uniform" as in the paper
    known: bool = True  # whether to start from the default schedule, from similar workloads and from seeds
    hints: int = 8  # candidates of similar workloads that are tried, the nearest shapes first; 0: nothing is heard of them
    seeds: int = 8  # hardware-aligned rows that are measured at first, each of another sketch or with other places of its stages
    few: int = 8  # of the first candidates, that other seeds are taken for: no population evolves for so few
    prior: bool = True  # whether the analytic estimate counts: alone at first, then as what the model adds to; else chance is first
    descent: bool = True  # whether `finish` proposes the neighbours of the best
    parents: int = 32  # best measured rows that breed
    random: float = 0.1  # share of proposals that are drawn at random, so that the model keeps learning
    per_structure: float = 0.5  # at most this share of a batch has one structure
    apart: float = 0.5  # between two rows of a batch: the sum of |log2| of the ratios of their numbers


SETTINGS = Settings()


@dataclass(frozen=True)
class _Told:
    """What is known of a measured row."""

    features: Array  # [statements, features]
    prior: float  # log2 of the speed
    seconds: float | None  # None: it failed


class TensorsmithPolicy:
    """Proposes candidates of one space; see the module's text. Seeded, without I/O."""

    def __init__(
        self,
        space: Space,
        *,
        seed: int = 0,
        hints: Sequence[Candidate] = (),
        model: CostModel | None = None,
        settings: Settings = SETTINGS,
    ) -> None:
        """As in `search.policy.MakePolicy`; without a `model`, trees that have learned nothing yet."""
        self.space, self.settings = space, settings
        self.rng = np.random.default_rng(seed)
        self.model = model if model is not None else as_model("trees", backend_of(space.target).schema)
        self.scorer = Scorer(space, settings.prior)
        self.seen = Seen()  # programs asked for or told
        self.told: dict[Key, _Told] = {}
        self.asked: dict[tuple[int, tuple[int, ...]], Pick] = {}  # by sketch and decisions
        self._default: tuple[Key, Candidate] | None = None  # its row, and it as it is used without a search
        self.waiting: list[Pick] = self._first(hints) if settings.known else []
        self._seeded = not (settings.known and settings.seeds)  # whether the seeds were proposed
        self._stop: Callable[[], bool] = never  # of the search that is under way
        self._stale = False  # whether something was told that the model has not seen

    def __repr__(self) -> str:
        return line(self, f"on {self.space.workload.title}: {len(self.told)} told, best {time(self.best_seconds)}")

    # -- ask and tell ----------------------------------------------------------------------------------------------

    def ask(self, count: int, stop: Callable[[], bool] = never) -> list[Candidate]:
        """Candidates to measure next; fewer than asked for only where the space is exhausted, or where `stop()`, which is asked
        some times a second, ended the search for them."""
        chosen: list[Pick] = []
        while self.waiting and len(chosen) < count:
            place = self.waiting.pop(0)
            if self._take(*place):
                chosen.append(place)
        self._stop = stop
        with contextlib.suppress(_Stopped):
            if not self._seeded and len(chosen) < count:
                made = seeds(self.space, self._watch)
                chosen += self._pick(self._best_of(made), min(self.settings.seeds, count - len(chosen)))
                if count - len(chosen) <= self.settings.few:
                    chosen += self._pick(made, count - len(chosen))
                self._seeded = True
            if len(chosen) < count:
                chosen += self._evolved(count - len(chosen))
        self._stop = never
        return [self._candidate(*one) for one in chosen]

    def finish(self, count: int) -> list[Candidate]:
        """Untried neighbours of the best candidates, the likeliest first."""
        if not self.settings.descent:
            return []
        near: list[Population] = []
        for plan, row in self._best_rows(4):
            near.append(Population(plan, _neighbours(self.space.plans[plan], row)))
        return [self._candidate(*one) for one in self._pick(near, count)]

    def hint(self, candidates: Sequence[Candidate]) -> None:
        """Good candidates of similar workloads, carried over, are the next to be asked for."""
        if self.settings.known and self.settings.hints:
            others = [c for c in candidates if c.sketch.workload.key != self.space.workload.key]
            self.waiting = [row for c in others for row in adapt(self.space, c)[:1]] + self.waiting

    def tell(self, trials: Sequence[Trial]) -> None:
        """Results of candidates, asked for or not; those that are no points of this space are passed over."""
        found: dict[int, dict[bytes, tuple[Array, float | None]]] = {}
        for trial in trials:
            place = self._find(trial.candidate)
            if place is not None:
                self._take(*place)
                seconds = trial.seconds if trial.ok else None
                found.setdefault(place[0], {})[_key(*place)[1]] = place[1], seconds
        populations = [Population(plan, np.array([row for row, _ in rows.values()], np.int32)) for plan, rows in found.items()]
        times = [[seconds for _, seconds in rows.values()] for rows in found.values()]
        features, prior, places = describe(self.space, populations, self.model)
        values = [one for matrix in features.matrices() for one in matrix.values]
        for one, base, (number, row) in zip(values, prior.tolist(), places):
            p = populations[number]
            self.told[_key(p.plan, p.matrix[row])] = _Told(one, base if self.settings.prior else 0.0, times[number][row])
        self._stale = self._stale or bool(places)

    @property
    def best_seconds(self) -> float | None:
        """The least time told so far."""
        times = [t.seconds for t in self.told.values() if t.seconds is not None]
        return min(times) if times else None

    def samples(self) -> Samples:
        """What was told, as a model learns it: throughputs relative to the best of this workload, 0 for failures."""
        best = self.best_seconds
        samples = Samples()
        for t in self.told.values():
            samples.add(t.features, best / t.seconds if best and t.seconds else 0.0, self.space.workload.key, t.prior)
        return samples

    # -- candidates and rows -----------------------------------------------------------------------------------------

    def _first(self, hints: Sequence[Candidate]) -> list[Pick]:
        """The default schedule, hints of this very workload, and some of others, carried over."""
        found: list[Pick] = []
        with contextlib.suppress(Refusal):
            default = backend_of(self.space.target).default_candidate(self.space.workload, self.space.target)
            at = self.space.find(default)
            if at is not None:
                found.append(at)
                self._default = _key(*at), default
        carried = 0
        for candidate in hints:
            if candidate.sketch.workload.key == self.space.workload.key:
                at = self.space.find(candidate)  # one of other rules may have its like here
                found += [at] if at is not None else adapt(self.space, candidate)[:1]
            elif carried < self.settings.hints:
                rows = adapt(self.space, candidate)[: self.settings.hints - carried]
                carried += len(rows)
                found += rows
        return found

    def _candidate(self, plan: int, row: Array) -> Candidate:
        """The candidate of a row. The default schedule is asked for as it is used without a search: that of its row is the same
        program but for loops of length one, and not quite as fast everywhere."""
        candidate = self.space.plans[plan].candidate(row)
        if self._default is not None and self._default[0] == _key(plan, row):
            candidate = self._default[1]
        self.asked[_identity(candidate)] = plan, row
        return candidate

    def _find(self, candidate: Candidate) -> Pick | None:
        """The row of a candidate: one that was asked for is known, others are looked for."""
        if candidate.sketch.workload.key != self.space.workload.key:
            return None
        return self.asked.get(_identity(candidate)) or self.space.find(candidate)

    def _take(self, plan: int, row: Array) -> bool:
        """Whether the program of a row is new; from now on it is not."""
        return self.seen.take(self.space.plans[plan].candidate(row))

    # -- proposals -------------------------------------------------------------------------------------------------

    def _best_of(self, made: Sequence[Population]) -> list[Population]:
        """Of each sketch, and of each way to place its stages in it, the seed that the model likes best: it knows more of sizes
        than of structures before anything is measured."""
        found = []
        for p, scores in zip(made, self._scores(made)):
            places = self.space.plans[p.plan].places
            _, group = np.unique(p.matrix[:, places], axis=0, return_inverse=True)
            for g in range(int(group.max()) + 1):
                rows = np.flatnonzero(group.reshape(-1) == g)
                found.append(Population(p.plan, p.matrix[rows[np.argmax(scores[rows])]][None, :]))
        return found

    def _evolved(self, count: int) -> list[Pick]:
        s = self.settings
        drawn = sample(self.space, s.population, self.rng, Sampling(s.sampling, max(2, s.structures // len(self.space.plans))))
        random = count if s.random >= 1 else round(count * s.random) if self.told else 0
        populations = drawn
        for _ in range(s.generations):
            populations = self._next_generation(populations)
        chosen = self._pick(populations, count - random, s.per_structure, s.apart)
        if len(chosen) < count:
            chosen += self._pick_any(drawn, count - len(chosen))
        return chosen

    def _next_generation(self, populations: list[Population]) -> list[Population]:
        """The better half, and children of rows picked from it and from the best measured ones, of each sketch."""
        best = self._best_rows(self.settings.parents)
        change = Mutation(new_structures=max(1, self.settings.new_structures // len(self.space.plans)))
        scores = self._scores(populations)
        bound = np.median(np.concatenate(scores))
        result = []
        for p, mine in zip(populations, scores):
            self._watch()
            kept = p.matrix[mine > bound]
            measured = [row for plan, row in best if plan == p.plan]
            pool = np.concatenate([kept, np.array(measured, np.int32).reshape(-1, p.matrix.shape[1])])
            if len(pool) < 2:
                pool = p.matrix
            if len(pool) < 2:
                continue
            wanted = max(32, len(kept))
            a, b = (pool[self.rng.integers(0, len(pool), wanted)] for _ in range(2))
            plan = self.space.plans[p.plan]
            children = offspring(plan, a, b, self.rng, change) if self.settings.crossover else mutate(plan, a, self.rng, change)
            result.append(Population(p.plan, unique(np.concatenate([pool, children]))))
        return result

    def _pick(self, populations: Sequence[Population], count: int, per_structure: float = 1.0, apart: float = 0.0) -> list[Pick]:
        if count <= 0:
            return []
        scores = self._scores(populations)
        return pick(self.space.plans, populations, scores, count, is_new=self._take, per_structure=per_structure, apart=apart)

    def _pick_any(self, populations: Sequence[Population], count: int) -> list[Pick]:
        scores = [self.rng.random(len(p)) for p in populations]
        return pick(self.space.plans, populations, scores, count, is_new=self._take)

    # -- scores ----------------------------------------------------------------------------------------------------

    def _scores(self, populations: Sequence[Population]) -> list[Array]:
        self._learn()
        if not self.model.ready() and not self.settings.prior:
            self._watch()
            return [self.rng.random(len(p)) for p in populations]
        return self.scorer(self.model if self.model.ready() else PriorModel(), populations, self._watch)

    def _watch(self) -> None:
        if self._stop():
            raise _Stopped

    def _learn(self) -> None:
        """Trains on everything told, when there is something new."""
        if self._stale:
            self.model.update(self.samples())
            self.scorer.forget()
            self._stale = False

    def _best_rows(self, count: int) -> list[Pick]:
        good = sorted((t.seconds, key) for key, t in self.told.items() if t.seconds is not None)
        return [(plan, np.frombuffer(row, np.int32)) for _, (plan, row) in good[:count]]


def _neighbours(plan: Plan, row: Array) -> Array:
    """Rows that differ from one in a single hole."""
    rows = []
    for n, (low, high) in enumerate(zip(plan.low, plan.high)):
        value = int(row[n])
        for other in sorted({value - 1, value + 1, value * 2, value // 2, int(low), int(high)}):
            if low <= other <= high and other != value:
                new = row.copy()
                new[n] = other
                rows.append(new)
    return unique(repair(plan, np.array(rows, np.int32).reshape(-1, len(row))))


def _key(plan: int, row: Array) -> Key:
    return plan, np.ascontiguousarray(row, np.int32).tobytes()


def _identity(candidate: Candidate) -> tuple[int, tuple[int, ...]]:
    """Of a candidate that this policy made: its sketch is one that the plan remembers, so its identity is its own."""
    return id(candidate.sketch), tuple(candidate.decisions[h] for h in candidate.sketch.holes)


PRESET = Preset("tensorsmith", TensorsmithPolicy, pretrained=True)
