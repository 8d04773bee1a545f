"""Finals: the best candidates and the default schedule timed once more, in turns, so that what is used is what is fast to call.

A search times kernels alone, from compiled code. A record may then be too good to be true: the clock, another state of the machine,
or a way of calling that no user knows. So those that lead meet the default schedule under all conditions of a caller, called from
Python on NumPy arrays (`measure.calls`), and replace it only if they are surely faster back to back and ahead under the others
(`verdict.py`). It is a race: whoever is behind drops out early, and it is over when the first is settled (`race.py`). Whoever wins
is stored as the winner, and stays it until another final: what was known when it won ranks behind it, whatever its seconds say
(`records.record.ranked`). The seconds that are stored are those of the kernel alone, like those of every other trial.

Where a search continues on another day, the leading records are timed again before it begins, so that nobody runs after a time that
cannot be had. That is a check of their times, alone, and decides nothing.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from tensorsmith.measure.conditions import Condition
from tensorsmith.measure.contest import Timed, Turns
from tensorsmith.measure.crew import never
from tensorsmith.measure.measurer import Measurer
from tensorsmith.records.keys import candidate_key
from tensorsmith.records.record import FINALISTS, WINNER, Record
from tensorsmith.rewrites.formulations import Formulation
from tensorsmith.search.trial import Trial
from tensorsmith.show.units import time
from tensorsmith.space.sketch.sketch import Candidate
from tensorsmith.tuning.finals import race
from tensorsmith.tuning.finals.verdict import LEAST_GAIN, winner

log = logging.getLogger(__name__)

_FINALISTS = 4  # candidates in a final, besides the default schedule
_CLOSE = 1.1  # times the best: what is slower has no chance; the second is there in any case
_MOST_CHECKS = 3  # in a row, if it is always another one that leads afterwards
_MOST_FINALS = 2  # likewise
_CHECK_ROUNDS = 20
_WHOLE = 1 << 20  # records: all that there are
_SECONDS = 2.0  # of a final at most, besides building; the more so where programs are slow
#: Seconds of a turn besides the calls.
_OVERHEAD = {Condition.ALONE: 0.002, Condition.BACK_TO_BACK: 0.002, Condition.PAUSED: 0.025, Condition.COLD: 0.012}
#: Calls of a program that is not short.
_CALLS = {Condition.ALONE: 2, Condition.BACK_TO_BACK: 2, Condition.PAUSED: 1, Condition.COLD: 1}


class Entrant(Protocol):
    """The tuning of one workload, as a final sees it."""

    def top(self, k: int) -> list[Record]:
        """The records of the k fastest candidates."""

    @property
    def formulation(self) -> Formulation:
        """What its candidates are candidates of."""

    @property
    def measurer(self) -> Measurer:
        """Times its candidates."""

    def compare(self, contenders: Sequence[tuple[Measurer, Candidate]], turns: Turns, stop: Callable[[], bool]) -> list[Timed]:
        """What comes out for candidates, its own and others, timed in turns; none at all if `stop()` came true."""

    def keep_final(self, trials: Sequence[Trial], run: str) -> None:
        """Stores what came out."""


Contender = tuple[Entrant, Candidate]


@dataclass(frozen=True)
class Outcome:
    """Of a final: whom to use, whether that is the default schedule, and the least seconds of all that took part."""

    winner: Contender
    default_won: bool
    least: float


def check(entrant: Entrant, default: Candidate | None, stop: Callable[[], bool] = never) -> None:
    """Times the leading records again, and again if others lead then; whoever was the winner of a final stays it."""
    timed: set[str] = set()
    for _ in range(_MOST_CHECKS):
        ranking = entrant.top(_FINALISTS)
        if not ranking or ranking[0].key in timed or stop():
            return
        chosen = _finalists([(entrant, r) for r in ranking])
        runs = {r.key: WINNER if r.run == WINNER else FINALISTS for _, r in chosen}
        candidates = [r.candidate for _, r in chosen]
        if default is not None and not timed and candidate_key(default) not in runs:
            candidates.append(default)
        turns = Turns.even(_CHECK_ROUNDS, (Condition.ALONE,))
        found = entrant.compare([(entrant.measurer, c) for c in candidates], turns, stop)
        _keep([(entrant, one.trial, runs.get(candidate_key(c), FINALISTS)) for c, one in zip(candidates, found)])
        timed |= {candidate_key(c) for c in candidates}


def settle_own(entrants: Sequence[Entrant], stop: Callable[[], bool], seconds_left: Callable[[], float | None]) -> Outcome | None:
    """The best of what the policy found, without the default schedule; None if nothing that it found runs.

    The leading records are timed once more, as far as there is time, since the best time of a search is often a lucky one. Nobody
    wins a title by that: the default schedule was not met.
    """
    for entrant in entrants:
        first, left = next(iter(entrant.top(1)), None), seconds_left()
        turn = _OVERHEAD[Condition.ALONE] + _CALLS[Condition.ALONE] * ((first and first.seconds) or 0.0)
        if left is None or (first is not None and left > _FINALISTS * (_CHECK_ROUNDS * turn + first.trial.build_seconds)):
            check(entrant, None, stop)
    found = [(record.seconds or 0.0, n, record) for n, entrant in enumerate(entrants) for record in entrant.top(1)]
    if not found:
        return None
    least, number, record = min(found, key=lambda one: one[0])
    return Outcome((entrants[number], record.candidate), False, least)


def hold(
    entrants: Sequence[Entrant],
    default: Contender,
    conditions: tuple[Condition, ...] = tuple(Condition),
    stop: Callable[[], bool] = never,
    seconds_left: Callable[[], float | None] = lambda: None,
    trust_search: bool = False,
) -> Outcome | None:
    """A final among the best of all entrants and the default schedule; None if there is nothing to decide.

    It takes some tenths of a second where nobody wins, up to two seconds otherwise, and not much more than `seconds_left()`. If
    what led before was luck, so that another one leads that was not in the final, there is a second one, in which the winner of the
    first is the one to beat. Where there is no time for any, or `stop()` is true, the default schedule stays, for nobody was seen
    to be faster than it for a caller; with `trust_search` the times of the search decide, since another contest comes after it.
    """
    outcome: Outcome | None = None
    holder, bar = default, math.inf  # of the title: whom the others have to beat, and what they have to be faster than
    timed: set[tuple[int, str]] = set()
    for _ in range(_MOST_FINALS):
        claims = [(e, r) for e in entrants for r in e.top(2 * _FINALISTS) if _name((e, r.candidate)) not in timed]
        claims.sort(key=lambda x: x[1].seconds or 0.0)
        if not claims or stop() or (claims[0][1].seconds or 0.0) >= bar:
            break
        needs, left = _Needs.of(claims[0][1], conditions), seconds_left()
        room = needs.room(left)
        if not room:
            break
        chosen = _finalists(claims)
        contenders = [(e, r.candidate) for e, r in (chosen if room == _FINALISTS else chosen[:room])]
        if _name(holder) not in map(_name, contenders):
            contenders.append(holder)
        timed |= set(map(_name, contenders))
        before = _known(holder)
        held = _final(contenders, holder, conditions, needs.seconds(left, room), stop)
        if held is None:
            break
        holder, bar = held.winner, _bar(held, before)
        outcome = Outcome(holder, _name(holder) == _name(default), held.least)
        what = "the default schedule" if outcome.default_won else f"candidate {candidate_key(holder[1])}"
        log.info(
            "a final of %d programs of %s: %s wins, the fastest takes %s",
            len(contenders),
            default[1].sketch.workload.title,
            what,
            time(held.least),
        )
    return outcome or _without_a_final(entrants, default, trust_search)


def _known(contender: Contender) -> Record | None:
    """The record of a candidate, as it stands."""
    return next((r for r in contender[0].top(_WHOLE) if r.key == candidate_key(contender[1])), None)


def seconds_needed(entrants: Sequence[Entrant], conditions: Sequence[Condition]) -> float:
    """What a final of the first and the default schedule takes, building included; 0 if nothing runs yet."""
    leading = [record for entrant in entrants for record in entrant.top(1)]
    if not leading:
        return 0.0
    needs = _Needs.of(min(leading, key=lambda r: r.seconds or 0.0), conditions)
    return needs.least_timing + 2 * needs.build


def _without_a_final(entrants: Sequence[Entrant], default: Contender, trust_search: bool) -> Outcome | None:
    """The default schedule, if it was timed and nobody won a final before. Where the search is trusted: if nobody is ahead of it by
    what a win has to be worth, and by more than the times of both are spread."""
    leading = [record for entrant in entrants for record in entrant.top(1)]
    own = _known(default)
    if own is None or own.seconds is None or any(r.run == WINNER for r in leading):
        return None
    first = min(leading, key=lambda r: r.seconds or 0.0)
    least = first.seconds or 0.0
    if trust_search and least < (1 - max(LEAST_GAIN, math.hypot(first.trial.spread, own.trial.spread))) * own.seconds:
        return None
    _keep([(default[0], own.trial, WINNER)])
    return Outcome(default, True, least)


@dataclass(frozen=True)
class _Needs:
    """Seconds that a final of such programs needs: to build each, for its least rounds alone and back to back, and for the least
    rounds of one and the default schedule under the other conditions."""

    build: float
    each: float
    elsewhere: float

    @staticmethod
    def of(record: Record, conditions: Sequence[Condition]) -> _Needs:
        """Of programs like that one."""
        turn = {condition: _OVERHEAD[condition] + _CALLS[condition] * (record.seconds or 0.0) for condition in conditions}
        each = sum(rounds * turn.pop(condition) for condition, rounds in race.first_rounds(conditions).items())
        return _Needs(record.trial.build_seconds, each, 2 * race.LEAST_ELSEWHERE * sum(turn.values()))

    def seconds(self, left: float | None, room: int) -> float:
        """That it may take with so many programs and the default schedule, besides building. Slow programs have more."""
        return self._wanted if left is None else min(self._wanted, left - (room + 1) * self.build)

    def room(self, left: float | None) -> int:
        """How many programs can meet the default schedule in the time that there is."""
        fits = (self._wanted - self.elsewhere) / self.each
        if left is not None:
            fits = min(fits, (left - self.elsewhere) / (self.each + self.build))
        return max(0, min(_FINALISTS, math.floor(fits + 1e-6) - 1))

    @property
    def _wanted(self) -> float:
        return max(_SECONDS, self.least_timing)

    @property
    def least_timing(self) -> float:
        """Of one and the default schedule, besides building."""
        return 2 * self.each + self.elsewhere


@dataclass(frozen=True)
class _Held:
    """A final that was held: who won, the seconds of the winner and of whoever had the title before, and the least of all."""

    winner: Contender
    seconds: float
    holder_seconds: float | None
    least: float


def _bar(held: _Held, before: Record | None) -> float:
    """What a record that was not in a final has to be faster than for another one.

    Times of a search, each program alone, are others than those of a final, in turns. What the holder of the title took in both
    says by how much; it is no record that was chosen for its luck. And a win has to be worth something.
    """
    known = before.seconds if before is not None else None
    slower = held.holder_seconds / known if held.holder_seconds and known else 1.0
    return (1 - LEAST_GAIN) * held.seconds / slower


def _final(
    contenders: Sequence[Contender], holder: Contender, conditions: tuple[Condition, ...], seconds: float, stop: Callable[[], bool]
) -> _Held | None:
    """None if nothing came out."""
    number = [_name(p) for p in contenders].index(_name(holder))
    timed = [(entrant.measurer, candidate) for entrant, candidate in contenders]
    turns = Turns(partial(race.next_round, holder=number), conditions, seconds, race.LEAST)
    found = holder[0].compare(timed, turns, stop)
    running = [one.trial.seconds for one in found if one.trial.seconds is not None]
    first = winner([one.rounds if one.trial.ok else None for one in found], number, conditions) if running else None
    _keep([(contenders[n][0], one.trial, WINNER if n == first else FINALISTS) for n, one in enumerate(found)])
    if first is None:
        return None
    return _Held(contenders[first], found[first].trial.seconds or 0.0, found[number].trial.seconds, min(running))


def _keep(results: Sequence[tuple[Entrant, Trial, str]]) -> None:
    """The winner last: it stands before all that is stored by then."""
    for entrant, trial, run in sorted(results, key=lambda result: result[2] == WINNER):
        entrant.keep_final([trial], run)


def _name(contender: Contender) -> tuple[int, str]:
    return id(contender[0]), candidate_key(contender[1])


def _finalists(ranking: Sequence[tuple[Entrant, Record]]) -> list[tuple[Entrant, Record]]:
    """The first two, whoever else of the first few is close, and the best of every other entrant that is."""
    bound = _CLOSE * (ranking[0][1].seconds or 0.0)
    close = [x for x in ranking[2:] if (x[1].seconds or 0.0) <= bound]
    chosen = [*ranking[:2], *close[: _FINALISTS - 2]]
    for entrant, record in close[_FINALISTS - 2 :]:
        if not any(entrant is e for e, _ in chosen):
            chosen.append((entrant, record))
    return chosen
