"""Tasks take what was faster in their network: a record, or the default schedule."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from tests.test_tune_network import MODEL, check

import tensorsmith as ts
from tensorsmith.compile import best_alike, compile_model
from tensorsmith.in_network import in_turns, settle
from tensorsmith.records.keys import IN_NETWORK, Timing, candidate_key
from tensorsmith.runtime.network import NetworkExecutable
from tensorsmith.search.trial import Status, Trial
from tensorsmith.space.default import default_candidate
from tensorsmith.space.plain import plain_candidate
from tensorsmith.target import native
from tensorsmith.tuning.journal import Journal

TARGET = native()
ALONE, TOGETHER = Timing("warm", TARGET.cores), Timing(IN_NETWORK, TARGET.cores)
TASKS = [t.workload for t in MODEL.partition.tasks]


@pytest.fixture
def journal(tmp_path: Path):
    """Every task has a record that seems fast: its plain program."""
    with Journal(tmp_path / "records.db") as journal:
        for workload in TASKS:
            journal.add(workload, TARGET, ALONE, [Trial(plain_candidate(workload), Status.OK, 1e-9)])
        yield journal


class Clock:
    """Gives the seconds that a test wants, lap by lap: for the network of default schedules, then for the others."""

    def __init__(self, *laps: Sequence[Sequence[float]]) -> None:
        self.laps = list(laps)
        self.networks: list[int] = []

    def __call__(self, networks: Sequence[NetworkExecutable]) -> list[np.ndarray]:
        self.networks.append(len(networks))
        times = self.laps.pop(0)
        assert len(times) == len(networks)
        return [np.resize(np.array(one, float), len(TASKS)) for one in times]


def chosen(journal: Journal) -> list[str]:
    found = []
    for workload in TASKS:
        ((candidate, _), *_) = best_alike(workload, journal, TARGET, TOGETHER)
        names = {candidate_key(plain_candidate(workload)): "record", candidate_key(default_candidate(workload, TARGET)): "default"}
        found.append(names[candidate_key(candidate)])
    return found


def test_records_that_lose_in_the_network_are_not_used(journal: Journal) -> None:
    settle(MODEL, journal, TARGET, ALONE, clock := Clock([[1.0], [2.0]]))
    assert clock.networks == [2]
    assert set(chosen(journal)) == {"default"}
    check(compile_model(MODEL, journal, TARGET, ALONE))


def test_records_that_win_are(journal: Journal) -> None:
    settle(MODEL, journal, TARGET, ALONE, Clock([[2.0], [1.0]]))
    assert set(chosen(journal)) == {"record"}
    assert {s.schedule for s in compile_model(MODEL, journal, TARGET, ALONE).profile(rounds=1).steps} == {"record"}


def test_a_record_has_to_win_clearly(journal: Journal) -> None:
    settle(MODEL, journal, TARGET, ALONE, Clock([[1.0], [0.99]]))
    assert set(chosen(journal)) == {"default"}


def test_a_mixture_has_a_lap_of_its_own(journal: Journal) -> None:
    """The first task changes its mind in the second lap."""
    assert len(TASKS) > 1
    first = [[2.0, 1.0, 1.0], [1.0, 2.0, 2.0]]
    second = [[2.0, 1.0, 1.0], [3.0, 1.0, 1.0], [3.0, 2.0, 2.0]]
    settle(MODEL, journal, TARGET, ALONE, clock := Clock(first, second))
    assert clock.networks == [2, 3]
    assert set(chosen(journal)) == {"default"}


def test_without_records_there_is_nothing_to_decide(tmp_path: Path) -> None:
    with Journal(None) as empty:
        settle(MODEL, empty, TARGET, ALONE, Clock())
        assert not any(best_alike(w, empty, TARGET, TOGETHER) for w in TASKS)


def test_what_was_decided_is_in_the_file(journal: Journal, tmp_path: Path) -> None:
    settle(MODEL, journal, TARGET, ALONE, Clock([[1.0], [2.0]]))
    assert journal.finish() is None
    executable = ts.compile(MODEL, database=tmp_path / "records.db")
    assert "record" in {step.schedule for step in executable.profile(rounds=1).steps}  # of the default schedule's program
    check(executable)


def test_times_of_each_kernel() -> None:
    networks = [ts.compile(MODEL), ts.compile(MODEL)]
    for network, times in zip(networks, in_turns(networks)):
        assert times.shape == (len(network.network.kernels),)
        assert (times > 0).all()
