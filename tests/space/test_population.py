"""Rows, candidates and JSON: three forms of one thing."""

import itertools
import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.backends.cpu.bytes import convolution, matmul

from tensorsmith.backends import space_of
from tensorsmith.backends.cpu.default import default_candidate
from tensorsmith.backends.cpu.rules import ANSOR
from tensorsmith.backends.cpu.tactics.code_size import LIMITS, tile_factors
from tensorsmith.lang import define as ts
from tensorsmith.ops import catalogue
from tensorsmith.program.ir import Block, Node
from tensorsmith.program.lower import lower, lower_decisions
from tensorsmith.space.population.evolve import offspring
from tensorsmith.space.population.population import unique
from tensorsmith.space.population.repair import repair
from tensorsmith.space.population.sampling import Sampling, sample
from tensorsmith.space.sketch.loops import NestLoop
from tensorsmith.space.sketch.sketch import Candidate
from tensorsmith.targets.target import Target, native

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

SOME = ["C2D-small", "ConvLayer-small", "TBS-small", "dense-small", "softmax-small", "NRM-1-b1", "GMM-2-b1", "ConvLayer-2-b1"]


def named(name, **options):
    return space_of(catalogue.get(name).workload(), native(), **options)


@pytest.mark.parametrize("name", SOME)
def test_a_row_is_its_candidate_is_its_json(name):
    space = named(name)
    for number, population in enumerate(sample(space, 8 * len(space.plans), np.random.default_rng(1))):
        plan = space.plans[number]
        for row in population.matrix:
            candidate = plan.candidate(row)
            read = Candidate.from_json(space.workload, json.loads(json.dumps(candidate.to_json())))
            assert read == candidate
            found = plan.row(read)
            assert found is not None
            assert plan.candidate(found) == candidate
            again = space.find(read)
            assert again is not None
            assert lower_text(space.plans[again[0]].candidate(again[1])) == lower_text(candidate)


def lower_text(candidate):
    return [normal(node) for node in lower(candidate).body]


def test_the_columns_are_the_holes_and_the_choices():
    (plan, *_) = named("C2D-3-b1").plans
    kinds = {c.hole: c.kind for c in plan.columns}
    assert kinds["conv2d.w.2"] == "size" and kinds["conv2d.parallel"] == "parallel" and kinds["conv2d.unroll"] == "unroll"
    assert kinds["conv2d.loops"] == "loops" and kinds["conv2d_pad.at"] == "at"
    assert [c.hole for c in plan.columns[: plan.numbers]] == list(plan.sketch.holes)
    vector = plan.columns[plan.names["conv2d.co.2"]]
    assert vector.vector and (vector.stage, vector.loop, vector.low, vector.high) == ("conv2d", NestLoop("co", 2), 1, 256)


def test_a_candidate_of_elsewhere_is_not_found():
    other = named("C2D-3-b1")
    (population, *_) = sample(other, 4, np.random.default_rng(0))
    assert named("C2D-2-b1").find(other.plans[0].candidate(population.matrix[0])) is None


@pytest.mark.parametrize("name", SOME)
def test_batched_lowering_is_lowering_row_by_row(name):
    space = named(name)
    for number, population in enumerate(sample(space, 12 * len(space.plans), np.random.default_rng(2), Sampling(structures=3))):
        plan = space.plans[number]
        seen = []
        for group in plan.groups(population.matrix):
            together = loops(lower_decisions(group.sketch, group.decisions).body)
            seen.extend(group.rows)
            for n, row in enumerate(group.rows):
                alone = loops(lower(plan.candidate(population.matrix[row])).body)
                assert {k: int(np.broadcast_to(v, len(group.rows))[n]) for k, v in together.items()} == alone
        assert sorted(seen) == list(range(len(population)))


@pytest.mark.parametrize("name", SOME)
@pytest.mark.parametrize("rules", ["default", "ansor"])
def test_the_numbers_of_a_population_are_those_of_its_programs(name, rules):
    space = named(name, rules=ANSOR) if rules == "ansor" else named(name)
    for number, population in enumerate(sample(space, 10 * len(space.plans), np.random.default_rng(3))):
        plan = space.plans[number]
        found = plan.geometry.measure(population.matrix)
        for n, row in enumerate(population.matrix):
            sketch = plan.resolve(row)
            counts = loops(lower(plan.candidate(row)).body)
            for nest in sketch.nests:
                if nest.follows is None:
                    mine = {f"{nest.stage}.{loop}": int(found.loop(nest.stage, loop)[n]) for loop in nest.outer + nest.tile}
                    assert mine == {k: counts[k] for k in mine}, sketch


@pytest.mark.parametrize("name", ["GMM-3-b1", "C2D-3-b1"])
def test_repair_makes_register_tiles_fit(name):
    for plan in space_of(catalogue.get(name).workload(), native()).plans:
        rows = repair(plan, np.stack([plan.high, np.where(plan.high > 64, 64, plan.high)]))
        found = plan.geometry.measure(rows)
        for nest in plan.sketch.nests:
            if nest.follows is None:
                vectors = np.prod([f.value for f in tile_factors(plan, nest, found)], axis=0)
                assert (vectors <= LIMITS.vectors).all()


def test_repair_is_done_once():
    space = named("ConvLayer-small")
    for number, population in enumerate(sample(space, 400, np.random.default_rng(4), Sampling("uniform"))):
        assert np.array_equal(repair(space.plans[number], population.matrix), population.matrix)


def test_unique_keeps_the_order():
    rows = np.array([[3, 1], [1, 2], [3, 1], [0, 5], [1, 2]], np.int32)
    assert unique(rows).tolist() == [[3, 1], [1, 2], [0, 5]]


def test_one_seed_one_population():
    space = named("ConvLayer-2-b1")
    first, second = (sample(space, 300, np.random.default_rng(7)) for _ in range(2))
    assert all(np.array_equal(a.matrix, b.matrix) for a, b in zip(first, second))
    children = [offspring(space.plans[0], first[0].matrix, second[0].matrix[::-1], np.random.default_rng(8)) for _ in range(2)]
    assert np.array_equal(*children)


@pytest.mark.parametrize("name", [*catalogue.small(), *catalogue.cases(1), *catalogue.cases(16)])
def test_the_default_schedule_is_a_point(name):
    assert_default_is_a_point(catalogue.get(name).workload())


@pytest.mark.parametrize("m, n, k", list(itertools.product((1, 9, 64), (1, 2, 16), (1, 8, 64))))
def test_the_default_schedule_of_a_narrow_product_is_a_point(m, n, k):
    a, b, x = ts.placeholder((m, k), name="A"), ts.placeholder((k, n), name="B"), ts.reduce_axis(k, "k")
    c = ts.compute((m, n), lambda i, j: ts.sum(a[i, x] * b[x, j], axis=x), name="C")
    assert_default_is_a_point(ts.workload([a, b, c]))
    assert_default_is_a_point(ts.workload([a, b, ts.compute((m, n), lambda i, j: ts.maximum(c[i, j], 0.0), name="D")]))


@pytest.mark.parametrize("name", ["x86-64-v3", "znver4"])
@pytest.mark.parametrize("form", ["constant", "computed", "conv"])
def test_the_default_schedule_on_bytes_is_a_point(form, name):
    case = convolution(9, 8, 24, 3, "u8", "i8") if form == "conv" else matmul(64, 131, 160, "u8", "i8", constant=form == "constant")
    assert_default_is_a_point(case.workload, Target.named(name, cores=2))


def assert_default_is_a_point(workload, target=None):
    space = space_of(workload, target or native())
    default = default_candidate(space.workload, space.target)
    found = space.find(default)
    assert found is not None
    assert lower_text(space.plans[found[0]].candidate(found[1])) == lower_text(default)


# -- the space contains the best -----------------------------------------------------------------------------------------


def hand(threads):
    from schedules import hand_schedules

    return hand_schedules(replace(native(), cores=threads))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", list(hand(1)))
def test_schedules_by_hand_are_points(name, threads):
    _, workload, candidate = hand(threads)[name]
    space = space_of(workload, replace(native(), cores=threads))
    found = space.find(candidate)
    assert found is not None, f"{name} is not in the space"
    number, row = found
    mine, wanted = lower(space.plans[number].candidate(row)), lower(candidate)
    assert [normal(n) for n in mine.body] == [normal(n) for n in wanted.body]
    assert packing(mine) == packing(wanted)
    # and repair leaves it alone: a search can reach it
    assert [normal(n) for n in lower(space.plans[number].candidate(repair(space.plans[number], row[None])[0])).body] == [
        normal(n) for n in wanted.body
    ]


def packing(program):
    """The order of packed tensors, without the loops that run once."""
    found = {}
    for b in program.buffers.values():
        if b.packed is not None:
            found[b.name] = [(v.axis, int(v.count), int(v.stride)) for v in b.packed.loops if int(v.count) > 1]
    return found


def normal(node: Node):
    """A loop tree without the loops that run once and without the numbers of parts."""
    if isinstance(node, Block):
        steps = [
            (
                v.axis,
                int(v.count),
                int(v.stride),
                "lanes" if v.name == node.vector else "laid out" if v.name in node.laid_out else "",
            )
            for v in (*node.reduce, *node.tile)
            if int(v.count) > 1
        ]
        return [*(x for n in node.before for x in normal(n)), (node.stage.name, tuple(steps), int(node.unroll))]
    inner = [x for n in node.body for x in normal(n)]
    if int(node.var.count) == 1:
        return inner
    kind = "parallel" if node.parallel else "laid out" if node.unrolled else "for"
    return [(kind, node.var.axis, int(node.var.count), int(node.var.stride), tuple(inner))]


def loops(nodes):
    """The count of every loop by name."""
    found = {}
    for node in nodes:
        if isinstance(node, Block):
            found.update({v.name: v.count for v in (*node.tile, *node.reduce)})
            found.update(loops(node.before))
        else:
            found[node.var.name] = node.var.count
            found.update(loops(node.body))
    return found
