"""Where the tuning of networks stands, as data and as text: a line while it goes on, a table of the tasks at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tensorsmith.tuning.progress.workload import Paced


@dataclass(frozen=True)
class NetworkProgress(Paced):
    """Where a run stands; handed to `on_progress` whenever some trials are done.

    A latency is the sum over a network's tasks of calls times best seconds. Tasks that are not measured yet, or are not worth
    tuning (what only moves elements), are not in it.
    """

    networks: tuple[str, ...]
    latencies: tuple[float, ...]  # seconds of each network
    first: tuple[float, ...]  # the same with the default schedules
    measured: int  # tasks that have a time
    tasks: int  # that are tuned
    task: str  # the one that is worked on
    trials: int  # of this run
    wanted: int | None  # trials; None: as many as the time allows
    elapsed: float  # seconds of this run
    seconds: float | None = None  # the run may take
    failures: Counter[str] = field(default_factory=Counter)  # by status
    times: dict[str, float] = field(default_factory=dict)  # seconds by activity; "build" is summed over the workers

    def __str__(self) -> str:
        some = f"{self.measured} of {self.tasks} tasks" if self.measured < self.tasks else f"{self.tasks} tasks"
        return f"{self._latencies()}, {some}, {self._count(self.failures)}, {self._pace()}, {self.task}"

    def _latencies(self) -> str:
        if not self.measured:
            return "nothing measured yet"
        each = zip(self.networks, self.latencies, self.first)
        return ", ".join(f"{name} {_latency(now)} ({_latency(first)} at first)" for name, now, first in each)


def _latency(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} us"


@dataclass(frozen=True)
class TaskSummary:
    """What became of one task. `default` is what its default schedule takes; None where it is not known."""

    name: str
    calls: int
    trials: int  # of this run
    flops: float
    best: float | None  # seconds
    default: float | None

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
