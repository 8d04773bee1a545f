"""What other workloads teach. Times are made up: what the prior says, but copies of operands are slow, whatever the workload."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.backends.cpu.machines import target

from tensorsmith.backends import backend_of, space_of
from tensorsmith.backends.cpu.features.extract import extract_decisions
from tensorsmith.backends.cpu.prior import estimate_seconds
from tensorsmith.lang.workload import Workload
from tensorsmith.learn.models.accuracy import pairwise_accuracy
from tensorsmith.learn.models.trees import TreeModel
from tensorsmith.ops import catalogue
from tensorsmith.search import scores, transfer
from tensorsmith.search.policies.tensorsmith import Settings, TensorsmithPolicy
from tensorsmith.search.scores import describe
from tensorsmith.search.trial import Status, Trial
from tensorsmith.space.population.population import Population, Space
from tensorsmith.space.population.sampling import sample
from tensorsmith.space.sketch.sketch import Candidate

TARGET = target(vector_bytes=32, registers=16)  # with the same space on every machine
SMALL = Settings(population=64, generations=1, structures=4, new_structures=2)


def workload(name: str) -> Workload:
    return catalogue.get(name).workload()


def pretended(candidate: Candidate) -> Trial:
    features = extract_decisions(candidate.sketch, candidate.decisions, TARGET)
    copies = sum(nest.follows is not None for nest in candidate.sketch.nests)
    return Trial(candidate, Status.OK, seconds=float(estimate_seconds(features, TARGET)[0]) * 16.0**copies)


def drawn(space: Space, seed: int) -> list[Population]:
    return sample(space, 48, np.random.default_rng(seed))


def trials(name: str, seed: int = 0) -> list[Trial]:
    space = space_of(workload(name), TARGET)
    return [pretended(space.plans[p.plan].candidate(row)) for p in drawn(space, seed) for row in p.matrix]


def test_what_is_learned_of_one_workload_holds_for_another() -> None:
    taught = transfer.learn(trials("GMM-small"), TARGET, TreeModel())
    assert taught is not None and taught.workloads == {workload("GMM-small").canonical_key}
    other = space_of(workload("GMM-2-b1"), TARGET)
    model = taught.model_for(other.workload)
    assert model is not None
    populations = drawn(other, 1)
    rows, prior, places = describe(other, populations)
    found = [other.plans[populations[n].plan].candidate(populations[n].matrix[row]) for n, row in places]
    speed = np.array([1 / pretended(c).seconds for c in found])
    assert pairwise_accuracy(model.predict(rows, prior), speed) > pairwise_accuracy(prior, speed) + 0.03


@pytest.mark.parametrize(("crossover", "least"), [(True, 0.5), (False, 0.2)])
def test_a_search_that_was_taught_begins_better(crossover: bool, least: float) -> None:
    """Without seeds: of its very first candidates fewer copy operands, which is slow here and which the prior does not know."""
    taught = transfer.learn(trials("GMM-small"), TARGET, TreeModel())
    where = space_of(workload("GMM-2-b1"), TARGET)
    settings = replace(SMALL, known=False, crossover=crossover)

    def mean_log_seconds(model: TreeModel | None, seed: int) -> float:
        first = TensorsmithPolicy(where, seed=seed, settings=settings, model=model).ask(12)
        return float(np.mean([np.log2(pretended(c).seconds) for c in first]))

    gains = [mean_log_seconds(None, seed) - mean_log_seconds(taught.model_for(where.workload), seed) for seed in range(3)]
    assert min(gains) > least and np.mean(gains) > 0.5


def test_what_a_search_learns_is_its_own() -> None:
    taught = transfer.learn(trials("GMM-small"), TARGET, TreeModel())
    one, other = taught.model_for(workload("GMM-2-b1")), taught.model_for(workload("GMM-3-b1"))
    policy = TensorsmithPolicy(space_of(workload("GMM-2-b1"), TARGET), settings=SMALL, model=one)
    policy.tell([pretended(c) for c in policy.ask(16)])
    policy.ask(4)
    assert one.booster.num_trees() > other.booster.num_trees() == taught.model.booster.num_trees()


def test_a_workload_is_not_taught_by_itself() -> None:
    taught = transfer.learn(trials("GMM-small"), TARGET, TreeModel())
    assert taught.model_for(workload("GMM-small")) is None


def test_nothing_to_learn_from() -> None:
    failed = [Trial(t.candidate, Status.REFUSED, cause="no") for t in trials("GMM-small")[:20]]
    assert transfer.learn([], TARGET, TreeModel()) is None
    assert transfer.learn(failed, TARGET, TreeModel()) is None


def test_a_candidate_that_cannot_be_lowered_is_passed_over(monkeypatch) -> None:
    given = trials("GMM-small")
    bad = given[0].candidate.sketch
    backend = backend_of(TARGET)

    def failing(batches, target):
        if any(sketch is bad for sketch, _ in batches):
            raise KeyError("of an older version")
        return backend.extract_rows(batches, target)

    monkeypatch.setattr(scores, "backend_of", lambda _: replace(backend, extract_rows=failing))
    described = transfer.described([t.candidate for t in given], TARGET)
    assert sorted(n for n, _, _ in described) == [n for n, t in enumerate(given) if t.candidate.sketch is not bad]
