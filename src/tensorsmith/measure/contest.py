"""A contest: programs timed in turns, round by round, each round in a new order, under some conditions."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from tensorsmith.errors import InternalError
from tensorsmith.measure.conditions import Condition
from tensorsmith.measure.job import Job, JobState, Rounds
from tensorsmith.measure.timing import in_turns
from tensorsmith.search.trial import Trial


@dataclass(frozen=True)
class Timed:
    """What came out for one program. The trial's seconds are those of the kernel alone."""

    trial: Trial
    rounds: Rounds


Slots = dict[Condition, set[int]]  # who has a turn in a round, by number, under each condition
NextRound = Callable[[Sequence[Rounds | None], tuple[Condition, ...]], Slots]


def evenly(rounds: Sequence[Rounds | None], conditions: tuple[Condition, ...], *, most: int) -> Slots:
    """All that did not fail (None), under all conditions, `most` times."""
    return {c: {n for n, r in enumerate(rounds) if r is not None and len(r[c]) < most} for c in conditions}


@dataclass(frozen=True)
class Turns:
    """How long a contest goes on, and for whom.

    `next_round` is told the rounds so far (None: it failed) and the conditions, and says who has a turn in the next one; when
    nobody has, it is over. After the `least` rounds none is begun that would end after `seconds`.
    """

    next_round: NextRound
    conditions: tuple[Condition, ...] = tuple(Condition)
    seconds: float | None = None
    least: int = 1
    clock: Callable[[], float] = time.monotonic

    @staticmethod
    def even(rounds: int, conditions: tuple[Condition, ...] = tuple(Condition)) -> Turns:
        """So many rounds for everybody."""
        return Turns(partial(evenly, most=rounds), conditions, least=rounds)


class Contest:
    """Programs, and whose turn it is."""

    def __init__(self, jobs: Sequence[Job], turns: Turns) -> None:
        self.jobs = list(jobs)
        self.how = turns
        self._random = random.Random(0)

    def turns(self) -> Iterator[tuple[Job, Condition]]:
        """Jobs in the order in which they are to be timed, and how; those that failed are passed over.

        Whoever takes no time of one that it is given has to end this: it is asked for again.
        """
        how, start = self.how, self.how.clock()
        took = dict.fromkeys(how.conditions, 0.0)  # the last turn under each condition, seconds
        for number in itertools.count():
            slots = how.next_round([job.rounds if job.step is JobState.BUILT else None for job in self.jobs], how.conditions)
            round_ = [(n, c) for c in how.conditions for n in self._drawn(slots.get(c, set()))]
            expected = sum(took[c] for _, c in round_)
            if not round_ or (number >= how.least and how.seconds is not None and how.clock() + expected > start + how.seconds):
                return
            for n, condition in round_:
                begun = how.clock()
                if self.jobs[n].step is JobState.BUILT:
                    yield self.jobs[n], condition
                took[condition] = how.clock() - begun

    def _drawn(self, numbers: set[int]) -> list[int]:
        """In an order of their own."""
        order = sorted(numbers)
        self._random.shuffle(order)
        return order


def results(jobs: Sequence[Job]) -> list[Timed]:
    """What came out for each job; all have a trial."""
    trials = [job.trial for job in jobs]
    timed = [job.rounds[Condition.ALONE] for job in jobs if job.trial is not None and job.trial.ok]
    seconds = iter(in_turns(timed) if timed else ())
    found = []
    for job, trial in zip(jobs, trials):
        if trial is None:
            raise InternalError("a job without a trial")
        found.append(Timed(replace(trial, seconds=next(seconds)) if trial.ok else trial, job.rounds))
    return found
