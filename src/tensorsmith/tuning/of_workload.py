"""The run of one workload, in all its formulations: what is said about it."""

from __future__ import annotations

from tensorsmith.build import Found
from tensorsmith.lang.flops import flops
from tensorsmith.lang.workload import Workload
from tensorsmith.rewrites.formulations import DIRECT, Options
from tensorsmith.search.objectives import total
from tensorsmith.search.scheduler import Schedule, TaskFacts
from tensorsmith.tuning.answer import whose_program
from tensorsmith.tuning.budget import Clock
from tensorsmith.tuning.history.journal import Journal
from tensorsmith.tuning.options import RunOptions
from tensorsmith.tuning.progress.reporter import Reporter, new_peak, quick_peak
from tensorsmith.tuning.progress.workload import Progress
from tensorsmith.tuning.roofline import Roofline
from tensorsmith.tuning.run import WITHIN, Run
from tensorsmith.tuning.tasks.task import TaskTuning
from tensorsmith.tuning.tasks.tuned import TunedTask

_MOST_PEAKS = 3  # measurements of a peak that what ran contradicts
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
        self.peak: float | None = None
        self._formulation = DIRECT  # of the best
        self._measured_again = 0  # times that the peak was
        self.whose = ""  # program the answer is
        self.winner: Found | None = None  # of the final, as it is in memory
        task = TunedTask(", ".join(workload.outputs), workload, (1,), formulations)
        super().__init__([task], options, journal, clock, reporter, total, Schedule(round=_BATCH, warm_up=_FIRST))

    def _facts(self, task: TunedTask) -> TaskFacts:
        return TaskFacts(task.weights, estimate=1.0)  # there is no other task to compare it with

    def _prepare(self) -> None:
        here = self.measured.place.here
        self.peak = quick_peak(self.measured.target.cores) if here else None
        if self.options.early_stop and here:
            self.scheduler.tasks[0].bound = Roofline.measured(self.measured.target, self.measured.cache).bound(self.workload)

    def _cannot_tune(self, task: int, problem: Exception) -> None:
        raise problem

    def _look_at(self, task: int) -> None:
        """A program that beats the bound shows that it is none: the peak was measured while something else ran, and is again."""
        self._doubt_the_peak()
        if task in self.opened:
            self.clock.reserve(self.opened.get(task).seconds_of_final())
        standing = self.scheduler.tasks[task]
        if standing.best is not None and standing.best < (1 - _NOISE) * standing.bound:
            standing.bound = 0.0

    def _best_formulation(self) -> str:
        """As far as it is known: a tuning that is closed, or being made, is not asked."""
        if 0 in self.opened:
            self._formulation = self.opened.get(0).best_formulation
        return self._formulation

    def _doubt_the_peak(self) -> None:
        """What computes every operation cannot be faster than the peak: that was measured beside something else, if it seems so."""
        best, work = self.scheduler.tasks[0].best, flops(self.workload)
        if self.peak is None or best is None or self._measured_again >= _MOST_PEAKS or work <= best * self.peak:
            return
        if self._best_formulation() == DIRECT:
            self._measured_again += 1
            self.peak = max(self.peak, new_peak(self.measured.target.cores))

    def _settle(self) -> None:
        tuning = self.opened.get(0)
        tuning.settle(self.stopped, lambda: self.clock.rest)
        if tuning.outcome is not None:
            of, candidate = tuning.outcome.winner
            self.winner, self.default_won = (candidate, of.formulation), tuning.outcome.default_won
        self.whose = self._whose(tuning)
        self.scheduler.tell(0, 0, tuning.best_seconds)

    def _whose(self, tuning: TaskTuning) -> str:
        """Whose program the answer is; "" if there is none to tell."""
        if self.winner is None and tuning.best_seconds is None:
            return ""
        proposed = tuning.proposed(self.winner[0]) if self.winner is not None else tuning.best_is_proposed()
        own, default = tuning.own_seconds(), tuning.default_seconds()
        return whose_program(self.options.plugins.policy.name, proposed, self.default_won, own, default)

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
            self.journal.emulated,
            self._best_formulation(),
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
        if self.nothing_measured:
            self.reporter.say("nothing was measured before the run ended, so the answer is the default schedule")
        elif self.whose:
            self.reporter.say(self.whose)
        self.say_troubles()
        self.say_failures()
        if self.options.verbose:
            self.reporter.say(progress.time_split)
