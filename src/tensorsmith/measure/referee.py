"""The referee: programs of any systems timed side by side, in one process, interleaved in rounds.

`tensorsmith bench`, the demo and the benchmarks go by it. A round gives every contestant one slot, in an order drawn anew for every
round. A slot is

    a pause                             20 ms at least, and until the threads of the one before sleep and other processes are quiet
                                        (0.3 s at most)
    one call, not timed                 wakes the own threads, brings code and data into the caches; a long call does without
    samples                             as many as take `slot_seconds`, but four at least unless they are very long: each a few
                                        calls, timed together, as many as take `SAMPLE_SECONDS`, at least one

A slot that was disturbed (`stillness.py`) is taken again at once, `RETAKES` times at most, and the samples before are thrown away,
whatever they were. Beside something that never ends a contest has to end, too: all retakes together may take as long as the
contest.

A sample's time is the time of one call. The best is over all samples: neighbours of a shared machine leave a millisecond alone far
more often than a slot. The median is over the slots, each with the mean of its samples; so is the spread of a ratio, which is that
of the slots of the same round. The machine's FMA peak, where it is asked for, has a slot in every round, like that of the fastest
contestant: as many samples, each as long. A share of the peak so refers to the clock frequency and the neighbours of the same
seconds, and a call of 20 ms to what the units do in 20 ms, which is a little less than in their best millisecond.

Nobody leaves a contest but peers that take more than `HOPELESS` times as long as the best peer.
"""

from __future__ import annotations

import itertools
import math
import random
import statistics
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from tensorsmith.measure.stillness import STOLEN, Machine

SLOT_SECONDS = 15e-3
SAMPLE_SECONDS = 1e-3
LONG_SECONDS = 30e-3  # a sample that takes longer may be the only one of its slot, and is not preceded by a call to warm up
MIN_ROUNDS = 4
HOPELESS = 1.5  # times the best peer: such a peer takes no part after `MIN_ROUNDS`, so that the others have more rounds
RETAKES = 4  # of a disturbed slot

Run = Callable[[], object]
Repeat = Callable[[int], object]  # runs that many times
Take = Callable[[], list[float]]  # takes the samples of a slot


@dataclass(frozen=True)
class Repeated:
    """A contestant that repeats itself without Python between the calls."""

    repeat: Repeat


Contestant = Run | Repeated


@dataclass(frozen=True)
class Timing:
    """Seconds of one call: the best sample, and the mean of each slot, one a round."""

    best: float
    slots: tuple[float, ...]
    calls: int  # per slot
    disturbed: int = 0  # slots that were, after all retakes

    @staticmethod
    def of(slots: Sequence[_Slot], calls: int) -> Timing:
        means = tuple(statistics.fmean(slot.samples) for slot in slots)
        return Timing(min(min(slot.samples) for slot in slots), means, calls, sum(slot.disturbed for slot in slots))

    @property
    def median(self) -> float:
        return statistics.median(self.slots)


@dataclass(frozen=True)
class Comparison:
    """What `compare` found. Those in `ours` are no peers. `peak` is in operations per second, the best of all rounds; 0 if not
    measured. `disturbed` is the share of slots that were, after slots had been taken again so many times (`retaken`)."""

    timings: dict[str, Timing]
    ours: frozenset[str] = frozenset()
    peak: float = 0.0
    disturbed: float = 0.0
    retaken: int = 0
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
    takes: dict[str | None, Take] = {n: partial(_samples, contestants[n], plan, machine) for n, plan in plans.items()}
    if peak is not None and plans:
        takes[None] = partial(_peaks, peak, min(plans.values(), key=lambda plan: plan.each))
    slots: dict[str | None, list[_Slot]] = {name: [] for name in takes}
    active, retakes, done = list(takes), _Retakes(machine, seconds), 0
    draw, start = random.Random(seed), machine.clock()
    while done < min_rounds or (done < rounds and machine.clock() - start < seconds):
        order = active.copy()
        draw.shuffle(order)
        for name in order:
            slots[name].append(retakes.undisturbed(takes[name]))
        done += 1
        if done == min_rounds:
            start = machine.clock()
        if done >= min_rounds:
            active = _hopeful({name: min(min(slot.samples) for slot in slots[name]) for name in active}, {None, *ours})
    timings = {name: Timing.of(slots[name], plan.samples * plan.calls) for name, plan in plans.items()}
    taken = [slot for each in slots.values() for slot in each]
    return Comparison(
        timings,
        frozenset(ours),
        peak=max((max(slot.samples) for slot in slots.get(None, ())), default=0.0),
        disturbed=sum(slot.disturbed for slot in taken) / max(1, len(taken)),
        retaken=retakes.count,
        dropped=tuple(name for name in contestants if name not in active),
    )


def _hopeful(bests: Mapping[str | None, float], ours: Collection[str | None]) -> list[str | None]:
    """All of ours, and the peers that are not hopeless."""
    best_peer = min((seconds for name, seconds in bests.items() if name not in ours), default=math.inf)
    return [name for name, seconds in bests.items() if name in ours or seconds <= HOPELESS * best_peer]


@dataclass(frozen=True)
class _Slot:
    samples: list[float]
    disturbed: bool


class _Retakes:
    """Takes slots, and disturbed ones again; all the retakes of a contest may take so many `seconds`."""

    def __init__(self, machine: Machine, seconds: float) -> None:
        self._machine, self._left = machine, seconds
        self.count = 0

    def undisturbed(self, take: Take) -> _Slot:
        """The first undisturbed slot, else the last one."""
        slot = self._watched(take)
        for _ in range(RETAKES):
            if not slot.disturbed or self._left <= 0:
                break
            begun = self._machine.clock()
            slot = self._watched(take)
            self._left -= self._machine.clock() - begun
            self.count += 1
        return slot

    def _watched(self, take: Take) -> _Slot:
        """It is disturbed if others were running when it began, or took processors away during it."""
        m = self._machine
        still = m.settle()
        start, stolen = m.clock(), m.stolen()
        samples = take()
        allowed = STOLEN * m.processors * (m.clock() - start)
        return _Slot(samples, not still or m.stolen() - stolen > allowed)


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


def _peaks(peak: Callable[[float], float], plan: _Plan) -> list[float]:
    """Operations per second, sample by sample."""
    return [peak(plan.calls * plan.each) for _ in range(plan.samples)]


def _samples(contestant: Contestant, plan: _Plan, machine: Machine) -> list[float]:
    """Seconds per call of each sample."""
    repeat = _repeat(contestant)
    if not plan.long:
        repeat(1)
    times = [machine.clock()]
    for _ in range(plan.samples):
        repeat(plan.calls)
        times.append(machine.clock())
    return [(end - begin) / plan.calls for begin, end in itertools.pairwise(times)]
