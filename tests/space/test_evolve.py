"""Mutation and crossover."""

import numpy as np
import pytest

from tensorsmith.ops import catalogue
from tensorsmith.space.domains import repair
from tensorsmith.space.evolve import Mutation, crossover, mutate, nodes, offspring
from tensorsmith.space.population import Space
from tensorsmith.space.sampling import sample
from tensorsmith.target import native


def plans(name, count=600):
    space = Space(catalogue.get(name).workload(), native())
    return [(space.plans[p.plan], p.matrix) for p in sample(space, count, np.random.default_rng(0))]


@pytest.mark.parametrize("name", ["ConvLayer-2-b1", "TBS-1-b1", "NRM-1-b1", "C2D-3-b1"])
def test_every_hole_changes(name):
    for plan, rows in plans(name, 3000):
        changed = mutate(plan, rows, np.random.default_rng(1), Mutation(new_structures=1000)) != rows
        moving = (plan.high > plan.low) & np.array([c.kind != "size" or c.high > 1 for c in plan.columns])
        for n, c in enumerate(plan.columns):
            if moving[n] and len(np.unique(rows[:, n])) > 1:
                assert changed[:, n].any(), c.hole
        assert changed.any(axis=1).mean() > 0.6


@pytest.mark.parametrize("name", ["ConvLayer-2-b1", "TBS-1-b1"])
def test_few_new_structures(name):
    for plan, rows in plans(name, 3000):
        child = offspring(plan, rows, rows[::-1], np.random.default_rng(2), Mutation(new_structures=4))
        fresh = np.setdiff1d(plan.structures(child), plan.structures(rows))
        assert len(fresh) <= 2 * 4 + 1


def test_a_node_comes_from_one_parent():
    for plan, rows in plans("TBS-1-b1"):
        a, b = rows, rows[::-1]
        node = nodes(plan)
        child = crossover(plan, a, b, np.random.default_rng(3), new_structures=10**6)
        # where nothing had to be repaired, each node is all of a or all of b
        for n in np.unique(node):
            columns = node == n
            whole = (child[:, columns] == a[:, columns]).all(axis=1) | (child[:, columns] == b[:, columns]).all(axis=1)
            assert whole.mean() > 0.5
        stages = [plan.columns[i].stage for i in range(len(node))]
        assert len({n for n, s in zip(node, stages) if s == "tbs_scores"}) == 1


def test_fused_nests_are_one_node():
    (plan, _), *_ = plans("ConvLayer-2-b1")
    node = nodes(plan)
    of = {c.stage: int(node[n]) for n, c in enumerate(plan.columns)}
    assert of["layer"] == of["layer_conv"] != of["layer_conv_pad"]


def test_all_stay_in_their_domains():
    for plan, rows in plans("C2D-4-b1"):
        child = offspring(plan, rows, rows[::-1], np.random.default_rng(4))
        assert (child >= plan.low).all() and (child <= plan.high).all()
        assert np.array_equal(repair(plan, child), child)


def test_nothing_of_nothing():
    (plan, rows), *_ = plans("C2D-3-b1")
    assert len(mutate(plan, rows[:0], np.random.default_rng(0))) == 0
    assert len(crossover(plan, rows[:0], rows[:0], np.random.default_rng(0))) == 0
