"""How a tuning went: the trials of a task in their order, what each improvement changed, and the network's time over all of it."""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from tensorsmith.records.record import FINALS, Record
from tensorsmith.report.changes import changes
from tensorsmith.report.data import Improvement, Point, Total

_PAUSE = 300.0  # seconds without a record after which nobody was tuning


class Clock:
    """Seconds of tuning at a moment: the time since the first of the `moments`, without the pauses between runs."""

    def __init__(self, moments: Iterable[float]) -> None:
        self._moments = sorted(set(moments))
        self._elapsed = [0.0]
        for before, after in zip(self._moments, self._moments[1:]):
            gap = after - before
            self._elapsed.append(self._elapsed[-1] + (gap if gap <= _PAUSE else 0.0))

    def at(self, moment: float) -> float:
        """Of one of the moments."""
        return self._elapsed[bisect.bisect_left(self._moments, moment)]


def trials(history: Sequence[Record]) -> list[Record]:
    """The trials of a search, each with the last result of its candidate: finals time some of them again, and better."""
    again = {r.key: r.trial for r in history if r.run in FINALS}
    return [replace(r, trial=again.get(r.key, r.trial)) if again else r for r in history if r.run not in FINALS]


def full_seconds(record: Record) -> float | None:
    """None for what failed or was cut short."""
    return None if record.trial.at_least else record.seconds


def curve(
    records: Sequence[Record], clock: Clock, formulation_of: Mapping[str, str]
) -> tuple[tuple[Point, ...], tuple[Improvement, ...]]:
    """The points of a search, and those that beat all before. `formulation_of`: names by the keys of workloads."""
    points: list[Point] = []
    improvements: list[Improvement] = []
    best: Record | None = None
    for number, record in enumerate(records, 1):
        elapsed, seconds = clock.at(record.created), full_seconds(record)
        if seconds is not None and (best is None or seconds < (best.seconds or 0.0)):
            improvements.append(_improvement(number, elapsed, best, record, formulation_of))
            best = record
        t = record.trial
        points.append(Point(number, elapsed, t.status.value, t.seconds, t.at_least, best.seconds if best else None))
    return tuple(points), tuple(improvements)


def _improvement(
    number: int, elapsed: float, best: Record | None, record: Record, formulation_of: Mapping[str, str]
) -> Improvement:
    seconds = record.seconds or 0.0
    if best is None:
        return Improvement(number, elapsed, seconds, None, record.key, ())
    names = formulation_of[best.workload.key], formulation_of[record.workload.key]
    gain = (best.seconds or 0.0) / seconds
    return Improvement(number, elapsed, seconds, gain, record.key, changes(best.candidate, record.candidate, names))


def totals(tasks: Sequence[tuple[int, Sequence[Point]]]) -> tuple[Total, ...]:
    """The network's time whenever it improved, of (weight, points) of its tasks; those that never had a time are left out."""
    timed = [(weight, points) for weight, points in tasks if points and points[-1].best is not None]
    events = heapq.merge(*([(p.elapsed, n, p.number, p.best) for p in points] for n, (_, points) in enumerate(timed)))
    best: dict[int, float] = {}
    found: list[Total] = []
    for count, (elapsed, n, _, seconds) in enumerate(events, 1):
        if seconds is None:
            continue
        best[n] = seconds
        if len(best) == len(timed):
            total = sum(weight * best[m] for m, (weight, _) in enumerate(timed))
            if not found or total < found[-1].seconds:
                found.append(Total(elapsed, count, total))
    return tuple(found)
