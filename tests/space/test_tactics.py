"""A space without any knowledge of the machine: slower to find something good, but whole."""

from __future__ import annotations

import numpy as np
import pytest

from tensorsmith.backends import rule_set
from tensorsmith.ops import catalogue
from tensorsmith.program.lower import lower
from tensorsmith.space.plain import plain_candidate
from tensorsmith.space.population.adapt import adapt
from tensorsmith.space.population.evolve import offspring
from tensorsmith.space.population.population import Space
from tensorsmith.space.population.repair import repair
from tensorsmith.space.population.sampling import Sampling, sample
from tensorsmith.space.population.seeds import seeds
from tensorsmith.space.tactics import Tactics
from tensorsmith.targets.target import native


def space(name: str, tactics: Tactics) -> Space:
    return Space(catalogue.get(name).workload(), native(), rule_set("default"), tactics)


@pytest.mark.parametrize("name", ["C2D-small", "softmax-small", "GMM-small", "NRM-1-b1"])
@pytest.mark.parametrize("kind", ["target", "uniform"])
def test_nothing_of_a_machine_is_needed(name, kind):
    where = space(name, Tactics())
    rng = np.random.default_rng(0)
    for p in sample(where, 8 * len(where.plans), rng, Sampling(kind)):
        plan = where.plans[p.plan]
        child = offspring(plan, p.matrix, p.matrix[::-1], rng)
        assert (child != p.matrix).any() and np.array_equal(repair(plan, child), child)
        lower(plan.candidate(child[0]))
    for p in seeds(where):
        lower(where.plans[p.plan].candidate(p.matrix[0]))
    (first, *_) = where.candidates(sample(where, len(where.plans), rng))
    assert adapt(where.like(where.workload), first)


def test_the_default_is_the_plain_schedule():
    where = space("softmax-small", Tactics())
    assert where.tactics.default_candidate(where.workload) == plain_candidate(where.workload)


class Cramped(Tactics):
    """No attached stage may take more than a few bytes, and a hundred threads want work."""

    local_bytes = 64
    threads = 100

    def lanes(self, element_bytes):
        return 7


def test_the_space_asks_the_tactics():
    roomy, cramped = (space("C2D-small", t) for t in (Tactics(), Cramped()))
    bytes_ = []
    for where in (roomy, cramped):
        found = []
        for p in sample(where, 40 * len(where.plans), np.random.default_rng(1)):
            plan = where.plans[p.plan]
            measured = plan.geometry.measure(p.matrix)
            for stage in plan.geometry.workload.stages:
                place, places = plan.geometry.places[stage.name]
                if place is not None and any(o.at is None and not o.inline for o in places):  # it can go to the root
                    inside = ~measured.at_root[stage.name] & ~measured.inlined[stage.name]
                    found += measured.region_bytes(stage)[inside].tolist()
        bytes_.append(max(found, default=0))
    assert bytes_[0] > 64 >= bytes_[1]
    assert roomy.plans[0].lanes.max() == 1 and cramped.plans[0].lanes.max() == 7
    shared = [
        np.mean(
            [p.matrix[:, where.plans[p.plan].names["conv2d.parallel"]].mean() for p in sample(where, 200, np.random.default_rng(2))]
        )
        for where in (roomy, cramped)
    ]
    assert shared[1] > shared[0]
