"""The run of one or several networks: what their tasks may gain, what is said about them.

Whatever the journal knows of a task is where the task goes on, in the scheduler too: an interrupted run continues where it was.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from tensorsmith.build import Found
from tensorsmith.lang.flops import flops
from tensorsmith.lang.workload import Workload
from tensorsmith.records.keys import structure_key
from tensorsmith.search.objectives import Objective
from tensorsmith.search.scheduler import Schedule, TaskFacts
from tensorsmith.tuning.budget import Clock
from tensorsmith.tuning.finals.in_network import after_the_run
from tensorsmith.tuning.history.journal import Journal
from tensorsmith.tuning.history.trials import default_seconds, seconds, trials_of
from tensorsmith.tuning.options import RunOptions
from tensorsmith.tuning.progress.network import NetworkProgress, TaskSummary, table
from tensorsmith.tuning.progress.reporter import Reporter
from tensorsmith.tuning.roofline import Roofline
from tensorsmith.tuning.run import WITHIN, Run
from tensorsmith.tuning.tasks.tuned import TunedTask

log = logging.getLogger(__name__)


class NetworkRun(Run):
    """The run of networks that share their tasks."""

    def __init__(
        self,
        networks: Sequence[str],
        tasks: Sequence[TunedTask],
        options: RunOptions,
        journal: Journal,
        clock: Clock,
        reporter: Reporter,
        objective: Objective,
        schedule: Schedule,
        kernels: int | None = None,
    ) -> None:
        """`kernels` that all networks have, with those that are not tuned."""
        self.networks = tuple(networks)
        self.kernels = len(tasks) if kernels is None else kernels
        target, cache = options.measured.target, options.measured.cache
        here = options.measured.place.here
        self.roof = Roofline.measured(target, cache) if here else Roofline.unknown(target, cache)  # while all is silent
        self.first: list[float | None] = [None] * len(tasks)  # seconds of the default schedules
        self.own: dict[Workload, Found] = {}  # what came out of the finals of the tasks
        super().__init__(tasks, options, journal, clock, reporter, objective, schedule)

    def _facts(self, task: TunedTask) -> TaskFacts:
        return TaskFacts(task.weights, self.roof.estimate(task.workload), flops(task.workload), structure_key(task.workload))

    def _prepare(self) -> None:
        """What the journal has of the tasks is told to the scheduler, trial by trial, as if it had been measured now."""
        for n, task in enumerate(self.tasks):
            records = trials_of(self.journal, self.measured.target, self.measured.timing, task.formulations)
            self.first[n] = default_seconds(records, self.measured.target, task.formulations)
            best: float | None = None
            for record in records:
                now = seconds(record)
                best = now if best is None or (now is not None and now < best) else best
                self.scheduler.tell(n, 1, best)
            self._look_at_the_roof(n)
            self.scheduler.tasks[n].unimproved = 0

    def _cannot_tune(self, task: int, problem: Exception) -> None:
        """Whatever it is, it must not end the whole."""
        self.reporter.warn(f"task {self.tasks[task].name} cannot be tuned, and stays as it is: {problem!r}")
        log.warning("task %s cannot be tuned", self.tasks[task].name, exc_info=problem)

    def _look_at(self, task: int) -> None:
        self._look_at_the_roof(task)
        if self.first[task] is None and self.scheduler.tasks[task].best is not None:
            options = self.tasks[task].formulations
            records = trials_of(self.journal, self.measured.target, self.measured.timing, options)
            self.first[task] = default_seconds(records, self.measured.target, options)

    def _look_at_the_roof(self, task: int) -> None:
        best = self.scheduler.tasks[task].best
        self.scheduler.tasks[task].bound = self.roof.bound(self.tasks[task].workload)
        if best is not None and self.roof.raise_to(self.tasks[task].workload, best):
            for t, standing in zip(self.tasks, self.scheduler.tasks):
                standing.bound = self.roof.bound(t.workload)

    def _kept(self, task: int, trials: int, best: float | None) -> None:
        super()._kept(task, trials, best)
        if sum(self.trials):
            self.clock.keep(after_the_run(self.kernels, len(self.tasks), self.opened.times["build"] / sum(self.trials)))

    def _done(self) -> int:
        """Without those on their way: they are of another task, and say nothing about the one that is next."""
        return sum(self.trials)

    def _settle(self) -> None:
        """Of the tasks that were measured now: those first that take most of the time."""
        every = range(len(self.tasks)) if not self.options.fallback else self.opened  # those that were closed meanwhile, too
        measured = [n for n in every if self.trials[n]]
        for n in sorted(measured, key=lambda n: -sum(self.tasks[n].weights) * self.scheduler.seconds(n)):
            if self.ctrl_c.came and self.options.fallback:
                break
            tuning = self.opened.get(n)
            tuning.settle(self.stopped, lambda: self.clock.rest, as_step=True)
            if tuning.outcome is not None:
                of, candidate = tuning.outcome.winner
                self.own[self.tasks[n].workload] = candidate, of.formulation

    # -- what is said --------------------------------------------------------------------------------------------------------

    def _progress(self, task: int | None) -> NetworkProgress:
        return NetworkProgress(
            networks=self.networks,
            latencies=self.latencies(),
            first=self.first_latencies(),
            measured=sum(t.best is not None for t in self.scheduler.tasks),
            tasks=len(self.tasks),
            task="" if task is None else self.tasks[task].name,
            trials=sum(self.trials),
            wanted=self.budget.trials,
            elapsed=self.clock.elapsed,
            seconds=self.budget.seconds,
            failures=self.opened.failures.by_status(),
            times=self.opened.times,
            first_look=bool(self.scheduler.cold()) or any(t.pending and not t.trials for t in self.scheduler.tasks),
            emulated=self.journal.emulated,
        )

    def latencies(self) -> tuple[float, ...]:
        """Of each network: the sum over all its tasks, those that are not measured by an estimate."""
        return self._latencies([self.scheduler.seconds(n) for n in range(len(self.tasks))])

    def first_latencies(self) -> tuple[float, ...]:
        """The same with the default schedules."""
        return self._latencies([self.first[n] or self.scheduler.seconds(n) for n in range(len(self.tasks))])

    def _latencies(self, seconds: Sequence[float]) -> tuple[float, ...]:
        columns = range(len(self.networks))
        return tuple(sum(task.weights[column] * s for task, s in zip(self.tasks, seconds)) for column in columns)

    def summaries(self) -> list[TaskSummary]:
        """What became of each task."""
        found = []
        for n, task in enumerate(self.tasks):
            best = self.scheduler.tasks[n].best
            found.append(TaskSummary(task.name, sum(task.weights), self.trials[n], flops(task.workload), best, self.first[n]))
        return found

    def _conclude(self) -> None:
        count = sum(self.trials)
        if self.ctrl_c.came:
            self.reporter.say(f"stopped after {count} trials; everything measured is kept")
        elif self.hopeless():
            self.reporter.say(f"no improvement in the last {self.unimproved()} trials")
        elif self.satisfied:
            near = sum(self.scheduler.is_near(n) for n in range(len(self.tasks)))
            self.reporter.say("nothing is left to gain" + (f": {near} of {len(self.tasks)} tasks are {WITHIN}" if near else ""))
        if self.exhausted:
            names = ", ".join(self.tasks[n].name for n in sorted(self.exhausted))
            self.reporter.say(f"nothing is left to try for {len(self.exhausted)} of {len(self.tasks)} tasks: {names}")
        self.say_troubles()
        if count:
            how = "emulated times:\n" if self.journal.emulated else ""
            self.reporter.say(how + table(self.summaries()))
        self.say_failures()
        if self.options.verbose:
            self.reporter.say(self._progress(None).time_split)
