"""Best-so-far curves: a policy searches one workload, and what it finds is noted trial by trial.

A candidate that several runs ask for is measured once: all runs share what was measured (`Machine`), and with a record file the
runs of another day do too. So a run that was stopped goes on: its policy asks for the same candidates again, and those that were
measured are known. The seconds of a curve are those that its own run would have taken: its policy's processor time, and for every
trial the seconds of building (shared among the workers) and of running it, as they were when it was measured.

`StandIn` measures nothing: a model of everything in a record file stands in for the machine.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from tensorsmith.backends import backend_of, space_of
from tensorsmith.errors import UserError
from tensorsmith.lang.workload import Workload
from tensorsmith.learn.models.model import Samples
from tensorsmith.learn.models.trees import TreeModel, TreeSettings
from tensorsmith.measure.measurer import Measurer
from tensorsmith.records.keys import Timing
from tensorsmith.records.store import Store
from tensorsmith.search.policy import Policy, programs_of
from tensorsmith.search.trial import Status, Trial
from tensorsmith.space.sketch.sketch import Candidate
from tensorsmith.targets.target import native
from tensorsmith.tuning.history.experience import Experience
from tensorsmith.tuning.history.journal import Journal
from tensorsmith.tuning.options import HowMeasured, Plugins

BATCH = 16
FINISH = 0.25  # share of the trials for the neighbours of the best, as `tune` has it


@dataclass(frozen=True)
class Curve:
    """A run: after each trial, the best seconds so far (None before the first success) and the seconds spent. `leaders` are the
    programs that were best, each with the number of the trial from which on it was."""

    best: list[float | None]
    spent: list[float]
    leaders: list[tuple[int, Candidate]] = field(default_factory=list)
    programs: int | None = None  # that the policy could choose from, where that is a space of its own
    note: str = ""  # why it ended early

    def at(self, trials: int) -> float | None:
        """The best after so many trials; of a run that ended earlier, its last."""
        return self.best[min(trials, len(self.best)) - 1] if self.best else None

    def leader(self, trials: int) -> Candidate | None:
        """The best program after so many trials."""
        return next((candidate for n, candidate in reversed(self.leaders) if n <= trials), None)

    @property
    def winner(self) -> Candidate | None:
        return self.leaders[-1][1] if self.leaders else None

    def to_json(self) -> dict[str, Any]:
        leaders = [(n, text(candidate)) for n, candidate in self.leaders]
        return {"best": self.best, "spent": self.spent, "leaders": leaders, "programs": self.programs, "note": self.note}

    @staticmethod
    def from_json(form: dict[str, Any], known: dict[str, Trial]) -> Curve:
        """`known` are trials by the text of their candidates, the leaders' among them."""
        leaders = [(n, known[program].candidate) for n, program in form["leaders"]]
        return Curve(form["best"], form["spent"], leaders, form["programs"], form["note"])


class Searcher(Protocol):
    """Who searches: `finish` is the share of the trials for the neighbours of the best."""

    @property
    def finish(self) -> float: ...

    def policy(self, workload: Workload, seed: int) -> Policy: ...


@dataclass(frozen=True)
class Named:
    """A policy by its name, with its own rules and model. With a `school`, a record file of other workloads, it begins with what
    those teach, as in `ts.tune`."""

    name: str
    school: str | None = None
    finish: float = FINISH

    def policy(self, workload: Workload, seed: int) -> Policy:
        plugins = Plugins.of(native(), self.name)
        space = space_of(workload, native(), plugins.rules)
        if self.school is None:
            return plugins.policy.make(space, seed=seed, hints=(), model=plugins.model.fork(seed))
        measured = HowMeasured(native())
        with Journal(self.school) as journal:
            if journal.history(workload, native(), measured.timing):
                raise UserError(f"{self.school} has records of the very workload that is searched, {workload.title}")
            hints = [r.candidate for r in journal.similar(workload, native(), measured.timing)]
            model = Experience(journal, measured, plugins).model_for(workload, seed)
        return plugins.policy.make(space, seed=seed, hints=hints, model=model)


# -- what candidates take ------------------------------------------------------------------------------------------------

Measure = Callable[[Sequence[Candidate]], list[Trial]]


class Machine:
    """Measures each candidate once, for everyone, and stores what it measured."""

    def __init__(self, workload: Workload, store: Store) -> None:
        self.workload, self.store = workload, store
        self.timing = Timing("warm", native().cores)
        self.measurer = Measurer(workload, native(), threads=self.timing.threads)
        self.known = {text(r.trial.candidate): r.trial for r in store.history(workload, native(), self.timing)}
        self.measured = 0

    def __call__(self, candidates: Sequence[Candidate]) -> list[Trial]:
        new = [c for c in candidates if text(c) not in self.known]
        times = [t.seconds for t in self.known.values() if t.seconds is not None]
        trials = self.measurer.measure(new, min(times, default=None)) if new else []
        self.store.add(self.workload, native(), self.timing, trials)
        self.known.update({text(t.candidate): t for t in trials})
        self.measured += len(new)
        return [replace(self.known[text(c)], candidate=c) for c in candidates]

    def again(self, candidates: Sequence[Candidate]) -> dict[str, float]:
        """Candidates timed in turns."""
        distinct = list({text(c): c for c in candidates}.values())
        return {text(t.candidate): t.seconds for t in self.measurer.remeasure(distinct) if t.seconds is not None}

    def close(self) -> None:
        self.measurer.close()


class StandIn:
    """What a model of all records says, instead of the machine."""

    def __init__(self, workload: Workload, store: Store) -> None:
        records = store.history(workload, native(), Timing("warm", native().cores))
        self.known = {text(r.trial.candidate): r.trial for r in records}
        trials = list(self.known.values())
        if len(trials) < 50:
            raise UserError(f"--replay needs a database with 50 trials of this workload or more, there are {len(trials)}")
        self.best = min(t.seconds for t in trials if t.seconds is not None)
        self.model = TreeModel(TreeSettings(loss="log", trees=300))
        self.model.update(samples_of(trials, self.best))

    def __call__(self, candidates: Sequence[Candidate]) -> list[Trial]:
        found = []
        for c in candidates:
            features, prior = features_of(c)
            score = float(self.model.predict(features[None], prior)[0])
            found.append(Trial(c, Status.OK, seconds=self.best / 2**score, build_seconds=0.1, run_seconds=0.05))
        self.known.update({text(t.candidate): t for t in found})
        return found

    def close(self) -> None:
        pass


def text(candidate: Candidate) -> str:
    """Of one candidate always the same, of two never."""
    return json.dumps(candidate.to_json(), sort_keys=True, default=int)


def features_of(candidate: Candidate) -> tuple[np.ndarray, float]:
    """Features [statements, features], and log2 of the speed by the prior."""
    backend = backend_of(native())
    rows = backend.extract_rows([(candidate.sketch, candidate.decisions)], native())
    (found,) = rows.matrices()
    return found.values[0], float(backend.prior_scores(rows, native())[0])


def samples_of(trials: Sequence[Trial], best: float) -> Samples:
    """Trials of one workload as a model learns them; `best` is the time that throughputs are relative to."""
    samples = Samples()
    for t in trials:
        features, prior = features_of(t.candidate)
        samples.add(features, best / t.seconds if t.seconds else 0.0, t.candidate.sketch.workload.key, prior)
    return samples


# -- runs ----------------------------------------------------------------------------------------------------------------


def run(workload: Workload, searcher: Searcher, trials: int, seed: int, measure: Measure) -> Curve:
    """One run of a policy, as `tune` does it. It ends early where there is nothing left to try, and says so."""
    begun = time.process_time()
    policy = searcher.policy(workload, seed)
    best: list[float | None] = []
    spent: list[float] = []
    leaders: list[tuple[int, Candidate]] = []
    total, note = time.process_time() - begun, ""
    while len(best) < trials:
        left = trials - len(best)
        begun = time.process_time()
        finishing = policy.best_seconds is not None and left <= trials * searcher.finish
        candidates = (policy.finish(min(BATCH, left)) if finishing else []) or policy.ask(min(BATCH, left))
        if not candidates:
            note = f"nothing is left to try after {len(best)} trials"
            break
        total += time.process_time() - begun
        results = measure(candidates)
        for t in results:
            total += t.build_seconds / native().cores + t.run_seconds
            before = best[-1] if best else None
            if t.seconds is not None and (before is None or t.seconds < before):
                before = t.seconds
                leaders.append((len(best) + 1, t.candidate))
            best.append(before)
            spent.append(total)
        begun = time.process_time()
        policy.tell(results)
        total += time.process_time() - begun
    return Curve(best, spent, leaders, programs_of(policy), note)


def attempted(workload: Workload, searcher: Searcher, trials: int, seed: int, measure: Measure) -> Curve:
    """The same, of a policy that may fail on the workload: then the curve is empty and says why."""
    try:
        return run(workload, searcher, trials, seed, measure)
    except Exception as problem:
        return Curve([], [], note=f"failed: {type(problem).__name__}: {str(problem).splitlines()[0] if str(problem) else ''}")


def median(values: Sequence[float | None]) -> float | None:
    """Of what is there; None if some run has nothing."""
    there = [v for v in values if v is not None]
    return statistics.median(there) if there and len(there) == len(values) else None
