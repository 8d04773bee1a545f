"""Several programs timed side by side: in turns, so that what disturbs the machine for a while disturbs all of them."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tensorsmith.lang.dtypes import Array

Run = Callable[[], object]

_SLOT = 0.004  # seconds of a turn; on a busy machine, short ones are undisturbed now and then
_LEAST_ROUNDS = 5
_TOLERANCE = 1e-3  # of the largest number of an output: other orders of summation through a whole network


@dataclass(frozen=True)
class Times:
    """Seconds of one call, over the rounds."""

    best: float
    median: float


def race(contestants: Mapping[str, Run], seconds: float) -> dict[str, Times]:
    """Times everyone in turns, for about so many `seconds` in all."""
    begun = time.perf_counter()
    calls = {name: _calls(run) for name, run in contestants.items()}
    found: dict[str, list[float]] = {name: [] for name in contestants}
    rounds = 0
    while rounds < _LEAST_ROUNDS or time.perf_counter() - begun < seconds:
        order = list(contestants)
        for name in order if rounds % 2 else order[::-1]:
            _settle()
            found[name].append(_slot(contestants[name], calls[name]))
        rounds += 1
    return {name: Times(min(times), statistics.median(times)) for name, times in found.items()}


def largest_difference(got: Sequence[Array], want: Sequence[Array]) -> tuple[float, bool]:
    """The largest difference of any two elements, and whether it is no more than rounding."""
    worst, fine = 0.0, len(got) == len(want)
    for g, w in zip(got, want):
        if g.shape != w.shape:
            return math.inf, False
        a, b = g.astype(np.float64), w.astype(np.float64)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        with np.errstate(invalid="ignore"):
            apart = np.where(same, 0.0, np.abs(a - b))
        most = float(np.nan_to_num(apart, nan=math.inf).max(initial=0.0))
        size = float(np.abs(b[np.isfinite(b)]).max(initial=0.0))
        worst, fine = max(worst, most), fine and most <= _TOLERANCE * size
    return worst, fine


def _calls(run: Run) -> int:
    """How many calls fill a slot. The first ones, which may allocate or choose algorithms, are not counted."""
    run()
    run()
    start = time.perf_counter()
    run()
    return max(1, math.ceil(_SLOT / max(time.perf_counter() - start, 1e-7)))


def _slot(run: Run, calls: int) -> float:
    """Seconds of a call; one before them wakes the threads and brings the data into the caches."""
    run()
    start = time.perf_counter()
    for _ in range(calls):
        run()
    return (time.perf_counter() - start) / calls


def _settle(longest: float = 0.1, nap: float = 3e-4) -> None:
    """Waits until the threads of whoever ran before have stopped spinning."""
    end = time.perf_counter() + longest
    while time.perf_counter() < end:
        used = time.process_time()
        time.sleep(nap)
        if time.process_time() - used < nap / 3:
            return
