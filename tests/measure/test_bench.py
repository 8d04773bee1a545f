"""The worker's part, in this process."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from tests.measure.small import candidate, matmul

from tensorsmith.backends.cpu.default import default_candidate
from tensorsmith.lang.compare import random_inputs
from tensorsmith.lang.define import compute, placeholder
from tensorsmith.lang.define import workload as to_workload
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.measure.bench import Bench, number_of_sets
from tensorsmith.measure.check import Reference
from tensorsmith.measure.timing import Plan
from tensorsmith.ops import conv
from tensorsmith.rewrites.formulations import formulations
from tensorsmith.search.trial import CACHES, Cache
from tensorsmith.space.plain import plain_candidate
from tensorsmith.targets.target import native

PLAN = Plan(rounds=2, round_seconds=1e-5, timing_seconds=0.0, most_seconds=0.5)


def bench(**options) -> Bench:
    workload = matmul()
    reference = evaluate(workload, random_inputs(workload, 5), precise=True)
    made = Bench(workload, native(), seed=5, threads=2, reference={"C": reference["C"]}, **options)
    one = candidate(workload, 4)
    made.build(1, json.dumps(one.sketch.to_json()), one.decisions)
    return made


@pytest.mark.parametrize("cache", CACHES)
def test_build_check_time_drop(cache: Cache) -> None:
    made = bench(cache=cache)
    assert made.check(1) is None
    rounds, problem = made.time(1, PLAN)
    assert len(rounds.times) == 2 and min(rounds.times) > 0 and problem is None
    made.drop(1)
    made.drop(1)
    with pytest.raises(KeyError):
        made.time(1, PLAN)


def test_what_was_there_before_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    made = bench()
    assert made.check(1) is None
    monkeypatch.setattr(made._built[1].prepared, "repeat", lambda count: None)  # a kernel that does nothing
    assert "elements are wrong" in str(made.check(1))


@pytest.mark.parametrize("cache", CACHES)
def test_an_answer_that_changes_is_checked_again(cache: Cache) -> None:
    made = bench(cache=cache)
    assert made.check(1) is None
    made._built[1].checksum = 0
    assert made.time(1, PLAN)[1] is None  # another answer, but a right one
    made.inputs["A"] += 1  # where the runs read it
    assert "elements are wrong" in made.time(1, PLAN)[1]


def test_a_program_that_does_not_write_is_noticed() -> None:
    """Its memory holds a right answer of an earlier run, as fresh memory may hold zeros that are right."""
    made = bench()
    assert made.check(1) is None
    made._built[1].prepared.repeat = lambda count: None  # type: ignore[method-assign]
    assert "elements are wrong" in made.check(1)


def test_scratch_memory_is_poisoned_before_the_check() -> None:
    """A program that takes what it finds there for zeros would be right on fresh memory."""
    a = placeholder((8, 8), name="A")
    twice = compute((8, 8), lambda i, j: a[i, j] * 2, name="T")
    workload = to_workload([a, compute((8, 8), lambda i, j: twice[i, j] + twice[j, i], name="C")])
    made = Bench(workload, native(), seed=5, threads=2, reference=evaluate(workload, random_inputs(workload, 5), precise=True))
    one = plain_candidate(workload)
    made.build(1, json.dumps(one.sketch.to_json()), one.decisions)
    prepared = made._built[1].prepared
    scratch = prepared._keep[0]._memory
    assert scratch.size >= 8 * 8 * 4
    seen: list[bool] = []
    run = prepared.repeat
    prepared.repeat = lambda count: (seen.append(bool((scratch == 0xFF).all())), run(count))  # type: ignore[method-assign]
    assert made.check(1) is None and seen == [True]


def test_a_formulation_is_checked_against_the_original() -> None:
    """The weight is transformed as for whoever binds it: a wrong transform is a wrong answer."""
    x, weight = placeholder((1, 16, 16, 16), name="X"), placeholder((3, 3, 16, 16), name="W", constant=True)
    original = to_workload([x, weight, conv.conv2d(x, weight, padding=1)])
    formulation = next(f for f in formulations(original) if f.name == "winograd-4")
    reference = evaluate(original, random_inputs(original, 5), precise=True)
    one = default_candidate(formulation.workload, native())
    broken = {name: lambda w, t=transform: t(w)[::-1] for name, transform in formulation.transforms.items()}
    for transforms, right in ((formulation.transforms, True), (broken, False)):
        made = Bench(
            formulation.workload,
            native(),
            seed=5,
            threads=2,
            reference=reference,
            formulation=replace(formulation, transforms=transforms),
        )
        made.build(1, json.dumps(one.sketch.to_json()), one.decisions)
        assert (made.check(1) is None) is right


def test_sets_for_cold_runs() -> None:
    assert number_of_sets(each=10, needed=25) == 3
    assert number_of_sets(each=1000, needed=25) == 2
    assert number_of_sets(each=0, needed=1 << 30) == 32


def test_the_quick_check_agrees_with_the_thorough_one() -> None:
    workload = matmul()
    want = evaluate(workload, random_inputs(workload), precise=True)["C"]
    reference = Reference(workload, {"C": want})
    assert reference.problem([want]) is None
    assert reference.problem([np.nextafter(want, np.float32(9))]) is None
    for wrong in (
        want + np.float32(1e-3),
        want.astype(np.float64),
        want[:1],
        np.where(want == want[2, 2], np.float32(np.nan), want),
    ):
        assert reference.problem([wrong]) is not None
