"""The ideas of the paper, one by one, on a cost that is made up: each has to do what it is there for, not only to run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.search.synthetic import BARE, Oracle, cost, costs, rank_correlation, space, trial

from tensorsmith.backends.cpu.features.schema import SCHEMA
from tensorsmith.learn.models.registry import as_model
from tensorsmith.search.picking import Pick
from tensorsmith.search.policies import tensorsmith as module
from tensorsmith.search.policies.tensorsmith import TensorsmithPolicy, _neighbours
from tensorsmith.search.trial import Status, Trial
from tensorsmith.space.population.population import Plan, Population, Space
from tensorsmith.space.population.repair import repair
from tensorsmith.space.population.sampling import sample
from tensorsmith.space.sketch.sketch import Candidate

Array = np.ndarray[Any, np.dtype[Any]]

SPACE = space()
SEEDS = range(4)


def drawn(count: int, seed: int, where: Space = SPACE) -> list[Population]:
    return sample(where, count, np.random.default_rng(seed))


def some(count: int, seed: int) -> list[Candidate]:
    return list(SPACE.candidates(drawn(count, seed)))


def mean_cost(candidates: list[Candidate]) -> float:
    return float(np.mean([cost(c) for c in candidates]))


# -- evolution -----------------------------------------------------------------------------------------------------------


def test_evolution_beats_sampling_for_the_same_number_of_scores() -> None:
    """Both choose by scores that are right; the samples are as many as evolution asked about, all generations together."""
    gains = []
    for seed in SEEDS:
        evolving = TensorsmithPolicy(SPACE, seed=seed, settings=replace(BARE, generations=6))
        scores = Oracle(evolving)
        evolved = evolving.ask(8)
        sampling = TensorsmithPolicy(SPACE, seed=seed, settings=replace(BARE, generations=0, population=scores.asked))
        Oracle(sampling)
        gains.append(mean_cost(sampling.ask(8)) - mean_cost(evolved))
    assert min(gains) > 0 and np.mean(gains) > 1  # in powers of two


@pytest.mark.parametrize("crossover", [True, False])
def test_children_have_parents_of_the_better_half(crossover: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = TensorsmithPolicy(SPACE, seed=1, settings=replace(BARE, generations=1, crossover=crossover))
    scores = Oracle(policy)
    breed, change, pairs = module.offspring, module.mutate, []

    def of_two(plan: Plan, a: Array, b: Array, *rest: Any) -> Array:
        pairs.append((plan, a, b))
        return breed(plan, a, b, *rest)

    def of_one(plan: Plan, a: Array, *rest: Any) -> Array:
        pairs.append((plan, a, a))
        return change(plan, a, *rest)

    monkeypatch.setattr(module, "offspring", of_two)
    monkeypatch.setattr(module, "mutate", of_one)
    policy.ask(8)
    drawn_rows = {plan: costs(plan, scores.first[n]) for n, plan in enumerate(SPACE.plans)}
    middle = np.median(np.concatenate(list(drawn_rows.values())))
    chosen = [(a, b, plan) for plan, a, b in pairs if (drawn_rows[plan] < middle).sum() >= 2]  # the others breed from all they have
    assert len(chosen) >= 2
    for a, b, plan in chosen:
        assert (costs(plan, a) < middle).all() and (costs(plan, b) < middle).all()
    assert not crossover or np.concatenate([(a == b).all(axis=1) for a, b, _ in chosen]).mean() < 0.5


def best_place() -> Pick:
    """The row of a sketch that has the least cost, or nearly."""
    plan = SPACE.plans[0]
    row = np.array([3 if c.kind in ("size", "unroll") else 0 for c in plan.columns], np.int32)
    return 0, repair(plan, row[None])[0]


def test_the_best_measured_rows_breed() -> None:
    plan, row = best_place()
    known = SPACE.plans[plan].candidate(row)
    assert cost(known) < 2
    found = []
    for told in ([], [trial(known)]):
        policy = TensorsmithPolicy(SPACE, seed=1, settings=replace(BARE, generations=2, random=0.0))
        Oracle(policy)
        policy.tell(told)
        found.append(min(cost(c) for c in policy.ask(8)))
    without, with_it = found
    assert with_it < cost(known) + 2 < without  # what is near it, not the row itself: that was measured


# -- coordinate descent --------------------------------------------------------------------------------------------------


def differing(policy: TensorsmithPolicy, candidate: Candidate, rows: list[Pick]) -> int:
    """In how many holes a candidate differs from the nearest of some rows."""
    place = policy._find(candidate)
    assert place is not None
    return min((int((place[1] != row).sum()) for plan, row in rows if plan == place[0]), default=99)


def test_neighbours_differ_in_one_hole_and_most_holes_have_some() -> None:
    for p in drawn(30, 0):
        plan = SPACE.plans[p.plan]
        changed = np.concatenate([_neighbours(plan, row) != row for row in p.matrix])
        alone = changed.sum(axis=1) == 1
        assert alone.mean() > 0.7  # else a limit had to be kept, in another hole
        assert changed[alone].any(axis=0)[plan.high > plan.low].mean() > 0.7


def test_finish_changes_one_hole_of_the_best() -> None:
    policy = TensorsmithPolicy(SPACE, seed=2, settings=BARE)
    first = sorted(policy.ask(24), key=cost)
    policy.tell([trial(c) for c in first])
    best = [place for c in first[:4] if (place := policy._find(c)) is not None]
    near = policy.finish(16)
    changes = np.array([differing(policy, c, best) for c in near])
    assert len(near) == 16 and (changes >= 1).all() and (changes == 1).mean() > 0.6 and changes.max() <= 3


def test_finish_goes_downhill() -> None:
    """Step by step to the very best: from anywhere, one hole at a time is enough on this cost."""
    for seed in SEEDS:
        policy = TensorsmithPolicy(SPACE, seed=seed, settings=BARE)
        Oracle(policy)
        best = [min(cost(c) for c in some(8, seed))]
        policy.tell([trial(c) for c in some(8, seed)])
        while best[-1] > 0 and len(best) < 16:
            near = policy.finish(8)
            policy.tell([trial(c) for c in near])
            best.append(min(cost(c) for c in near))
        assert best[-1] == 0 and best == sorted(best, reverse=True)


# -- learning ------------------------------------------------------------------------------------------------------------


def test_the_model_ranks_what_it_has_not_seen() -> None:
    """The prior knows nothing of this cost; with every batch that is measured, the order of other candidates gets better."""
    held_out = drawn(200, 100)
    wanted = -np.concatenate([costs(SPACE.plans[p.plan], p.matrix) for p in held_out])
    for seed in SEEDS:
        policy = TensorsmithPolicy(SPACE, seed=seed, settings=BARE)
        order = [rank_correlation(np.concatenate(policy._scores(held_out)), wanted)]
        for batch in range(3):
            policy.tell([trial(c) for c in some(32, 10 * seed + batch)])
            order.append(rank_correlation(np.concatenate(policy._scores(held_out)), wanted))
        assert abs(order[0]) < 0.25 and order[1] < order[3] and order[3] > 0.4


def test_what_the_model_likes_is_measured() -> None:
    """Learned from 96 candidates, the next ones are better than those; without a model they are not."""
    gains = {}
    for kind in ("trees", "random"):
        found = []
        for seed in SEEDS:
            measured = some(96, seed)
            policy = TensorsmithPolicy(
                SPACE, seed=seed, model=as_model(kind, SCHEMA), settings=replace(BARE, random=0.0, parents=0)
            )
            policy.tell([trial(c) for c in measured])
            found.append(mean_cost(measured) - mean_cost(policy.ask(16)))
        gains[kind] = np.array(found)
    assert gains["trees"].min() > 0 and gains["trees"].mean() > gains["random"].mean() + 1


def test_what_fails_is_avoided() -> None:
    """Programs with copies of operands crash; those who are told so ask for no more of them."""

    def crashes(candidate: Candidate) -> bool:
        return any(nest.follows is not None for nest in candidate.sketch.nests)

    asked = []
    for seed in SEEDS:
        measured = some(64, seed)
        assert 16 < sum(map(crashes, measured)) < 48
        policy = TensorsmithPolicy(SPACE, seed=seed, settings=replace(BARE, random=0.0))
        policy.tell([Trial(c, Status.CRASHED, cause="SIGSEGV") if crashes(c) else trial(c) for c in measured])
        asked += policy.ask(16)
    assert np.mean([crashes(c) for c in asked]) < 0.1


# -- the random share ----------------------------------------------------------------------------------------------------


def test_some_are_drawn_at_random() -> None:
    """Scores are right, so what is worse than the median of samples was not chosen by them."""
    middle = float(np.median([cost(c) for c in some(400, 0)]))
    unlikely = {}
    for share in (0.0, BARE.random, 0.5):
        found = 0
        for seed in SEEDS:
            policy = TensorsmithPolicy(SPACE, seed=seed, settings=replace(BARE, random=share))
            Oracle(policy)
            policy.tell([trial(c) for c in some(8, seed)])
            found += sum(cost(c) > middle for c in policy.ask(40))
        unlikely[share] = found / (40 * len(SEEDS))
    assert unlikely[0.0] == 0.0
    assert 0.25 < unlikely[BARE.random] / BARE.random < 1.0 and 0.25 < unlikely[0.5] / 0.5 < 1.0
