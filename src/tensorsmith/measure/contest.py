"""A contest: programs timed in turns, round by round, each round in a new order, under each of some conditions."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from tensorsmith.errors import InternalError
from tensorsmith.measure.conditions import Condition
from tensorsmith.measure.job import Job, JobState, Rounds
from tensorsmith.measure.timing import in_turns
from tensorsmith.search.trial import Trial


@dataclass(frozen=True)
class Timed:
    """What came out for one program. The trial's seconds are those of calls back to back."""

    trial: Trial
    rounds: Rounds


def _all_of_them(rounds: Sequence[Rounds | None]) -> set[int]:
    return set(range(len(rounds)))


@dataclass(frozen=True)
class Turns:
    """How long a contest goes on: at least and at most so many rounds, and no round is begun that would end after `seconds`.

    After the least, `worth_it` says of the rounds so far (None: it failed) which programs are worth more of them; it is over when
    none is.
    """

    least: int
    most: int
    conditions: tuple[Condition, ...] = tuple(Condition)
    seconds: float | None = None
    worth_it: Callable[[Sequence[Rounds | None]], set[int]] = _all_of_them
    clock: Callable[[], float] = time.monotonic


class Contest:
    """Programs, and whose turn it is."""

    def __init__(self, jobs: Sequence[Job], turns: Turns) -> None:
        self.jobs = list(jobs)
        self.how = turns
        self._random = random.Random(0)

    def turns(self) -> Iterator[tuple[Job, Condition]]:
        """Jobs in the order in which they are to be timed, and how; those that failed are passed over."""
        how, lap, start = self.how, 0.0, self.how.clock()
        left = [job for job in self.jobs if job.trial is None]
        for number in range(how.most):
            begun = how.clock()
            if number >= how.least and how.seconds is not None and begun + lap > start + how.seconds:
                return
            for condition in how.conditions:
                self._random.shuffle(left)
                yield from ((job, condition) for job in left)
            lap = how.clock() - begun
            if number + 1 >= how.least:
                worth_it = how.worth_it([job.rounds if job.step is JobState.BUILT else None for job in self.jobs])
                left = [job for n, job in enumerate(self.jobs) if n in worth_it]
            left = [job for job in left if job.step is JobState.BUILT]
            if not left:
                return


def results(jobs: Sequence[Job]) -> list[Timed]:
    """What came out for each job; all have a trial."""
    trials = [job.trial for job in jobs]
    timed = [job.rounds[Condition.BACK_TO_BACK] for job in jobs if job.trial is not None and job.trial.ok]
    seconds = iter(in_turns(timed) if timed else ())
    found = []
    for job, trial in zip(jobs, trials):
        if trial is None:
            raise InternalError("a job without a trial")
        found.append(Timed(replace(trial, seconds=next(seconds)) if trial.ok else trial, job.rounds))
    return found
