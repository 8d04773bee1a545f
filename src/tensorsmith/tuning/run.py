"""One tuning run: the scheduler says which task is next, the tasks share the workers, and time and trials are limited.

A run is of networks (`of_networks.py`) or of one workload (`of_workload.py`), which is the only task of a network; these two say
what is known beforehand and what is told to the user, and the loop is here.

While the workers build the last candidates of one task, those of the next are searched for. The best of a task is what its tuning
gives (`TaskTuning.best_seconds`); the scheduler is told whenever that changes, and whoever asks how the run stands asks the
scheduler. Tasks that were tuned are a start for similar ones that come later.
"""

from __future__ import annotations

import abc
import contextlib
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn

from tensorsmith.errors import UserError
from tensorsmith.measure.runner import Runner
from tensorsmith.records.faults import StoreError
from tensorsmith.search.objectives import Objective
from tensorsmith.search.scheduler import SCHEDULE, Schedule, Scheduler, TaskFacts
from tensorsmith.show.line import line, many
from tensorsmith.show.units import time
from tensorsmith.targets import neighbours
from tensorsmith.tuning.budget import Clock
from tensorsmith.tuning.history.experience import Experience
from tensorsmith.tuning.history.journal import Journal
from tensorsmith.tuning.interrupt import CtrlC
from tensorsmith.tuning.options import RunOptions
from tensorsmith.tuning.progress.reporter import Reporter
from tensorsmith.tuning.progress.workload import Paced
from tensorsmith.tuning.tasks.opened import OpenTunings
from tensorsmith.tuning.tasks.shared import Shared
from tensorsmith.tuning.tasks.task import TaskTuning
from tensorsmith.tuning.tasks.tuned import TunedTask

log = logging.getLogger(__name__)

_AHEAD = 8  # candidates at most that the workers build while the next ones are searched for
_EACH = 16  # candidates for each of several machines: what it is at, and as much again
_SHORT = 8  # times a search: what is left of the time, when trials are worth more than the next candidates
_FINISH = 0.25  # share of the run kept for the neighbours of the best
_IMPROVEMENT = 0.01  # of the objective's value, or more, counts as one

WITHIN = f"within {SCHEDULE.near:.0%} of what this machine allows"


class Run(abc.ABC):
    """One tuning run."""

    def __init__(
        self,
        tasks: Sequence[TunedTask],
        options: RunOptions,
        journal: Journal,
        clock: Clock,
        reporter: Reporter,
        objective: Objective,
        schedule: Schedule,
    ) -> None:
        self.tasks, self.options, self.measured = tuple(tasks), options, options.measured
        self.journal, self.budget, self.clock, self.reporter = journal, options.budget, clock, reporter
        self.ctrl_c = CtrlC()
        schedule = schedule if options.early_stop else replace(schedule, near=None)
        self.scheduler = Scheduler([self._facts(t) for t in tasks], objective, schedule, seed=options.seed)
        self.trials = [0] * len(tasks)  # of this run
        self.satisfied = False  # the scheduler sees nothing left to gain
        self._runner: Runner
        self.exhausted: set[int] = set()  # tasks whose policies have no candidates left
        self.sizes: dict[int, int] = {}  # by task: programs that its policy can choose from, where that is a space of its own
        self._experience = Experience(journal, options.measured, options.plugins)
        self._underway: list[int] = []  # the tasks whose candidates the runner has, the one that was asked last at the end
        self._yardstick: float | None = None  # the objective at the last improvement that counts
        self._since = 0  # trials of the run up to then
        self._stored = True  # until the record file refuses trials
        here = options.measured.place.here  # else nobody who is busy here is in the way
        self._neighbours = neighbours.Watch(reporter.say, options.measured.target.cores) if here else None

    def __repr__(self) -> str:
        return line(self, f"of {many(len(self.tasks), 'task')}, {many(sum(self.trials), 'trial')} done")

    def __reduce__(self) -> NoReturn:
        raise UserError(
            "a running tuning cannot be pickled or copied; its records are in its database; use save() on what it gives"
        )

    # -- what differs ------------------------------------------------------------------------------------------------------

    @abc.abstractmethod
    def _facts(self, task: TunedTask) -> TaskFacts:
        """What the scheduler is told of a task beforehand."""

    @abc.abstractmethod
    def _prepare(self) -> None:
        """Before the workers start, while all is silent."""

    @abc.abstractmethod
    def _cannot_tune(self, task: int, problem: Exception) -> None:
        """A task turned out to be impossible to tune; raises if that ends the run."""

    @abc.abstractmethod
    def _look_at(self, task: int) -> None:
        """The best of a task may have changed."""

    @abc.abstractmethod
    def _settle(self) -> None:
        """After the search: finals, as far as there is time. What is used has to be better than the default schedule anyway."""

    @abc.abstractmethod
    def _progress(self, task: int) -> Paced:
        """Where the run stands; `task` was worked on last."""

    @abc.abstractmethod
    def _conclude(self) -> None:
        """What to say at the end."""

    # -- the loop ------------------------------------------------------------------------------------------------------------

    def go(self) -> None:
        """Search, then settle among the best of each task, then say what there is to say."""
        place = self.measured.place
        with self.ctrl_c, contextlib.ExitStack() as closing:
            if place.here:
                closing.enter_context(neighbours.announced("tuning"))
            self._runner = place.make(self.measured.target, self.reporter.warn)
            if not place.lasting:
                closing.callback(self._runner.close)
            log.info("a search begins: %s on %s, %s", many(len(self.tasks), "task"), self.measured.target.key, self.budget)
            self._prepare()
            self._runner.start()  # the workers load while the rest is made
            options = self.options
            self._shared = Shared(
                self._runner,
                self.journal,
                self.measured,
                options.plugins,
                self._experience,
                options.seed,
                options.sizes,
                options.fallback,
            )
            self.opened = OpenTunings(self._make, self.scheduler.gradients)
            try:
                self._search()
                log.info("the search is over: %s, %s", many(sum(self.trials), "trial"), self._why_over())
                # whoever asks for the end gets it, with the best that is known
                if not self.ctrl_c.came or not self.options.fallback:
                    self._settle()
            finally:
                self.opened.close()
            if self._neighbours is not None:
                self._neighbours.conclude()
            self._conclude()

    def _search(self) -> None:
        while (chosen := self._next()) is not None:
            task, count = chosen
            proposed = self._propose(task, count)
            if proposed:
                self._underway = [*(t for t in self._underway if t != task), task]
            if self._runner.places > 1:
                self._keep_busy()
                continue
            while [t for t in self._underway if t != task]:
                self._collect_rest()
            if proposed:
                self._collect_some(task)
        while self._underway:
            self._collect_rest()

    def _keep_busy(self) -> None:
        """Keeps what several machines have done by now; waits while they have so much to do that more can be proposed later.

        No task is waited for: one machine may be late with the last candidates of one, and the others are to go on meanwhile.
        """
        while not self._searched():
            tunings = {task: self.opened.get(task) for task in self._underway}
            for tuning in tunings.values():
                tuning.take(self._searched)
            self._underway = [task for task, tuning in tunings.items() if tuning.pending]
            if sum(tuning.pending for tuning in tunings.values()) <= _EACH * self._runner.places:
                return
            self._runner.wait(self._searched)

    def _collect_some(self, task: int) -> None:
        """What is measured of a task, so that its next candidates can be chosen by it, and the workers have some left to build.

        Nothing at all after a first look while others are to come: the search for these need not wait for it.
        """
        tuning, left = self.opened.get(task), self.clock.left
        short = left is not None and left < _SHORT * tuning.search_seconds
        first = tuning.pending <= _AHEAD and not tuning.trials and (len(self.tasks) == 1 or bool(self.scheduler.cold()))
        if short or not first:
            tuning.collect(down_to=min(_AHEAD, tuning.pending // 2), stop=self._searched)

    def _why_over(self) -> str:
        """Of a search that is."""
        reasons = {
            "Ctrl-C": self.ctrl_c.came,
            "its time is up": self.clock.searched,
            "no improvement any more": self.hopeless(),
            "nothing left to gain": self.satisfied,
        }
        return next((reason for reason, holds in reasons.items() if holds), "all its trials are done")

    def _next(self) -> tuple[int, int] | None:
        """The task to go on with and how many candidates to propose; None: the search is over."""
        left = self.budget.left(sum(self.trials) + self._pending())
        last = self._underway[-1] if self._underway else None
        in_time = self.clock.left is None or last is None or self.clock.left > self.opened.get(last).search_seconds
        if self._searched() or left == 0 or not in_time or self.hopeless():
            return None
        chosen = self.scheduler.next()
        if chosen is None:
            self.satisfied = True
            return None
        task, count = chosen
        if not self.trials[task] and self.scheduler.tasks[task].best is None:  # nothing is known yet that more could be chosen by
            count = min(count, self.scheduler.schedule.warm_up)
        log.debug("next: %s, up to %d trials", self.tasks[task].name, count)
        return task, count if left is None else min(count, left)

    def _propose(self, task: int, count: int) -> int:
        """How many candidates of a task the workers got."""
        try:
            tuning = self.opened.get(task)
            proposing = self.clock.proposing(first=not tuning.trials + tuning.pending)
            proposed = tuning.propose(count, finishing=self._finishing(), stop=lambda: self.ctrl_c.came or proposing())
            self.exhausted |= {task} if tuning.exhausted else set()
        except Exception as problem:
            if isinstance(problem, UserError) and not isinstance(problem, StoreError):
                raise  # no task could be tuned: there are no workers
            self._cannot_tune(task, problem)
            proposed = 0
        self.scheduler.begin(task, proposed)
        if not proposed:
            self.scheduler.exhaust(task)
        return proposed

    def _collect_rest(self) -> None:
        """Of the task that was asked first."""
        task = self._underway.pop(0)
        self.opened.get(task).collect(stop=self._searched)
        self.scheduler.drop_pending(task)  # those that a stop has cancelled

    def _finishing(self) -> bool:
        """Whether the run is in its last part, by trials or by time."""
        by_trials = self._done() / self.budget.trials if self.budget.trials else 0.0
        by_time = self.clock.elapsed / self.budget.seconds if self.budget.seconds else 0.0
        return max(by_trials, by_time) >= 1 - _FINISH

    def _done(self) -> int:
        """Trials that count as done when the end of the run is near: also those on their way."""
        return sum(self.trials) + self._pending()

    def _pending(self) -> int:
        return sum(t.pending for t in self.scheduler.tasks)

    def _searched(self) -> bool:
        return self.ctrl_c.came or self.clock.searched

    def stopped(self) -> bool:
        return self.ctrl_c.came or self.clock.over

    # -- what came out -------------------------------------------------------------------------------------------------------

    def _make(self, task: int) -> TaskTuning:
        told = 0  # trials of it that are counted

        def kept() -> None:
            nonlocal told
            self._kept(task, tuning.trials - told, tuning.best_seconds)
            told = tuning.trials

        tuning = TaskTuning(self.tasks[task].formulations, self._shared, kept)
        if tuning.programs is not None and task not in self.sizes:
            self.sizes[task] = tuning.programs
            name, policy = self.tasks[task].name, self.options.plugins.policy.name
            self.reporter.say(f"{name}: {policy} has {tuning.programs:,} programs to choose from")
        if self.scheduler.tasks[task].best is None:
            self.scheduler.tell(task, 0, tuning.best_seconds)
            self._look_at(task)
        return tuning

    def _kept(self, task: int, trials: int, best: float | None) -> None:
        """Some trials of a task are done; none: records of another day were checked, and are what they turned out to be."""
        self.trials[task] += trials
        log.debug("%s: %d trials more, best %s", self.tasks[task].name, trials, time(best))
        self.scheduler.tell(task, trials, best)
        self._look_at(task)
        self._compare(corrected=not trials)
        self.reporter.update(self._progress(task))
        if self._neighbours is not None:
            self._neighbours.look()
        if self.journal.problem is not None and self._stored:
            self.reporter.warn(f"trials are kept in memory for now: {self.journal.problem}")
        self._stored = self.journal.problem is None

    def _compare(self, corrected: bool) -> None:
        """Patience counts from the last improvement, and not before the warm-up is over.

        Where records were `corrected`, what comes is compared with what they are now: that is neither gained nor lost.
        """
        if not any(t.best is not None for t in self.scheduler.tasks):
            return
        value = self.scheduler.value()
        if corrected:
            self._yardstick = value
        improved = self._yardstick is None or value < self._yardstick - _IMPROVEMENT * abs(self._yardstick)
        if improved or self.scheduler.cold():
            self._yardstick, self._since = value, sum(self.trials)

    @property
    def nothing_measured(self) -> bool:
        """Whether no program of any task has a time, of this run or of an earlier one."""
        return all(task.best is None for task in self.scheduler.tasks)

    def unimproved(self) -> int:
        """Trials since the last improvement."""
        return sum(self.trials) - self._since

    def hopeless(self) -> bool:
        return self.budget.patience is not None and self.unimproved() >= self.budget.patience

    def say_troubles(self) -> None:
        """What the record file could not give or take."""
        if self.journal.emulated:
            self.reporter.warn("all times of this run are emulated: they ordered its candidates, and none of them is stored")
        for trouble in (self.journal.left_out, self.journal.finish()):
            if trouble is not None:
                self.reporter.warn(trouble)

    def say_failures(self) -> None:
        failures, count = self.opened.failures, sum(self.trials)
        if failures.counts:
            self.reporter.say(f"{failures.counts.total()} of {count} trials failed, for example:\n{failures}")
