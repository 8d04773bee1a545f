"""One tuning run of networks: the scheduler says which task is next, the tasks share the workers, and time and trials are limited.

While the workers build the last candidates of one task, those of the next are searched for. Whatever the journal knows of a task
is where the task goes on, in the scheduler too: an interrupted run continues where it was. Tasks that were tuned are a start for
similar ones that come later.
"""

from __future__ import annotations

from collections.abc import Sequence

from tensorsmith.errors import UserError
from tensorsmith.lang.flops import flops
from tensorsmith.measure.workshop import Workshop
from tensorsmith.records.faults import StoreError
from tensorsmith.records.keys import Timing, structure_key
from tensorsmith.search.objectives import Objective
from tensorsmith.search.scheduler import Schedule, Scheduler, TaskFacts
from tensorsmith.search.trial import Cache
from tensorsmith.targets.target import Target
from tensorsmith.tuning.budget import Budget, Clock
from tensorsmith.tuning.formulated import FormulatedTuning
from tensorsmith.tuning.interrupt import CtrlC
from tensorsmith.tuning.journal import Journal
from tensorsmith.tuning.live import LiveTunings
from tensorsmith.tuning.network_progress import NetworkProgress, TaskSummary, table
from tensorsmith.tuning.network_task import NetworkTask
from tensorsmith.tuning.past import default_seconds, past, seconds
from tensorsmith.tuning.reporting import Reporter
from tensorsmith.tuning.roofline import Roofline

_AHEAD = 8  # candidates at most that the workers build while the next ones are searched for
_FINISH = 0.25  # share of the run kept for the neighbours of the best
_IMPROVEMENT = 0.01  # of the objective's value, or more, counts as one


class NetworkRun:
    """One tuning run of one or several networks."""

    def __init__(
        self,
        networks: Sequence[str],
        tasks: Sequence[NetworkTask],
        target: Target,
        journal: Journal,
        budget: Budget,
        clock: Clock,
        reporter: Reporter,
        *,
        objective: Objective,
        schedule: Schedule,
        cache: Cache = "warm",
        seed: int = 0,
    ) -> None:
        self.networks, self.tasks = tuple(networks), tuple(tasks)
        self.target, self.journal, self.timing = target, journal, Timing(cache, target.cores)
        self.budget, self.clock, self.reporter = budget, clock, reporter
        self.ctrl_c = CtrlC()
        self.roof = Roofline.measured(target, cache)  # while all is silent
        self.scheduler = Scheduler([self._facts(t) for t in tasks], objective, schedule, seed=seed)
        self.first: list[float | None] = [None] * len(tasks)  # seconds of the default schedules
        self.trials = [0] * len(tasks)  # of this run
        self._cache: Cache = cache
        self._seed = seed
        self._current: int | None = None  # the task whose candidates the workers have
        self._yardstick: float | None = None  # the objective at the last improvement that counts
        self._since = 0  # trials of the run up to then
        self._satisfied = False  # the scheduler sees nothing left to gain
        self._stored = True  # until the record file refuses trials

    def go(self, verbose: bool = False) -> None:
        """Search, then settle among the best of each task, then say what there is to say."""
        self._remember()
        with self.ctrl_c, Workshop(self.target.cores, warn=self.reporter.warn) as workshop:
            workshop.start()  # the workers load while the rest is made
            self._workshop = workshop
            self.live = LiveTunings(self._make, self.scheduler.gradients)
            try:
                self._search()
                self._settle()
            finally:
                self.live.close()
        self._conclude(verbose)

    # -- the loop --------------------------------------------------------------------------------------------------------

    def _search(self) -> None:
        while (chosen := self._next()) is not None:
            task, count = chosen
            proposed = self._propose(task, count)
            if self._current not in (None, task):
                self._collect_rest()
            if proposed:
                self._current = task
                self.live.get(task).collect(down_to=min(_AHEAD, proposed // 2), stop=self._searched)
        self._collect_rest()

    def _next(self) -> tuple[int, int] | None:
        """The task to go on with and how many candidates to propose; None: the search is over."""
        pending = sum(t.pending for t in self.scheduler.tasks)
        left = self.budget.left(sum(self.trials) + pending)
        in_time = self.clock.left is None or self._current is None or self.clock.left > self.live.get(self._current).search_seconds
        if self._searched() or left == 0 or not in_time or self._hopeless():
            return None
        chosen = self.scheduler.next()
        if chosen is None:
            self._satisfied = True
            return None
        task, count = chosen
        return task, count if left is None else min(count, left)

    def _propose(self, task: int, count: int) -> int:
        """How many candidates of a task the workers got. A task that cannot be tuned is left as it is, and the run goes on."""
        try:
            tuning = self.live.get(task)
            proposing = self.clock.proposing(first=not tuning.trials + tuning.pending)
            proposed = tuning.propose(count, finishing=self._finishing(), stop=lambda: self.ctrl_c.came or proposing())
        except Exception as problem:  # whatever it is, it must not end the whole
            if isinstance(problem, UserError) and not isinstance(problem, StoreError):
                raise  # no task could be tuned: there are no workers
            self.reporter.warn(f"task {self.tasks[task].name} cannot be tuned, and stays as it is: {problem!r}")
            proposed = 0
        self.scheduler.begin(task, proposed)
        if not proposed:
            self.scheduler.exhaust(task)
        return proposed

    def _collect_rest(self) -> None:
        if self._current is not None:
            self.live.get(self._current).collect(stop=self._searched)
            self.scheduler.drop_pending(self._current)  # those that a stop has cancelled
            self._current = None

    def _settle(self) -> None:
        """Of the tasks that were measured now: those first that take most of the time."""
        measured = [n for n in self.live if self.trials[n]]
        for n in sorted(measured, key=lambda n: -sum(self.tasks[n].weights) * self.scheduler.seconds(n)):
            if self._stopped():
                break
            self.live.get(n).settle(self._stopped, lambda: self.clock.rest, as_step=True)

    def _finishing(self) -> bool:
        """Whether the run is in its last part, by trials or by time."""
        by_trials = sum(self.trials) / self.budget.trials if self.budget.trials else 0.0
        by_time = self.clock.elapsed / self.budget.seconds if self.budget.seconds else 0.0
        return max(by_trials, by_time) >= 1 - _FINISH

    def _hopeless(self) -> bool:
        return self.budget.patience is not None and self._unimproved() >= self.budget.patience

    def _unimproved(self) -> int:
        return sum(self.trials) - self._since

    def _searched(self) -> bool:
        return self.ctrl_c.came or self.clock.searched

    def _stopped(self) -> bool:
        return self.ctrl_c.came or self.clock.over

    # -- tasks ---------------------------------------------------------------------------------------------------------------

    def _facts(self, task: NetworkTask) -> TaskFacts:
        return TaskFacts(task.weights, self.roof.estimate(task.workload), flops(task.workload), structure_key(task.workload))

    def _make(self, task: int) -> FormulatedTuning:
        told = 0  # trials of it that are counted

        def kept() -> None:
            nonlocal told
            self._kept(task, tuning.trials - told, tuning.best_seconds)
            told = tuning.trials

        tuning = FormulatedTuning(
            self.tasks[task].workload,
            self.target,
            self.journal,
            self._workshop,
            cache=self._cache,
            seed=self._seed,
            options=self.tasks[task].formulations,
            on_trials=kept,
        )
        return tuning

    def _remember(self) -> None:
        """What the journal has of the tasks is told to the scheduler, trial by trial, as if it had been measured now."""
        for n, task in enumerate(self.tasks):
            records = past(self.journal, task.workload, self.target, self.timing, task.formulations)
            self.first[n] = default_seconds(records, task.workload, self.target, task.formulations)
            best: float | None = None
            for record in records:
                now = seconds(record)
                best = now if best is None or (now is not None and now < best) else best
                self.scheduler.tell(n, 1, best)
            self._look_at_the_roof(n)
            self.scheduler.tasks[n].unimproved = 0

    def _kept(self, task: int, trials: int, best: float | None) -> None:
        """Some trials of a task are done."""
        self.trials[task] += trials
        self.scheduler.tell(task, trials, best)
        self._look_at_the_roof(task)
        if self.first[task] is None and best is not None:
            one = self.tasks[task]
            records = past(self.journal, one.workload, self.target, self.timing, one.formulations)
            self.first[task] = default_seconds(records, one.workload, self.target, one.formulations)
        self._compare(corrected=not trials)
        self.reporter.update(self._progress(self.tasks[task].name))
        if self.journal.problem is not None and self._stored:
            self.reporter.warn(f"trials are kept in memory for now: {self.journal.problem}")
        self._stored = self.journal.problem is None

    def _look_at_the_roof(self, task: int) -> None:
        best = self.scheduler.tasks[task].best
        self.scheduler.tasks[task].bound = self.roof.bound(self.tasks[task].workload)
        if best is not None and self.roof.raise_to(self.tasks[task].workload, best):
            for t, standing in zip(self.tasks, self.scheduler.tasks):
                standing.bound = self.roof.bound(t.workload)

    def _compare(self, corrected: bool) -> None:
        """Patience counts from the last improvement, and not before the warm-up is over.

        Where records were `corrected`, what comes is compared with what they are now: that is neither gained nor lost.
        """
        value = self.scheduler.value()
        if corrected:
            self._yardstick = value
        improved = self._yardstick is None or value < self._yardstick - _IMPROVEMENT * abs(self._yardstick)
        if improved or self.scheduler.cold():
            self._yardstick, self._since = value, sum(self.trials)

    # -- what is said --------------------------------------------------------------------------------------------------------

    def _progress(self, task: str) -> NetworkProgress:
        known = [n for n, t in enumerate(self.scheduler.tasks) if t.best is not None]
        return NetworkProgress(
            networks=self.networks,
            latencies=self._latencies({n: self.scheduler.seconds(n) for n in known}),
            first=self._latencies({n: self.first[n] or self.scheduler.seconds(n) for n in known}),
            measured=len(known),
            tasks=len(self.tasks),
            task=task,
            trials=sum(self.trials),
            wanted=self.budget.trials,
            elapsed=self.clock.elapsed,
            seconds=self.budget.seconds,
            failures=self.live.failures.by_status(),
            times=self.live.times,
        )

    def _latencies(self, times: dict[int, float]) -> tuple[float, ...]:
        columns = range(len(self.networks))
        return tuple(sum(self.tasks[n].weights[column] * s for n, s in times.items()) for column in columns)

    def summaries(self) -> list[TaskSummary]:
        """What became of each task."""
        found = []
        for n, task in enumerate(self.tasks):
            best = self.scheduler.tasks[n].best
            found.append(TaskSummary(task.name, sum(task.weights), self.trials[n], flops(task.workload), best, self.first[n]))
        return found

    def _conclude(self, verbose: bool) -> None:
        count, failures = sum(self.trials), self.live.failures
        if self.ctrl_c.came:
            self.reporter.say(f"stopped after {count} trials; everything measured is kept")
        elif self._hopeless():
            self.reporter.say(f"no improvement in the last {self._unimproved()} trials")
        elif self._satisfied:
            self.reporter.say("nothing is left to gain")
        for trouble in (self.journal.left_out, self.journal.finish()):
            if trouble is not None:
                self.reporter.warn(trouble)
        if count:
            self.reporter.say(table(self.summaries()))
        if failures.counts:
            self.reporter.say(f"{failures.counts.total()} of {count} trials failed, for example:\n{failures}")
        if verbose:
            self.reporter.say(self._progress("").time_split)
