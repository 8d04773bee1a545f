"""The measurer: builds candidates side by side in worker processes, times them one at a time.

Two phases alternate. While *building*, every worker builds candidates, runs each once and checks its answer; what is built
stays in its worker. When each holds some, all builders fall silent, and *timing* goes through what is built, one kernel at a
time, which has all cores for itself. A phase of several candidates per worker keeps the wait for the last builder short.

The measurer has no threads: it acts while its caller waits for results. Between two results the caller may compute, and the
workers build meanwhile what they were given ahead; nothing is ever timed then.
"""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import tempfile
import time
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Literal

import numpy as np

from tensorsmith.errors import InternalError, UserError
from tensorsmith.lang.compare import random_inputs
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.lang.workload import Workload
from tensorsmith.measure import wire
from tensorsmith.measure.bench import array_bytes
from tensorsmith.measure.crew import Crew, Worker
from tensorsmith.measure.job import Job, Step
from tensorsmith.measure.limits import Limits
from tensorsmith.measure.times import Times
from tensorsmith.measure.timing import Plan
from tensorsmith.search.trial import Trial
from tensorsmith.space.sketch import Candidate
from tensorsmith.target import Target, native

_AHEAD = 3  # builds each worker is given before the caller goes off to compute


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
        cache: Literal["warm", "cold"] = "warm",
        check: bool = True,
        limits: Limits | None = None,
        seed: int = 0,
        hook: str | None = None,
    ) -> None:
        """`workers`: processes that build, by default one per core. `threads` of the timed kernel: by default all cores.

        `cache`: "warm", or "cold" for runs that find none of their arrays in the caches. `seed` makes the inputs. `hook`, for
        tests, is "file.py:function", called in the worker as `function(point, candidate, outputs)` at "build", "run", "answer"
        and "time".
        """
        self.workload, self.target = workload, target or native()
        if self.target.triple.split("-")[0] != native().triple.split("-")[0]:
            raise UserError(f"code for {self.target.triple} cannot be measured on this machine ({native().triple})")
        for name, value in (("workers", workers), ("threads", threads)):
            if value is not None and value < 1:
                raise UserError(f"{name} must be at least 1, {value} given")
        if cache not in ("warm", "cold"):
            raise UserError(f'cache is "warm" or "cold", {cache!r} given')
        self.workers, self.threads = workers or self.target.cores, threads or self.target.cores
        self.cache, self.check, self.seed = cache, check, seed
        self.limits = limits or Limits()
        self.times = Times(self.workers)
        self._hook = hook
        self._crew: Crew | None = None
        self._folder: Path | None = None
        self._waiting: deque[Job] = deque()
        self._done: deque[Trial] = deque()
        self._numbers = 0
        self._entered = 0.0  # when the caller began to wait
        self._held = max(1, min(self.limits.held, self.limits.held_bytes // max(1, array_bytes(workload))))

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
        with self._acting() as crew:
            crew.start()
            self._hand_out(crew, _AHEAD)

    def results(self) -> Iterator[Trial]:
        """The trials of submitted candidates as they are done, several at a time, in any order; ends when none is left.

        More may be submitted in between. The workers are busy while the caller computes if it stops fetching when `pending` is
        not zero yet, submits the next ones, and goes on.
        """
        while self._done or self.pending:
            if not self._done:
                with self._acting() as crew:
                    self._advance(crew)
            while self._done:
                yield self._done.popleft()

    @property
    def pending(self) -> int:
        """Submitted candidates that are not measured yet."""
        return len(self._waiting) + (sum(len(w.jobs) for w in self._crew.workers) if self._crew else 0)

    def remeasure(self, candidates: Sequence[Candidate], rounds: int = 10) -> list[Trial]:
        """Finalists against each other: all in one process, in turns, so that whatever disturbs one disturbs all."""
        self._nothing_else("remeasure")
        jobs = [Job(self._number(), c, keep=True) for c in candidates]
        with self._acting() as crew:
            while any(job.trial is None for job in jobs):
                self._compare(crew, [job for job in jobs if job.trial is None], rounds)
        self._done.clear()
        return [_trial(job) for job in jobs]

    def cancel(self) -> list[Candidate]:
        """Drop what is not measured yet, and say what that was. Workers that are busy with it are ended."""
        dropped = list(self._waiting)
        self._waiting.clear()
        if self._crew is not None:
            for worker in self._crew.workers:
                dropped += worker.jobs.values()
                self._crew.drop(worker)
        return [job.candidate for job in sorted(dropped, key=lambda j: j.number)]

    def close(self) -> None:
        """End the workers and drop what is not measured yet. Safe to call twice."""
        self._waiting.clear()
        if self._crew is not None:
            self._crew.abandon()
            self._crew = None
        if self._folder is not None:
            self._clean_up()
            self._folder = None

    def __enter__(self) -> Measurer:
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def processes(self) -> tuple[int, ...]:
        """Process numbers of the workers that live."""
        return tuple(w.process.pid for w in self._crew.workers if w.process) if self._crew else ()

    # -- the phases --------------------------------------------------------------------------------------------------

    def _advance(self, crew: Crew) -> None:
        """Build, then time what is built."""
        if not self.times.start:
            self._await(crew, crew.workers)
            self.times.start = self.times.wall + time.perf_counter() - self._entered
        while True:
            self._waiting.extendleft(reversed(crew.orphans))
            crew.orphans.clear()
            if self._waiting:
                crew.start()
            self._hand_out(crew, 1)
            if not any(w.unbuilt or (w.process and not w.ready) for w in crew.workers):
                break
            crew.listen()
        start = time.perf_counter()
        for worker in crew.workers:
            for job in list(worker.jobs.values()):
                if job.step is Step.BUILT:  # not if its worker has died meanwhile
                    crew.time(worker, job, Plan.of(self.limits, self.limits.cut_above(crew.incumbent)))
        self.times.run += time.perf_counter() - start
        self._waiting.extendleft(reversed(crew.orphans))
        crew.orphans.clear()
        crew.recycle()
        if self._waiting:
            crew.start()
            self._hand_out(crew, _AHEAD)

    def _hand_out(self, crew: Crew, depth: int) -> None:
        """Give waiting jobs to ready workers, so that each has `depth` to build; no more than may be held until they are timed."""
        most = self._held + self._held // 2  # one may be quicker than the other
        room = self._held * len(crew.workers) - sum(len(w.jobs) for w in crew.workers)
        for level in range(1, depth + 1):
            for worker in crew.workers:
                if worker.ready and worker.unbuilt < level and len(worker.jobs) < most and self._waiting and room > 0:
                    crew.build(worker, self._waiting.popleft())
                    room -= 1

    def _compare(self, crew: Crew, jobs: list[Job], rounds: int) -> None:
        """Rounds of all jobs in turns. If the worker dies, those left begin again, in another call."""
        worker = crew.workers[0]
        self._await(crew, [worker])
        for job in jobs:
            crew.build(worker, job)
            while job.unbuilt:
                crew.listen()
        for _ in range(rounds):
            for job in jobs:
                if job.trial is None and not crew.orphans:
                    crew.time(worker, job, Plan.one_round(self.limits))
        if not crew.orphans:
            for job in list(worker.jobs.values()):
                worker.send({"do": "drop", "id": job.number})
                crew.finish_timed(worker, job)
        crew.orphans.clear()

    def _await(self, crew: Crew, workers: Sequence[Worker]) -> None:
        while not all(w.ready for w in workers):
            crew.start(len(workers))
            crew.listen()

    # -- the workers -------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _acting(self) -> Iterator[Crew]:
        """The crew, while the caller waits; whatever is finished in the end is done."""
        self._entered = time.perf_counter()
        try:
            if self._crew is None:
                self._crew = self._hire()
            yield self._crew
        except BaseException:  # in the middle of something: nothing is known about the workers any more
            self._waiting.clear()
            if self._crew is not None:
                self._crew.abandon()
            raise
        finally:
            self.times.wall += time.perf_counter() - self._entered
            if self._crew is not None:
                while self._crew.finished:
                    self._done.append(_trial(self._crew.finished.popleft()))
                    self.times.trials += 1

    def _hire(self) -> Crew:
        """The crew, and a folder with the right answers, which are made while the workers start."""
        self._folder = Path(tempfile.mkdtemp(prefix="tensorsmith-measure-"))
        self._clean_up = weakref.finalize(self, shutil.rmtree, self._folder, True)  # also if nobody calls `close`
        crew = Crew(self.workers, self._folder, self.limits, self.times)
        crew.start()
        crew.set_up(self._setup(self._folder))
        return crew

    def _setup(self, folder: Path) -> wire.Message:
        reference = {}
        results = evaluate(self.workload, random_inputs(self.workload, self.seed), precise=True) if self.check else {}
        for n, name in enumerate(self.workload.outputs if self.check else ()):
            path = folder / f"output-{n}.npy"
            try:
                np.save(path, results[name], allow_pickle=False)
            except OSError as problem:
                raise UserError(f"cannot store the reference for measurements at {path}: {problem}; set TMPDIR") from problem
            reference[name] = str(path)
        return {
            "do": "setup",
            "workload": self.workload.to_json(),
            "target": dataclasses.asdict(self.target),
            "seed": self.seed,
            "threads": self.threads,
            "reference": reference,
            "check": self.check,
            "cold": self.cache == "cold",
            "hook": self._hook,
            "memory": self.limits.memory_bytes + self.limits.memory_copies * array_bytes(self.workload),
        }

    # -- small things ------------------------------------------------------------------------------------------------

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers

    def _nothing_else(self, verb: str) -> None:
        if self.pending or self._done:
            raise UserError(f"{verb}() with candidates of submit() not all fetched; fetch them with results(), or cancel()")

    def _enlist(self, candidates: Sequence[Candidate], incumbent: float | None) -> list[Job]:
        for candidate in candidates:
            if candidate.sketch.workload is not self.workload and candidate.sketch.workload.key != self.workload.key:
                raise UserError("a candidate of another workload; a measurer serves one")
        with self._acting() as crew:
            if incumbent is not None:
                crew.incumbent = incumbent if crew.incumbent is None else min(incumbent, crew.incumbent)
        jobs = [Job(self._number(), c) for c in candidates]
        self._waiting.extend(jobs)
        return jobs


def _trial(job: Job) -> Trial:
    if job.trial is None:
        raise InternalError("a job without a trial")
    return job.trial
