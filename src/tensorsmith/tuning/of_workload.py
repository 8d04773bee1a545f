"""The run of one workload, in all its formulations: what is said about it."""

from __future__ import annotations

from tensorsmith.build import Found
from tensorsmith.lang.workload import Workload
from tensorsmith.rewrites.formulations import Options
from tensorsmith.search.objectives import total
from tensorsmith.search.scheduler import Schedule, TaskFacts
from tensorsmith.tuning.budget import Clock
from tensorsmith.tuning.history.journal import Journal
from tensorsmith.tuning.options import RunOptions
from tensorsmith.tuning.progress.reporter import Reporter, quick_peak
from tensorsmith.tuning.progress.workload import Progress
from tensorsmith.tuning.roofline import Roofline
from tensorsmith.tuning.run import WITHIN, Run
from tensorsmith.tuning.tasks.tuned import TunedTask

_NOISE = 0.03  # of a time: by less than that no bound is beaten
_FIRST = 8  # candidates at first, which are found at once: the workers build them while the next ones are searched for
_BATCH = 16  # candidates proposed at a time: the model learns between batches


class WorkloadRun(Run):
    """The run of a network of one task that is called once; what it takes is the objective."""

    def __init__(
        self, workload: Workload, formulations: Options, options: RunOptions, journal: Journal, clock: Clock, reporter: Reporter
    ) -> None:
        self.workload = workload
        self.default_won = False  # in the final
        self.winner: Found | None = None  # of the final, as it is in memory
        task = TunedTask(", ".join(workload.outputs), workload, (1,), formulations)
        super().__init__([task], options, journal, clock, reporter, total, Schedule(round=_BATCH, warm_up=_FIRST))

    def _facts(self, task: TunedTask) -> TaskFacts:
        return TaskFacts(task.weights, estimate=1.0)  # there is no other task to compare it with

    def _prepare(self) -> None:
        self.peak = quick_peak(self.measured.target.cores)
        if self.options.early_stop:
            self.scheduler.tasks[0].bound = Roofline.measured(self.measured.target, self.measured.cache).bound(self.workload)

    def _cannot_tune(self, task: int, problem: Exception) -> None:
        raise problem

    def _look_at(self, task: int) -> None:
        """A program that beats the bound shows that it is none: the peak was measured while something else ran."""
        standing = self.scheduler.tasks[task]
        if standing.best is not None and standing.best < (1 - _NOISE) * standing.bound:
            standing.bound = 0.0

    def _settle(self) -> None:
        tuning = self.opened.get(0)
        tuning.settle(self.stopped, lambda: self.clock.rest)
        if tuning.outcome is not None:
            of, candidate = tuning.outcome.winner
            self.winner, self.default_won = (candidate, of.formulation), tuning.outcome.default_won
        self.scheduler.tell(0, 0, tuning.best_seconds)

    def _progress(self, task: int) -> Progress:
        return Progress(
            self.workload,
            sum(self.trials),
            self.budget.trials,
            self.scheduler.tasks[0].best,
            self.clock.elapsed,
            self.opened.failures.by_status(),
            self.opened.times,
            self.budget.seconds,
            self.peak,
            self.default_won,
        )

    def _conclude(self) -> None:
        progress = self._progress(0)
        if self.ctrl_c.came:
            self.reporter.say(f"stopped: {progress}; everything measured is kept")
        elif self.hopeless():
            self.reporter.say(f"no improvement in the last {self.unimproved()} trials")
        elif self.scheduler.is_near(0):
            self.reporter.say(f"the best is {WITHIN}, so the search ends here")
        elif self.exhausted:
            of = f", of {self.sizes[0]:,} programs" if 0 in self.sizes else ""
            self.reporter.say(f"nothing is left to try: the policy has no other candidates{of}")
        if progress.default_is_best:
            self.reporter.update(progress)
            self.reporter.say("the default schedule is the best found")
        self.say_troubles()
        self.say_failures()
        if self.options.verbose:
            self.reporter.say(progress.time_split)
