"""Who wins a contest against the default schedule: whoever is surely faster back to back, and ahead under every other condition.

What a caller sees depends on how it calls (`measure.conditions`). A program that was found fast back to back may be slow after a
pause, so one way of calling cannot speak for the others; and a tie is no reason to leave what needs no search. What a kernel takes
alone decides nothing where there is a caller: nobody calls it so, and of a program of some microseconds it is another time.

Programs that are timed in turns share whatever disturbs a round, so rounds are compared one by one: the logarithm of the ratio to
the other's time. The estimate is the median of all pairwise means (Hodges and Lehmann), which a few disturbed rounds do not
move; the noise is two standard errors of it, by the median deviation of the rounds.

Rounds back to back are short and alike, so that there a win can be asked to be sure: by three standard errors, since there are
several challengers, and it is the luckiest one that is looked at. Single calls after a pause vary by a fifth and more, and no
number of them that can be afforded would show a win of a tenth: there, and with cold caches, it is enough to be ahead. They never
make up for what is not there back to back. While others use the machine, a program may be ahead only because it is disturbed less,
and equal to the default schedule when they are gone: so the best round has to be shorter, too.

A win has to be worth something: the best of several programs that are equal to the default schedule is ahead of it by some per cent
in any one contest, and not in the next.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tensorsmith.measure.conditions import Condition, deciding
from tensorsmith.measure.job import Rounds

_STANDARD_ERRORS = 2  # with one, wins of a few per cent after a pause turned out losses on another day
_SURELY = 1.5  # times the noise: three standard errors
_LEAST_NOISE = 0.01  # what two timings of one program differ by on a quiet machine
LEAST_GAIN = 0.03  # of the time back to back: of several equal programs one is ahead by chance, and smaller wins did not last
_DEVIATION = 1.4826  # times the median deviation: the standard deviation, where rounds are normally distributed


@dataclass(frozen=True)
class Margin:
    """A program against another, such as the default schedule: `ratio` of their times, how far that may be off, and the ratio of
    their best rounds."""

    ratio: float
    noise: float
    best: float

    @property
    def ahead(self) -> bool:
        return self.ratio < 1

    @property
    def lost(self) -> bool:
        return self.ratio > 1 + self.noise

    @property
    def sure(self) -> bool:
        """Whether it is a win beyond doubt, and worth it."""
        return self.ratio < 1 - max(LEAST_GAIN, _SURELY * self.noise) and self.best < 1

    @property
    def hopeless(self) -> bool:
        """Whether it is hardly going to be a win that is worth it."""
        return self.ratio - self.noise > 1 - LEAST_GAIN

    @property
    def likely(self) -> bool:
        """Whether it is ahead by a standard error."""
        return self.ratio < 1 - self.noise / _STANDARD_ERRORS


Margins = dict[Condition, Margin]


def margin(times: Sequence[float], other: Sequence[float]) -> Margin:
    """Of the rounds that both have."""
    count = min(len(times), len(other))
    ratios = np.log(np.asarray(times[:count]) / np.asarray(other[:count]))
    first, second = np.triu_indices(count)
    estimate = float(np.median((ratios[first] + ratios[second]) / 2))
    deviation = _DEVIATION * float(np.median(np.abs(ratios - estimate)))
    noise = max(_LEAST_NOISE, _STANDARD_ERRORS * deviation / math.sqrt(count))
    return Margin(math.exp(estimate), noise, min(times[:count]) / min(other[:count]))


def margins(challenger: Rounds, holder: Rounds) -> Margins:
    """Under each condition that both were timed under."""
    return {c: margin(times, holder[c]) for c, times in challenger.items() if times and holder[c]}


def challengers(rounds: Sequence[Rounds | None], holder: int, first: Condition) -> list[tuple[int, Margins]]:
    """All but the holder of the title that did not fail (None), by number, with their margins; who has most ahead under the `first`
    condition is the first. Nobody, if the holder failed."""
    standard = rounds[holder]
    if standard is None:
        return []
    others = [(n, margins(r, standard)) for n, r in enumerate(rounds) if n != holder and r is not None]
    return sorted((one for one in others if first in one[1]), key=lambda one: one[1][first].ratio)


def winner(rounds: Sequence[Rounds | None], holder: int, conditions: Sequence[Condition] = tuple(Condition)) -> int:
    """The number of the program to use, of those that did not fail (None): the holder of the title, which is the default schedule's
    at first, unless another one is surely faster back to back and ahead under all the other conditions; then that which is ahead by
    most. Who was not timed under all of them has not won."""
    judged = deciding(conditions)
    if rounds[holder] is None:  # whatever ran is better
        return min((n for n, r in enumerate(rounds) if r is not None), key=lambda n: _typical(rounds[n], judged[0]), default=holder)
    won = [
        (math.prod(found[c].ratio for c in judged), n)
        for n, found in challengers(rounds, holder, judged[0])
        if found[judged[0]].sure and all(c in found and found[c].ahead for c in judged)
    ]
    return min(won, default=(1.0, holder))[1]


def _typical(rounds: Rounds | None, condition: Condition) -> float:
    times = (rounds or {})[condition]
    return float(np.median(times)) if times else math.inf
