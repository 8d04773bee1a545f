"""The suite for runners: ours pass it, and promises are noticed when they are broken."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tests.measure.fleet.other_machine import elsewhere

from tensorsmith.measure.job import Job
from tensorsmith.measure.places import Place
from tensorsmith.measure.runner import NodeStatus
from tensorsmith.measure.subject import Subject
from tensorsmith.measure.workshop import Workshop
from tensorsmith.testing import BrokenPromise, check_runner
from tensorsmith.testing import promise as module


def test_processes_of_this_machine() -> None:
    check_runner("local")


def test_a_command(tmp_path: Path) -> None:
    check_runner(elsewhere(tmp_path))


class Losing(Workshop):
    """Forgets the last of some candidates."""

    def submit(self, jobs: Sequence[Job]) -> None:
        super().submit(jobs[:-1] if len(jobs) > 1 else jobs)


class Twice(Workshop):
    """Counts a result twice."""

    def collect(self, subject: Subject, stop: Callable[[], bool] = lambda: False) -> None:
        super().collect(subject, stop)
        subject.times.trials += 1


class Deaf(Workshop):
    """Cancels nothing."""

    def cancel(self, subject: Subject) -> list[Job]:
        return []


class Silent(Workshop):
    """Does not say why it is idle."""

    def nodes(self) -> tuple[NodeStatus, ...]:
        return (NodeStatus("here", "ready"),)


@pytest.mark.parametrize(
    ("broken", "promise"),
    [
        (Losing, "every candidate gets one trial"),
        (Twice, "trials are counted once"),
        (Deaf, "what is cancelled is dropped"),
        (Silent, "a node that does nothing says why"),
    ],
)
def test_broken_promises_are_noticed(broken: type[Workshop], promise: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PATIENCE", 60.0)
    with pytest.raises(BrokenPromise, match=promise):
        check_runner(Place("broken", lambda target, warn: broken(1)))


def test_an_object_stays_open() -> None:
    with Workshop(1) as workshop:
        check_runner(workshop)
        assert workshop.processes


def test_what_is_no_runner() -> None:
    with pytest.raises(ValueError, match="which has no submit"):
        check_runner(object())  # type: ignore[arg-type]
