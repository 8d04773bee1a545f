"""Finals: the best candidates timed once more, in turns, so that no lucky timing stays the best.

A record may be too good to be true: the clock, or another state of the machine. Of a candidate the last timing counts, so it is
enough to time those again that lead, until the one that leads was in the final. At the end of a search this settles which one to
use. Where a search continues on another day it comes first, so that nobody runs after a time that cannot be had.

Candidates of one workload take turns round by round in one process. Those of several (formulations of one computation) cannot;
their groups take turns, and the median over the laps counts.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from tensorsmith.measure.crew import never
from tensorsmith.records.record import Record
from tensorsmith.search.trial import Trial
from tensorsmith.space.sketch import Candidate

_FINALISTS = 4  # candidates in a final
_CLOSE = 1.1  # times the best: what is slower has no chance; the second is there in any case
_MOST = 3  # finals in a row, if it is always another one that leads afterwards
_ROUNDS = 20  # of each candidate
_LAPS, _LAP_ROUNDS = 4, 3  # where groups take turns


class Entrant(Protocol):
    """The tuning of one workload, as a final sees it."""

    def top(self, k: int) -> list[Record]:
        """The records of the k fastest candidates."""

    def time_again(self, candidates: Sequence[Candidate], rounds: int, stop: Callable[[], bool]) -> list[Trial]:
        """A trial for each candidate, timed in turns; none at all if `stop()` came true."""

    def keep_final(self, trials: Sequence[Trial]) -> None:
        """Stores what came out."""


def hold(entrants: Sequence[Entrant], stop: Callable[[], bool] = never, besides: Sequence[Record] = ()) -> None:
    """Finals among the best of all entrants; `besides`: records of the first entrant that are timed with them, for comparison."""
    timed: set[tuple[int, str]] = set()
    for _ in range(_MOST):
        ranking = [(n, record) for n, e in enumerate(entrants) for record in e.top(_FINALISTS)]
        ranking.sort(key=lambda x: x[1].seconds or 0.0)
        if not ranking or _name(ranking[0]) in timed or stop():
            return
        chosen = _finalists(ranking)
        known = {_name(x) for x in chosen}
        chosen += [(0, r) for r in besides if not timed and _name((0, r)) not in known]
        groups = {n: [r.candidate for m, r in chosen if m == n] for n, _ in chosen}
        found = _in_turns({n: (entrants[n], candidates) for n, candidates in groups.items()}, stop)
        for n, trials in found.items():
            entrants[n].keep_final(trials)
        timed |= {_name(x) for x in chosen}


def _name(place: tuple[int, Record]) -> tuple[int, str]:
    return place[0], place[1].key


def _finalists(ranking: Sequence[tuple[int, Record]]) -> list[tuple[int, Record]]:
    """The first two, whoever else of the first few is close, and the best of every other entrant that is."""
    bound = _CLOSE * (ranking[0][1].seconds or 0.0)
    close = [x for x in ranking[2:] if (x[1].seconds or 0.0) <= bound]
    chosen = [*ranking[:2], *close[: _FINALISTS - 2]]
    for n, record in close[_FINALISTS - 2 :]:
        if n not in {m for m, _ in chosen}:
            chosen.append((n, record))
    return chosen


def _in_turns(groups: dict[int, tuple[Entrant, Sequence[Candidate]]], stop: Callable[[], bool]) -> dict[int, list[Trial]]:
    """Trials of each group; none at all if `stop()` came true before every candidate had its turn."""
    if len(groups) == 1:
        return {n: entrant.time_again(candidates, _ROUNDS, stop) for n, (entrant, candidates) in groups.items()}
    laps: list[dict[int, list[Trial]]] = []
    for _ in range(_LAPS):
        lap = {}
        for n, (entrant, candidates) in groups.items():
            lap[n] = entrant.time_again(candidates, _LAP_ROUNDS, stop)
            if len(lap[n]) < len(candidates):
                return _medians(laps)
        laps.append(lap)
    return _medians(laps)


def _medians(laps: Sequence[dict[int, list[Trial]]]) -> dict[int, list[Trial]]:
    return {n: [_median(trials) for trials in zip(*(lap[n] for lap in laps))] for n in (laps[0] if laps else ())}


def _median(trials: Sequence[Trial]) -> Trial:
    """Of one candidate: the median of its times, or how it failed."""
    failed = next((t for t in trials if t.seconds is None), None)
    if failed is not None:
        return failed
    times = [t.seconds for t in trials if t.seconds is not None]
    return replace(trials[0], seconds=statistics.median(times), run_seconds=sum(t.run_seconds for t in trials))
