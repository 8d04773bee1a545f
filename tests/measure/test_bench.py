"""The worker's part, in this process."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.measure.small import candidate, matmul

from tensorsmith.lang.compare import random_inputs
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.measure.bench import Bench, number_of_sets
from tensorsmith.measure.check import Reference
from tensorsmith.measure.timing import Plan
from tensorsmith.search.trial import CACHES, Cache
from tensorsmith.target import native

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


def test_an_answer_that_changes_is_checked_again() -> None:
    made = bench()
    assert made.check(1) is None
    made._built[1].checksum = 0
    assert made.time(1, PLAN)[1] is None  # another answer, but a right one
    made.reference = Reference(made.workload, {"C": made.reference.outputs["C"] + 1})
    assert "elements are wrong" in made.time(1, PLAN)[1]


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
