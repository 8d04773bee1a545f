"""Tasks take what was faster in their network: a record, or the default schedule."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from tests.test_tune_network import MODEL, check

import tensorsmith as ts
from tensorsmith.backends.cpu.default import default_candidate
from tensorsmith.compile import best_alike, compile_model
from tensorsmith.lang.workload import Workload
from tensorsmith.measure.networks import Failure, Ran
from tensorsmith.program.lower import lower
from tensorsmith.records.keys import IN_NETWORK, Timing, candidate_key
from tensorsmith.runtime.executable import Executable
from tensorsmith.search.trial import Status, Trial
from tensorsmith.space.plain import plain_candidate
from tensorsmith.targets.target import native
from tensorsmith.tuning.finals import in_network
from tensorsmith.tuning.finals.in_network import after_the_run, settle, unlike
from tensorsmith.tuning.history.journal import Journal
from tensorsmith.tuning.progress.network import UNCHANGED, Settled

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


INPUTS = ts.compile(MODEL).random_inputs()
RIGHT = list(MODEL.evaluate(INPUTS).values())


class Clock:
    """Gives the seconds that a test wants, lap by lap: for the network of default schedules, then for the others.

    Networks in which a program is among the `bad` ones, by their texts, have wrong answers, or fail with `status`.
    """

    def __init__(self, *laps: Sequence[Sequence[float]], bad: Sequence[str] = (), status: Status = Status.WRONG_ANSWER) -> None:
        self.laps, self.bad, self.status = list(laps), set(bad), status
        self.networks: list[int] = []  # how many were timed, by lap
        self.checked = 0  # networks that were run and not timed

    def __call__(self, networks: Sequence[Executable], timed: bool = True) -> Ran:
        wrong = [any(k.program() in self.bad for k in network.network.kernels) for network in networks]
        if any(wrong) and self.status is not Status.WRONG_ANSWER:
            return Ran(failure=Failure(wrong.index(True), self.status, "SIGSEGV while running in a network"))
        answers = [[[r + 1 if w else r for r in RIGHT]] for w in wrong]
        if not timed:
            self.checked += len(networks)
            return Ran(answers)
        if any(wrong):
            return Ran(answers, [np.ones(len(n.network.steps)) for n in networks])
        self.networks.append(len(networks))
        times = self.laps.pop(0)
        assert len(times) == len(networks)
        seconds = []
        for one, network in zip(times, networks):
            by_task = np.resize(np.array(one, float), len(TASKS))
            seconds.append(np.array([by_task[step.kernel] for step in network.network.steps]))
        return Ran(answers, seconds)


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


def test_what_the_network_takes_before_and_after(journal: Journal) -> None:
    """Its five steps: three of the first task, one of each of the others."""
    assert settle(MODEL, journal, TARGET, ALONE, Clock([[1.0], [2.0]])) == Settled(5.0, 5.0)


def test_what_a_tuned_network_takes(journal: Journal) -> None:
    assert settle(MODEL, journal, TARGET, ALONE, Clock([[2.0, 3.0, 4.0], [1.0]])) == Settled(13.0, 5.0)


def test_what_a_network_takes_that_never_ran(journal: Journal) -> None:
    """The second lap's choice is another mixture: its time is put together of those of its tasks."""
    first = [[2.0, 1.0, 1.0], [1.0, 2.0, 2.0]]
    second = [[2.0, 1.0, 1.0], [1.0, 1.0, 1.0], [1.0, 0.5, 2.0]]
    assert settle(MODEL, journal, TARGET, ALONE, Clock(first, second)) == Settled(8.0, 4.5, estimated=True)


def test_without_records_there_is_nothing_to_decide(tmp_path: Path) -> None:
    with Journal(None) as empty:
        assert settle(MODEL, empty, TARGET, ALONE, Clock()) is UNCHANGED
        assert not any(best_alike(w, empty, TARGET, TOGETHER) for w in TASKS)


def test_what_was_decided_is_in_the_file(journal: Journal, tmp_path: Path) -> None:
    settle(MODEL, journal, TARGET, ALONE, Clock([[1.0], [2.0]]))
    assert journal.finish() is None
    executable = ts.compile(MODEL, database=tmp_path / "records.db")
    assert "record" in {step.schedule for step in executable.profile(rounds=1).steps}  # of the default schedule's program
    check(executable)


def test_the_margin_is_for_choosing_and_the_seconds_are_true(journal: Journal) -> None:
    settle(MODEL, journal, TARGET, ALONE, Clock([[1.0], [0.99]]))
    for workload in TASKS:
        found = {candidate_key(r.candidate): r.seconds for r in journal.top(workload, TARGET, TOGETHER, 2)}
        assert found[candidate_key(plain_candidate(workload))] == pytest.approx(0.99, abs=1e-9)
        assert found[candidate_key(default_candidate(workload, TARGET))] == 1.0
    assert {s.schedule for s in compile_model(MODEL, journal, TARGET, ALONE).profile(rounds=1).steps} == {"record"}
    assert compile_model(MODEL, journal, TARGET, ALONE).program == ts.compile(MODEL).program  # that of the default schedules


@pytest.mark.parametrize("status", [s for s in Status if s is not Status.OK])
@pytest.mark.parametrize("timing", [Timing("cold", TARGET.cores), ALONE, TOGETHER])
def test_what_ever_failed_takes_no_part(journal: Journal, status: Status, timing: Timing) -> None:
    """However it was timed then, and though it is said to be fast since."""
    for workload in TASKS:
        journal.add(workload, TARGET, timing, [Trial(plain_candidate(workload), status)])
        journal.add(workload, TARGET, ALONE, [Trial(plain_candidate(workload), Status.OK, 1e-9)])
        journal.add(workload, TARGET, TOGETHER, [Trial(plain_candidate(workload), Status.OK, 1e-9)])
    settle(MODEL, journal, TARGET, ALONE, clock := Clock())
    assert clock.networks == []


@pytest.mark.parametrize("status", [Status.WRONG_ANSWER, Status.CRASHED, Status.TIMED_OUT])
def test_programs_that_make_the_network_wrong_are_found(journal: Journal, status: Status) -> None:
    """The others are used, since they are faster; the one to blame never again."""
    culprit = TASKS[1]
    text = str(lower(plain_candidate(culprit)))
    clock = Clock([[2.0], [1.0]], [[2.0], [1.0]], bad=[text], status=status)
    settle(MODEL, journal, TARGET, ALONE, clock)
    assert clock.networks[0] == 2
    assert [s.status for s in _trials(journal, culprit)] == [status]
    assert [best_alike(w, journal, TARGET, TOGETHER) == [] for w in TASKS] == [w is culprit for w in TASKS]
    if status is not Status.TIMED_OUT:  # that may have been the machine's fault
        assert not best_alike(culprit, journal, TARGET, ALONE)
    others = [w for w in TASKS if w is not culprit]
    assert all(s.status is Status.OK for w in others for s in _trials(journal, w))
    settle(MODEL, journal, TARGET, ALONE, again := Clock([[2.0], [1.0]], bad=[text], status=status))
    assert again.networks == [2] and not again.checked
    check(compile_model(MODEL, journal, TARGET, ALONE))


def _trials(journal: Journal, workload: Workload) -> list[Trial]:
    return [r.trial for r in journal.history(workload, TARGET, TOGETHER)]


def test_default_schedules_that_are_wrong_decide_nothing(journal: Journal) -> None:
    bad = [str(lower(default_candidate(TASKS[0], TARGET)))]
    with pytest.warns(UserWarning, match="default schedules only: y: [0-9]+ of 32 elements are wrong"):
        settle(MODEL, journal, TARGET, ALONE, Clock(bad=bad))
    assert not any(_trials(journal, w) for w in TASKS)


def test_large_networks_are_compared_with_the_default_schedules(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_network, "_AFFORDABLE", 0)
    monkeypatch.setattr(type(MODEL), "evaluate", lambda *_: pytest.fail("it would take hours"))
    text = str(lower(plain_candidate(TASKS[1])))
    settle(MODEL, journal, TARGET, ALONE, Clock([[2.0], [1.0]], bad=[text]))
    assert [t.status for t in _trials(journal, TASKS[1])] == [Status.WRONG_ANSWER]


def test_outputs_of_networks_are_compared() -> None:
    want = np.linspace(-1, 1, 200, dtype=np.float32)
    assert unlike("y", want + np.float32(1e-4), want) is None
    assert unlike("y", np.where(want == want[7], np.float32(np.nan), want), want) == "y: 1 of 200 elements are wrong"
    assert unlike("y", np.where(want == want[7], want + 1, want), want) == "y: 1 of 200 elements are wrong"
    assert unlike("y", np.zeros_like(want), want) is not None and unlike("y", want[:2], want) is not None
    ones = np.ones(200, np.int64)
    changed = ones.copy()
    changed[:2] = 5
    assert unlike("y", changed, ones) is None
    changed[:9] = 5
    assert "4% of the elements are wrong" in unlike("y", changed, ones)


class Left:
    """Seconds that are left: every look takes as many as it says, in turn."""

    def __init__(self, *left: float) -> None:
        self.left, self.looks = list(left), 0

    def __call__(self) -> float:
        self.looks += 1
        return self.left.pop(0) if len(self.left) > 1 else self.left[0]


def test_without_time_for_a_lap_nothing_is_decided(journal: Journal) -> None:
    assert settle(MODEL, journal, TARGET, ALONE, clock := Clock(), Left(5.0)) is None  # less than a lap takes
    assert clock.networks == []
    # to build the default schedules took 4 s, so will the records, and so will the result: 9 s are too few
    assert settle(MODEL, journal, TARGET, ALONE, clock, Left(13.0, 9.0)) is None and clock.networks == []


@pytest.mark.parametrize("before, after, laps", [(13.0, 8.0, 1), (52.0, 47.0, 2)])
def test_a_second_lap_needs_the_time_of_the_first_and_of_the_result(
    journal: Journal, before: float, after: float, laps: int
) -> None:
    """The default schedules took 4 s to build, so the result will, and the first lap took 5 s."""
    first = [[2.0, 1.0, 1.0], [1.0, 2.0, 2.0]]
    second = [[2.0, 1.0, 1.0], [3.0, 1.0, 1.0], [3.0, 2.0, 2.0]]
    settle(MODEL, journal, TARGET, ALONE, clock := Clock(first, second), Left(60.0, 56.0, 56.0, 52.0, before, after))
    assert len(clock.networks) == laps


def test_what_is_kept_for_after_the_run_grows_with_the_builds() -> None:
    less, more = after_the_run(30, 20, 0.05), after_the_run(30, 20, 0.5)
    assert more - less == pytest.approx(80 * 0.45)  # default schedules, records, and the result
