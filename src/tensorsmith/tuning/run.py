"""One tuning run of one workload: a loop over its task within a budget, and what is said at the end."""

from __future__ import annotations

from tensorsmith.build import Found
from tensorsmith.lang.workload import Workload
from tensorsmith.measure.workshop import Workshop
from tensorsmith.search.trial import Cache
from tensorsmith.targets.target import Target
from tensorsmith.tuning.budget import Budget, Clock
from tensorsmith.tuning.formulated import FormulatedTuning
from tensorsmith.tuning.interrupt import CtrlC
from tensorsmith.tuning.journal import Journal
from tensorsmith.tuning.progress import Progress
from tensorsmith.tuning.reporting import Reporter, quick_peak

_BATCH = 16  # candidates proposed at a time: the model learns between batches
_AHEAD = 8  # candidates that the workers build while the next batch is searched for
_FINISH = 0.25  # share of the trials kept for the neighbours of the best


class Run:
    """One tuning run of one workload."""

    def __init__(
        self, workload: Workload, target: Target, journal: Journal, budget: Budget, clock: Clock, reporter: Reporter
    ) -> None:
        self.workload, self.target, self.journal = workload, target, journal
        self.budget, self.clock, self.reporter = budget, clock, reporter
        self.ctrl_c = CtrlC()
        self.stored = True  # until the record file refuses trials

    def go(self, cache: Cache, seed: int, verbose: bool) -> None:
        """Search, then settle among the best, then say what there is to say."""
        with self.ctrl_c, Workshop(self.target.cores, warn=self.reporter.warn) as workshop:
            self.peak = quick_peak(self.target.cores)  # while all is silent
            workshop.start()  # the workers load while the rest is made
            with FormulatedTuning(
                self.workload, self.target, self.journal, workshop, cache=cache, seed=seed, on_trials=self._report
            ) as self.task:
                self._search()
                if not self._stopped():
                    self.task.settle(self._stopped, lambda: self.clock.rest)
            self._conclude(verbose)

    @property
    def winner(self) -> Found | None:
        """Who won the final, as it is in memory; None if there was none."""
        outcome = self.task.outcome
        return None if outcome is None else (outcome.winner[1], outcome.winner[0].formulation)

    def _search(self) -> None:
        """The workers build the last candidates of a batch while the next batch is searched for."""
        task = self.task
        while count := self._next_batch():
            proposing = self.clock.proposing(first=not task.trials + task.pending)
            if not task.propose(count, finishing=self._finishing(), stop=lambda: self.ctrl_c.came or proposing()):  # noqa: B023
                break
            task.collect(down_to=_AHEAD, stop=self._searched)
        task.collect(stop=self._searched)

    def _next_batch(self) -> int:
        """Candidates to propose now."""
        task = self.task
        left = self.budget.left(task.trials + task.pending)
        in_time = self.clock.left is None or self.clock.left > task.search_seconds
        hopeful = self.budget.patience is None or task.unimproved < self.budget.patience
        return min(_BATCH, _BATCH if left is None else left) if in_time and hopeful and not self._searched() else 0

    def _finishing(self) -> bool:
        """Whether the run is in its last part, by trials or by time."""
        done = self.task.trials + self.task.pending
        by_trials = done / self.budget.trials if self.budget.trials else 0.0
        by_time = self.clock.elapsed / self.budget.seconds if self.budget.seconds else 0.0
        return max(by_trials, by_time) >= 1 - _FINISH

    def _searched(self) -> bool:
        return self.ctrl_c.came or self.clock.searched

    def _stopped(self) -> bool:
        return self.ctrl_c.came or self.clock.over

    def _progress(self) -> Progress:
        return Progress(
            self.workload,
            self.task.trials,
            self.budget.trials,
            self.task.best_seconds,
            self.clock.elapsed,
            self.task.failures.by_status(),
            self.task.times,
            self.budget.seconds,
            self.peak,
            self.task.outcome is not None and self.task.outcome.default_won,
        )

    def _report(self) -> None:
        self.reporter.update(self._progress())
        if self.journal.problem is not None and self.stored:
            self.reporter.warn(f"trials are kept in memory for now: {self.journal.problem}")
        self.stored = self.journal.problem is None

    def _conclude(self, verbose: bool) -> None:
        task, progress = self.task, self._progress()
        if self.ctrl_c.came:
            self.reporter.say(f"stopped: {progress}; everything measured is kept")
        elif self.budget.patience is not None and task.unimproved >= self.budget.patience:
            self.reporter.say(f"no improvement in the last {task.unimproved} trials")
        if progress.default_is_best:
            self.reporter.update(progress)
            self.reporter.say("the default schedule is the best found")
        for trouble in (self.journal.left_out, self.journal.finish()):
            if trouble is not None:
                self.reporter.warn(trouble)
        if task.failures.counts:
            self.reporter.say(f"{progress.failures.total()} of {progress.trials} trials failed, for example:\n{task.failures}")
        if verbose:
            self.reporter.say(progress.time_split)
