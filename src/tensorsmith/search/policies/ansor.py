"""Ansor's policy (Zheng et al., OSDI 2020), with the constants of its implementation in TVM 0.14, and its ablations.

Rounds of 64 programs: random annotations of the sketches and the best measured programs are a population of 2048, which evolves for
four generations. Parents are chosen by their predicted throughput, children are copies with one change, and the best 61 that
were never measured are proposed, with three random ones. The model is the paper's, on the paper's features; as long as it has too
little to learn from, scores are random. There is no crossover: the paper describes one, its implementation has none.

    ansor                as it is
    ansor-nofinetune     random scores instead of a model (the paper's "no fine-tuning")
    ansor-limited        one level of tiles, nothing moved to other places, innermost tiles of 16 at most ("limited space")

What is ours: a row instead of a history of steps; what is too large to be built is made smaller instead of dropped. The pragma
`auto_unroll_max_step` (0, 16, 64, 512) is drawn and mutated as there, and unrolls the loops of a reduction that it would unroll in
TVM; the loops of a register tile are always unrolled, and a change of tiles leaves the steps in a row as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from tensorsmith.learn.models.ansor import AnsorModel
from tensorsmith.learn.models.model import CostModel
from tensorsmith.program.unrolling import PRAGMA
from tensorsmith.search.annotation import Chances, annotate, mutate, programs
from tensorsmith.search.picking import Pick
from tensorsmith.search.policies.tensorsmith import SETTINGS as OURS
from tensorsmith.search.policies.tensorsmith import Array, Key, TensorsmithPolicy
from tensorsmith.search.policy import Preset
from tensorsmith.space.analysis import needs_tiling, reduces_constant
from tensorsmith.space.population.population import Population, Space
from tensorsmith.space.rules.base import Derived, Rule, State, Verdict, levels, names, tiled
from tensorsmith.space.rules.constant import ConstantTensor
from tensorsmith.space.rules.inline import AlwaysInline
from tensorsmith.space.rules.root import AtTheRoot
from tensorsmith.space.sketch.nest import Nest
from tensorsmith.space.sketch.sketch import Candidate
from tensorsmith.targets.target import Target


@dataclass(frozen=True)
class Settings:
    """Constants of `sketch_policy.cc` (spec: ansor.md, sections 4, 5 and 13)."""

    chances: Chances = Chances(size=0.90, unroll=0.04, location=0.05, parallel=0.01, pragma=PRAGMA)  # noqa: RUF009  frozen; 5.5: weights of the mutation rules
    population: int = 2048  # 5.1: evolutionary_search_population
    measured: float = 0.2  # 5.1: sample_init_use_measured_ratio, of the population
    generations: int = 4  # 5.1: evolutionary_search_num_iters
    blind: int = 2  # 5.4: generations at most while scores are random
    mutation: float = 0.85  # 5.1: evolutionary_search_mutation_prob; else a copy
    round: int = 64  # 5.2: programs per round
    kept: int = 2  # 5.3: rounds' worth of programs that an evolution gives back
    random: float = 0.05  # 5.6: eps_greedy, the share of a round that is random
    drawn: int = 3  # 5.2: random states drawn for each that is wanted
    retries: int = 1  # 5.1: retry_search_one_round_on_empty
    attempts: int = 10  # to fill a generation, where most changes change nothing


SETTINGS = Settings()


class AnnotatingPolicy(TensorsmithPolicy):
    """Asks and is told as ours is, with Ansor's trees and annotations, and without what is ours alone: seeds, hints, `finish`."""

    def __init__(self, space: Space, seed: int, model: CostModel | None, chances: Chances) -> None:
        own = model if model is not None else AnsorModel()
        super().__init__(space, seed=seed, model=own, settings=replace(OURS, known=False))
        self.chances = chances

    @property
    def programs(self) -> int:
        """How many annotations its sketches have."""
        return sum(programs(plan, self.chances) for plan in self.space.plans)

    def finish(self, count: int) -> list[Candidate]:
        return []


class AnsorPolicy(AnnotatingPolicy):
    """Asks and is told as ours is; what it asks for is planned in rounds."""

    def __init__(
        self,
        space: Space,
        *,
        seed: int = 0,
        hints: Sequence[Candidate] = (),
        model: CostModel | None = None,
        settings: Settings = SETTINGS,
    ) -> None:
        """`hints` are for policies that use them."""
        super().__init__(space, seed, model, settings.chances)
        self.constants = settings
        self.planned: list[Pick] = []  # the rest of a round

    # -- a round -----------------------------------------------------------------------------------------------------

    def _evolved(self, count: int) -> list[Pick]:
        chosen: list[Pick] = []
        empty = 0  # rounds in which nothing was new
        while len(chosen) < count and (self.planned or empty <= self.constants.retries):
            if not self.planned:
                self.planned = self._round()
                empty += 1
                continue
            place = self.planned.pop(0)
            if self._take(*place):
                chosen.append(place)
                empty = 0
        return chosen

    def _round(self) -> list[Pick]:
        """The best of an evolution and, behind them, some random ones."""
        s = self.constants
        first = self._first_population()
        random = int(s.random * s.round)
        lottery = [(p.plan, row) for p in first for row in p.matrix]
        drawn = [lottery[n] for n in self.rng.integers(0, len(lottery), random * s.drawn).tolist()] if lottery else []
        best = self._evolution(first, s.kept * s.round)
        chosen: dict[Key, Pick] = {}
        for place in (*best[: s.round - random], *drawn, *best[s.round - random :]):
            key = place[0], np.ascontiguousarray(place[1], np.int32).tobytes()
            if len(chosen) < s.round and key not in self.told:
                chosen.setdefault(key, place)
        return list(chosen.values())

    def _first_population(self) -> list[Population]:
        s, plans = self.constants, self.space.plans
        best = self._best_rows(int(s.measured * s.population))
        shares = np.bincount(self.rng.integers(0, len(plans), s.population), minlength=len(plans)).tolist()
        found = []
        for number, (plan, share) in enumerate(zip(plans, shares)):
            self._watch()
            chances = replace(s.chances, structures=max(2, s.chances.structures // len(plans)))
            measured = np.array([row for n, row in best if n == number], np.int32).reshape(-1, len(plan.columns))
            found.append(Population(number, np.concatenate([annotate(plan, share, self.rng, chances), measured])))
        return found

    def _evolution(self, populations: list[Population], count: int) -> list[Pick]:
        """The rows with the highest scores that any generation had, none that was measured."""
        s = self.constants
        generations = s.generations if self._ready() else min(s.generations, s.blind)
        scored: dict[Key, float] = {}
        for n in range(generations + 1):
            scores = self._scores(populations)
            for p, mine in zip(populations, scores):
                keys = ((p.plan, row.tobytes()) for row in np.ascontiguousarray(p.matrix, np.int32))
                scored.update((key, score) for key, score in zip(keys, mine.tolist()) if key not in self.told)
            if n < generations:
                populations = self._next(populations, scores)
        order = sorted(scored, key=lambda key: -scored[key])[:count]
        return [(plan, np.frombuffer(row, np.int32)) for plan, row in order]

    def _next(self, populations: list[Population], scores: list[Array]) -> list[Population]:
        """Parents by their fitness; a child is a copy with one change, or just a copy."""
        s = self.constants
        chance = fitness(np.concatenate(scores))
        owner = np.repeat(np.arange(len(populations)), [len(p) for p in populations])
        line = np.concatenate([np.arange(len(p)) for p in populations])
        children: list[list[Array]] = [[] for _ in populations]
        wanted = s.population
        for _ in range(s.attempts):
            self._watch()
            parents = self.rng.choice(len(chance), wanted, p=chance)
            for number, p in enumerate(populations):
                rows = p.matrix[line[parents[owner[parents] == number]]]
                if not len(rows):
                    continue
                changed = self.rng.random(len(rows)) < s.mutation
                new, other = mutate(self.space.plans[p.plan], rows[changed], self.rng, s.chances)
                children[number] += [rows[~changed], new[other]]
                wanted -= int((~changed).sum() + other.sum())
            if wanted <= 0:
                break
        return [Population(p.plan, np.concatenate([p.matrix[:0], *mine])) for p, mine in zip(populations, children)]

    # -- scores ----------------------------------------------------------------------------------------------------------

    def _ready(self) -> bool:
        self._learn()
        return self.model.ready()

    def _scores(self, populations: Sequence[Population]) -> list[Array]:
        """Of the model; random ones while that is not to be believed."""
        if self._ready():
            return self.scorer(self.model, populations, self._watch)
        self._watch()
        return [self.rng.random(len(p)) for p in populations]


def fitness(scores: Array) -> Array:
    """How likely each row is a parent: by its score, a throughput, nothing below 0. Where none is above, scores are logarithms."""
    positive = np.maximum(scores, 0.0)
    if not positive.any():
        positive = np.exp2(scores - scores.max())
    return np.asarray(positive / positive.sum())


# -- the limited space -----------------------------------------------------------------------------------------------------


class OneLevel:
    """`SRS` (spec: baselines.md, section 7.2): tiles in one level, nothing fused.

    C[i, j] = sum(A[i, k] * B[k, j], over k)    ->    for i.0 j.0: tile k.0 i.1 j.1
    """

    name = "one level"

    def condition(self, state: State, index: int, target: Target) -> Verdict:
        stage = state.stage(index)
        tiles = needs_tiling(stage) and not reduces_constant(state.now, stage)
        return Verdict.APPLY_AND_SKIP_REST if tiles else Verdict.SKIP

    def apply(self, state: State, index: int, target: Target) -> Derived:
        stage = state.stage(index)
        own = [a for a in stage.axes if tiled(a)]
        vector = f"{own[-1].name}.1" if own else None
        loops = names(levels(stage.axes, 0), "|", levels(stage.reduce_axes, 0), levels(own, 1))
        return [(state.with_nest(Nest(stage.name, loops, vector=vector)), index - 1)]


LIMITED_RULES: tuple[Rule, ...] = (AlwaysInline(), ConstantTensor(), OneLevel(), AtTheRoot())

#: spec: baselines.md, section 7.2
LIMITED = replace(SETTINGS, chances=replace(SETTINGS.chances, innermost=16, location=0.0, move_stages=False))

PRESET = Preset("ansor", AnsorPolicy, rules="ansor", model="ansor", transfer=False, formulations="direct")
NO_FINETUNE = Preset("ansor-nofinetune", AnsorPolicy, rules="ansor", model="random", transfer=False, formulations="direct")
LIMITED_SPACE = Preset(
    "ansor-limited",
    partial(AnsorPolicy, settings=LIMITED),
    rules=LIMITED_RULES,
    model="ansor",
    transfer=False,
    formulations="direct",
)
