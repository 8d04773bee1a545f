"""One workload in one formulation, tuned step by step: ask the policy, measure, keep, tell.

    tuning.propose(16)        candidates for the workers, which begin to build them
    tuning.collect()          waits until they are measured; keeps the trials and tells the policy
    tuning.step(16)           both

Several tunings may share a runner and take turns. To keep the workers busy during a search, propose again before all is
collected: `collect(down_to=8)` comes back when 8 candidates are left, and the workers build those while the next are searched for.

A search never measures a program twice. What was measured on another day is checked, though: before the first candidates of such a
workload are measured, its best records are timed again (`finals/final.py`). That is no trial of the search, and costs none.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType

from tensorsmith.backends import backend_of, space_of
from tensorsmith.errors import Refusal
from tensorsmith.measure.conditions import Condition
from tensorsmith.measure.contest import Timed, Turns
from tensorsmith.measure.crew import never
from tensorsmith.measure.measurer import Measurer
from tensorsmith.records.keys import candidate_key
from tensorsmith.records.record import Record
from tensorsmith.rewrites.formulations import Formulation
from tensorsmith.search.policy import Hinted, programs_of, proposals
from tensorsmith.search.trial import Trial
from tensorsmith.space.sketch.sketch import Candidate
from tensorsmith.tuning.finals import final
from tensorsmith.tuning.progress.failures import Failures
from tensorsmith.tuning.tasks.shared import Shared

_LOOK_AFTER = 16  # trials of the run: then there may be something new at other sizes
_WHOLE = 1 << 20  # records: all that there are
_MOST_HINTS = 2  # at a time, of the nearest sizes: each costs a trial


class FormulationTuning:
    """The tuning of one workload on one target; what the journal holds of it is built upon."""

    def __init__(self, formulation: Formulation, shared: Shared, on_trials: Callable[[], None] = lambda: None) -> None:
        """`on_trials` is called whenever some trials were kept."""
        measured, journal, plugins = shared.measured, shared.journal, shared.plugins
        workload, target = formulation.workload, measured.target
        self.workload, self.target = workload, target
        self.formulation = formulation
        self.timing = measured.timing
        self.trials = 0  # of this run
        self.exhausted = False  # the policy has nothing left to try
        self.failures = Failures()
        self.search_seconds = 0.0  # the last search took
        self._journal, self._on_trials = journal, on_trials
        self._fallback = shared.fallback
        self._policy_name = plugins.policy.name
        self._asked = shared.asked.setdefault(workload.key, set())
        self.outcome: final.Outcome | None = None
        self._spent: Counter[str] = Counter()
        with self._clock("measure"):
            self.measurer = Measurer(
                workload,
                target,
                threads=self.timing.threads,
                cache=measured.cache,
                runner=shared.runner,
                formulation=formulation,
            )
            self.measurer.prepare()  # the workers set up while the policy is made
        records = journal.history(workload, target, self.timing)
        history = [r.trial for r in records]
        known = journal.similar(workload, target, self.timing)
        similar = [*journal.hints(workload, target), *(r.candidate for r in known)]
        self._listens, self._heard, self._looked = shared.sizes, {r.uid for r in known}, journal.added
        seed = shared.seed + len(history)  # else a run that goes on would draw again what the first one drew
        with self._clock("model"):
            model = shared.experience.model_for(workload, seed)
        with self._clock("search"):
            self.policy = plugins.policy.make(space_of(workload, target, plugins.rules), seed=seed, hints=similar, model=model)
        self.programs = programs_of(self.policy)  # that it can choose from; None: all that the rules give
        with self._clock("model"):
            self.policy.tell(history)
        self._unchecked = bool(records) and not journal.touched(workload, target, self.timing)
        self._held: list[Candidate] = []  # proposed, and kept back until the records are checked
        self._best = self._journal_best()

    # -- tuning ------------------------------------------------------------------------------------------------------

    def step(self, count: int, stop: Callable[[], bool] = never) -> int:
        """Propose candidates and measure all of them, or until `stop()`; trials done. 0: there is nothing left to try."""
        before = self.trials
        self.propose(count)
        self.collect(stop=stop)
        return self.trials - before

    def propose(self, count: int, finishing: bool = False, stop: Callable[[], bool] = never) -> int:
        """Let the workers begin with new candidates; how many those are, 0 if the space is exhausted.

        `finishing`: neighbours of the best, while there are any. At `stop()` the search ends with what it has.
        """
        with self._clock("search"):
            self._listen()
            candidates: list[Candidate] = []
            if finishing and self._best is not None:
                candidates = proposals(self._policy_name, "finish", self.policy.finish(count))
            if not candidates:
                candidates = proposals(self._policy_name, "ask", self.policy.ask(count, stop))
        self._asked |= {candidate_key(candidate) for candidate in candidates}
        self.exhausted = not candidates and not stop()
        if self._unchecked:
            self._held += candidates
        else:
            self._submit(candidates)
        return len(candidates)

    def collect(self, down_to: int = 0, stop: Callable[[], bool] = never) -> None:
        """Wait until at most `down_to` candidates are left to measure; keep what is measured. At `stop()` the rest is dropped."""
        self.check(stop)
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

    def take(self, stop: Callable[[], bool] = never) -> None:
        """Keep what is measured by now, without waiting for the rest."""
        self.check(stop)
        results = self.measurer.results()
        batch = [next(results) for _ in range(self.measurer.done)]
        if batch:
            self._keep(batch)

    def check(self, stop: Callable[[], bool] = never) -> None:
        """Time the best records of another day again, in turns with the default schedule, if that was not done yet."""
        if not self._unchecked:
            return
        self._unchecked = False
        final.check(self, self.default(), stop)
        self._best = self._journal_best()
        self._on_trials()
        held, self._held = self._held, []
        if not stop():
            self._submit(held)

    def settle(
        self, stop: Callable[[], bool] = never, seconds_left: Callable[[], float | None] = lambda: None, as_step: bool = False
    ) -> None:
        """The best few once more, in turns with the default schedule: what is used must not be slower than no search at all.

        `as_step` of a network: then nobody calls it but the network.
        """
        default = self.default()
        if default is not None:
            self.outcome = final.hold([self], (self, default), self.conditions(as_step), stop, seconds_left, as_step)

    def conditions(self, as_step: bool) -> tuple[Condition, ...]:
        """Those of a final. Where the runs do not find all in the caches, the cache says what they find instead."""
        return (Condition.ALONE,) if as_step or self.timing.cache != "warm" else tuple(Condition)

    def default(self) -> Candidate | None:
        """The default schedule as it is used without a search; None if there is none."""
        try:
            return backend_of(self.target).default_candidate(self.workload, self.target)
        except Refusal:
            return None

    # -- finals, and the end -----------------------------------------------------------------------------------------

    def top(self, k: int) -> list[Record]:
        """The records of the k fastest candidates; where the answer has to be the policy's, of those that it proposed itself."""
        if self._fallback:
            return self._journal.top(self.workload, self.target, self.timing, k)
        every = self._journal.top(self.workload, self.target, self.timing, _WHOLE)
        return [record for record in every if record.key in self._asked][:k]

    def proposed(self, candidate: Candidate) -> bool:
        """Whether the policy proposed it in this run."""
        return candidate_key(candidate) in self._asked

    def own_seconds(self) -> float | None:
        """The least seconds of what the policy proposed in this run, but the default schedule."""
        default = self.default()
        others = self._asked - ({candidate_key(default)} if default is not None else set())
        every = self._journal.top(self.workload, self.target, self.timing, _WHOLE)
        return min((r.seconds for r in every if r.seconds is not None and r.key in others), default=None)

    def default_seconds(self) -> float | None:
        """The seconds of the default schedule, if they are known."""
        default = self.default()
        key = None if default is None else candidate_key(default)
        every = self._journal.top(self.workload, self.target, self.timing, _WHOLE)
        return next((r.seconds for r in every if r.key == key), None)

    def compare(self, contenders: Sequence[tuple[Measurer, Candidate]], turns: Turns, stop: Callable[[], bool]) -> list[Timed]:
        """What comes out for candidates, timed in turns; none at all if `stop()` came true."""
        with self._clock("final"):
            return self.measurer.compare(contenders, turns, stop)

    def keep_final(self, trials: Sequence[Trial], run: str) -> None:
        """What came out when known candidates were timed again; it counts instead of what was known of them."""
        self._journal.add(self.workload, self.target, self.timing, trials, run=run)
        for trial in trials:
            self.failures.add(trial)
        with self._clock("model"):
            self.policy.tell(trials)
        self._best = self._journal_best()

    def close(self) -> None:
        """Drop what is not measured; the runner stays."""
        self.measurer.close()

    def __enter__(self) -> FormulationTuning:
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # -- facts -------------------------------------------------------------------------------------------------------

    @property
    def pending(self) -> int:
        """Candidates that are proposed and not measured yet."""
        return len(self._held) + self.measurer.pending

    @property
    def best_seconds(self) -> float | None:
        """The best's last full timing, of earlier runs too."""
        return self._best

    def best(self) -> Candidate | None:
        """The candidate to use: the fastest by its last timing, among those that never failed."""
        return next((r.candidate for r in self.top(1)), None)

    @property
    def times(self) -> dict[str, float]:
        """Seconds by activity: "search" and "model" in this process, "build" summed over the workers, "run" all alone.

        "wait" is how long this process waited for builds, those that the search did not hide; "final" is how long the best took to
        be built and timed again.
        """
        measured = self.measurer.times
        return {
            "search": self._spent["search"],
            "model": self._spent["model"],
            "build": measured.build + measured.check,
            "run": measured.run,
            "wait": max(0.0, self._spent["measure"] - measured.run),
            "final": self._spent["final"],
        }

    # -- small things ------------------------------------------------------------------------------------------------

    def _listen(self) -> None:
        """The best of other sizes, as far as it is new since the last look, is told to a policy that wants to hear it."""
        if not self._listens or self._journal.added - self._looked < _LOOK_AFTER or not isinstance(self.policy, Hinted):
            return
        self._looked = self._journal.added
        new = [r for r in self._journal.similar(self.workload, self.target, self.timing, k=1) if r.uid not in self._heard]
        self._heard |= {r.uid for r in new}
        self.policy.hint([r.candidate for r in new[:_MOST_HINTS]])

    def _submit(self, candidates: Sequence[Candidate]) -> None:
        with self._clock("measure"):
            self.measurer.submit(candidates, self._best)

    def _journal_best(self) -> float | None:
        return next((r.seconds for r in self.top(1)), None)

    def _keep(self, trials: list[Trial]) -> None:
        self._journal.add(self.workload, self.target, self.timing, trials)
        self.trials += len(trials)
        for trial in trials:
            self.failures.add(trial)
            if trial.seconds is not None and not trial.at_least:
                self._best = trial.seconds if self._best is None else min(self._best, trial.seconds)
        self._on_trials()
        with self._clock("model"):
            self.policy.tell(trials)

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
