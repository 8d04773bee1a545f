"""A search for a machine that is not here: candidates are judged by the backend's estimate alone.

Nothing is measured and nothing is stored. The policy is asked as ever; it is told estimates, and everything that people are shown
calls them so. What comes out is compiled with the schedule "estimated".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tensorsmith.backends import backend_of, space_of
from tensorsmith.build import Found
from tensorsmith.errors import Refusal
from tensorsmith.lang.workload import Workload
from tensorsmith.learn.models.prior import PriorModel
from tensorsmith.rewrites.formulations import Formulation, Options
from tensorsmith.runtime.device import device_of
from tensorsmith.search.policy import proposals
from tensorsmith.search.trial import Status, Trial
from tensorsmith.show.units import time
from tensorsmith.space.sketch.sketch import Candidate
from tensorsmith.targets.target import Target
from tensorsmith.tuning.budget import Clock
from tensorsmith.tuning.options import RunOptions
from tensorsmith.tuning.progress.bar import Part
from tensorsmith.tuning.progress.reporter import Reporter
from tensorsmith.tuning.progress.workload import Paced
from tensorsmith.tuning.tasks.tuned import TunedTask

_BATCH = 16  # candidates proposed at a time


def is_estimated(target: Target) -> bool:
    """Whether programs for a target are judged by estimates: it is not here, and its kind of machine has them."""
    return backend_of(target).estimate is not None and device_of(target.kind).why_not(target) is not None


@dataclass(frozen=True)
class EstimatedProgress(Paced):
    """Where an estimated search stands. `estimated_seconds` is of the best program of the present task; no program was run."""

    task: str
    trials: int
    wanted: int | None
    estimated_seconds: float | None
    default_seconds: float | None  # estimated too
    elapsed: float
    seconds: float | None = None
    failures: Counter[str] = field(default_factory=Counter)
    times: dict[str, float] = field(default_factory=dict)

    def _parts(self) -> list[Part]:
        best = "" if self.estimated_seconds is None else f"best {time(self.estimated_seconds)} (estimated)"
        return self._frame(self.failures, [Part(best, 2)], self.task)

    def __str__(self) -> str:
        best = "nothing yet" if self.estimated_seconds is None else f"best {time(self.estimated_seconds)} (estimated, not measured)"
        return f"{self.task}: {self._count(self.failures)}, {best}"


class EstimatedRun:
    """The search for some tasks, one after the other."""

    def __init__(self, tasks: Sequence[TunedTask], options: RunOptions, clock: Clock, reporter: Reporter) -> None:
        self.tasks, self.options, self.clock, self.reporter = tasks, options, clock, reporter
        self.target = options.measured.target
        self.trials = 0
        self.failures: Counter[str] = Counter()
        self.best: dict[Workload, Found] = {}
        self.seconds: dict[Workload, float] = {}  # estimated

    def go(self) -> None:
        name = self.target.name
        self.reporter.say(f"{name} is not here: the search goes by estimated times, measures nothing and stores nothing")
        for n, task in enumerate(self.tasks):
            if self.clock.over:
                break
            self._tune(task, len(self.tasks) - n)
        if self.failures:
            causes = ", ".join(f"{count} {cause}" for cause, count in self.failures.most_common(3))
            self.reporter.say(f"{self.failures.total()} of {self.trials} programs could not be built: {causes}")

    def _tune(self, task: TunedTask, tasks_left: int) -> None:
        left = self.options.budget.left(self.trials)
        share = None if left is None else max(1, left // tasks_left)
        default = self._default(task.workload, task.formulations)
        parts = [_Part(f, self.options) for f in task.formulations]
        done = 0
        while parts and not self.clock.over and (share is None or done < share):
            for part in list(parts):
                room = _BATCH if share is None else min(_BATCH, share - done)
                if room <= 0:
                    break
                trials = part.step(room, self._estimate, lambda: self.clock.over)
                if not trials:
                    parts.remove(part)
                done += len(trials)
                self.trials += len(trials)
                self._keep(task.workload, part.formulation, trials)
                self.reporter.update(self._progress(task, default))
        if self.options.fallback and default is not None and default < self.seconds.get(task.workload, float("inf")):
            self.best.pop(task.workload, None)  # what needs no search is expected to be as good
            self.seconds[task.workload] = default
        found = self.seconds.get(task.workload)
        if found is not None:
            beside = "" if default is None else f", the default schedule {time(default)}"
            self.reporter.say(f"{task.name}: {time(found)} estimated for {self.target.name}{beside}; nothing was measured")

    def _keep(self, workload: Workload, formulation: Formulation, trials: Sequence[Trial]) -> None:
        for trial in trials:
            if trial.seconds is None:
                self.failures[trial.cause] += 1
            elif trial.seconds < self.seconds.get(workload, float("inf")):
                self.seconds[workload], self.best[workload] = trial.seconds, (trial.candidate, formulation)

    def _default(self, workload: Workload, formulations: Options) -> float | None:
        try:
            candidate = backend_of(self.target).default_candidate(formulations[0].workload, self.target)
            return self._estimate(candidate)
        except Refusal:
            return None

    def _estimate(self, candidate: Candidate) -> float:
        estimate = backend_of(self.target).estimate
        assert estimate is not None
        return estimate(candidate, self.target)

    def _progress(self, task: TunedTask, default: float | None) -> EstimatedProgress:
        budget, best = self.options.budget, self.seconds.get(task.workload)
        return EstimatedProgress(
            task.name, self.trials, budget.trials, best, default, self.clock.elapsed, budget.seconds, self.failures
        )


class _Part:
    """The search in one formulation."""

    def __init__(self, formulation: Formulation, options: RunOptions) -> None:
        self.formulation, self.name = formulation, options.plugins.policy.name
        plugins, target = options.plugins, options.measured.target
        space = space_of(formulation.workload, target, plugins.rules)
        self.policy = plugins.policy.make(space, seed=options.seed, hints=(), model=PriorModel())

    def step(self, count: int, estimate: Callable[[Candidate], float], stop: Callable[[], bool]) -> list[Trial]:
        """Some candidates more, told to the policy; none: there are no others."""
        trials: list[Trial] = []
        for candidate in proposals(self.name, "ask", self.policy.ask(count, stop)):
            if stop() and trials:
                break
            try:
                trials.append(Trial(candidate, Status.OK, estimate(candidate)))
            except Refusal as problem:
                trials.append(Trial(candidate, Status.REFUSED, cause=str(problem.args[0] if problem.args else problem)))
        self.policy.tell(trials)
        return trials
