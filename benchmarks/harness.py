"""Side-by-side timing: all contestants in one process, interleaved in rounds.

A round gives every contestant one slot, in an order drawn anew for every round. A slot is

    a pause                             20 ms at least, and until the threads of the one before sleep and other processes are quiet
                                        (0.3 s at most)
    one call, not timed                 wakes the own threads, brings code and data into the caches; a long call does without
    samples                             as many as take `slot_seconds`, but four at least unless they are very long: each a few
                                        calls, timed together, as many as take `SAMPLE_SECONDS`, at least one

A sample's time is the time of one call. The best is over all samples: neighbours of a shared machine leave a millisecond alone far
more often than a slot. The median is over the slots, each with the mean of its samples; so is the spread of a ratio, which is that
of the slots of the same round. The machine's FMA peak has a slot in every round, like that of the fastest contestant: as many
samples, each as long. A share of the peak so refers to the clock frequency and the neighbours of the same seconds, and a call of
20 ms to what the units do in 20 ms, which is a little less than in their best millisecond.

Nobody leaves a contest but peers that take more than `HOPELESS` times as long as the best peer. A contest in which too many slots
were disturbed is held again (`until_undisturbed`).
"""

from __future__ import annotations

import itertools
import math
import random
import statistics
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from machine import STOLEN, Machine, wait_for_quiet

SLOT_SECONDS = 15e-3
SAMPLE_SECONDS = 1e-3
LONG_SECONDS = 30e-3  # a sample that takes longer may be the only one of its slot, and is not preceded by a call to warm up
MIN_ROUNDS = 4
HOPELESS = 1.5  # times the best peer: such a peer takes no part after `MIN_ROUNDS`, so that the others have more rounds
DISTURBED = 0.2  # share of disturbed slots from which on a contest is held again
MOST_RUNS = 5  # of a contest
PATIENCE_SECONDS = 5.0  # at most, for quiet before a contest is held again

Run = Callable[[], object]
Repeat = Callable[[int], object]  # runs that many times


@dataclass(frozen=True)
class Repeated:
    """A contestant that repeats itself without Python between the calls."""

    repeat: Repeat


Contestant = Run | Repeated


@dataclass(frozen=True)
class Timing:
    """Seconds of one call: the best sample, and the mean of each slot."""

    best: float
    slots: tuple[float, ...]
    calls: int  # per slot

    @staticmethod
    def of(slots: Sequence[Sequence[float]], calls: int) -> Timing:
        """Of the samples of each slot."""
        return Timing(min(map(min, slots)), tuple(map(statistics.fmean, slots)), calls)

    @property
    def median(self) -> float:
        return statistics.median(self.slots)


@dataclass(frozen=True)
class Comparison:
    """What `compare` found. Those in `ours` are no peers. `peak` is in operations per second, the best of all rounds; 0 if not
    measured. `disturbed` is the share of slots that were, in the last of so many `runs` of the contest or the quietest of them."""

    timings: dict[str, Timing]
    ours: frozenset[str] = frozenset()
    peak: float = 0.0
    disturbed: float = 0.0
    runs: int = 1
    dropped: tuple[str, ...] = ()  # peers that left early

    def __getitem__(self, name: str) -> Timing:
        return self.timings[name]

    @property
    def peers(self) -> dict[str, Timing]:
        return {name: timing for name, timing in self.timings.items() if name not in self.ours}

    def best_peer(self) -> str | None:
        """The fastest peer, by best time."""
        peers = self.peers
        return min(peers, key=lambda name: peers[name].best, default=None)

    def ratio(self, name: str) -> float | None:
        """How many times as fast as the best peer one of ours is; above 1 it is faster."""
        peer = self.best_peer()
        return None if peer is None or name not in self.timings else self[peer].best / self[name].best

    def median_ratio(self, name: str) -> float | None:
        """The same by medians, the best peer being that of the best median."""
        if not self.peers or name not in self.timings:
            return None
        return min(timing.median for timing in self.peers.values()) / self[name].median

    def quartiles(self, name: str) -> tuple[float, float] | None:
        """The lower and the upper quartile, over the rounds, of the ratio to the best peer."""
        peer = self.best_peer()
        if peer is None or name not in self.timings or len(self[name].slots) < 2:
            return None
        ratios = [theirs / own for theirs, own in zip(self[peer].slots, self[name].slots, strict=True)]
        lower, _, upper = statistics.quantiles(ratios, n=4, method="inclusive")
        return lower, upper


def compare(
    contestants: Mapping[str, Contestant],
    *,
    ours: Collection[str] = (),
    seed: int | str = 0,
    seconds: float = 2.0,
    rounds: int = 200,
    min_rounds: int = MIN_ROUNDS,
    slot_seconds: float = SLOT_SECONDS,
    peak: Callable[[float], float] | None = None,
    machine: Machine | None = None,
) -> Comparison:
    """Times everyone for `min_rounds` rounds, and those who are left then for `seconds` more, or until there were `rounds` rounds.

    The order of every round is drawn with the `seed`. After `min_rounds` a peer whose best is more than `HOPELESS` times that of
    the best peer takes no further part; those in `ours` are no peers. `peak` measures the machine for the seconds it is given
    and returns operations per second.
    """
    machine = machine or Machine()
    sample_seconds = min(SAMPLE_SECONDS, slot_seconds)
    plans = {name: _calibrate(contestant, slot_seconds, sample_seconds, machine) for name, contestant in contestants.items()}
    slots: dict[str, list[list[float]]] = {name: [] for name in contestants}
    fastest = min(plans.values(), key=lambda plan: plan.each, default=None)
    active, peaks, disturbed, done = list(contestants), [0.0], [], 0
    draw, start = random.Random(seed), machine.clock()

    def slot(name: str) -> None:
        slots[name].append(_slot(contestants[name], plans[name], machine))

    def peak_slot() -> None:
        if peak is not None and fastest is not None:
            peaks.extend(peak(fastest.calls * fastest.each) for _ in range(fastest.samples))

    while done < max(rounds, min_rounds):
        if done >= min_rounds and machine.clock() - start >= seconds:
            break
        order: list[str | None] = [*active, *([None] if peak else [])]
        draw.shuffle(order)
        for name in order:
            disturbed.append(_is_disturbed(peak_slot if name is None else lambda name=name: slot(name), machine))
        done += 1
        if done == min_rounds:
            start = machine.clock()
        if done >= min_rounds:
            active = _hopeful({name: min(map(min, slots[name])) for name in active}, ours)
    timings = {name: Timing.of(slots[name], plans[name].samples * plans[name].calls) for name in contestants}
    dropped = tuple(name for name in contestants if name not in active)
    return Comparison(timings, frozenset(ours), max(peaks), sum(disturbed) / max(1, len(disturbed)), 1, dropped)


def until_undisturbed(run: Callable[[int], Comparison], wait: Callable[[], object] | None = None) -> Comparison:
    """The first undisturbed one of up to `MOST_RUNS` runs of a contest, else the least disturbed one; `run` gets its number from 0.
    Between runs it waits for quiet."""
    found: list[Comparison] = []
    for number in range(MOST_RUNS):
        if number:
            (wait or (lambda: wait_for_quiet(PATIENCE_SECONDS)))()
        found.append(run(number))
        if found[-1].disturbed <= DISTURBED:
            break
    return replace(min(found, key=lambda comparison: comparison.disturbed), runs=len(found))


def _hopeful(bests: Mapping[str, float], ours: Collection[str]) -> list[str]:
    """All of ours, and the peers that are not hopeless."""
    best_peer = min((seconds for name, seconds in bests.items() if name not in ours), default=math.inf)
    return [name for name, seconds in bests.items() if name in ours or seconds <= HOPELESS * best_peer]


def _is_disturbed(slot: Run, machine: Machine) -> bool:
    """Whether others were running when the slot began, or took processors away during it."""
    still = machine.settle()
    start, stolen = machine.clock(), machine.stolen()
    slot()
    allowed = STOLEN * machine.processors * (machine.clock() - start)
    return not still or machine.stolen() - stolen > allowed


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

    @property
    def long(self) -> bool:
        return self.each >= LONG_SECONDS


def _calibrate(contestant: Contestant, slot_seconds: float, sample_seconds: float, machine: Machine) -> _Plan:
    """The first call, and unless it is long the second, may allocate, choose algorithms or compile: they are not counted."""
    repeat = _repeat(contestant)

    def seconds(count: int) -> float:
        start = machine.clock()
        repeat(count)
        return machine.clock() - start

    machine.settle()
    if seconds(1) < LONG_SECONDS:
        repeat(1)
    count = 1
    while True:
        took = seconds(count)
        if took >= slot_seconds / 4 or count >= 1 << 20:
            each = max(took / count, 1e-9)
            calls = max(1, math.ceil(sample_seconds / each))
            least = 4 if calls * each < LONG_SECONDS else 1
            return _Plan(max(least, math.ceil(slot_seconds / (calls * each))), calls, each)
        count *= 4


def _slot(contestant: Contestant, plan: _Plan, machine: Machine) -> list[float]:
    """Seconds per call of each sample."""
    repeat = _repeat(contestant)
    if not plan.long:
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
