"""One workload in all its formulations, tuned together: a few trials for each, then most for whichever leads.

It is handled like the tuning of a single workload (`TaskTuning`). A formulation stays in the race as long as its best is not far
behind the leader's; among those the trials go to the one that has had few for how good it is. Which one wins is settled by a final
in which the best of all formulations take turns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from types import TracebackType

from tensorsmith.lang.workload import Workload
from tensorsmith.measure.crew import never
from tensorsmith.measure.workshop import Workshop
from tensorsmith.rewrites.formulations import Formulation, Options, formulations, likely
from tensorsmith.search.ansor import SETTINGS, Settings
from tensorsmith.search.trial import Cache
from tensorsmith.targets.target import Target
from tensorsmith.tuning import finals
from tensorsmith.tuning.failures import Failures
from tensorsmith.tuning.journal import Journal
from tensorsmith.tuning.task import IMPROVEMENT, TaskTuning

_FIRST = 8  # trials that every formulation gets
_BEHIND = 1.2  # times the leader's best: what is slower after its first trials is out
_SHARPNESS = 6  # power of the distance to the leader by which trials get dearer


class FormulatedTuning:
    """The tuning of one workload on one target, whatever formulation of it wins."""

    def __init__(
        self,
        workload: Workload,
        target: Target,
        journal: Journal,
        workshop: Workshop,
        *,
        cache: Cache = "warm",
        seed: int = 0,
        settings: Settings = SETTINGS,
        options: Options | None = None,
        on_trials: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_trials` is called whenever some trials were kept. With `options` these formulations are all there are."""
        self.workload, self.target = workload, target
        self.unimproved = 0  # trials since the last improvement that counts
        self.outcome: finals.Outcome | None = None  # of the final
        self._on_trials = on_trials
        self._seen = 0  # trials at the last look
        self._yardstick: float | None = None  # the best at the last improvement

        def make(formulation: Formulation) -> TaskTuning:
            return TaskTuning(
                formulation.workload,
                target,
                journal,
                workshop,
                cache=cache,
                seed=seed,
                settings=settings,
                on_trials=self._kept,
                formulation=formulation,
            )

        self._make = make
        first = likely(workload, options)
        self._waiting = [first, *(f for f in options or formulations(workload) if f is not first)]
        self._several = len(self._waiting) > 1
        self._parts: list[TaskTuning] = []
        self._current = self._begin()
        known = [f for f in self._waiting if journal.top(f.workload, target, self._current.timing, 1)]
        self._waiting = [*known, *(f for f in self._waiting if f not in known)]
        for _ in known:
            self._begin()  # else the best would not be known
        self._yardstick = self.best_seconds

    # -- tuning ------------------------------------------------------------------------------------------------------

    def step(self, count: int, stop: Callable[[], bool] = never) -> int:
        """Propose candidates and measure all of them, or until `stop()`; trials done. 0: there is nothing left to try."""
        before = self.trials
        self.propose(count)
        self.collect(stop=stop)
        return self.trials - before

    def propose(self, count: int, finishing: bool = False, stop: Callable[[], bool] = never) -> int:
        """Let the workers begin with new candidates of one formulation; how many those are, 0 if the space is exhausted.

        Waits for nothing: what is left of another formulation is for `collect`. At `stop()` the search ends with what it has.
        """
        self._current = self._choose()
        if self._several and (self._waiting or self._new(self._current)):  # only a first look for now
            count = min(count, _FIRST)
        return self._current.propose(count, finishing, stop)

    def collect(self, down_to: int = 0, stop: Callable[[], bool] = never) -> None:
        """Wait until at most `down_to` candidates are left to measure; keep what is measured. At `stop()` the rest is dropped."""
        for part in self._parts:
            part.check(stop)
        for part in self._parts:
            if part.pending and part is not self._current:
                part.collect(0, stop)
        self._current.collect(down_to, stop)

    def settle(
        self, stop: Callable[[], bool] = never, seconds_left: Callable[[], float | None] = lambda: None, as_step: bool = False
    ) -> None:
        """The best few of all formulations that could still win once more, in turns, so that a lucky timing does not win.

        With them the default schedule, which is one of the first formulation: what was tuned must not be slower than that.
        `as_step` of a network: then it is always called back to back.
        """
        first = self._parts[0]
        default = first.default()
        if default is not None:
            conditions = first.conditions(as_step)
            self.outcome = finals.hold(self._alive(), (first, default), conditions, stop, seconds_left)

    def close(self) -> None:
        """Drop what is not measured; the workshop stays."""
        for part in self._parts:
            part.close()

    def __enter__(self) -> FormulatedTuning:
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # -- facts -------------------------------------------------------------------------------------------------------

    @property
    def trials(self) -> int:
        """Trials of this run."""
        return sum(part.trials for part in self._parts)

    @property
    def pending(self) -> int:
        """Candidates that are proposed and not measured yet."""
        return sum(part.pending for part in self._parts)

    @property
    def best_seconds(self) -> float | None:
        """The best's last full timing, of earlier runs too."""
        found = [part.best_seconds for part in self._parts if part.best_seconds is not None]
        return min(found, default=None)

    @property
    def search_seconds(self) -> float:
        """How long the last search took."""
        return self._current.search_seconds

    @property
    def failures(self) -> Failures:
        """What failed, in all formulations."""
        total = Failures()
        for part in self._parts:
            total.include(part.failures)
        return total

    @property
    def times(self) -> dict[str, float]:
        """Seconds by activity, as in `TaskTuning.times`."""
        total: Counter[str] = Counter()
        for part in self._parts:
            total.update(part.times)
        return dict(total)

    # -- which formulation -------------------------------------------------------------------------------------------

    def _choose(self) -> TaskTuning:
        """The part to go on with: one that is new, or the one that has had few trials for how near the lead it is."""
        if self._new(self._current):
            return self._current
        if self._waiting:
            return self._begin()
        best = self.best_seconds
        if best is None:
            return self._current
        return min(
            self._alive(), key=lambda part: (part.trials + part.pending) * ((part.best_seconds or best) / best) ** _SHARPNESS
        )

    def _new(self, part: TaskTuning) -> bool:
        return part.best_seconds is None and part.trials + part.pending < _FIRST

    def _begin(self) -> TaskTuning:
        part = self._make(self._waiting.pop(0))
        self._parts.append(part)
        return part

    def _alive(self) -> list[TaskTuning]:
        best = self.best_seconds
        if best is None:
            return self._parts
        return [part for part in self._parts if part.best_seconds is not None and part.best_seconds <= _BEHIND * best]

    def _kept(self) -> None:
        best = self.best_seconds
        if self.trials == self._seen:  # records were checked: it counts from there
            self._yardstick = best
        self.unimproved += self.trials - self._seen
        self._seen = self.trials
        if best is not None and (self._yardstick is None or best < IMPROVEMENT * self._yardstick):
            self._yardstick, self.unimproved = best, 0
        self._on_trials()
