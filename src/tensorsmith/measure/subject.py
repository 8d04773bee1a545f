"""What is under measurement: one workload, as the measurer and its workers see it."""

from __future__ import annotations

import itertools
import statistics
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tensorsmith.measure import wire
from tensorsmith.measure.job import Job, JobState
from tensorsmith.measure.limits import Limits
from tensorsmith.measure.times import Times

_RECENT = 64  # builds whose median is the usual time of one
_numbers = itertools.count(1)


@dataclass(eq=False)
class Subject:
    """One workload under measurement. Workers make a bench for it, when its first candidate comes, and keep it for a while."""

    limits: Limits
    times: Times
    bytes: int  # of its inputs and outputs
    setup: wire.Message | None = None  # how a worker makes the bench; None until the reference exists
    reference: dict[str, np.ndarray[Any, np.dtype[Any]]] = field(default_factory=dict)  # the right outputs, if answers are checked
    incumbent: float | None = None  # the least seconds known; what clearly loses against it is cut short
    finished: deque[Job] = field(default_factory=deque)
    builds: deque[float] = field(default_factory=lambda: deque(maxlen=_RECENT))  # seconds
    number: int = field(default_factory=_numbers.__next__)

    @property
    def held(self) -> int:
        """Executables that a worker may keep between building and timing."""
        return max(1, min(self.limits.held, self.limits.held_bytes // max(1, self.bytes)))

    def timeout(self, step: JobState) -> float:
        """Seconds that a step of a candidate may take."""
        if step is JobState.RUNNING:
            return self.limits.run_timeout(self.incumbent)
        if step is JobState.TIMING:
            return self.limits.timing_timeout(self.incumbent)
        return self.limits.build_timeout(statistics.median(self.builds) if self.builds else None)
