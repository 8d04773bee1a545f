"""Where a run stands, as data and as a line of text."""

from __future__ import annotations

import abc
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tensorsmith.lang.flops import flops
from tensorsmith.lang.workload import Workload
from tensorsmith.show.line import line, plain
from tensorsmith.show.share import share_of_peak
from tensorsmith.show.units import span, time
from tensorsmith.tuning.progress.bar import Part, bar, fitted


class Paced(abc.ABC):
    """Of whatever stands somewhere between its beginning and its end: the pace, and what is left."""

    trials: int
    wanted: int | None
    elapsed: float
    seconds: float | None
    times: dict[str, float]

    @property
    def trials_per_second(self) -> float:
        return self.trials / self.elapsed if self.elapsed > 0 else 0.0

    @property
    def seconds_left(self) -> float | None:
        """An estimate, for trials at the present pace and for the time limit, the nearer of the two."""
        ends = []
        if self.wanted is not None and self.trials_per_second:
            ends.append((self.wanted - self.trials) / self.trials_per_second)
        if self.seconds is not None:
            ends.append(self.seconds - self.elapsed)
        return max(0.0, min(ends)) if ends else None

    @property
    def share_done(self) -> float:
        """Of the run, from 0 to 1: of its trials or of its time, whichever ends it."""
        by_trials = self.trials / self.wanted if self.wanted else 0.0
        by_time = self.elapsed / self.seconds if self.seconds else 0.0
        return min(1.0, max(by_trials, by_time))

    def line(self, width: int) -> str:
        """Where the run stands, in so many columns at most. The time left is the last to go."""
        return fitted(self._parts(), width)

    @abc.abstractmethod
    def _parts(self) -> list[Part]:
        """What there is to say in a line."""

    def _frame(self, failures: Counter[str], middle: Sequence[Part], task: str = "") -> list[Part]:
        """The parts that every line has, around what is said of the best."""
        wanted = "" if self.wanted is None else f"/{self.wanted}"
        return [
            Part(bar(self.share_done), 3),
            Part(f"{self.trials}{wanted} trials", 1),
            *middle,
            Part(self._left(), 0),
            Part(f"{failures.total()} failed" if failures.total() else "", 5),
            Part(f"{self.trials_per_second:.1f}/s" if self.trials else "", 6),
            Part(plain(task), 9, cut=True),
        ]

    def _left(self) -> str:
        return f"{span(self.seconds_left)} left" if self.seconds_left and self.trials != self.wanted else ""

    @property
    def time_split(self) -> str:
        """Where the time went, in a line."""
        parts = ", ".join(f"{activity} {seconds:.1f} s" for activity, seconds in self.times.items())
        return f"{parts}; {self.elapsed:.1f} s in all"

    def _count(self, failures: Counter[str]) -> str:
        failed = f", {failures.total()} failed" if failures.total() else ""
        wanted = "" if self.wanted is None else f"/{self.wanted}"
        return f"{self.trials}{wanted} trials{failed}"

    def _pace(self) -> str:
        left = f", {self._left()}" if self._left() else ""
        return f"{self.trials_per_second:.1f} trials/s{left}"


@dataclass(frozen=True)
class Progress(Paced):
    """Where a run stands; handed to `on_progress` whenever some trials are done."""

    workload: Workload
    trials: int  # of this run
    wanted: int | None  # trials; None: as many as the time allows
    best_seconds: float | None  # also of earlier runs
    elapsed: float  # seconds of this run
    failures: Counter[str] = field(default_factory=Counter)  # by status
    times: dict[str, float] = field(default_factory=dict)  # seconds by activity; "build" is summed over the workers
    seconds: float | None = None  # the run may take
    peak: float | None = None  # FMA operations per second of this machine
    default_is_best: bool = False  # the search is over, and nothing that it found may replace the default schedule
    emulated: bool = False  # the times are an emulator's
    formulation: str = "direct"  # of the best

    @property
    def gflops(self) -> float:
        return flops(self.workload) / self.best_seconds / 1e9 if self.best_seconds else 0.0

    @property
    def share_of_peak(self) -> float | None:
        """Of the f32 multiply-add peak; None for other types, and where nothing is multiplied."""
        floats = all(b.dtype == "f32" for b in self.workload.buffers.values())
        return self.gflops * 1e9 / self.peak if self.peak and self.gflops and floats else None

    def __str__(self) -> str:
        return f"{self._count(self.failures)}, {self._best()}, {self._pace()}"

    def __repr__(self) -> str:
        return line(self, f"{self.workload.title}: {self}")

    def _parts(self) -> list[Part]:
        best = f"best {self._how()}{time(self.best_seconds)} alone" if self.best_seconds else "nothing measured yet"
        share = f" ({share_of_peak(self.share_of_peak, self.formulation)})" if self.share_of_peak is not None else ""
        speed = f"{self.gflops:,.1f} GFLOP/s{share}" if self.gflops else ""
        return self._frame(self.failures, [Part(best, 2), Part(speed, 4)])

    def _best(self) -> str:
        if not self.best_seconds:
            return "nothing measured yet"
        speed = f", {self.gflops:.1f} GFLOP/s" if self.gflops else ""
        share = f" ({share_of_peak(self.share_of_peak, self.formulation)})" if self.share_of_peak is not None else ""
        return f"best {self._how()}{self.best_seconds * 1e6:,.1f} us alone{speed}{share}"

    def _how(self) -> str:
        return "emulated " if self.emulated else ""
