"""Machine code, the interpreter of loop programs and the evaluator of definitions agree, on random workloads and schedules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random

import numpy as np
import pytest
from hypothesis import given, note
from hypothesis import strategies as st
from tests.property.agreement import describe, disagreements
from tests.property.definitions import RARE_FLOATS, RARE_INTS, random_workload
from tests.property.schedules import random_candidate, random_decisions
from tests.random_draws import SOURCES, many

from tensorsmith.errors import Refusal
from tensorsmith.lang.dtypes import NAMES
from tensorsmith.lang.expr import Binary, walk
from tensorsmith.program.ir import Block, Loop, LoopVar, Node, Program
from tensorsmith.program.lower import lower_decisions
from tensorsmith.program.packing import evaluate_linear
from tensorsmith.runtime.running import Prepared
from tensorsmith.space.plain import plain_candidate
from tensorsmith.space.sketch.sketch import Candidate


def run(examples: int, source: str, repeatable: bool = True, **types: tuple[str, ...]) -> None:
    """Checks random candidates, the same ones every time if `repeatable`; refusals must stay rare."""
    outcomes: Counter[str] = Counter()

    @many(examples, repeatable)
    @given(SOURCES[source], st.integers(0, 1000))
    def check(rng: Random, seed: int) -> None:
        workload = random_workload(rng, **types)
        candidate = random_candidate(workload, rng)
        note(describe(workload, candidate))
        try:
            problems = disagreements(workload, candidate, seed)
        except Refusal as refusal:
            outcomes[refusal.cause] += 1
            return
        outcomes["ok"] += 1
        assert not problems, "\n".join(problems)

    check()
    print(dict(outcomes))
    assert outcomes["ok"] >= 0.9 * sum(outcomes.values()), f"too many refusals: {dict(outcomes)}"


@pytest.mark.parametrize("source, examples", [("shrinking", 120), ("seeded", 280)])
def test_machine_code_interpreter_and_evaluator_agree(source, examples):
    run(examples, source)


@pytest.mark.parametrize("source, examples", [("shrinking", 40), ("seeded", 120)])
def test_they_agree_on_rare_types(source, examples):
    """bf16, f16, and integers of 16 bits or without a sign."""
    run(examples, source, floats=RARE_FLOATS, ints=RARE_INTS)


@pytest.mark.long
@pytest.mark.parametrize("source, examples", [("shrinking", 500), ("seeded", 3000)])
def test_they_agree_on_many(source, examples):
    run(examples, source, repeatable=False)


@pytest.mark.long
def test_they_agree_on_many_of_rare_types():
    run(2000, "seeded", repeatable=False, floats=RARE_FLOATS, ints=RARE_INTS)


def test_random_definitions_compare_every_type():
    """What the tests above are worth for `==` and `!=`: each is drawn for each type."""
    found = {
        (e.op, e.a.dtype)
        for seed in range(600)
        for stage in random_workload(Random(seed)).stages
        for e in walk(stage.body)
        if isinstance(e, Binary) and e.op in ("eq", "ne")
    }
    assert found >= {(op, kind) for op in ("eq", "ne") for kind in NAMES}


ROWS = 6


def test_lowering_arrays_is_lowering_each_row():
    """The loop tree of a population has, entry by entry, the numbers of every candidate's own tree."""
    compared: Counter[bool] = Counter()

    @many(150, repeatable=True)
    @given(SOURCES["seeded"])
    def check(rng: Random) -> None:
        workload = random_workload(rng)
        sketch = random_candidate(workload, rng).sketch
        rows = [random_decisions(sketch, rng) for _ in range(ROWS)]
        parallel = {h: v for h, v in rows[0].items() if h.endswith(".parallel")}
        rows = [{**row, **parallel} for row in rows]  # which loops are parallel is structure
        together = lower_decisions(sketch, {h: np.array([row[h] for row in rows]) for h in sketch.holes})
        for n, row in enumerate(rows):
            note(describe(workload, Candidate(sketch, row)))
            alone = lower_decisions(sketch, row)
            for same, problem in differences(together, alone, n, rng):
                compared[same] += 1
                assert not (same and problem), problem

    check()
    assert compared[True] > 3 * compared[False], f"too few regions could be compared: {dict(compared)}"


def differences(together: Program, alone: Program, n: int, rng: Random) -> Iterator[tuple[bool, str]]:
    """Per stage: whether its region has the same structure in row `n`, and how its numbers differ then.

    One candidate's region is widened to the whole axis where it could start before it; a population's cannot be, for some
    rows alone. Such a stage, and all that is computed for it, is not comparable.
    """
    widened: set[str] = set()
    mine = {b.stage.name: b for b in alone.blocks()}
    variables = {v.name: v for node in alone.body for v in loop_variables(node)}
    others = {v.name: v for node in together.body for v in loop_variables(node)}
    assert variables.keys() == others.keys()
    values = {v.name: rng.randrange(int(v.count)) if int(v.count) else 0 for v in variables.values()}
    for block in reversed(list(together.blocks())):
        stage = block.stage
        readers = alone.workload.consumers[stage.name]
        if widened & set(readers):
            widened.add(stage.name)
            yield False, ""
            continue
        problems = []
        for axis in stage.all_axes:
            a, b = block.axes[axis.name], mine[stage.name].axes[axis.name]
            start, own = (entry(evaluate_linear(x.origin, values), n) for x in (a, b))
            if (start, entry(a.length, n)) != (own, entry(b.length, n)):
                if b.length == axis.extent and not b.origin.terms:
                    widened.add(stage.name)
                problems.append(f"{stage.name}.{axis.name}: {start}+{entry(a.length, n)}, alone {own}+{b.length}")
        for name, var in variables.items():
            if var.stage == stage.name:
                got = (entry(others[name].count, n), entry(others[name].stride, n))
                if got != (int(var.count), int(var.stride)):
                    problems.append(f"{name}: count and stride {got}, alone {(var.count, var.stride)}")
        yield stage.name not in widened, "; ".join(problems)


def entry(value: object, n: int) -> int:
    return int(np.broadcast_to(np.asarray(value), (ROWS,))[n])


def loop_variables(node: Node) -> Iterator[LoopVar]:
    if isinstance(node, Loop):
        yield node.var
        for inner in node.body:
            yield from loop_variables(inner)
    else:
        assert isinstance(node, Block)
        yield from node.tile + node.reduce
        for inner in node.before:
            yield from loop_variables(inner)


def test_a_kernel_that_never_ran_is_never_accepted(monkeypatch):
    monkeypatch.setattr(Prepared, "repeat", lambda self, count: None)
    unnoticed, tried = [], 0
    for seed in range(40):
        workload = random_workload(Random(seed))
        if not any(workload.buffers[name].bytes for name in workload.outputs):
            continue
        try:
            problems = disagreements(workload, plain_candidate(workload), seed)
        except Refusal:
            continue
        tried += 1
        if not any(text.startswith("machine code") for text in problems):
            unnoticed.append(seed)
    assert tried >= 30 and not unnoticed
