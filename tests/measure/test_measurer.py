"""Every way a trial can end, and that nothing else is harmed by it."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.measure.small import BAD, LIMITS, PATIENCE, candidate, candidates, fault, matmul, unrolls

from tensorsmith.backends.cpu.default import default_candidate
from tensorsmith.build import build
from tensorsmith.errors import UserError
from tensorsmith.lang.compare import random_inputs
from tensorsmith.lang.define import placeholder
from tensorsmith.lang.define import workload as to_workload
from tensorsmith.measure import Measurer
from tensorsmith.measure.process import WorkerProcess
from tensorsmith.measure.workshop import Workshop
from tensorsmith.ops import conv
from tensorsmith.rewrites.formulations import formulations
from tensorsmith.search.trial import Status, Trial
from tensorsmith.space.sketch.sketch import Candidate
from tensorsmith.targets.target import native

WORKLOAD = matmul()


def measurer(hook: str | None = None, **options) -> Measurer:
    options = {"workers": 1, "threads": 2, "limits": LIMITS, **options}
    return Measurer(WORKLOAD, hook=fault(hook) if hook else None, **options)


def gone(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return False


def test_good_candidates() -> None:
    with measurer(workers=2) as m:
        given = candidates(WORKLOAD, *range(1, 25))
        trials = m.measure(given)
        assert [t.candidate for t in trials] == given
        assert all(t.ok and t.seconds and 0 < t.seconds < 1 and t.build_seconds > 0 and t.run_seconds > 0 for t in trials)
        assert m.times.trials == 24 and m.times.build > 0 and m.times.check > 0 and m.times.run > 0
        assert "24 trials" in str(m.times)
        assert m.measure([]) == []
        workers = m.processes
        assert len(workers) == 2
    assert all(map(gone, workers)) and m.processes == ()
    m.close()


def test_a_formulation_is_checked_against_the_original_in_the_worker_too() -> None:
    x, weight = placeholder((1, 16, 16, 16), name="X"), placeholder((3, 3, 16, 16), name="W", constant=True)
    original = to_workload([x, weight, conv.conv2d(x, weight, padding=1)])
    formulation = next(f for f in formulations(original) if f.name == "winograd-4")
    with Measurer(formulation.workload, workers=1, threads=1, limits=LIMITS, formulation=formulation) as measurer:
        (trial,) = measurer.measure([default_candidate(formulation.workload, native())])
    assert trial.ok, trial.cause


@pytest.mark.parametrize(
    ("hook", "status", "cause"),
    [
        ("refusal", Status.REFUSED, "tile too large"),
        ("error_in_build", Status.BUILD_FAILED, "ValueError: no such instruction"),
        ("segfault_in_build", Status.CRASHED, "SIGSEGV while building"),
        ("segfault_in_run", Status.CRASHED, "SIGSEGV while running"),
        ("segfault_in_timing", Status.CRASHED, "SIGSEGV while running"),
        ("killed_in_timing", Status.CRASHED, "SIGKILL while running"),
        ("exit_in_run", Status.CRASHED, "exit status 3 while running"),
        ("endless_build", Status.TIMED_OUT, "build took too long"),
        ("endless_run", Status.TIMED_OUT, "run took too long"),
        ("wrong_number", Status.WRONG_ANSWER, "C: 1 of 512 elements are wrong, the worst at [3, 5]"),
        ("forgets_an_element", Status.WRONG_ANSWER, "C: 1 of 512 elements are wrong, the worst at [0, 0]: got nan"),
        ("hog_in_build", Status.OUT_OF_MEMORY, "not enough memory"),
        ("hog_in_run", Status.OUT_OF_MEMORY, "not enough memory"),
        ("compiler_out_of_memory", Status.OUT_OF_MEMORY, "SIGABRT while building"),
    ],
)
def test_a_fault_is_a_result_and_the_others_do_not_notice(hook: str, status: Status, cause: str) -> None:
    limits = replace(PATIENCE if "endless" in hook else LIMITS, memory_bytes=512 << 20)
    with measurer(hook, limits=limits) as m:
        trials = m.measure(candidates(WORKLOAD, 1, 2, BAD, 4))
        assert unrolls(trials) == [1, 2, BAD, 4]
        assert [t.status for t in trials] == [Status.OK, Status.OK, status, Status.OK]
        bad = trials[2]
        assert bad.cause.startswith(cause) and bad.seconds is None
        assert "\n" not in bad.cause


def test_faults_with_two_workers() -> None:
    """The worker that dies holds others that are built: they are built again."""
    with measurer("segfault_in_timing", workers=2) as m:
        trials = m.measure(candidates(WORKLOAD, *range(1, 20)))
        assert [t.status for t in trials if not t.ok] == [Status.CRASHED]
        assert unrolls(trials) == list(range(1, 20))


def test_an_endless_timing_ends() -> None:
    limits = replace(PATIENCE, run_floor=5.0, run_ceiling=5.0, most_seconds=0.1)
    with measurer("endless_timing", limits=limits) as m:
        trials = m.measure(candidates(WORKLOAD, BAD, 1))
        assert [t.status for t in trials] == [Status.TIMED_OUT, Status.OK]
        assert trials[0].cause == "run took too long"


def test_many_faults_in_a_row() -> None:
    with measurer("segfault_in_build") as m:
        trials = m.measure(candidates(WORKLOAD, BAD, BAD, 1, BAD))
        assert [t.ok for t in trials] == [False, False, True, False]


def test_an_idle_worker_that_is_killed_is_nobodys_fault() -> None:
    with measurer() as m:
        m.measure(candidates(WORKLOAD, 1))
        (first,) = m.processes
        os.kill(first, signal.SIGKILL)
        trials = m.measure(candidates(WORKLOAD, 2, 3))
        assert all(t.ok for t in trials)
        assert m.processes != (first,)


def test_workers_leave_ctrl_c_to_the_parent() -> None:
    with measurer() as m:
        m.measure(candidates(WORKLOAD, 1))
        before = m.processes
        os.kill(before[0], signal.SIGINT)
        assert m.measure(candidates(WORKLOAD, 2))[0].ok
        assert m.processes == before


def test_prints_do_not_garble_the_replies() -> None:
    with measurer("prints") as m:
        assert all(t.ok for t in m.measure(candidates(WORKLOAD, 1, 2)))


def test_answers_are_those_of_an_executable_made_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the inputs are the same in every worker."""
    monkeypatch.setenv("TEST_ANSWERS", str(tmp_path))
    given = candidates(WORKLOAD, 1, 2, 3, 1, 2, 3)
    with measurer("log", workers=2, seed=7) as m:
        assert all(t.ok for t in m.measure(given))
    inputs = random_inputs(WORKLOAD, 7)
    for unroll in (1, 2, 3):
        expected = build(candidate(WORKLOAD, unroll))(**inputs)
        answers = [np.load(path) for path in tmp_path.glob(f"*-{unroll}.npy")]
        assert answers
        for answer in answers:
            np.testing.assert_array_equal(answer, expected)


def test_trials_can_be_fetched_as_they_come() -> None:
    with measurer(workers=2, limits=replace(LIMITS, held=2)) as m:
        m.submit(candidates(WORKLOAD, *range(1, 9)))
        assert m.pending == 8
        seen: list[Trial] = []
        for trial in m.results():
            seen.append(trial)
            if len(seen) == 3:
                m.submit(candidates(WORKLOAD, 9, 10))
        assert sorted(unrolls(seen)) == list(range(1, 11))
        assert m.pending == 0 and list(m.results()) == []


def test_cancel_says_what_was_not_measured() -> None:
    with measurer(limits=replace(LIMITS, held=1)) as m:
        m.submit(candidates(WORKLOAD, *range(1, 7)))
        first = next(m.results())
        left = m.cancel()
        assert {*unrolls([first]), *(c.decisions["C.unroll"] for c in left)} == set(range(1, 7))
        assert m.pending == 0 and list(m.results()) == []
        assert m.measure(candidates(WORKLOAD, 9))[0].ok


def test_measure_does_not_mix_with_submit() -> None:
    with measurer() as m:
        m.submit(candidates(WORKLOAD, 1))
        with pytest.raises(UserError, match="results"):
            m.measure(candidates(WORKLOAD, 2))
        with pytest.raises(UserError, match="results"):
            m.remeasure(candidates(WORKLOAD, 2))


def test_what_loses_is_cut_short() -> None:
    with measurer() as m:
        slow, *_ = m.measure(candidates(WORKLOAD, 1), incumbent=1e-12)
        assert slow.ok and slow.at_least and slow.seconds


def test_workers_are_replaced_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_LOG", str(tmp_path / "log"))
    with measurer("log", limits=replace(LIMITS, held=2, recycle_after=4)) as m:
        assert all(t.ok for t in m.measure(candidates(WORKLOAD, *range(1, 11))))
    lines = [line.split() for line in (tmp_path / "log").read_text().splitlines()]
    # a candidate is counted once, also if it was timed again because something else had used the machine meanwhile
    served = [
        len({n for p, point, n in lines if p == process and point == "time"}) for process in dict.fromkeys(n for n, _, _ in lines)
    ]
    assert served == [4, 4, 2]


def test_a_worker_that_grows_is_replaced() -> None:
    with measurer(limits=replace(LIMITS, held=1, recycle_bytes=-(1 << 40))) as m:
        m.measure(candidates(WORKLOAD, 1))
        assert m.processes == ()
        assert m.measure(candidates(WORKLOAD, 2))[0].ok


def test_finalists_take_turns_in_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_LOG", str(tmp_path / "log"))
    with measurer("log", workers=2) as m:
        trials = m.remeasure(candidates(WORKLOAD, 1, 2, 3), rounds=4)
        assert unrolls(trials) == [1, 2, 3] and all(t.ok and not t.at_least for t in trials)
        assert m.pending == 0 and list(m.results()) == []
    lines = [line.split() for line in (tmp_path / "log").read_text().splitlines()]
    assert len({process for process, _, _ in lines}) == 1
    turns = [unroll for _, point, unroll in lines if point == "time"]
    rounds = [turns[n : n + 3] for n in range(0, len(turns), 3)]
    assert len(rounds) == 4 and all(sorted(one) == ["1", "2", "3"] for one in rounds)
    assert len(set(map(tuple, rounds))) > 1  # nobody always follows the same one


def test_a_finalist_that_dies_does_not_spoil_the_final() -> None:
    with measurer("segfault_in_timing") as m:
        trials = m.remeasure(candidates(WORKLOAD, 1, BAD, 3), rounds=3)
        assert [t.status for t in trials] == [Status.OK, Status.CRASHED, Status.OK]


def test_cold_runs_and_no_check() -> None:
    with measurer("wrong_number", cache="cold", check=False) as m:
        trials = m.measure(candidates(WORKLOAD, 1, BAD))
        assert all(t.ok and t.seconds for t in trials)


def test_worker_that_cannot_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho no library here >&2\nexit 4\n")
    broken.chmod(0o755)
    for executable, words in ((str(broken), "exit status 4: no library here"), ("/no/such/python", "No such file"), ("", "empty")):
        monkeypatch.setattr(sys, "executable", executable)
        with measurer() as m, pytest.raises(UserError, match=words):
            m.measure(candidates(WORKLOAD, 1))


def killed_while_starting(folder: Path, times: int) -> str:
    """A Python that the system kills so many times, as for want of memory, before it starts; each start leaves a line in a file."""
    python = folder / "python"
    starts = folder / "starts"
    python.write_text(f'#!/bin/sh\necho >>{starts}\n[ $(wc -l <{starts}) -le {times} ] && kill -9 $$\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return str(python)


def test_workers_killed_while_starting_are_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", killed_while_starting(tmp_path, 3))
    said: list[str] = []
    limits = replace(LIMITS, killed_pause=0.01)
    with Workshop(1, limits, said.append) as workshop, Measurer(WORKLOAD, runner=workshop) as m:
        assert m.measure(candidates(WORKLOAD, 1))[0].ok
        assert m.remeasure(candidates(WORKLOAD, 1, 2))[1].ok
    pauses = ["0.01", "0.02", "0.04"]
    words = "a measurement worker was killed (SIGKILL) while starting, perhaps for want of memory; it is started again in"
    assert said == [f"{words} {pause} s" for pause in pauses]


def test_finalists_wait_for_workers_that_were_killed_while_starting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", killed_while_starting(tmp_path, 3))
    said: list[str] = []
    limits = replace(LIMITS, killed_pause=0.01)
    with Workshop(2, limits, said.append) as workshop, Measurer(WORKLOAD, runner=workshop) as m:
        assert all(t.ok for t in m.remeasure(candidates(WORKLOAD, 1, 2)))
    assert 2 <= len(said) <= 3  # two may start at once, and both count both


def test_workers_killed_again_and_again_are_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", killed_while_starting(tmp_path, 1000))
    said: list[str] = []
    limits = replace(LIMITS, killed_pause=0.001, killed_attempts=4)
    with Workshop(1, limits, said.append) as workshop, Measurer(WORKLOAD, runner=workshop) as m:
        with pytest.raises(UserError, match=r"killed \(SIGKILL\) while starting, 4 times in a row.*memory.*_NUM_THREADS"):
            m.measure(candidates(WORKLOAD, 1))
        assert len(said) == 3 and len((tmp_path / "starts").read_text().splitlines()) == 4
        assert m.processes == ()


def test_ctrl_c_ends_the_wait_for_workers_that_were_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", killed_while_starting(tmp_path, 1000))
    said: list[str] = []
    with Workshop(1, replace(LIMITS, killed_pause=1000.0), said.append) as workshop, Measurer(WORKLOAD, runner=workshop) as m:
        m.submit(candidates(WORKLOAD, 1))
        assert list(m.results(stop=lambda: bool(said))) == []
        assert len(said) == 1 and m.pending == 1


def test_no_room_for_a_process_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    original, failures = subprocess.Popen, [OSError(errno.ENOMEM, "Cannot allocate memory"), OSError(errno.EAGAIN, "try again")]

    def popen(*arguments, **options):
        if failures:
            raise failures.pop()
        return original(*arguments, **options)

    monkeypatch.setattr(subprocess, "Popen", popen)
    said: list[str] = []
    with Workshop(1, replace(LIMITS, killed_pause=0.01), said.append) as workshop, Measurer(WORKLOAD, runner=workshop) as m:
        assert m.measure(candidates(WORKLOAD, 1))[0].ok
    assert len(said) == 2 and "Cannot allocate memory" in said[1]


def test_worker_that_cannot_be_set_up() -> None:
    with measurer("no_such_fault") as m, pytest.raises(UserError, match=r"could not start.*no_such_fault"):
        m.measure(candidates(WORKLOAD, 1))


def test_worker_that_never_gets_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = tmp_path / "python"
    slow.write_text("#!/bin/sh\nexec sleep 1000\n")
    slow.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(slow))
    limits = replace(LIMITS, start_seconds=0.2)
    with measurer(limits=limits) as m, pytest.raises(UserError, match=r"not ready after 0\.2 s"):
        m.measure(candidates(WORKLOAD, 1))
    assert m.processes == ()


def test_what_is_wrong_with_the_arguments() -> None:
    with pytest.raises(UserError, match="workers"):
        measurer(workers=0)
    with pytest.raises(UserError, match="cold"):
        measurer(cache="hot")
    with pytest.raises(UserError, match="cannot be measured"):
        m = measurer()
        Measurer(WORKLOAD, replace(m.target, triple="riscv64-unknown-linux"))


def test_a_candidate_of_another_workload() -> None:
    import tensorsmith as ts

    A = ts.placeholder((4,), name="A")
    other = ts.workload([A, ts.compute((4,), lambda i: A[i] + 1.0, name="C")])
    with measurer() as m, pytest.raises(UserError, match="another workload"):
        from tensorsmith.space.plain import plain_candidate

        m.measure([plain_candidate(other)])
    assert m.processes == ()


def test_an_interrupt_leaves_a_measurer_that_works(monkeypatch: pytest.MonkeyPatch) -> None:
    with measurer(limits=replace(LIMITS, held=1)) as m:
        m.submit(candidates(WORKLOAD, *range(1, 5)))
        receive, count = WorkerProcess.receive, []

        def interrupted(self: WorkerProcess):
            count.append(1)
            if len(count) == 3:
                raise KeyboardInterrupt
            return receive(self)

        monkeypatch.setattr(WorkerProcess, "receive", interrupted)
        with pytest.raises(KeyboardInterrupt):
            list(m.results())
        assert m.pending == 0 and m.processes == ()
        list(m.results())
        assert m.measure(candidates(WORKLOAD, 9))[0].ok


def test_a_candidate_that_does_not_fit_is_refused_not_fatal() -> None:
    one = candidate(WORKLOAD, 1)
    broken = Candidate(one.sketch, {**one.decisions, "C.i.1": 1 << 40, "C.j.1": 1 << 20})
    with measurer() as m:
        trials = m.measure([broken, candidate(WORKLOAD, 2)])
        assert not trials[0].ok or trials[0].seconds
        assert trials[1].ok
