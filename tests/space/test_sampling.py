"""Random rows: legal, diverse, as the paper or the target wants them, and fast."""

import sys
from collections import Counter

import numpy as np
import pytest

from tensorsmith.backends import space_of
from tensorsmith.backends.cpu.tactics.code_size import LIMITS, tile_factors
from tensorsmith.backends.cpu.tactics.tiles import register_tile
from tensorsmith.build import build
from tensorsmith.errors import Refusal
from tensorsmith.lang.compare import difference, random_inputs
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.ops import catalogue
from tensorsmith.program.lower import lower
from tensorsmith.space.holes.size import divisor_tuples
from tensorsmith.space.population.evolve import crossover, mutate
from tensorsmith.space.population.sampling import Sampling, sample
from tensorsmith.targets.target import native

ALL = {**catalogue.small(), **catalogue.cases(1)}


def some_rows(space, count, rng):
    """(plan, row) from every source: both samplers, mutation and crossover."""
    share = max(1, count // 4)
    found = []
    for kind in ("target", "uniform"):
        for p in sample(space, share, rng, Sampling(kind)):
            plan = space.plans[p.plan]
            found += [(plan, row) for row in p.matrix]
            found += [(plan, row) for row in mutate(plan, p.matrix, rng)]
            found += [(plan, row) for row in crossover(plan, p.matrix, rng.permutation(p.matrix), rng)]
    return [found[n] for n in rng.permutation(len(found))[:count]]


def lower_all(per_case, seed):
    """How many candidates were lowered, and why some were not."""
    rng = np.random.default_rng(seed)
    total, causes = 0, Counter()
    for case in ALL.values():
        for plan, row in some_rows(space_of(case.workload(), native()), per_case, rng):
            total += 1
            try:
                lower(plan.candidate(row))
            except Refusal as refusal:
                causes[case.operator, refusal.cause] += 1
    print(f"{total} candidates lowered, refused: {dict(causes)}")
    return total, causes


def compile_all(count, seed, cases):
    """Compiles candidates of the cases in turn and compares them with NumPy."""
    rng = np.random.default_rng(seed)
    causes: Counter[str] = Counter()
    per_case = -(-count // len(cases))
    for case in cases.values():
        workload = case.workload()
        inputs = random_inputs(workload, seed)
        wanted = evaluate(workload, inputs)
        for plan, row in some_rows(space_of(workload, native()), per_case, rng):
            candidate = plan.candidate(row)
            try:
                kernel = build(candidate)
            except Refusal as refusal:
                causes[refusal.cause] += 1
                continue
            results = kernel(*(inputs[b.name] for b in workload.inputs))
            for name, got in zip(workload.outputs, results if isinstance(results, tuple) else (results,)):
                problem = difference(workload, name, np.asarray(got), wanted[name])
                assert problem is None, f"{case.name}: {problem}\n{candidate.sketch}\n{dict(candidate.decisions)}"
    print(f"{per_case * len(cases)} candidates compiled, refused: {dict(causes)}")
    assert sum(causes.values()) < 0.01 * per_case * len(cases) + 1, causes


def test_random_candidates_lower():
    total, causes = lower_all(30, 0)
    assert total > 2000
    assert sum(causes.values()) < 0.01 * total, causes


@pytest.mark.long
def test_many_random_candidates_lower():
    total, causes = lower_all(10_000 // len(ALL) + 1, 1)
    assert total >= 10_000
    assert not causes


def test_random_candidates_compute_what_they_should():
    compile_all(2 * len(catalogue.small()), 0, catalogue.small())


@pytest.mark.long
def test_many_random_candidates_compute_what_they_should():
    compile_all(1000, 1, catalogue.small())


@pytest.mark.parametrize("name", ["TBS-1-b1", "ConvLayer-2-b1", "NRM-1-b1"])
@pytest.mark.parametrize("kind", ["target", "uniform"])
def test_the_same_seed_gives_the_same_rows(name, kind):
    space = space_of(ALL[name].workload(), native())
    first, second = (sample(space, 300, np.random.default_rng(5), Sampling(kind)) for _ in range(2))
    for a, b in zip(first, second):
        np.testing.assert_array_equal(a.matrix, b.matrix)


def test_divisors():
    assert len(divisor_tuples(512, 3)) == 210 - sum(1 for t in divisor_tuples(512, 3) if t[-1] > 64)
    assert sorted(divisor_tuples(7, 2)) == [(1, 1), (1, 7), (7, 1)]


def test_uniform_sizes_divide():
    space = space_of(catalogue.get("GMM-3-b1").workload(), native())
    (population, *_) = sample(space, 6 * 200, np.random.default_rng(0), Sampling("uniform"))
    plan = space.plans[0]
    column = plan.names["matmul.j.2"]
    assert (512 % population.matrix[:, column] == 0).all()
    assert population.matrix[:, column].max() <= 64
    assert (population.matrix[:, column] == 1).mean() > 0.1


@pytest.mark.parametrize("name", ["C2D-3-b1", "ConvLayer-2-b1", "GMM-3-b1"])
def test_target_tiles_fit_the_machine(name):
    target = native()
    space = space_of(catalogue.get(name).workload(), target)
    for p in sample(space, 900, np.random.default_rng(0)):
        plan = space.plans[p.plan]
        found = plan.geometry.measure(p.matrix)
        for nest in plan.sketch.nests:
            tile = register_tile(plan, nest) if nest.follows is None else None
            if tile is None:
                continue
            factors = tile_factors(plan, nest, found)
            vectors = np.prod([f.value for f in factors], axis=0)
            assert (vectors <= LIMITS.vectors).all()
            assert (vectors < target.vector_registers).mean() > 0.9  # accumulators and a register to load to
            if tile.lanes > 1:
                assert (p.matrix[:, tile.vector] % tile.lanes == 0).all()
        assert (p.matrix >= plan.low).all() and (p.matrix <= plan.high).all()


def calls(space, count):
    """Calls of Python functions, and of others by Python code, while so many rows are drawn."""
    seen = Counter()
    sys.setprofile(lambda frame, event, argument: seen.update([event]))
    try:
        sample(space, count, np.random.default_rng(0))
    finally:
        sys.setprofile(None)
    return seen["call"] + seen["c_call"]


@pytest.mark.parametrize("name", ["ConvLayer-2-b1", "GMM-4-b1", "TBS-1-b1", "DEP-1-b1"])
def test_sampling_has_no_loop_over_rows(name):
    """Columns are drawn whole: 32 times as many rows take hardly more calls. `benchmarks/space.py` says how many in a second."""
    space = space_of(catalogue.get(name).workload(), native())
    sample(space, 64, np.random.default_rng(0))
    assert calls(space, 4096) < 3 * calls(space, 128)
