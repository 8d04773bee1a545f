"""Who wins a contest against the default schedule: whoever is faster under every condition, by more than the noise.

What a caller sees depends on how it calls (`measure.conditions`). A program that was found fast back to back may be slow after a
pause, so one way of calling cannot speak for the others; and a tie is no reason to leave what needs no search.

Programs that are timed in turns share whatever disturbs a round, so rounds are compared one by one: the logarithm of the ratio to
the default's time. The estimate is the median of all pairwise means (Hodges and Lehmann), which a few disturbed rounds do not
move; the noise is two standard errors of it, by the median deviation of the rounds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tensorsmith.measure.job import Rounds

_STANDARD_ERRORS = 2  # with one, wins of a few per cent after a pause turned out losses on another day
_LEAST_NOISE = 0.01  # what two timings of one program differ by on a quiet machine
_DEVIATION = 1.4826  # times the median deviation: the standard deviation, where rounds are normally distributed


@dataclass(frozen=True)
class Margin:
    """A program against the default schedule under one condition: `ratio` of their times, and how far that may be off."""

    ratio: float
    noise: float

    @property
    def won(self) -> bool:
        return self.ratio < 1 - self.noise

    @property
    def lost(self) -> bool:
        return self.ratio > 1 + self.noise


def margin(times: Sequence[float], default: Sequence[float]) -> Margin:
    """Of the rounds that both have."""
    count = min(len(times), len(default))
    ratios = np.log(np.asarray(times[:count]) / np.asarray(default[:count]))
    first, second = np.triu_indices(count)
    estimate = float(np.median((ratios[first] + ratios[second]) / 2))
    deviation = _DEVIATION * float(np.median(np.abs(ratios - estimate)))
    return Margin(math.exp(estimate), max(_LEAST_NOISE, _STANDARD_ERRORS * deviation / math.sqrt(count)))


def margins(challenger: Rounds, default: Rounds) -> list[Margin]:
    """Under each condition that both were timed under."""
    return [margin(times, default[condition]) for condition, times in challenger.items() if times and default[condition]]


def winner(rounds: Sequence[Rounds | None], default: int) -> int:
    """The number of the program to use, of those that did not fail (None): the default schedule's, unless another one won under
    every condition; then that which is ahead by most, over all of them."""
    standard = rounds[default]
    if standard is None:  # whatever ran is better
        return min((n for n, r in enumerate(rounds) if r is not None), key=lambda n: _typical(rounds[n]), default=default)
    best, number = 0.0, default
    for n, challenger in enumerate(rounds):
        if n == default or challenger is None:
            continue
        found = margins(challenger, standard)
        lead = sum(math.log(m.ratio) for m in found)
        if found and all(m.won for m in found) and lead < best:
            best, number = lead, n
    return number


def undecided(rounds: Sequence[Rounds | None], default: int) -> set[int]:
    """Who is worth more rounds: those that have lost under no condition yet, and the default schedule with them."""
    standard = rounds[default]
    if standard is None:
        return set()
    hopeful = {
        n
        for n, challenger in enumerate(rounds)
        if n != default and challenger is not None and not any(m.lost for m in margins(challenger, standard))
    }
    return hopeful | {default} if hopeful else set()


def _typical(rounds: Rounds | None) -> float:
    return sum(math.log(float(np.median(times))) for times in (rounds or {}).values() if times)
