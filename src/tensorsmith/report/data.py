"""What a report says, as data: the page shows it and computes nothing but its own layout.

    Report    settings, versions, perhaps a profile and a race
    Setting   one target and timing: the roof, the tasks, the network's time over the tuning
    Task      where its time goes, its curve, what each improvement changed, failures, forecasts, the two programs side by side

Times are in seconds, sizes in bytes. A figure that is not known is None.
"""

from __future__ import annotations

from dataclasses import dataclass

from tensorsmith.show.line import cut, line, many
from tensorsmith.show.units import time

#: where the seconds of a task come from, the best source first
IN_NETWORK, ALONE, ESTIMATED, UNKNOWN = "in the network", "alone", "estimated", "unknown"
#: what stands for the time without a search: the default schedule, or, where that was not timed, the first program that ran
DEFAULT, FIRST = "default schedule", "first program"


@dataclass(frozen=True)
class Point:
    """One trial of a search. `elapsed`: since the first record of the setting, pauses left out. `best`: so far."""

    number: int
    elapsed: float
    status: str
    seconds: float | None
    at_least: bool  # the timing was cut short: it takes that long or longer
    best: float | None


@dataclass(frozen=True)
class Change:
    """A hole or a part of the structure that differs between two candidates; "" where one has nothing of the kind."""

    what: str
    before: str
    after: str


@dataclass(frozen=True)
class Improvement:
    """A trial that beat all before it. `gain`: how many times faster than the best before; None for the first."""

    number: int
    elapsed: float
    seconds: float
    gain: float | None
    candidate: str
    changes: tuple[Change, ...]


@dataclass(frozen=True)
class Failure:
    """Trials that failed in one way. `example`: the key of the first candidate; `decisions`: its numbers."""

    status: str
    cause: str
    count: int
    example: str
    decisions: str


@dataclass(frozen=True)
class Forecast:
    """What the analytic prior expected of a candidate, and what was measured."""

    candidate: str
    expected: float
    measured: float


@dataclass(frozen=True)
class Listing:
    """A candidate for people: its loops, and what they ask of the machine."""

    candidate: str
    formulation: str
    seconds: float | None
    decisions: str
    loops: str
    explanation: str

    def __repr__(self) -> str:
        return line(self, f"{self.decisions}: {time(self.seconds)}", f", candidate {self.candidate[:8]}")


@dataclass(frozen=True)
class Task:
    """A workload of the record file or of the model. `weight`: calls in the network; 1 where no model was given."""

    name: str
    key: str
    shapes: str
    weight: int
    origins: tuple[str, ...]
    flops: int
    bytes: float
    trials: int
    failed: int
    best: float | None  # of the search's timing
    default: float | None
    default_is: str  # DEFAULT or FIRST
    network_best: float | None  # timed as a step of the network
    network_default: float | None
    seconds: float | None  # of one call, from the best source there is
    source: str
    share: float | None  # of the network's time
    candidate: str = ""  # the key of the best record's
    points: tuple[Point, ...] = ()
    improvements: tuple[Improvement, ...] = ()
    failures: tuple[Failure, ...] = ()
    forecasts: tuple[Forecast, ...] = ()
    in_order: float | None = None  # share of the pairs of forecasts that are in the measured order
    winner: Listing | None = None
    plain: Listing | None = None  # the default schedule
    differences: tuple[Change, ...] = ()  # from the default schedule to the winner

    def __repr__(self) -> str:
        counts = f": {many(self.weight, 'call')}, {many(self.trials, 'trial')}, {time(self.seconds)} {self.source}"
        return line(self, self.name, f"{counts}, key {self.key[:8]}")

    @property
    def before(self) -> float | None:
        """Seconds without a search, taken as `seconds` were; None where they were not."""
        return {IN_NETWORK: self.network_default, ALONE: self.default}.get(self.source)

    @property
    def rate(self) -> float | None:
        """Operations per second of the best."""
        return self.flops / self.seconds if self.seconds and self.flops else None

    @property
    def intensity(self) -> float | None:
        """Operations per byte that has to be moved."""
        return self.flops / self.bytes if self.bytes else None


@dataclass(frozen=True)
class Total:
    """The sum over the tasks of weight times best, from the moment on when every task has a time."""

    elapsed: float
    trials: int
    seconds: float


@dataclass(frozen=True)
class Roof:
    """What the machine can do at most: f32 operations and bytes per second. `source`: "measured" or "estimated"."""

    flops: float
    bytes: float
    source: str


@dataclass(frozen=True)
class Reached:
    """A share of what the machine can do at most at that intensity. Above 1 it has a reason."""

    share: float
    why: str = ""


def reached(done: Task | Kernel, roof: Roof) -> Reached | None:
    """How near a task or a kernel is to the roof; None where its operations or its bytes are not known."""
    if not done.rate or not done.intensity:
        return None
    share = done.rate / min(roof.flops, done.intensity * roof.bytes)
    if share <= 1:
        return Reached(share)
    if done.rate <= roof.flops:
        return Reached(share, "its data stay in the caches")
    formulation = done.winner.formulation if isinstance(done, Task) and done.winner else ""
    if formulation not in ("", "plain"):
        return Reached(share, f"{formulation} does fewer operations than the definition, which are counted")
    low = "measured while the machine was busy" if roof.source == "measured" else "estimated too low"
    return Reached(share, f"it does fewer operations than the definition, which are counted, or the roof was {low}")


@dataclass(frozen=True)
class Setting:
    """All tasks of one target and timing. `facts`: of the target, by name."""

    target: str
    timing: str
    facts: tuple[tuple[str, str], ...]
    roof: Roof
    first: float  # seconds since 1970, of the records; 0 if there are none
    last: float
    tasks: tuple[Task, ...]
    totals: tuple[Total, ...]

    def __repr__(self) -> str:
        return line(self, f"{self.target}, {self.timing}: {many(len(self.tasks), 'task')}, {many(self.trials, 'trial')}")

    @property
    def trials(self) -> int:
        """Of all tasks together."""
        return sum(t.trials for t in self.tasks)

    @property
    def before(self) -> float:
        """The network's time without a search; what is known of one schedule alone counts as it is."""
        return sum(t.weight * (t.before or t.seconds or 0.0) for t in self.tasks)

    @property
    def after(self) -> float:
        """The network's time now."""
        return sum(t.weight * (t.seconds or 0.0) for t in self.tasks)


@dataclass(frozen=True)
class Kernel:
    """A kernel of a profile: all its calls in the running network. It has its task's name."""

    name: str
    result: str
    calls: int
    seconds: float
    share: float
    flops: int
    schedule: str
    bytes: float = 0.0  # of what all calls read and write, each once

    @property
    def rate(self) -> float | None:
        """Operations per second."""
        return self.flops / self.seconds if self.seconds and self.flops else None

    @property
    def intensity(self) -> float | None:
        """Operations per byte that has to be moved."""
        return self.flops / self.bytes if self.bytes else None


@dataclass(frozen=True)
class Runner:
    """A system in a race with others: seconds of a call."""

    name: str
    best: float
    median: float


@dataclass(frozen=True)
class Report:
    """A whole report. `skipped`: stored records that could not be used, with how many. `roof` and `facts` are of the machine that
    a profile was made on."""

    title: str
    source: str
    model: str
    made: float  # seconds since 1970
    versions: tuple[tuple[str, str], ...]
    settings: tuple[Setting, ...]
    kernels: tuple[Kernel, ...] = ()
    race: tuple[Runner, ...] = ()
    skipped: tuple[tuple[str, int], ...] = ()
    roof: Roof | None = None
    facts: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        tasks, trials = sum(len(s.tasks) for s in self.settings), sum(s.trials for s in self.settings)
        return line(self, self.title, f" of {cut(self.source, 40)}: {many(tasks, 'task')}, {many(trials, 'trial')}")
