"""Who wins a contest against the default schedule: whoever is ahead under every condition, by more than the noise in all.

What a caller sees depends on how it calls (`measure.conditions`). A program that was found fast back to back may be slow after a
pause, so one way of calling cannot speak for the others; and a tie is no reason to leave what needs no search.

Programs that are timed in turns share whatever disturbs a round, so rounds are compared one by one: the logarithm of the ratio to
the other's time. The estimate is the median of all pairwise means (Hodges and Lehmann), which a few disturbed rounds do not
move; the noise is two standard errors of it, by the median deviation of the rounds. Single calls after a pause vary by a fifth
and more, so that no affordable number of rounds would show a win of a tenth under that condition alone: the noise is that of all
conditions together, and under each of them it is enough to be ahead. A win has to be worth something, too: the best of several
programs that are equal to the default schedule is ahead of it by some per cent in any one contest, and not in the next.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tensorsmith.measure.job import Rounds

_STANDARD_ERRORS = 2  # with one, wins of a few per cent after a pause turned out losses on another day
_LEAST_NOISE = 0.01  # what two timings of one program differ by on a quiet machine
LEAST_GAIN = (
    0.03  # of the times, over all conditions: of several equal programs one is ahead by chance, and smaller wins did not last
)
_HOPEFUL = 2  # the fewer go on, the more rounds each has
_DEVIATION = 1.4826  # times the median deviation: the standard deviation, where rounds are normally distributed


@dataclass(frozen=True)
class Margin:
    """A program against another, such as the default schedule: `ratio` of their times, and how far that may be off."""

    ratio: float
    noise: float

    @property
    def won(self) -> bool:
        return self.ratio < 1 - self.noise

    @property
    def ahead(self) -> bool:
        return self.ratio < 1

    @property
    def lost(self) -> bool:
        return self.ratio > 1 + self.noise


def margin(times: Sequence[float], other: Sequence[float]) -> Margin:
    """Of the rounds that both have."""
    count = min(len(times), len(other))
    ratios = np.log(np.asarray(times[:count]) / np.asarray(other[:count]))
    first, second = np.triu_indices(count)
    estimate = float(np.median((ratios[first] + ratios[second]) / 2))
    deviation = _DEVIATION * float(np.median(np.abs(ratios - estimate)))
    return Margin(math.exp(estimate), max(_LEAST_NOISE, _STANDARD_ERRORS * deviation / math.sqrt(count)))


def margins(challenger: Rounds, holder: Rounds) -> list[Margin]:
    """Under each condition that both were timed under."""
    return [margin(times, holder[condition]) for condition, times in challenger.items() if times and holder[condition]]


def overall(found: Sequence[Margin]) -> Margin:
    """Of all conditions together: the geometric mean of the ratios."""
    ratio = math.exp(sum(math.log(m.ratio) for m in found) / len(found))
    return Margin(ratio, max(_LEAST_NOISE, math.hypot(*(m.noise for m in found)) / len(found)))


def winner(rounds: Sequence[Rounds | None], holder: int) -> int:
    """The number of the program to use, of those that did not fail (None): the holder of the title, which is the default schedule's
    at first, unless another one is ahead of it under every condition, and clearly so in all; then that which is ahead by most."""
    standard = rounds[holder]
    if standard is None:  # whatever ran is better
        return min((n for n, r in enumerate(rounds) if r is not None), key=lambda n: _typical(rounds[n]), default=holder)
    won = [
        (whole.ratio, n)
        for n, found in _challengers(rounds, standard, holder)
        if all(m.ahead for m in found) and (whole := overall(found)).won and whole.ratio < 1 - LEAST_GAIN
    ]
    return min(won, default=(1.0, holder))[1]


def undecided(rounds: Sequence[Rounds | None], holder: int) -> set[int]:
    """Who is worth more rounds: the two that are ahead by most of those that have lost under no condition yet, and the holder.
    Nobody, if the first of them has won whatever comes."""
    standard = rounds[holder]
    if standard is None:
        return set()
    found = [(overall(m).ratio, n, m) for n, m in _challengers(rounds, standard, holder) if not any(one.lost for one in m)]
    hopeful = sorted(found, key=lambda one: one[:2])
    if not hopeful or _beyond_doubt(hopeful[0][2]):
        return set()
    return {n for _, n, _ in hopeful[:_HOPEFUL]} | {holder}


def _beyond_doubt(found: Sequence[Margin]) -> bool:
    """Whether a challenger has won under every condition, and by what a win has to be worth in all, each by more than the noise."""
    whole = overall(found)
    return all(m.won for m in found) and whole.ratio + whole.noise < 1 - LEAST_GAIN


def _challengers(rounds: Sequence[Rounds | None], standard: Rounds, holder: int) -> list[tuple[int, list[Margin]]]:
    """The programs that run, by number, each with its margins; `standard` is what the holder took."""
    others = [(n, margins(r, standard)) for n, r in enumerate(rounds) if n != holder and r is not None]
    return [(n, found) for n, found in others if found]


def _typical(rounds: Rounds | None) -> float:
    return sum(math.log(float(np.median(times))) for times in (rounds or {}).values() if times)
