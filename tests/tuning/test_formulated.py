"""Formulations of one workload tuned together, with made-up times."""

from __future__ import annotations

import pytest
from tests.tuning.fakes import FakeMeasurer

import tensorsmith as ts
from tensorsmith.ops import conv
from tensorsmith.rewrites.formulations import formulations
from tensorsmith.search.trial import Status, Trial
from tensorsmith.targets.target import native
from tensorsmith.tuning.history.experience import Experience
from tensorsmith.tuning.history.journal import Journal
from tensorsmith.tuning.options import HowMeasured, Plugins
from tensorsmith.tuning.tasks.shared import Shared
from tensorsmith.tuning.tasks.task import TaskTuning


def convolution() -> ts.workload:
    x = ts.placeholder((1, 16, 16, 16), name="x")
    weight = ts.placeholder((3, 3, 16, 16), name="weight", constant=True)
    return ts.workload([x, weight, conv.conv2d(x, weight, 1, 1)])


@pytest.fixture
def tuning(monkeypatch):
    """A tuning whose formulations take these seconds, by name; a measurer for each, by name."""

    def make(**seconds: float):
        workload = convolution()
        names = {f.workload.key: f.name for f in formulations(workload)}
        measurers: dict[str, FakeMeasurer] = {}

        def measurer(workload, target, **_):
            name = names[workload.key]
            measurers[name] = FakeMeasurer(lambda n: seconds[name.replace("-", "_")] * (1 + 1 / (n + 1)))
            return measurers[name]

        monkeypatch.setattr("tensorsmith.tuning.tasks.formulation.Measurer", measurer)
        journal, measured, plugins = Journal(None), HowMeasured(native()), Plugins.of(native(), "random")
        shared = Shared(None, journal, measured, plugins, Experience(journal, measured, plugins))
        return TaskTuning(formulations(workload), shared), measurers

    return make


def run(tuning: TaskTuning, trials: int) -> None:
    while tuning.trials < trials:
        assert tuning.step(16)


def test_all_get_a_first_look_and_the_leader_the_rest(tuning):
    task, measurers = tuning(direct=3e-3, winograd_4=1e-3, winograd_2=2e-3)
    run(task, 96)
    counts = {name: len(m.measured) for name, m in measurers.items()}
    assert counts["direct"] == counts["winograd-2"] == 8
    assert counts["winograd-4"] >= 72
    assert task.best_seconds == pytest.approx(1e-3, rel=0.02)
    assert task.trials == sum(counts.values()) and task.pending == 0


def test_those_near_the_lead_share(tuning):
    task, measurers = tuning(direct=1.05e-3, winograd_4=1e-3, winograd_2=2e-3)
    run(task, 160)
    counts = {name: len(m.measured) for name, m in measurers.items()}
    assert counts["winograd-2"] == 8
    assert counts["winograd-4"] > counts["direct"] > 32


def test_a_formulation_that_is_exhausted_does_not_end_the_others(tuning):
    """The leader has nothing left after its first candidates; the trials go to those behind it."""
    task, measurers = tuning(direct=1.5e-3, winograd_4=1e-3, winograd_2=2e-3)
    run(task, 24)
    leader = next(part for part in task._parts if part.best_seconds == task.best_seconds)
    leader.policy.ask = lambda count, stop: []
    run(task, 48)
    assert leader.exhausted and not task.exhausted and len(measurers["winograd-4"].measured) == 8
    for part in task._parts:
        part.policy.ask = lambda count, stop: []
    assert task.step(16) == 0 and task.exhausted


def test_finals_are_among_those_that_can_win(tuning):
    task, measurers = tuning(direct=1.02e-3, winograd_4=1e-3, winograd_2=2e-3)
    run(task, 64)
    for name, m in measurers.items():
        m.again = lambda n, c, name=name: Trial(c, Status.OK, 1.01e-3 if name == "direct" else 1.05e-3)
    task.settle()
    assert measurers["winograd-4"].finals and measurers["direct"].finals and not measurers["winograd-2"].finals
    assert task.best_seconds == 1.01e-3  # of the other one than before


def test_proposing_waits_for_nothing(tuning):
    """Also when another formulation has its turn: whoever wants to stop is heard, as waiting is left to `collect`."""
    task, measurers = tuning(direct=1e-3, winograd_4=2e-3, winograd_2=2e-3)
    for _ in range(3):
        assert task.propose(16) == 8
    assert {name: m.pending for name, m in measurers.items()} == {"direct": 8, "winograd-4": 8, "winograd-2": 8}
    assert not any(m.measured for m in measurers.values()) and task.pending == 24
    task.collect(stop=lambda: True)
    assert not any(m.measured for m in measurers.values()) and task.pending == 0 == task.trials


def test_collecting_is_for_all(tuning):
    task, _ = tuning(direct=1e-3, winograd_4=2e-3, winograd_2=2e-3)
    for _ in range(3):
        task.propose(16)
    task.collect(down_to=4)
    assert task.trials == 24 and task.pending == 0
