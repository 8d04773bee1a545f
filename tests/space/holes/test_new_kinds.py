"""Kinds of holes that the package does not know, added from here: a number, a choice, and a rule that leaves both open."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from tests.property.agreement import disagreements

from tensorsmith.backends import space_of
from tensorsmith.errors import UserError
from tensorsmith.lang import define as ts
from tensorsmith.lang.workload import Workload
from tensorsmith.program.lower import lower, lower_decisions
from tensorsmith.space.holes.kind import ChoiceKind, Column, NumberKind
from tensorsmith.space.holes.registry import choice_kind, kinds, kinds_added, number_kind, number_kinds, register_kind
from tensorsmith.space.population.adapt import adapt
from tensorsmith.space.population.embed import Programs
from tensorsmith.space.population.evolve import Mutation, crossover, mutate
from tensorsmith.space.population.population import Plan, Space
from tensorsmith.space.population.repair import repair
from tensorsmith.space.population.sampling import Sampling, sample
from tensorsmith.space.population.seeds import seeds
from tensorsmith.space.rules.base import Verdict
from tensorsmith.space.sketch.loops import NestLoop
from tensorsmith.space.sketch.nest import Choice, Nest
from tensorsmith.space.sketch.sketch import Candidate, Sketch
from tensorsmith.space.sketch.text import show
from tensorsmith.targets.target import native


class Prefetch(NumberKind):
    """`C.prefetch`: how many rows ahead to fetch; nothing, where there is one row of tiles."""

    name = "prefetch"
    least = 0

    def column(self, plan, hole):
        return Column(hole.name, self.name, hole.stage, 0, 8, idle=0)

    def comes_to(self, plan, number, rows, found):
        return np.where(found.loop(plan.columns[number].stage, NestLoop("i", 0)) > 1, rows[:, number], 0)


class Lanes(ChoiceKind):
    """`C.lanes`: the loop that runs in lanes."""

    name = "lanes"

    def take(self, choice, option, draft):
        draft.nests[choice.stage] = replace(draft.nests[choice.stage], vector=NestLoop.read(option))

    def option_of(self, choice, sketch):
        return str(sketch.nest(choice.stage).vector)


class LeaveOpen:
    name = "leave_open"

    def condition(self, state, index, target):
        return Verdict.APPLY_AND_SKIP_REST

    def apply(self, state, index, target):
        name = state.stage(index).name
        nest = Nest(name, "i.0 j.0 | k.0 i.1 j.1", vector="j.1", also=("prefetch",))
        return [(state.with_nest(nest, Choice(name, "lanes", ("i.1", "j.1"))), index - 1)]


@pytest.fixture(autouse=True)
def known():
    with kinds_added(Prefetch(), Lanes()):
        yield


def matmul(n: int = 33, m: int = 40) -> Workload:
    a, b, k = ts.placeholder((n, 16), name="A"), ts.placeholder((16, m), name="B"), ts.reduce_axis(16, "k")
    return ts.workload([a, b, ts.compute((n, m), lambda i, j: ts.sum(a[i, k] * b[k, j], axis=k), name="C")])


def space(*extents: int) -> Space:
    return space_of(matmul(*extents), native(), [LeaveOpen()])


def drawn(where: Space, count: int = 200, kind: str = "target") -> tuple[Plan, np.ndarray]:
    (population,) = sample(where, count, np.random.default_rng(0), Sampling(kind))
    return where.plans[0], population.matrix


def test_they_are_columns():
    (plan,) = space().plans
    assert [c.hole for c in plan.columns] == ["C.i.1", "C.j.1", "C.parallel", "C.unroll", "C.prefetch", "C.lanes"]
    assert (plan.low[-2:].tolist(), plan.high[-2:].tolist()) == ([0, 0], [8, 1])


@pytest.mark.parametrize("kind", ["target", "uniform"])
def test_sampled(kind):
    plan, rows = drawn(space(), kind=kind)
    assert set(rows[:, plan.names["C.prefetch"]]) == set(range(9)) and set(rows[:, plan.names["C.lanes"]]) == {0, 1}


@pytest.mark.parametrize("move, hole", [("prefetch", "C.prefetch"), ("structure", "C.lanes")])
def test_mutated(move, hole):
    plan, rows = drawn(space())
    others = {m: 0.0 for m in ("size", "tile", "unroll", "parallel", "prefetch", "structure") if m != move}
    child = mutate(plan, rows, np.random.default_rng(1), Mutation({**others, move: 1.0}, more=0.0, new_structures=99))
    changed = (child != rows).mean(axis=0)
    assert changed[plan.names[hole]] > 0.3
    assert np.delete(changed, plan.names[hole]).max() < 0.15  # repairs


def test_every_mutation_is_made_by_default():
    plan, rows = drawn(space(), 2000)
    changed = (mutate(plan, rows, np.random.default_rng(1)) != rows).mean(axis=0)
    assert changed[plan.names["C.prefetch"]] > 0.02 and changed[plan.names["C.lanes"]] > 0.02


def test_inherited():
    plan, rows = drawn(space())
    child = crossover(plan, rows, rows[::-1], np.random.default_rng(2), new_structures=99)
    column = plan.names["C.prefetch"]
    assert ((child[:, column] == rows[:, column]) | (child[:, column] == rows[::-1, column])).all()


def test_repaired():
    plan, rows = drawn(space())
    column = plan.names["C.prefetch"]
    wild = rows.copy()
    wild[:, column] = 99
    wild[::2, plan.names["C.i.1"]] = 33  # one row of tiles
    mended = repair(plan, wild)
    one = mended[:, plan.names["C.i.1"]] == 33
    assert one.any() and (mended[one, column] == 0).all() and (mended[~one, column] == 8).all()
    assert np.array_equal(repair(plan, mended), mended)


def test_resolved_and_lowered():
    plan, rows = drawn(space())
    for row in rows[:40]:
        candidate = plan.candidate(row)
        wanted = ("C.i.1", "C.j.1")[row[plan.names["C.lanes"]]]
        program = lower(candidate)
        (block,) = program.blocks()
        assert block.vector == wanted
        assert program.decisions == {"C.prefetch": row[plan.names["C.prefetch"]]}
    for group in plan.groups(rows):
        together = lower_decisions(group.sketch, group.decisions)
        assert together.decisions["C.prefetch"].tolist() == rows[group.rows, plan.names["C.prefetch"]].tolist()


def test_computed():
    plan, rows = drawn(space())
    for row in rows[:4]:
        assert disagreements(matmul(), plan.candidate(row)) == []


def test_stored_and_found_again():
    where = space()
    plan, rows = drawn(where)
    for row in rows[:20]:
        candidate = plan.candidate(row)
        read = Candidate.from_json(where.workload, json.loads(json.dumps(candidate.to_json())))
        assert read == candidate
        found = where.find(read)
        assert found is not None and np.array_equal(found[1], row)


def test_told_apart_by_their_numbers():
    plan, rows = drawn(space())
    row = next(r for r in rows if r[plan.names["C.prefetch"]] == 3)
    other = row.copy()
    other[plan.names["C.prefetch"]] = 4
    programs = Programs()
    assert programs.key(plan.candidate(row)) == programs.key(plan.candidate(row.copy()))
    assert programs.key(plan.candidate(row)) != programs.key(plan.candidate(other))


def test_carried_over():
    old, new = space(), space(64, 128)
    plan, rows = drawn(old)
    for row in rows[:10]:
        ((_, mine), *_) = adapt(new, plan.candidate(row))
        assert mine[-2:].tolist() == row[-2:].tolist()


def test_seeded():
    (population,) = seeds(space())
    assert (population.matrix[:, -2] == 0).all()


def test_written():
    (plan,) = space().plans
    assert "C.lanes?: [i.1] / j.1" in show(plan.sketch)
    assert "C[i, j] += A[i, k] * B[k, j], prefetch C.prefetch" in show(plan.sketch)
    assert str(plan.sketch.nests[0]) == "C: i.0 j.0 | k.0 i.1 j.1 vector j.1 also prefetch"


def test_a_decision_below_the_least_is_refused():
    sketch = Sketch(matmul(), (Nest("C", "i.0 j.0 | k.0", also=("prefetch",)),)).check()
    assert sketch.holes == ("C.parallel", "C.unroll", "C.prefetch")
    with pytest.raises(UserError, match=r"C\.prefetch must be at least 0, got -1"):
        Candidate(sketch, {"C.parallel": 0, "C.unroll": 1, "C.prefetch": -1})


def test_a_name_is_given_once():
    for taken in ("size", "at", "prefetch"):
        with pytest.raises(UserError, match=f"there is a kind of holes called '{taken}' already"):
            register_kind(type("Other", (Prefetch,), {"name": taken})())


def test_unknown_kinds_are_named():
    known = "known are size, parallel, unroll, threads, pad, run, buffers, matrix, prefetch"
    with pytest.raises(UserError, match=f"no kind of open numbers called 'at'; {known}"):
        number_kind("at")
    with pytest.raises(UserError, match="no kind of choices called 'size'; known are at, rows, loops, factor, lanes"):
        choice_kind("size")
    with pytest.raises(UserError, match="no kind of open numbers called 'magic'"):
        Sketch(matmul(), (Nest("C", "i.0 j.0 | k.0", also=("magic",)),)).check()


def test_they_are_forgotten_afterwards():
    with kinds_added(type("Other", (Prefetch,), {"name": "other"})()):
        assert "other" in kinds()
    assert "other" not in kinds() and "prefetch" in [k.name for k in number_kinds()]
