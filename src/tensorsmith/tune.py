"""One verb: ask a policy, measure, record, tell; budgets, progress, resume.

Everything measured is stored at once, so a run can be stopped at any moment and continued: what is in the database is told to the
policy first and never measured again. Ctrl-C keeps everything and gives the best so far.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tensorsmith.compile import as_workload, build, compile
from tensorsmith.errors import UserError
from tensorsmith.lang.define import Tensor
from tensorsmith.lang.flops import flops
from tensorsmith.lang.workload import Workload
from tensorsmith.measure.measurer import Measurer
from tensorsmith.records.keys import Timing
from tensorsmith.records.store import Store
from tensorsmith.runtime.executable import Executable
from tensorsmith.search.ansor import AnsorPolicy
from tensorsmith.search.trial import Trial
from tensorsmith.space.population import Space
from tensorsmith.target import Target, native

_BATCH = 16  # candidates proposed at a time: the model learns between batches
_FINISH = 0.25  # share of the trials kept for the neighbours of the best
_FINALISTS = 4  # candidates timed against each other at the end


@dataclass
class Progress:
    """Where a run stands; handed to `on_progress` after every batch."""

    workload: Workload
    trials: int  # of this run
    wanted: int
    best_seconds: float | None
    elapsed: float  # seconds of this run
    failures: Counter[str] = field(default_factory=Counter)
    times: dict[str, float] = field(default_factory=dict)  # seconds spent per activity

    @property
    def gflops(self) -> float:
        return flops(self.workload) / self.best_seconds / 1e9 if self.best_seconds else 0.0

    def __str__(self) -> str:
        best = f"best {self.best_seconds * 1e6:,.1f} us, {self.gflops:.1f} GFLOP/s" if self.best_seconds else "nothing measured yet"
        rate = self.trials / self.elapsed if self.elapsed > 0 else 0.0
        failed = f", {sum(self.failures.values())} failed" if self.failures else ""
        return f"{self.trials}/{self.wanted} trials{failed}, {best}, {rate:.1f} trials/s"


def tune(
    computation: Workload | Sequence[Tensor],
    *,
    trials: int = 64,
    seconds: float | None = None,
    database: str | Path | None = None,
    target: Target | None = None,
    seed: int = 0,
    on_progress: Callable[[Progress], None] | None = None,
) -> Executable:
    """Searches for a fast program, and gives it.

    `trials` counts candidates measured in this run; `seconds` ends it earlier. With a `database` file everything is stored, and
    what is there already is built upon. Without `on_progress` one line is printed per batch.
    """
    if trials < 0:
        raise UserError(f"trials is {trials}; give a whole number, 0 or more")
    workload = as_workload(computation)
    target = target or native()
    timing = Timing("warm", target.cores)
    with Store.open(database) if database is not None else Store.in_memory() as store:
        run = _Run(workload, target, timing, store, trials, seconds, seed, on_progress or _print)
        run.go()
        best = store.best(workload, target, timing)
    return build(best.candidate, target) if best is not None else compile(workload, target=target)


class _Run:
    """One tuning run of one workload."""

    def __init__(
        self,
        workload: Workload,
        target: Target,
        timing: Timing,
        store: Store,
        trials: int,
        seconds: float | None,
        seed: int,
        report: Callable[[Progress], None],
    ) -> None:
        self.workload, self.target, self.timing, self.store = workload, target, timing, store
        self.seconds, self.report = seconds, report
        self.start = time.monotonic()
        self.spent: Counter[str] = Counter()
        self.progress = Progress(workload, 0, trials, None, 0.0)
        history = [r.trial for r in store.history(workload, target, timing)]
        similar = [r.candidate for r in store.similar(workload, target, timing)]
        with self._clock("search"):
            self.policy = AnsorPolicy(Space(workload, target), seed=seed + len(history), hints=similar)
            self.policy.tell(history)

    def go(self) -> None:
        try:
            with Measurer(self.workload, self.target, threads=self.timing.threads) as measurer:
                self._search(measurer)
                self._settle(measurer)
        except KeyboardInterrupt:
            print(f"stopped: {self.progress}; everything measured is kept")

    def _search(self, measurer: Measurer) -> None:
        wanted = self.progress.wanted
        while (left := wanted - self.progress.trials) > 0 and not self._out_of_time():
            finishing = self.policy.best_seconds is not None and left <= wanted * _FINISH
            with self._clock("search"):
                count = min(_BATCH, left)
                candidates = self.policy.finish(count) if finishing else self.policy.ask(count)
                if not candidates:
                    candidates = self.policy.ask(count)
            if not candidates:
                break  # the space is exhausted
            with self._clock("measure"):
                results = measurer.measure(candidates, self.policy.best_seconds)
            self._keep(results)

    def _settle(self, measurer: Measurer) -> None:
        """The best few once more, in turns, so that a lucky timing does not win."""
        top = self.store.top(self.workload, self.target, self.timing, _FINALISTS)
        if len(top) > 1 and self.progress.trials:
            with self._clock("measure"):
                again = measurer.remeasure([r.candidate for r in top])
            self.store.add(self.workload, self.target, self.timing, [t for t in again if t.ok], run="finalists")

    def _keep(self, results: Sequence[Trial]) -> None:
        self.store.add(self.workload, self.target, self.timing, results)
        with self._clock("search"):
            self.policy.tell(results)
        self.progress.trials += len(results)
        self.progress.failures.update(t.status.value for t in results if not t.ok)
        self.progress.best_seconds = self.policy.best_seconds
        self.progress.elapsed = time.monotonic() - self.start
        self.progress.times = dict(self.spent)
        self.report(self.progress)

    def _out_of_time(self) -> bool:
        return self.seconds is not None and time.monotonic() - self.start >= self.seconds

    def _clock(self, activity: str) -> _Clock:
        return _Clock(self.spent, activity)


class _Clock:
    """Adds the time of a `with` block to a counter."""

    def __init__(self, spent: Counter[str], activity: str) -> None:
        self.spent, self.activity = spent, activity

    def __enter__(self) -> None:
        self.begun = time.monotonic()

    def __exit__(self, *_: object) -> None:
        self.spent[self.activity] += time.monotonic() - self.begun  # type: ignore[assignment]


def _print(progress: Progress) -> None:
    print(progress, flush=True)
