"""Where the tuning of networks stands, as data and as text: a line while it goes on, a table of the tasks at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tensorsmith.show.line import line, many, plain
from tensorsmith.show.units import time
from tensorsmith.tuning.progress.bar import Part, shortened
from tensorsmith.tuning.progress.workload import Paced

_LONGEST_NAME = 20  # columns of a network's name in the line


@dataclass(frozen=True)
class NetworkProgress(Paced):
    """Where a run stands; handed to `on_progress` whenever some trials are done.

    A latency is the sum over all tasks of a network of calls times best seconds; a task that is not measured yet counts with an
    estimate. What is not worth tuning (it only moves elements) is not in it. In its `first_look` a run comes to every task once,
    and estimates turn into times, to more or to less: the line shows latencies when that is over, so that they only fall.
    """

    networks: tuple[str, ...]
    latencies: tuple[float, ...]  # seconds of each network
    first: tuple[float, ...]  # the same with the default schedules, where those are measured
    measured: int  # tasks that have a time
    tasks: int  # that are tuned
    task: str  # the one that is worked on
    trials: int  # of this run
    wanted: int | None  # trials; None: as many as the time allows
    elapsed: float  # seconds of this run
    seconds: float | None = None  # the run may take
    failures: Counter[str] = field(default_factory=Counter)  # by status
    times: dict[str, float] = field(default_factory=dict)  # seconds by activity; "build" is summed over the workers
    first_look: bool = False  # there are tasks that nothing is known of, and that count
    emulated: bool = False  # the times are an emulator's

    def __repr__(self) -> str:
        return line(self, f"{', '.join(self.networks)}: {self}")

    def _parts(self) -> list[Part]:
        tasks = f"{self.measured}/{self.tasks} tasks" if self.measured < self.tasks else f"{self.tasks} tasks"
        if self.first_look or not self.measured:
            return self._frame(self.failures, [Part(f"first look at {tasks}", 2)], self.task)
        several = len(self.networks) > 1
        name = f"{len(self.networks)} models" if several else shortened(plain(self.networks[0]), _LONGEST_NAME)
        gain = self._how() + change(sum(self.first), sum(self.latencies))
        return self._frame(self.failures, [Part(name, 4), Part(gain, 2), Part(tasks, 7)], self.task)

    def __str__(self) -> str:
        some = f"{self.measured} of {self.tasks} tasks" if self.measured < self.tasks else f"{self.tasks} tasks"
        return f"{self._latencies()}, {some}, {self._count(self.failures)}, {self._pace()}, {self.task}"

    def _latencies(self) -> str:
        if not self.measured:
            return "nothing measured yet"
        if self.first_look:
            return "a first look at every task"
        each = zip(self.networks, self.latencies, self.first)
        return ", ".join(f"{name} {self._how()}{change(first, now)}" for name, now, first in each)

    def _how(self) -> str:
        return "emulated " if self.emulated else ""


def change(before: float, after: float) -> str:
    """`530 us -> 310 us, 1.71x`"""
    gain = f", {before / after:.2f}x" if after > 0 else ""
    return f"{time(before)} -> {time(after)}{gain}"


@dataclass(frozen=True)
class Settled:
    """Seconds of a network with the default schedules and as it was tuned, both measured alike.

    `estimated`: as a sum over its tasks, not by running it.
    """

    untuned: float
    tuned: float
    estimated: bool = False

    def __str__(self) -> str:
        gain = f", {self.untuned / self.tuned:.1f}x" if self.tuned > 0 else ""
        how = " (estimated: the sum of its tasks)" if self.estimated else " in the network"
        return f"{time(self.untuned)} -> {time(self.tuned)}{gain}{how}"


UNCHANGED = Settled(0.0, 0.0)  # stands for a network of which nothing was timed, because it stays as it is


@dataclass(frozen=True)
class TaskSummary:
    """What became of one task. `default` is what its default schedule takes; None where it is not known."""

    name: str
    calls: int
    trials: int  # of this run
    flops: float
    best: float | None  # seconds
    default: float | None

    def __repr__(self) -> str:
        return line(self, self.name, f": {many(self.calls, 'call')}, {many(self.trials, 'trial')}, best {time(self.best)}")

    @property
    def seconds(self) -> float:
        """Of all its calls."""
        return self.calls * (self.best or 0.0)


_HEAD = f"{'calls':>5} {'best us':>10} {'share':>6} {'trials':>6} {'GFLOP/s':>8} {'speed-up':>8}  task"


def table(summaries: Sequence[TaskSummary]) -> str:
    """The tasks as text, a line each, those first that take most of the time. The speed-up is over the default schedule."""
    total = sum(s.seconds for s in summaries)
    lines = [_HEAD]
    for s in sorted(summaries, key=lambda s: -s.seconds):
        best = f"{s.best * 1e6:10,.1f}" if s.best else f"{'-':>10}"
        share = f"{s.seconds / total:6.1%}" if total and s.best else f"{'-':>6}"
        speed = f"{s.flops / s.best / 1e9:8.1f}" if s.best and s.flops else f"{'-':>8}"
        gain = f"{s.default / s.best:7.2f}x" if s.best and s.default else f"{'-':>8}"
        lines.append(f"{s.calls:5} {best} {share} {s.trials:6} {speed} {gain}  {s.name}")
    return "\n".join(lines)
