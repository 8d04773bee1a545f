"""A trial: one candidate, measured; its status is an enum, never an infinite time."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, Literal, get_args

from tensorsmith.errors import UserError
from tensorsmith.show.line import line
from tensorsmith.show.units import time
from tensorsmith.space.sketch.sketch import Candidate

#: What a timed run finds in the caches. "warm": all its buffers; "streamed": all but its constants; "cold": none.
Cache = Literal["warm", "streamed", "cold"]
CACHES: tuple[Cache, ...] = get_args(Cache)


def check_cache(cache: Any) -> None:
    """Raises `UserError` on what is none of these."""
    if cache not in CACHES:
        known = ", ".join(f'"{c}"' for c in CACHES[:-1])
        raise UserError(f'cache is {known} or "{CACHES[-1]}", {cache!r} given')


class Status(enum.Enum):
    """How a trial ended."""

    OK = "ok"
    REFUSED = "refused"  # cannot be lowered or generated
    BUILD_FAILED = "build failed"  # the compiler gave up
    CRASHED = "crashed"  # the worker died
    TIMED_OUT = "timed out"
    WRONG_ANSWER = "wrong answer"
    OUT_OF_MEMORY = "out of memory"


@dataclass(frozen=True)
class Trial:
    """A measured candidate. `seconds` is the time of one run, None unless the status is OK.

    `at_least`: the timing was cut short because it clearly lost; the true time is `seconds` or more.
    """

    candidate: Candidate
    status: Status
    seconds: float | None = None
    spread: float = 0.0  # (p90 - p10) / median of the rounds
    at_least: bool = False
    cause: str = ""  # a short stable word or sentence for what failed
    build_seconds: float = 0.0
    run_seconds: float = 0.0
    emulated: bool = False  # timed by an emulator: good for this run's order of candidates, and for nothing else
    note: str = ""  # how the device was just then, as it says, for people: its clocks

    @property
    def ok(self) -> bool:
        """Whether it ran and was right."""
        return self.status is Status.OK

    def __repr__(self) -> str:
        how = ("emulated " if self.emulated else "") + ("at least " if self.at_least else "")
        result = f"{how}{time(self.seconds)}" if self.ok else f"{self.status.value} ({self.cause})"
        return line(self, f"{result}: {self.candidate.sketch.workload.title}", f", candidate {self.candidate.digest}")
