"""Timing one kernel: a warm-up, then rounds of repetitions, cut short where it clearly loses.

The time of a kernel is that of its best round: interference only ever adds time. When the same kernels were timed again and
again next to a busy process, it scattered less than the rounds' median and than the median of their lower half in 13 of 16
series each, and than their mean in 10. A round of a short kernel is the mean of many runs, so the best is not mere luck.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorsmith.measure.limits import Limits


@dataclass(frozen=True)
class Plan:
    """How to time: see `Limits` for the meaning of the numbers. `cut_above`: seconds of a run that clearly lose."""

    rounds: int
    round_seconds: float
    timing_seconds: float
    most_seconds: float
    cut_above: float | None = None

    @staticmethod
    def of(limits: Limits, cut_above: float | None) -> Plan:
        return Plan(limits.rounds, limits.round_seconds, limits.timing_seconds, limits.most_seconds, cut_above)

    @staticmethod
    def one_round(limits: Limits) -> Plan:
        return Plan(1, limits.round_seconds, 0.0, limits.most_seconds)

    @staticmethod
    def from_json(data: dict[str, Any]) -> Plan:
        return Plan(**data)


@dataclass(frozen=True)
class Rounds:
    """Seconds of a run, by round; `cut`: given up because it clearly lost."""

    times: tuple[float, ...]
    cut: bool


def time_rounds(seconds: Callable[[int], float], plan: Plan) -> Rounds:
    """Time a kernel; `seconds(count)` runs it `count` times and says how long one run took."""
    first = seconds(1)
    if plan.cut_above is not None and first > 2 * plan.cut_above and first > plan.round_seconds:
        return Rounds((first,), True)
    if first > plan.most_seconds:
        return Rounds((first,), False)
    if first < plan.round_seconds:  # until the caches are warm and the other threads awake
        first = seconds(_count(plan.round_seconds / 2, first))
    count = _count(plan.round_seconds, first)
    times: list[float] = []
    spent = 0.0
    while len(times) < plan.rounds or spent < plan.timing_seconds:
        times.append(seconds(count))
        spent += times[-1] * count
        if plan.cut_above is not None and len(times) == 2 and min(times) > plan.cut_above:
            return Rounds(tuple(times), True)
        if spent > plan.most_seconds:
            break
    return Rounds(tuple(times), False)


def summary(times: Sequence[float]) -> tuple[float, float]:
    """(seconds of a run, spread) of the rounds' times; the spread is (p90 - p10) / median."""
    p10, median, p90 = np.percentile(times, (10, 50, 90))
    return min(times), float((p90 - p10) / median) if median > 0 else 0.0


def in_turns(rounds: Sequence[Sequence[float]]) -> list[float]:
    """Seconds of kernels whose rounds were timed in turns: the best round of all for the one whose good rounds are the shortest,
    and for the others as much more as theirs are longer. A good round is one at the first quartile.

    What interferes hits all alike then, but does not cost all the same: a kernel that hands its threads few large pieces waits
    long for the one that is disturbed. Its best round does not show that, and users do not live in best rounds.
    """
    good = [float(np.percentile(times, 25)) for times in rounds]
    least = min(min(times) for times in rounds)
    return [least * one / min(good) for one in good]


def _count(wanted: float, one: float) -> int:
    return max(1, math.ceil(wanted / max(one, 1e-8)))
