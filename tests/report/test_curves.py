"""Curves: trials in their order, pauses left out, finals believed; the network's time begins when every task has one."""

from __future__ import annotations

from tests.report.samples import SMALL, record

from tensorsmith.records.record import FINALISTS, WINNER
from tensorsmith.report.curves import Clock, curve, totals, trials
from tensorsmith.report.data import Change, Point, Total

NAMES = {SMALL.key: ""}


def test_pauses_do_not_count() -> None:
    clock = Clock([5000.0, 1000.0, 1010.0, 1010.0, 5007.0])
    assert [clock.at(m) for m in (1000.0, 1010.0, 5000.0, 5007.0)] == [0.0, 10.0, 10.0, 17.0]


def test_points_and_improvements() -> None:
    records = [
        record(SMALL, None, 1000.0, i=5),
        record(SMALL, 4e-3, 1000.0, i=1),
        record(SMALL, 1e-3, 1005.0, i=2, at_least=True),
        record(SMALL, 2e-3, 1005.0, i=4),
        record(SMALL, 3e-3, 1009.0, i=8),
        record(SMALL, 2e-3, 1009.0, i=16),
    ]
    points, improvements = curve(records, Clock(r.created for r in records), NAMES)
    assert points == (
        Point(1, 0.0, "crashed", None, False, None),
        Point(2, 0.0, "ok", 4e-3, False, 4e-3),
        Point(3, 5.0, "ok", 1e-3, True, 4e-3),
        Point(4, 5.0, "ok", 2e-3, False, 2e-3),
        Point(5, 9.0, "ok", 3e-3, False, 2e-3),
        Point(6, 9.0, "ok", 2e-3, False, 2e-3),
    )
    assert [(i.number, i.elapsed, i.seconds, i.gain, i.candidate) for i in improvements] == [
        (2, 0.0, 4e-3, None, records[1].key),
        (4, 5.0, 2e-3, 2.0, records[3].key),
    ]
    assert [i.changes for i in improvements] == [(), (Change("C.i.1", "1", "4"),)]


def test_a_final_corrects_the_trial_it_repeats() -> None:
    first, second = record(SMALL, 1e-3, 1000.0, i=1), record(SMALL, 2e-3, 1001.0, i=2)
    again = [record(SMALL, 3e-3, 1002.0, i=1, run=FINALISTS), record(SMALL, 2.5e-3, 1002.0, i=2, run=WINNER)]
    found = trials([first, second, *again])
    assert [(r.created, r.seconds) for r in found] == [(1000.0, 3e-3), (1001.0, 2.5e-3)]
    assert trials([first, second]) == [first, second]


def test_the_network_has_a_time_once_every_task_has() -> None:
    def point(number: int, elapsed: float, best: float | None) -> Point:
        return Point(number, elapsed, "ok" if best else "crashed", best, False, best)

    first = [point(1, 0.0, 4.0), point(2, 1.0, 3.0), point(3, 4.0, 3.0), point(4, 6.0, 1.0)]
    second = [point(1, 2.0, None), point(2, 3.0, 10.0), point(3, 5.0, 8.0)]
    never = [point(1, 1.5, None)]
    assert totals([(2, first), (1, second), (5, never), (7, [])]) == (Total(3.0, 4, 16.0), Total(5.0, 6, 14.0), Total(6.0, 7, 10.0))
    assert totals([]) == ()
