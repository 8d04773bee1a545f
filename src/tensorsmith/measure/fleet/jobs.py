"""The jobs of a fleet's runner that are not finished: who waits for them, and what becomes of them when a node has answered."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from tensorsmith.errors import InternalError
from tensorsmith.measure.contest import Contest
from tensorsmith.measure.fleet import forms
from tensorsmith.measure.fleet.answers import Result
from tensorsmith.measure.fleet.members import Item
from tensorsmith.measure.job import Job, JobState
from tensorsmith.measure.subject import Subject
from tensorsmith.measure.wire import Message
from tensorsmith.search.trial import Status, Trial

_CONTEST = 8  # candidates that one of a contest counts for: it is timed in many rounds


class Jobs:
    """Jobs and contests by the number of their item; a contest is one item, done by one node from its beginning to its end."""

    def __init__(self) -> None:
        self._open: dict[int, Job] = {}
        self._contests: dict[int, Contest] = {}
        self._pending: dict[int, int] = {}  # jobs of each subject
        self._outputs: dict[int, Message] = {}  # of subjects that are prepared: their references as text
        self._early: dict[int, list[Item]] = {}  # of subjects that are not prepared yet
        self._contest_numbers = itertools.count(-1, -1)

    def __len__(self) -> int:
        return len(self._open)

    def pending(self, subject: Subject) -> int:
        return self._pending.get(subject.number, 0)

    # -- what comes ------------------------------------------------------------------------------------------------------------

    def prepared(self, subject: Subject) -> list[Item]:
        """The right outputs of a subject are known: what waited for them can be handed out."""
        if subject.setup is None:
            raise InternalError("a subject without a setup")
        self._outputs[subject.number] = forms.arrays_to_form(subject.reference)
        return self._early.pop(subject.number, [])

    def add(self, job: Job) -> list[Item]:
        """One more, and what can be handed out of it: nothing, if its subject is not prepared yet."""
        self._open[job.number] = job
        self._pending[job.subject.number] = self._pending.get(job.subject.number, 0) + 1
        item = Item(job.number, job.subject.number)
        if job.subject.number in self._outputs:
            return [item]
        self._early.setdefault(job.subject.number, []).append(item)
        return []

    def add_contest(self, contest: Contest) -> Item:
        number = next(self._contest_numbers)
        self._contests[number] = contest
        return Item(number, number, _CONTEST * len(contest.jobs), trial=False)

    def has_contest(self, number: int) -> bool:
        return number in self._contests

    # -- what nodes are sent -----------------------------------------------------------------------------------------------------

    def of(self, items: Sequence[Item]) -> tuple[Contest | None, list[Job]]:
        """The contest that is one of some items, if there is one, and the jobs of all."""
        contest = next((self._contests[i.number] for i in items if i.number in self._contests), None)
        return contest, contest.jobs if contest is not None else [self._open[i.number] for i in items if i.number in self._open]

    def setup(self, subject: Subject) -> Message:
        """What a node has to know of a subject before it gets jobs of it."""
        if subject.setup is None:
            raise InternalError("a subject without a setup")
        return subject.setup | {"outputs": self._outputs[subject.number]}

    # -- what becomes of them ------------------------------------------------------------------------------------------------------

    def finish(self, number: int, results: Mapping[int, Result], emulated: bool) -> None:
        """An item has its results."""
        if number in self._contests:
            contest = self._contests.pop(number)
            for job in contest.jobs:
                result = results[job.number].of_contest(contest.how.conditions)
                job.rounds, job.cut = result.rounds, result.cut
                self._end(job, result.trial(job.candidate, emulated))
            return
        job = self._open.pop(number)
        trial, subject = results[number].trial(job.candidate, emulated), job.subject
        if trial.seconds is not None and not trial.at_least and (subject.incumbent is None or trial.seconds < subject.incumbent):
            subject.incumbent = trial.seconds
        subject.times.build += trial.build_seconds
        subject.times.run += trial.run_seconds
        self._end(job, trial)

    def give_up(self, number: int, cause: str) -> None:
        """An item gets no results any more."""
        for job in self._contests.pop(number).jobs if number in self._contests else [self._open.pop(number)]:
            self._end(job, Trial(job.candidate, Status.CRASHED, cause=cause))

    def cancel(self, subject: Subject) -> list[Job]:
        """Nobody waits for those of a subject any more."""
        dropped = [job for job in self._open.values() if job.subject is subject]
        for job in dropped:
            del self._open[job.number]
        self._pending.pop(subject.number, None)
        self._early.pop(subject.number, None)
        return dropped

    def cancel_contest(self, number: int) -> bool:
        """Whether it was still going on."""
        return self._contests.pop(number, None) is not None

    def forget(self, subject: Subject) -> None:
        self._outputs.pop(subject.number, None)

    def clear(self) -> None:
        self._open.clear()
        self._pending.clear()

    def _end(self, job: Job, trial: Trial) -> None:
        job.trial, job.step = trial, JobState.DONE
        if job.subject.number in self._pending and not job.keep:
            self._pending[job.subject.number] -= 1
            job.subject.times.trials += 1
            job.subject.finished.append(job)
