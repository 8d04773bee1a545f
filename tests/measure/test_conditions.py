"""What is done before a call under each condition; the calls themselves are not timed."""

from __future__ import annotations

import numpy as np
import pytest

from tensorsmith.measure import conditions
from tensorsmith.measure.conditions import Condition, one_call
from tensorsmith.measure.timing import Plan
from tensorsmith.targets.target import native

PLAN = Plan(rounds=1, round_seconds=1e-6, timing_seconds=0.0, most_seconds=0.5)


class Fake:
    """A program that writes down what happens."""

    threads = 1

    def __init__(self, log: list[str]) -> None:
        self.log = log

    def seconds(self, count: int) -> float:
        self.log.append("call")
        return 1e-6

    def repeat(self, count: int) -> None:
        self.log.append("sweep")


@pytest.mark.parametrize(
    "condition, before", [(Condition.BACK_TO_BACK, "call"), (Condition.PAUSED, "sleep"), (Condition.COLD, "sweep")]
)
def test_what_comes_before_the_call(condition: Condition, before: str, monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []
    monkeypatch.setattr(conditions.time, "sleep", lambda seconds: log.append("sleep"))
    monkeypatch.setattr(conditions, "_sweep", lambda target, threads: Fake(log))
    rounds = one_call(Fake(log), condition, native(), PLAN)  # type: ignore[arg-type]
    assert log[-2:] == [before, "call"] and len(rounds.times) == 1


def test_a_sweep_touches_more_than_the_caches_hold() -> None:
    target = native()
    sweep = conditions._sweep(target, 2)
    sweep.repeat(1)
    (output,) = sweep.outputs
    assert output.nbytes >= max(target.l3_bytes, 2 * target.l2_bytes) - 4
    assert np.all(output == 1.0)
