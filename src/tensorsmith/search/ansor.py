"""Ansor's policy: sample, evolve under the cost model, measure the most promising, learn, again.

    ask(n)      candidates worth measuring, never one that was measured or asked for before
    tell(...)   what they took

The first candidates are the default schedule, what is known of similar workloads, hardware-aligned seeds, and the samples
that the analytic prior likes best. Then a population of samples and of children of the best measured rows evolves for some
generations under the learned model; the best are proposed, not too many of one structure, with some random ones among them.
`finish` proposes the neighbours of the best candidates, one hole changed at a time (coordinate descent).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorsmith.learn.batch import extract_rows
from tensorsmith.learn.features import FeatureMatrix, extract_decisions
from tensorsmith.learn.model import ModelSettings, Samples, TreeModel
from tensorsmith.learn.prior import estimate_seconds
from tensorsmith.search.trial import Trial
from tensorsmith.space.default import default_candidate
from tensorsmith.space.domains import repair
from tensorsmith.space.evolve import offspring
from tensorsmith.space.population import Plan, Population, Space, unique
from tensorsmith.space.sampling import Sampling, sample
from tensorsmith.space.seeds import seeds
from tensorsmith.space.sketch import Candidate

Array = np.ndarray[Any, np.dtype[Any]]
Key = tuple[int, bytes]  # sketch and row


MODEL = ModelSettings()


@dataclass(frozen=True)
class Settings:
    """Knobs of the policy; what counts is quality per second on two cores."""

    population: int = 1024  # rows that evolve: above this the model, not the number, limits what is found
    generations: int = 3
    structures: int = 6  # different structures drawn per sketch: features are computed structure by structure
    seeds: int = 6  # hardware-aligned rows that are measured at first, those that the prior likes best
    parents: int = 32  # best measured rows that breed
    random: float = 0.1  # share of proposals that are drawn at random, so that the model keeps learning
    per_structure: float = 0.5  # at most this share of a batch has one structure
    warm: int = 12  # measured programs from which on the learned model is believed
    model: ModelSettings = MODEL


SETTINGS = Settings()


class AnsorPolicy:
    """Proposes candidates of one space; see the module's text. Seeded, without I/O."""

    def __init__(self, space: Space, *, seed: int = 0, settings: Settings = SETTINGS, hints: Sequence[Candidate] = ()) -> None:
        self.space, self.settings = space, settings
        self.rng = np.random.default_rng(seed)
        self.model = TreeModel(settings.model)
        self.seen: set[Key] = set()
        self.told: dict[Key, tuple[Array, float, float | None]] = {}  # features, prior's score, seconds (None: it failed)
        self.waiting: list[tuple[int, Array]] = self._first(hints)
        self.seeds = seeds(space)
        self._stale = True

    # -- ask and tell ----------------------------------------------------------------------------------------------

    def ask(self, count: int) -> list[Candidate]:
        """Candidates to measure next; fewer than asked for only where the space is exhausted."""
        chosen = self._take_waiting(count)
        if self.seeds and len(chosen) < count:
            chosen += self._pick(self.seeds, min(self.settings.seeds, count - len(chosen)), per_structure=1.0)
            self.seeds = []
        if len(chosen) < count:
            chosen += self._evolved(count - len(chosen))
        return [self.space.plans[plan].candidate(row) for plan, row in chosen]

    def finish(self, count: int) -> list[Candidate]:
        """Untried neighbours of the best candidates, the likeliest first."""
        near: list[Population] = []
        for key in self._best_keys(4):
            plan, row = key[0], np.frombuffer(key[1], np.int32)
            near.append(Population(plan, self._neighbours(self.space.plans[plan], row)))
        chosen = self._pick(near, count, per_structure=1.0)
        return [self.space.plans[plan].candidate(row) for plan, row in chosen]

    def tell(self, trials: Sequence[Trial]) -> None:
        """Results of candidates, asked for or not; those that are no points of this space are passed over."""
        for trial in trials:
            found = self.space.find(trial.candidate)
            if found is None:
                continue
            plan, row = found
            key = _key(plan, row)
            self.seen.add(key)
            (group,) = self.space.plans[plan].groups(row[None])
            matrix = extract_decisions(group.sketch, group.decisions, self.space.target)
            rows, score = matrix.values[0], float(self._prior(matrix)[0])
            self.told[key] = (rows, score, trial.seconds if trial.ok else None)
        self._stale = True

    @property
    def best_seconds(self) -> float | None:
        """The least time told so far."""
        times = [t for _, _, t in self.told.values() if t is not None]
        return min(times) if times else None

    # -- proposals -------------------------------------------------------------------------------------------------

    def _first(self, hints: Sequence[Candidate]) -> list[tuple[int, Array]]:
        found = []
        for candidate in (default_candidate(self.space.workload, self.space.target), *hints):
            at = self.space.find(candidate)
            if at is not None:
                found.append(at)
        return found

    def _take_waiting(self, count: int) -> list[tuple[int, Array]]:
        chosen: list[tuple[int, Array]] = []
        while self.waiting and len(chosen) < count:
            plan, row = self.waiting.pop(0)
            if _key(plan, row) not in self.seen:
                self.seen.add(_key(plan, row))
                chosen.append((plan, row))
        return chosen

    def _evolved(self, count: int) -> list[tuple[int, Array]]:
        drawn = sample(self.space, self.settings.population, self.rng, Sampling(structures=self.settings.structures))
        random = round(count * self.settings.random) if self.told else 0
        populations = drawn
        for _ in range(self.settings.generations):
            populations = self._next_generation(populations)
        chosen = self._pick(populations, count - random, self.settings.per_structure)
        if len(chosen) < count:
            chosen += self._pick(drawn, count - len(chosen), 1.0, at_random=True)
        return chosen

    def _next_generation(self, populations: list[Population]) -> list[Population]:
        """The better half, and children of rows picked by their score, of each sketch."""
        best = self._best_keys(self.settings.parents)
        scored = [(p, self._scores(p)) for p in populations]
        bound = np.median(np.concatenate([s for _, s in scored if len(s)]))
        result = []
        for p, scores in scored:
            kept = p.matrix[scores > bound]
            measured = [np.frombuffer(row, np.int32) for plan, row in best if plan == p.plan]
            pool = np.concatenate([kept, np.array(measured, np.int32).reshape(-1, p.matrix.shape[1])])
            if len(pool) < 2:
                pool = p.matrix
            if len(pool) < 2:
                continue
            wanted = max(32, len(kept))
            a, b = (pool[self.rng.integers(0, len(pool), wanted)] for _ in range(2))
            children = offspring(self.space.plans[p.plan], a, b, self.rng)
            result.append(Population(p.plan, unique(np.concatenate([pool, children]))))
        return result

    def _pick(
        self, populations: Sequence[Population], count: int, per_structure: float, at_random: bool = False
    ) -> list[tuple[int, Array]]:
        """The best rows that nobody asked for yet, not too many of one structure."""
        entries = []
        for p in populations:
            if not len(p):
                continue
            scores = self.rng.random(len(p)) if at_random else self._scores(p)
            structures = self.space.plans[p.plan].structures(p.matrix)
            entries += [(-float(s), p.plan, n, int(c), p.matrix[n]) for n, (s, c) in enumerate(zip(scores, structures))]
        entries.sort(key=lambda e: e[:3])
        most = max(1, int(per_structure * count + 0.999))
        used: dict[tuple[int, int], int] = {}
        chosen: list[tuple[int, Array]] = []
        for _, plan, _, structure, row in entries:
            if len(chosen) >= count:
                break
            key = _key(plan, row)
            if key in self.seen or used.get((plan, structure), 0) >= most:
                continue
            used[plan, structure] = used.get((plan, structure), 0) + 1
            self.seen.add(key)
            chosen.append((plan, row))
        return chosen

    def _neighbours(self, plan: Plan, row: Array) -> Array:
        """Rows that differ from one in a single hole."""
        rows = []
        for n, (low, high) in enumerate(zip(plan.low, plan.high)):
            value = int(row[n])
            for other in {value - 1, value + 1, value * 2, value // 2, int(low), int(high)}:
                if low <= other <= high and other != value:
                    new = row.copy()
                    new[n] = other
                    rows.append(new)
        return unique(repair(plan, np.array(rows, np.int32).reshape(-1, len(row))))

    # -- scores ----------------------------------------------------------------------------------------------------

    def _prior(self, found: FeatureMatrix) -> Array:
        return -np.log2(np.maximum(estimate_seconds(found, self.space.target), 1e-12))

    def _scores(self, population: Population) -> Array:
        self._learn()
        groups = self.space.plans[population.plan].groups(population.matrix)
        rows = extract_rows([(g.sketch, g.decisions) for g in groups], self.space.target)
        found = np.concatenate([self._prior(matrix) for matrix in rows.matrices()])
        if self.model.booster is not None:
            found = found + rows.total(self.model.predict(rows.values[:, None]))
        scores = np.empty(len(population))
        scores[np.concatenate([g.rows for g in groups])] = found
        return scores

    def _learn(self) -> None:
        """Trains on everything told, when there is something new and enough of it."""
        times = [t for _, _, t in self.told.values() if t is not None]
        if not self._stale or len(times) < self.settings.warm:
            return
        best = min(times)
        samples = Samples()
        for rows, base, seconds in self.told.values():
            samples.add(rows, best / seconds if seconds else 0.0, "w", base)
        self.model.fit(samples)
        self._stale = False

    def _best_keys(self, count: int) -> list[Key]:
        good = [(t, key) for key, (_, _, t) in self.told.items() if t is not None]
        return [key for _, key in sorted(good, key=lambda x: x[0])[:count]]


def _key(plan: int, row: Array) -> Key:
    return plan, np.ascontiguousarray(row, np.int32).tobytes()
