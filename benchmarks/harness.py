"""Side-by-side timing: all contestants in one process, interleaved in rounds.

A round gives every contestant one slot, in an order that changes from round to round. A slot is

    wait until the machine is idle      the previous contestant's spinning threads have gone to sleep, other processes
                                        are quiet (waits for these a little only, and counts where it was in vain)
    one call, not timed                 wakes the own threads, brings code and data into the caches
    samples                             as many as take `slot_seconds`, but four at least unless they are very long: each a few
                                        calls, timed together, as many as take `SAMPLE_SECONDS`, at least one

A sample's time is the time of one call. The best is over all samples: neighbours of a shared machine leave a millisecond alone far
more often than a slot. The median is over the slots, each with the mean of its samples. The machine's FMA peak gets a slot of its
own in every round, like that of the fastest contestant: as many samples, each as long. A share of the peak so refers to the clock
frequency and the neighbours of the same seconds, and a call of 20 ms to what the units do in 20 ms, which is a little less than
in their best millisecond.
"""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

SLOT_SECONDS = 15e-3
SAMPLE_SECONDS = 1e-3
LONG_SECONDS = 30e-3  # a sample that takes longer may be the only one of its slot

Run = Callable[[], object]
Repeat = Callable[[int], object]  # runs that many times


@dataclass(frozen=True)
class Repeated:
    """A contestant that repeats itself without Python between the calls."""

    repeat: Repeat


Contestant = Run | Repeated


@dataclass(frozen=True)
class Timing:
    """Seconds of one call: the best sample, the median slot."""

    best: float
    median: float
    slots: int
    calls: int  # per slot

    @staticmethod
    def of(slots: Sequence[Sequence[float]], calls: int) -> Timing:
        """Of the samples of each slot."""
        return Timing(min(map(min, slots)), statistics.median(map(statistics.fmean, slots)), len(slots), calls)


@dataclass(frozen=True)
class Comparison:
    """What `compare` found. `peak` is in operations per second, the best of all rounds; 0 if not measured. `disturbed`
    is the share of slots that began while other processes were running: where it is large, believe nothing."""

    timings: dict[str, Timing]
    peak: float = 0.0
    disturbed: float = 0.0

    def __getitem__(self, name: str) -> Timing:
        return self.timings[name]

    def best_peer(self, ours: str) -> str | None:
        """The fastest of the others, by best time."""
        others = [name for name in self.timings if name != ours]
        return min(others, key=lambda name: self.timings[name].best, default=None)

    def ratio(self, ours: str) -> float | None:
        """How many times as fast as the best peer `ours` is; above 1 it is faster."""
        peer = self.best_peer(ours)
        return None if peer is None or ours not in self.timings else self[peer].best / self[ours].best


@dataclass(frozen=True)
class Machine:
    """The clock, and what waits for idleness and says whether it came; tests give others."""

    clock: Callable[[], float] = time.perf_counter
    settle: Callable[[], bool] = lambda: settle()


def compare(
    contestants: Mapping[str, Contestant],
    *,
    seconds: float = 2.0,
    rounds: int = 200,
    min_rounds: int = 3,
    slot_seconds: float = SLOT_SECONDS,
    hopeless: float = 3.0,
    keep: Iterable[str] = (),
    peak: Callable[[float], float] | None = None,
    machine: Machine | None = None,
) -> Comparison:
    """Times everyone until `seconds` have passed or there were `rounds` rounds, but `min_rounds` at least.

    After `min_rounds` a contestant whose best is `hopeless` times the overall best or worse takes no further part;
    those in `keep` always do. `peak` measures the machine for the seconds it is given and returns operations per second.
    """
    machine = machine or Machine()
    start = machine.clock()
    sample_seconds = min(SAMPLE_SECONDS, slot_seconds)
    plans = {name: _calibrate(contestant, slot_seconds, sample_seconds, machine) for name, contestant in contestants.items()}
    slots: dict[str, list[list[float]]] = {name: [] for name in contestants}
    fastest = min(plans.values(), key=lambda plan: plan.each, default=None)
    active, keep, peaks, idle, done = list(contestants), set(keep), [0.0], [], 0
    while done < max(rounds, min_rounds):
        if done >= min_rounds and machine.clock() - start >= seconds:
            break
        for name in order(active, done):
            idle.append(machine.settle())
            slots[name].append(_slot(contestants[name], plans[name], machine))
        if peak is not None and fastest is not None:
            idle.append(machine.settle())
            peaks.extend(peak(fastest.calls * fastest.each) for _ in range(fastest.samples))
        done += 1
        if done >= min_rounds:
            bests = {name: min(map(min, slots[name])) for name in active}
            limit = hopeless * min(bests.values(), default=math.inf)
            active = [name for name in active if name in keep or bests[name] < limit]
    timings = {name: Timing.of(slots[name], plans[name].samples * plans[name].calls) for name in contestants}
    return Comparison(timings, max(peaks), idle.count(False) / max(1, len(idle)))


def order(names: Sequence[str], number: int) -> list[str]:
    """The order of a round: forwards, then backwards, then the same rotated by one, and so on, so that in twice as many
    rounds as names everyone has every place twice, and neighbours on either side."""
    if not names:
        return []
    first = number // 2 % len(names)
    rotated = [*names[first:], *names[:first]]
    return rotated[::-1] if number % 2 else rotated


def settle(most: float = 0.1, patience: float = 0.01, nap: float = 3e-4) -> bool:
    """Sleep until this process's threads use (almost) no processor time, `most` seconds at the longest; then at most
    `patience` seconds more until no other process runs. Whether none does."""
    end = time.perf_counter() + most
    while time.perf_counter() < end:
        used = time.process_time()
        time.sleep(nap)
        if time.process_time() - used < nap / 3:
            break
    end = time.perf_counter() + patience
    while others_running():
        if time.perf_counter() >= end:
            return False
        time.sleep(nap)
    return True


def wait_for_quiet(most: float, quiet: float = 0.5, nap: float = 0.01) -> bool:
    """Sleep until no other process has run for `quiet` seconds, `most` seconds at the longest. Whether it came to that."""
    start = last_busy = time.perf_counter()
    while (now := time.perf_counter()) - last_busy < quiet:
        if now - start > most:
            return False
        time.sleep(nap)
        if others_running():
            last_busy = time.perf_counter()
    return True


def others_running() -> int:
    """Threads of the whole machine that run or could run now, without the calling one; 0 where that is not known."""
    try:
        with open("/proc/loadavg", encoding="ascii") as file:
            return max(0, int(file.read().split()[3].split("/")[0]) - 1)
    except (OSError, ValueError, IndexError):
        return 0


def _repeat(contestant: Contestant) -> Repeat:
    if isinstance(contestant, Repeated):
        return contestant.repeat

    def repeat(count: int) -> None:
        for _ in range(count):
            contestant()

    return repeat


@dataclass(frozen=True)
class _Plan:
    """Of a slot."""

    samples: int
    calls: int  # per sample
    each: float  # seconds of a call, about


def _calibrate(contestant: Contestant, slot_seconds: float, sample_seconds: float, machine: Machine) -> _Plan:
    """The first calls, which may allocate, choose algorithms or compile, are not counted."""
    repeat = _repeat(contestant)
    machine.settle()
    repeat(2)
    count = 1
    while True:
        start = machine.clock()
        repeat(count)
        took = machine.clock() - start
        if took >= slot_seconds / 4 or count >= 1 << 20:
            each = max(took / count, 1e-9)
            calls = max(1, math.ceil(sample_seconds / each))
            least = 4 if calls * each < LONG_SECONDS else 1
            return _Plan(max(least, math.ceil(slot_seconds / (calls * each))), calls, each)
        count *= 4


def _slot(contestant: Contestant, plan: _Plan, machine: Machine) -> list[float]:
    """Seconds per call of each sample."""
    repeat = _repeat(contestant)
    repeat(1)
    times = [machine.clock()]
    for _ in range(plan.samples):
        repeat(plan.calls)
        times.append(machine.clock())
    return [(end - begin) / plan.calls for begin, end in itertools.pairwise(times)]


def geometric_mean(values: Iterable[float]) -> float:
    """NaN of nothing."""
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan
