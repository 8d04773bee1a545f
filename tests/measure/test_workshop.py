"""Several measurers on the same workers, and waits that are ended from outside."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.measure.small import BAD, LIMITS, candidates, fault, matmul, unrolls

import tensorsmith as ts
from tensorsmith.errors import UserError
from tensorsmith.lang.workload import Workload
from tensorsmith.measure import Measurer, Workshop
from tensorsmith.measure.limits import Limits
from tensorsmith.space.plain import plain_candidate
from tensorsmith.space.sketch.sketch import Candidate

FIRST = matmul()


def scaled(size: int) -> Workload:
    A = ts.placeholder((size,), name="A")
    return ts.workload([A, ts.compute((size,), lambda i: A[i] * 3.0, name="B")])


def plain(workload: Workload, count: int) -> list[Candidate]:
    return [plain_candidate(workload)] * count


@pytest.mark.parametrize("limits", [LIMITS, replace(LIMITS, benches=1), replace(LIMITS, bench_bytes=1)])
def test_measurers_take_turns_on_the_same_processes(limits: Limits) -> None:
    """Also where a worker may be set up for one workload only."""
    others = [scaled(n) for n in (64, 65, 66)]
    with Workshop(2, limits) as workshop:
        first = Measurer(FIRST, runner=workshop)
        rest = [Measurer(w, runner=workshop) for w in others]
        assert all(t.ok for t in first.measure(candidates(FIRST, 1, 2, 3)))
        processes = workshop.processes
        assert len(processes) == 2
        for _ in range(2):
            for measurer, workload in zip(rest, others):
                assert all(t.ok and t.candidate.sketch.workload is workload for t in measurer.measure(plain(workload, 2)))
            assert all(t.ok for t in first.measure(candidates(FIRST, 4, 5)))
        assert workshop.processes == processes
        most = limits.benches if limits.bench_bytes > 1 else 1
        assert all(len(worker.benches) <= most for worker in workshop._crew.workers)


def test_candidates_of_two_workloads_at_once() -> None:
    other = scaled(64)
    with Workshop(2, LIMITS) as workshop:
        first, second = Measurer(FIRST, runner=workshop), Measurer(other, runner=workshop)
        first.submit(candidates(FIRST, *range(1, 8)))
        second.submit(plain(other, 5))
        assert len(list(second.results())) == 5
        second.submit(plain(other, 2))
        assert sorted(unrolls(list(first.results()))) == list(range(1, 8))
        assert len(list(second.results())) == 2


def test_what_one_cancels_is_not_the_others() -> None:
    other = scaled(64)
    with Workshop(1, replace(LIMITS, held=8)) as workshop:
        first, second = Measurer(FIRST, runner=workshop), Measurer(other, runner=workshop)
        second.measure(plain(other, 1))
        second.submit(plain(other, 3))
        first.submit(candidates(FIRST, 1, 2))
        assert len(first.cancel()) == 2
        assert first.pending == 0 and second.pending == 3
        assert all(t.ok for t in second.results())


def test_a_measurer_that_is_closed_leaves_the_workers() -> None:
    with Workshop(1, LIMITS) as workshop:
        with Measurer(FIRST, runner=workshop) as first:
            assert first.measure(candidates(FIRST, 1))[0].ok
            files = list(workshop.folder.glob("*.npy"))
            assert files
        processes = workshop.processes
        assert processes and not list(workshop.folder.glob("*.npy"))
        with Measurer(FIRST, runner=workshop) as again:
            assert again.measure(candidates(FIRST, 1))[0].ok
        assert workshop.processes == processes


def test_a_wait_that_is_stopped() -> None:
    """What is done is given, what is not can be cancelled, and an endless candidate does not matter."""
    asked = []

    def stop() -> bool:
        asked.append(1)
        return len(asked) > 20

    with Workshop(1, LIMITS) as workshop, Measurer(FIRST, runner=workshop, hook=fault("endless_run")) as m:
        m.submit(candidates(FIRST, BAD, 1))
        assert list(m.results(stop)) == []
        assert m.pending == 2
        assert [c.decisions["C.unroll"] for c in m.cancel()] == [BAD, 1]
        assert m.measure(candidates(FIRST, 2))[0].ok


def test_a_timing_that_is_stopped_is_not_disturbed_by_the_next() -> None:
    with Workshop(1, LIMITS) as workshop, Measurer(FIRST, runner=workshop) as m:
        m.submit(candidates(FIRST, 1, 2, 3))
        for stopped in (True, False):
            found = list(m.results(lambda stopped=stopped: stopped))
        assert sorted(unrolls(found)) == [1, 2, 3]


def test_a_final_that_is_stopped_gives_nothing() -> None:
    with Workshop(1, LIMITS) as workshop, Measurer(FIRST, runner=workshop) as m:
        assert m.measure(candidates(FIRST, 1))[0].ok
        assert m.remeasure(candidates(FIRST, 1, 2), stop=lambda: True) == []
        assert m.pending == 0
        assert all(t.ok for t in m.remeasure(candidates(FIRST, 1, 2), rounds=2))


def test_what_is_wrong_with_the_arguments() -> None:
    with pytest.raises(UserError, match="at least 1"):
        Workshop(0)
    with Workshop(1) as workshop, pytest.raises(UserError, match="those of the runner"):
        Measurer(FIRST, runner=workshop, workers=2)
