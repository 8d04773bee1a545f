"""One workload, tuned step by step: ask the policy, measure, keep, tell.

    task.propose(16)          candidates for the workers, which begin to build them
    task.collect()            waits until they are measured; keeps the trials and tells the policy
    task.step(16)             both

Several tasks may share a workshop and take turns. To keep the workers busy during a search, propose again before all is collected:
`collect(down_to=8)` comes back when 8 candidates are left, and the workers build those while the next ones are searched for.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Literal

from tensorsmith.lang.workload import Workload
from tensorsmith.measure.crew import never
from tensorsmith.measure.measurer import Measurer
from tensorsmith.measure.workshop import Workshop
from tensorsmith.records.keys import Timing
from tensorsmith.search.ansor import SETTINGS, AnsorPolicy, Settings
from tensorsmith.search.trial import Trial
from tensorsmith.space.population import Space
from tensorsmith.space.sketch import Candidate
from tensorsmith.target import Target
from tensorsmith.tuning.failures import Failures
from tensorsmith.tuning.journal import Journal

_FINALISTS = 4  # candidates timed against each other at the end
_CLOSE = 1.1  # times the best: what is slower has no chance in the final
IMPROVEMENT = 0.99  # of the seconds, or less, counts as one


class TaskTuning:
    """The tuning of one workload on one target; what the journal holds of it is built upon."""

    def __init__(
        self,
        workload: Workload,
        target: Target,
        journal: Journal,
        workshop: Workshop,
        *,
        cache: Literal["warm", "cold"] = "warm",
        seed: int = 0,
        settings: Settings = SETTINGS,
        on_trials: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_trials` is called whenever some trials were kept."""
        self.workload, self.target = workload, target
        self.timing = Timing(cache, target.cores)
        self.trials = 0  # of this run
        self.unimproved = 0  # trials since the last improvement that counts
        self.failures = Failures()
        self.search_seconds = 0.0  # the last search took
        self._journal, self._on_trials = journal, on_trials
        self._spent: Counter[str] = Counter()
        self._best: float | None = None
        self._yardstick: float | None = None  # the best at the last improvement
        with self._clock("measure"):
            self.measurer = Measurer(workload, target, threads=self.timing.threads, cache=cache, workshop=workshop)
            self.measurer.prepare()  # the workers set up while the policy is made
        history = [r.trial for r in journal.history(workload, target, self.timing)]
        similar = [r.candidate for r in journal.similar(workload, target, self.timing)]
        with self._clock("search"):
            self.policy = AnsorPolicy(Space(workload, target), seed=seed + len(history), settings=settings, hints=similar)
        with self._clock("model"):
            self.policy.tell(history)
        for trial in history:
            self._compare(trial)
        self.unimproved = 0

    # -- tuning ------------------------------------------------------------------------------------------------------

    def step(self, count: int, stop: Callable[[], bool] = never) -> int:
        """Propose candidates and measure all of them, or until `stop()`; trials done. 0: there is nothing left to try."""
        before = self.trials
        self.propose(count)
        self.collect(stop=stop)
        return self.trials - before

    def propose(self, count: int, finishing: bool = False) -> int:
        """Let the workers begin with new candidates; how many those are, 0 if the space is exhausted.

        `finishing`: neighbours of the best, while there are any.
        """
        with self._clock("search"):
            candidates: list[Candidate] = []
            if finishing and self._best is not None:
                candidates = self.policy.finish(count)
            if not candidates:
                candidates = self.policy.ask(count)
        with self._clock("measure"):
            self.measurer.submit(candidates, self._best)
        return len(candidates)

    def collect(self, down_to: int = 0, stop: Callable[[], bool] = never) -> None:
        """Wait until at most `down_to` candidates are left to measure; keep what is measured. At `stop()` the rest is dropped."""
        batch: list[Trial] = []
        results = self.measurer.results(stop)
        while True:
            with self._clock("measure"):
                trial = next(results, None)
            if trial is not None:
                batch.append(trial)
            if batch and (trial is None or not self.measurer.done):
                self._keep(batch)
                batch = []
            if trial is None or (self.pending <= down_to and not self.measurer.done):
                break
        if stop():
            self.measurer.cancel()

    def settle(self, stop: Callable[[], bool] = never) -> None:
        """The best few once more, in turns, so that a lucky timing does not win."""
        top = self._journal.top(self.workload, self.target, self.timing, _FINALISTS)
        close = [r.candidate for r in top if (r.seconds or 0.0) <= _CLOSE * (top[0].seconds or 0.0)]
        if len(close) > 1:
            with self._clock("measure"):
                again = self.measurer.remeasure(close, stop=stop)
            self._journal.add(self.workload, self.target, self.timing, [t for t in again if t.ok], run="finalists")

    def close(self) -> None:
        """Drop what is not measured; the workshop stays."""
        self.measurer.close()

    def __enter__(self) -> TaskTuning:
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # -- facts -------------------------------------------------------------------------------------------------------

    @property
    def pending(self) -> int:
        """Candidates that are proposed and not measured yet."""
        return self.measurer.pending

    @property
    def best_seconds(self) -> float | None:
        """The least time measured, in earlier runs too."""
        return self._best

    def best(self) -> Candidate | None:
        """The candidate to use: the fastest by its last timing, among those that never failed."""
        return next((r.candidate for r in self._journal.top(self.workload, self.target, self.timing, 1)), None)

    @property
    def times(self) -> dict[str, float]:
        """Seconds by activity: "search" and "model" in this process, "build" summed over the workers, "run" all alone.

        "wait" is how long this process waited for builds, those that the search did not hide.
        """
        measured = self.measurer.times
        return {
            "search": self._spent["search"],
            "model": self._spent["model"],
            "build": measured.build + measured.check,
            "run": measured.run,
            "wait": max(0.0, self._spent["measure"] - measured.run),
        }

    # -- small things ------------------------------------------------------------------------------------------------

    def _keep(self, trials: list[Trial]) -> None:
        self._journal.add(self.workload, self.target, self.timing, trials)
        self.trials += len(trials)
        for trial in trials:
            self.failures.add(trial)
            self._compare(trial)
        self._on_trials()
        with self._clock("model"):
            self.policy.tell(trials)

    def _compare(self, trial: Trial) -> None:
        self.unimproved += 1
        if trial.seconds is None or trial.at_least:
            return
        if self._best is None or trial.seconds < self._best:
            self._best = trial.seconds
        if self._yardstick is None or trial.seconds < IMPROVEMENT * self._yardstick:
            self._yardstick, self.unimproved = trial.seconds, 0

    @contextmanager
    def _clock(self, activity: str) -> Iterator[None]:
        begun = time.monotonic()
        try:
            yield
        finally:
            took = time.monotonic() - begun
            self._spent[activity] += took  # type: ignore[assignment]
            if activity == "search":
                self.search_seconds = took
