"""The measurer: candidates of one workload in, trials out. The work is done by a runner, its own or one that it shares."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType

from tensorsmith.backends import backend_of
from tensorsmith.errors import InternalError, UserError
from tensorsmith.lang.compare import random_inputs
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.lang.workload import Workload
from tensorsmith.measure import wire
from tensorsmith.measure.bench import array_bytes
from tensorsmith.measure.conditions import Condition
from tensorsmith.measure.contest import Contest, Timed, Turns, results
from tensorsmith.measure.crew import never
from tensorsmith.measure.job import Job
from tensorsmith.measure.limits import Limits
from tensorsmith.measure.runner import Runner, cannot_measure
from tensorsmith.measure.subject import Subject
from tensorsmith.measure.times import Times
from tensorsmith.measure.workshop import Workshop
from tensorsmith.rewrites.formulations import Formulation, as_written
from tensorsmith.search.trial import Cache, Trial, check_cache
from tensorsmith.space.sketch.sketch import Candidate
from tensorsmith.targets.target import Target, native

_numbers = itertools.count(1)  # of jobs


class Measurer:
    """Measures candidates of one workload. Not for several threads at once.

    A candidate that crashes, hangs, eats the memory or answers wrongly gets a trial that says so; its worker is replaced if
    need be, and the others do not notice. Raises `UserError` only where no worker can be started.

    `KeyboardInterrupt`, or any other exception inside, ends the workers and drops what is not measured yet. Trials already done can
    still be fetched with `results`, and the measurer can be used again.
    """

    def __init__(
        self,
        workload: Workload,
        target: Target | None = None,
        *,
        workers: int | None = None,
        threads: int | None = None,
        cache: Cache = "warm",
        check: bool = True,
        limits: Limits | None = None,
        seed: int = 0,
        hook: str | None = None,
        runner: Runner | None = None,
        formulation: Formulation | None = None,
    ) -> None:
        """`workers`: processes that build, by default one per core. `threads` of the timed kernel: by default all cores.

        `cache`: "warm", "streamed" for runs that find all but their constants in the caches, or "cold" for runs that find nothing
        there. `seed` makes the inputs. `hook`, for tests, is "file.py:function", called in the worker as `function(point,
        candidate, outputs)` at "build", "run", "answer" and "time". Without a `runner`, processes of its own do the work; one
        that is given stays when the measurer is closed. With a `formulation`, whose workload this is, answers are checked against
        the original's.
        """
        self.workload, self.target = workload, target or native()
        if threads is not None and threads < 1:
            raise UserError(f"threads must be at least 1, {threads} given")
        check_cache(cache)
        if runner is not None and workers is not None:
            raise UserError("workers are those of the runner; give one of the two")
        self.runner: Runner = runner or Workshop(self.target.cores if workers is None else workers, limits)
        self._own_runner = runner is None
        why_not = self.runner.why_not(self.target)
        if why_not is not None:
            raise cannot_measure(self.target, why_not)
        self.threads, self.cache, self.check, self.seed = threads or self.target.cores, cache, check, seed
        self.times = Times(self.runner.workers)
        self.formulation = formulation or as_written(workload)
        self._hook = hook
        self._subject = Subject(limits or self.runner.limits, self.times, array_bytes(workload))

    def prepare(self) -> None:
        """Make the reference and let the workers set up, so that they are ready for candidates; returns before they are."""
        with self._waiting():
            self.runner.set_up(self._subject)

    def measure(self, candidates: Sequence[Candidate], incumbent: float | None = None) -> list[Trial]:
        """A trial for each candidate, in their order. What clearly loses against the incumbent (seconds) is cut short."""
        self._nothing_else("measure")
        jobs = self._enlist(candidates, incumbent)
        for _ in self.results():
            pass
        return [_trial(job) for job in jobs]

    def submit(self, candidates: Sequence[Candidate], incumbent: float | None = None) -> None:
        """Begin with candidates; their trials come out of `results`. Returns at once, and the workers build meanwhile."""
        self._enlist(candidates, incumbent)
        with self._waiting():
            self.runner.go_ahead()

    def results(self, stop: Callable[[], bool] = never) -> Iterator[Trial]:
        """The trials of submitted candidates as they are done, several at a time, in any order; ends when none is left, or when
        nothing is done and `stop()` is true, which is asked some times a second.

        More may be submitted in between. The workers are busy while the caller computes if it stops fetching when `pending` is
        not zero yet, submits the next ones, and goes on.
        """
        finished = self._subject.finished
        while finished or self.pending:
            while finished:
                yield _trial(finished.popleft())
            if stop():
                return
            if self.pending:
                with self._waiting():
                    self.runner.collect(self._subject, stop)

    @property
    def done(self) -> int:
        """Trials that `results` gives without waiting."""
        return len(self._subject.finished)

    @property
    def pending(self) -> int:
        """Submitted candidates that are not measured yet."""
        return self.runner.pending(self._subject)

    def remeasure(self, candidates: Sequence[Candidate], rounds: int = 10, stop: Callable[[], bool] = never) -> list[Trial]:
        """Finalists against each other, each alone: a trial for each, in their order; none at all if `stop()` came true."""
        turns = Turns.even(rounds, (Condition.ALONE,))
        return [timed.trial for timed in self.compare([(self, c) for c in candidates], turns, stop)]

    def compare(self, places: Sequence[tuple[Measurer, Candidate]], turns: Turns, stop: Callable[[], bool] = never) -> list[Timed]:
        """Candidates against each other: all in one process, in turns, so that whatever disturbs one disturbs all.

        They may be of other measurers of the same runner. The results are in their order; none at all if `stop()` came true.
        """
        with contextlib.ExitStack() as waiting:
            for measurer in {id(m): m for m, _ in places}.values():
                measurer._nothing_else("compare")
                waiting.enter_context(measurer._waiting())
            jobs = [Job(next(_numbers), m._subject, c, keep=True) for m, c in places]
            self.runner.compare(Contest(jobs, turns), stop)
        stopped = any(job.trial is None for job in jobs)
        for measurer, _ in places:
            if stopped:
                measurer.cancel()
            measurer._subject.finished.clear()
        return [] if stopped else results(jobs)

    def cancel(self) -> list[Candidate]:
        """Drop what is not measured yet, and say what that was. Workers that are busy with it are ended."""
        return [job.candidate for job in sorted(self.runner.cancel(self._subject), key=lambda j: j.number)]

    def close(self) -> None:
        """Drop what is not measured yet, and end the workers if they are its own. Safe to call twice."""
        if self._own_runner:
            self.runner.close()
        else:
            self.runner.forget(self._subject)
        self._subject.setup = None

    def __enter__(self) -> Measurer:
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def processes(self) -> tuple[int, ...]:
        """Process numbers of the workers that live on this machine."""
        return self.runner.processes

    # -- setting up --------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _waiting(self) -> Iterator[None]:
        """The caller waits: the workers are set up before anything else, and the time counts."""
        begun = time.perf_counter()
        try:
            if self._subject.setup is None:
                self.runner.start()  # the right answers are made while the workers start
                self._subject.setup = self._setup()
                self.runner.prepare(self._subject)
            yield
        finally:
            self.times.wall += time.perf_counter() - begun

    def _setup(self) -> wire.Message:
        begun = time.perf_counter()
        original = self.formulation.original
        results = evaluate(original, random_inputs(original, self.seed), precise=True) if self.check else {}
        self._subject.reference = {name: results[name] for name in original.outputs if self.check}
        self.times.start = time.perf_counter() - begun
        return {
            "do": "setup",
            "bench": self._subject.number,
            "workload": original.to_json(),
            "formulation": self.formulation.name,
            "target": self.target.to_json(),
            "backend": backend_of(self.target).module,
            "seed": self.seed,
            "threads": self.threads,
            "check": self.check,
            "cache": self.cache,
            "hook": self._hook,
            "memory": self._subject.limits.memory_bytes + self._subject.limits.memory_copies * self._subject.bytes,
        }

    # -- small things ------------------------------------------------------------------------------------------------

    def _nothing_else(self, verb: str) -> None:
        if self.pending or self._subject.finished:
            raise UserError(f"{verb}() with candidates of submit() not all fetched; fetch them with results(), or cancel()")

    def _enlist(self, candidates: Sequence[Candidate], incumbent: float | None) -> list[Job]:
        for candidate in candidates:
            if candidate.sketch.workload is not self.workload and candidate.sketch.workload.key != self.workload.key:
                raise UserError("a candidate of another workload; a measurer serves one")
        subject = self._subject
        if incumbent is not None:
            subject.incumbent = incumbent if subject.incumbent is None else min(incumbent, subject.incumbent)
        jobs = [Job(next(_numbers), subject, c) for c in candidates]
        self.runner.submit(jobs)
        return jobs


def _trial(job: Job) -> Trial:
    if job.trial is None:
        raise InternalError("a job without a trial")
    return job.trial
