"""Mutation and crossover."""

import numpy as np
import pytest

from tensorsmith.backends import space_of
from tensorsmith.ops import catalogue
from tensorsmith.space.holes.size import exchange
from tensorsmith.space.population.evolve import Mutation, crossover, mutate, nodes, offspring
from tensorsmith.space.population.repair import repair
from tensorsmith.space.population.sampling import Sampling, sample
from tensorsmith.targets.target import native


def plans(name, count=600):
    space = space_of(catalogue.get(name).workload(), native())
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


KINDS = ("size", "tile", "unroll", "parallel", "structure")


@pytest.mark.parametrize("kind", KINDS)
def test_a_mutation_changes_what_it_says(kind):
    """One thing at a time, of one kind; where a limit has to be kept, another number gives way now and then."""
    alone = Mutation({k: float(k == kind) for k in KINDS}, more=0.0, new_structures=1000)
    for plan, rows in plans("ConvLayer-2-b1"):
        meant = np.array([{"tile": "size"}.get(kind, kind) == ("structure" if c.options else c.kind) for c in plan.columns])
        changed = mutate(plan, rows, np.random.default_rng(1), alone) != rows
        assert changed[:, meant].any(axis=1).mean() > 0.3
        unless_idle = changed[:, ~meant & (np.array([c.kind for c in plan.columns]) != "parallel")]  # loops to share come and go
        assert unless_idle.any(axis=1).mean() < 0.15


def test_a_factor_goes_from_one_part_of_an_axis_to_another():
    space = space_of(catalogue.get("GMM-3-b1").workload(), native())
    (p, *_) = sample(space, 6 * 400, np.random.default_rng(0), Sampling("uniform"))
    plan, rows = space.plans[p.plan], p.matrix.copy()
    inner = [plan.names[f"matmul.i.{part}"] for part in (1, 2, 3) if f"matmul.i.{part}" in plan.names]
    assert len(inner) >= 2
    exchange(plan, rows, np.arange(len(rows)), np.full(len(rows), inner[0]), np.random.default_rng(1))
    ratio = rows[:, inner] / p.matrix[:, inner]
    product = ratio.prod(axis=1)
    moved = (ratio != 1).sum(axis=1) == 2
    assert moved.mean() > 0.2 and np.allclose(product[moved], 1)  # between two inner parts: what one loses the other gains
    grown = (ratio != 1).sum(axis=1) == 1
    assert grown.mean() > 0.2 and (product[grown] > 1).any() and (product[grown] < 1).any()  # from or to the outermost one
    assert np.array_equal(np.delete(rows, inner, axis=1), np.delete(p.matrix, inner, axis=1))


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


def test_a_child_has_nodes_of_both_parents():
    for plan, rows in plans("TBS-1-b1"):
        a, b = rows, rows[::-1]
        node = nodes(plan)
        child = crossover(plan, a, b, np.random.default_rng(3), new_structures=10**6)
        like_a, like_b = (
            np.stack([(child[:, node == n] == parent[:, node == n]).all(axis=1) for n in np.unique(node)], axis=1)
            for parent in (a, b)
        )
        of_both = (like_a & ~like_b).any(axis=1) & (like_b & ~like_a).any(axis=1)
        copies = (child == a).all(axis=1) | (child == b).all(axis=1)
        assert of_both.mean() > 0.7 and copies.mean() < 0.15


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
