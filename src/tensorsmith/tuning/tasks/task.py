"""One workload in all its formulations, tuned together: a few trials for each, then most for whichever leads.

It is handled like the tuning of a single formulation (`FormulationTuning`). A formulation stays in the race as long as its best is
not far behind the leader's; among those the trials go to the one that has had few for how good it is. Which one wins is settled by
a final in which the best of all formulations take turns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from types import TracebackType

from tensorsmith.measure.crew import never
from tensorsmith.rewrites.formulations import Formulation, Options, likely
from tensorsmith.space.sketch.sketch import Candidate
from tensorsmith.tuning.finals import final
from tensorsmith.tuning.progress.failures import Failures
from tensorsmith.tuning.tasks.formulation import FormulationTuning
from tensorsmith.tuning.tasks.shared import Shared

_FIRST = 8  # trials that every formulation gets
_BEHIND = 1.2  # times the leader's best: what is slower after its first trials is out
_SHARPNESS = 6  # power of the distance to the leader by which trials get dearer


class TaskTuning:
    """The tuning of one workload on one target, whatever formulation of it wins."""

    def __init__(self, formulations: Options, shared: Shared, on_trials: Callable[[], None] = lambda: None) -> None:
        """`on_trials` is called whenever some trials were kept."""
        self.workload = formulations[0].original
        self._fallback = shared.fallback
        self.outcome: final.Outcome | None = None

        def make(formulation: Formulation) -> FormulationTuning:
            return FormulationTuning(formulation, shared, on_trials)

        self._make = make
        first = likely(self.workload, formulations)
        self._waiting = [first, *(f for f in formulations if f is not first)]
        self._several = len(self._waiting) > 1
        self._parts: list[FormulationTuning] = []
        self._current = self._begin()
        target, timing = shared.measured.target, shared.measured.timing
        known = [f for f in self._waiting if shared.journal.top(f.workload, target, timing, 1)]
        self._waiting = [*known, *(f for f in self._waiting if f not in known)]
        for _ in known:
            self._begin()  # else the best would not be known

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
        while True:
            self._current = self._choose()
            few = self._several and (self._waiting or self._new(self._current))  # only a first look for now
            proposed = self._current.propose(min(count, _FIRST) if few else count, finishing, stop)
            if proposed or not self._current.exhausted or self.exhausted:
                return proposed

    def collect(self, down_to: int = 0, stop: Callable[[], bool] = never) -> None:
        """Wait until at most `down_to` candidates are left to measure; keep what is measured. At `stop()` the rest is dropped."""
        for part in self._parts:
            part.check(stop)
        for part in self._parts:
            if part.pending and part is not self._current:
                part.collect(0, stop)
        self._current.collect(down_to, stop)

    def take(self, stop: Callable[[], bool] = never) -> None:
        """Keep what is measured by now, without waiting for the rest."""
        for part in self._parts:
            part.take(stop)

    def settle(
        self, stop: Callable[[], bool] = never, seconds_left: Callable[[], float | None] = lambda: None, as_step: bool = False
    ) -> None:
        """The best few of all formulations that could still win once more, in turns, so that a lucky timing does not win.

        With them the default schedule, which is one of the first formulation: what was tuned must not be slower than that.
        `as_step` of a network: then nobody calls it but the network.
        """
        first = self._parts[0]
        if not self._fallback:
            self.outcome = final.settle_own(self._alive(), stop, seconds_left)
            return
        default = first.default()
        if default is not None:
            conditions = first.conditions(as_step)
            self.outcome = final.hold(self._alive(), (first, default), conditions, stop, seconds_left, as_step)

    def seconds_of_final(self) -> float:
        """What a final takes at least, as far as the programs measured by now tell."""
        return final.seconds_needed(self._alive(), self._parts[0].conditions(as_step=False)) if self._fallback else 0.0

    def close(self) -> None:
        """Drop what is not measured; the runner stays."""
        for part in self._parts:
            part.close()

    def __enter__(self) -> TaskTuning:
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
    def best_formulation(self) -> str:
        """The name of the formulation that the best is of."""
        best = [(part.best_seconds, n) for n, part in enumerate(self._parts) if part.best_seconds is not None]
        return self._parts[min(best)[1] if best else 0].formulation.name

    def proposed(self, candidate: Candidate) -> bool:
        """Whether the policy proposed it in this run."""
        return any(part.proposed(candidate) for part in self._parts)

    def best_is_proposed(self) -> bool:
        """Whether the policy proposed the best that is known, in this run."""
        best = [(record.seconds or 0.0, part.proposed(record.candidate)) for part in self._parts for record in part.top(1)]
        return bool(best) and min(best)[1]

    def own_seconds(self) -> float | None:
        """The least seconds alone of what the policy proposed in this run."""
        found = [seconds for part in self._parts if (seconds := part.own_seconds()) is not None]
        return min(found, default=None)

    def default_seconds(self) -> float | None:
        """The seconds alone of the default schedule, if they are known."""
        return self._parts[0].default_seconds()

    @property
    def exhausted(self) -> bool:
        """Whether nothing is left to try, in any formulation."""
        return not self._waiting and all(part.exhausted for part in self._parts)

    @property
    def programs(self) -> int | None:
        """How many the policy can choose from, in the formulations so far; None: all that the rules give."""
        counts = [part.programs for part in self._parts if part.programs is not None]
        return sum(counts) if counts else None

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
        """Seconds by activity, as in `FormulationTuning.times`."""
        total: Counter[str] = Counter()
        for part in self._parts:
            total.update(part.times)
        return dict(total)

    # -- which formulation -------------------------------------------------------------------------------------------

    def _choose(self) -> FormulationTuning:
        """The part to go on with: one that is new, or the one that has had few trials for how near the lead it is."""
        if self._new(self._current) and not self._current.exhausted:
            return self._current
        if self._waiting:
            return self._begin()
        best = self.best_seconds
        left = [part for part in self._alive() if not part.exhausted] or [p for p in self._parts if not p.exhausted]
        if best is None or not left:
            return next(iter(left), self._current) if self._current.exhausted else self._current
        return min(left, key=lambda part: (part.trials + part.pending) * ((part.best_seconds or best) / best) ** _SHARPNESS)

    def _new(self, part: FormulationTuning) -> bool:
        return part.best_seconds is None and part.trials + part.pending < _FIRST

    def _begin(self) -> FormulationTuning:
        part = self._make(self._waiting.pop(0))
        self._parts.append(part)
        return part

    def _alive(self) -> list[FormulationTuning]:
        best = self.best_seconds
        if best is None:
            return self._parts
        return [part for part in self._parts if part.best_seconds is not None and part.best_seconds <= _BEHIND * best]
