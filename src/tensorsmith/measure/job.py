"""A candidate on its way through the workers."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tensorsmith.measure.conditions import Condition
from tensorsmith.search.trial import Trial
from tensorsmith.space.sketch.sketch import Candidate

if TYPE_CHECKING:
    from tensorsmith.measure.subject import Subject

Rounds = dict[Condition, list[float]]  # seconds of a run, by round, under each condition


class JobState(enum.Enum):
    """Where a job is. A worker that dies is blamed on the job it was building, running or timing."""

    WAITING = "waiting"  # no worker has it
    SENT = "sent"  # in the queue of its worker
    BUILDING = "building"
    RUNNING = "running"  # for the first time, to check its answer
    BUILT = "built"
    TIMING = "timing"
    DONE = "done"


@dataclass(eq=False)
class Job:
    """`begun`: when its worker began the current step, on the clock of `time.monotonic`, which all processes share."""

    number: int
    subject: Subject
    candidate: Candidate
    keep: bool = False  # a finalist: stays built, and is timed round by round
    step: JobState = JobState.WAITING
    begun: float = 0.0
    build_seconds: float = 0.0
    run_seconds: float = 0.0
    deaths: int = 0  # of its workers, through no fault of its own
    condition: Condition = Condition.ALONE  # under which it is timed now
    rounds: Rounds = field(default_factory=lambda: {condition: [] for condition in Condition})
    cut: bool = False
    note: str = ""  # how the device was when it was timed
    trial: Trial | None = None

    @property
    def unbuilt(self) -> bool:
        return self.step in (JobState.SENT, JobState.BUILDING, JobState.RUNNING)

    @property
    def active(self) -> bool:
        return self.step in (JobState.BUILDING, JobState.RUNNING, JobState.TIMING)
