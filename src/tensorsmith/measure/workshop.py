"""The workshop: builds candidates side by side in worker processes, times them one at a time.

Two phases alternate. While *building*, every worker builds candidates, runs each once and checks its answer; what is built
stays in its worker. When each holds some, all builders fall silent, and *timing* goes through what is built, one kernel at a
time, which has all cores for itself. A phase of several candidates per worker keeps the wait for the last builder short.

Several measurers may share a workshop, each with a workload of its own: the workers keep a bench for each of the last few
workloads, so that going from one to another costs nothing.

The workshop has no threads: it acts while a measurer's caller waits for results. Between two results the caller may compute,
and the workers build meanwhile what they were given ahead; nothing is ever timed then.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import platform
import shutil
import tempfile
import time
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType

import numpy as np

from tensorsmith.errors import InternalError, UserError
from tensorsmith.measure.contest import Contest
from tensorsmith.measure.crew import Crew, never
from tensorsmith.measure.job import Job, JobState
from tensorsmith.measure.limits import Limits
from tensorsmith.measure.runner import NodeStatus
from tensorsmith.measure.subject import Subject
from tensorsmith.measure.timing import Plan
from tensorsmith.runtime.device import device_of
from tensorsmith.targets.target import Target, native


class Workshop:
    """Worker processes for any number of measurers: the runner "local". Not for several threads at once.

    `KeyboardInterrupt`, or any other exception inside, ends the workers and drops what is not measured yet, of all measurers.
    """

    def __init__(
        self, workers: int | None = None, limits: Limits | None = None, warn: Callable[[str], None] = warnings.warn
    ) -> None:
        """`workers`: processes that build, by default one per core. They start with the first use, or with `start`.

        `warn` is told of trouble that the workshop gets over by itself.
        """
        if workers is not None and workers < 1:
            raise UserError(f"workers must be at least 1, {workers} given")
        self.workers = workers or native().cores
        self.places = 1
        self.limits = limits or Limits()
        self._warn = warn
        self._crew: Crew | None = None
        self._folder: Path | None = None
        self._waiting: deque[Job] = deque()

    def start(self) -> None:
        """Start the workers now, so that they are ready when they are needed; returns at once."""
        with self.acting() as crew:
            crew.start()

    def close(self) -> None:
        """End the workers and drop what is not measured yet. Safe to call twice."""
        self._waiting.clear()
        if self._crew is not None:
            self._crew.abandon()
            self._crew = None
        if self._folder is not None:
            self._clean_up()
            self._folder = None

    def __enter__(self) -> Workshop:
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def processes(self) -> tuple[int, ...]:
        """Process numbers of the workers that live."""
        return tuple(w.process.pid for w in self._crew.workers if w.process) if self._crew else ()

    # -- for measurers -----------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def acting(self) -> Iterator[Crew]:
        """The crew, while a caller waits."""
        try:
            yield self._hired()
        except BaseException:  # in the middle of something: nothing is known about the workers any more
            self._waiting.clear()
            if self._crew is not None:
                self._crew.abandon()
            raise

    @property
    def folder(self) -> Path:
        """Where files for the workers go; gone with the workshop."""
        if self._folder is None:
            try:
                self._folder = Path(tempfile.mkdtemp(prefix="tensorsmith-measure-"))
            except OSError as problem:
                raise UserError(f"cannot make a folder for measurements: {problem}; make room there, or set TMPDIR") from problem
            self._clean_up = weakref.finalize(self, shutil.rmtree, self._folder, True)  # also if nobody calls `close`
        return self._folder

    def why_not(self, target: Target) -> str | None:
        """Why code for a target cannot run here, None if it can."""
        return device_of(target.kind).why_not(target)

    def nodes(self) -> tuple[NodeStatus, ...]:
        """This machine alone."""
        held = [job for worker in self._crew.workers for job in worker.jobs.values()] if self._crew else []
        does = f"{len(held)} candidates, {len(self._waiting)} more wait" if held or self._waiting else ""
        return (NodeStatus(platform.node() or "this machine", "ready", does, "" if does else "it was given nothing to do"),)

    def prepare(self, subject: Subject) -> None:
        """Its reference goes to files, from which all workers read it."""
        if subject.setup is None:
            raise InternalError("a subject without a setup")
        paths = {}
        for n, (name, array) in enumerate(subject.reference.items()):
            path = self.folder / f"output-{subject.number}-{n}.npy"
            try:
                np.save(path, array, allow_pickle=False)
                if path.stat().st_size < array.nbytes:  # NumPy says nothing of a disk that is full
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            except OSError as problem:
                raise UserError(f"cannot store the reference for measurements at {path}: {problem}; set TMPDIR") from problem
            paths[name] = str(path)
        subject.setup["reference"] = paths

    def set_up(self, subject: Subject) -> None:
        """Let all workers make a bench for a subject."""
        with self.acting() as crew:
            crew.start()
            for worker in crew.workers:
                crew.set_up(worker, subject)

    def submit(self, jobs: Sequence[Job]) -> None:
        """Take jobs; they are begun when a caller waits, or by `go_ahead`."""
        self._waiting.extend(jobs)

    def pending(self, subject: Subject) -> int:
        """Jobs of a subject that are not finished."""
        held = (job for worker in self._crew.workers for job in worker.jobs.values()) if self._crew else ()
        orphans = self._crew.orphans if self._crew else ()
        return sum(job.subject is subject for job in itertools.chain(self._waiting, held, orphans))

    def cancel(self, subject: Subject) -> list[Job]:
        """Drop the jobs of a subject that are not finished."""
        if self._crew is not None:
            self._take_back(self._crew)
        dropped = [job for job in self._waiting if job.subject is subject]
        self._waiting = deque(job for job in self._waiting if job.subject is not subject)
        if self._crew is not None:
            for worker in self._crew.workers:
                dropped += self._crew.drop(worker, subject)
        return dropped

    def forget(self, subject: Subject) -> None:
        """Drop all that is left of a subject."""
        self.cancel(subject)
        if self._crew is not None:
            self._crew.forget(subject)
        for path in (subject.setup or {}).get("reference", {}).values():
            with contextlib.suppress(OSError):
                Path(path).unlink()

    def go_ahead(self) -> None:
        """Give the workers all they may build while the caller computes."""
        with self.acting() as crew:
            crew.start()
            self._hand_out(crew, self.limits.held)

    def collect(self, subject: Subject, stop: Callable[[], bool] = never) -> None:
        """Build, then time what is built; or until `stop()`."""
        with self.acting() as crew:
            while True:
                self._take_back(crew)
                if self._waiting:
                    crew.start()
                self._hand_out(crew, 1)
                if not _busy(crew) and not (self._waiting and crew.resting):
                    break
                if stop():
                    return
                crew.listen(stop)
            start = time.perf_counter()
            for worker in crew.workers:
                for job in list(worker.jobs.values()):
                    if job.step is JobState.BUILT and not stop():  # not if its worker has died meanwhile
                        limits = job.subject.limits
                        crew.time(worker, job, Plan.of(limits, limits.cut_above(job.subject.incumbent)), stop)
            subject.times.run += time.perf_counter() - start
            self._take_back(crew)
            crew.recycle()
            if self._waiting:
                crew.start()
                self._hand_out(crew, self.limits.held)

    def wait(self, stop: Callable[[], bool] = never) -> None:
        """Of one place: whoever waits says for which subject, by `collect`."""

    def compare(self, contest: Contest, stop: Callable[[], bool] = never) -> None:
        """Rounds of all jobs of a contest in turns, in one process. If that dies, those left begin again."""
        jobs = contest.jobs
        with self.acting() as crew:
            while (left := [job for job in jobs if job.trial is None]) and not stop():
                self._compare(crew, contest, left, stop)
            mine = set(jobs)
            self._waiting = deque(job for job in self._waiting if job not in mine)

    # -- the phases --------------------------------------------------------------------------------------------------

    def _hand_out(self, crew: Crew, depth: int) -> None:
        """Give waiting jobs to ready workers, so that each has `depth` to build; no more than may be held until they are timed."""
        for level in range(1, depth + 1):
            for worker in crew.workers:
                if not self._waiting or worker.process is None:
                    continue
                subject = self._waiting[0].subject
                crew.set_up(worker, subject)
                room = subject.held * len(crew.workers) - sum(len(w.jobs) for w in crew.workers)
                most = subject.held + subject.held // 2  # one may be quicker than the other
                if worker.ready and worker.unbuilt < level and len(worker.jobs) < most and room > 0:
                    crew.build(worker, self._waiting.popleft())

    def _compare(self, crew: Crew, contest: Contest, jobs: list[Job], stop: Callable[[], bool]) -> None:
        crew.start()
        if crew.resting:
            return crew.listen(stop)
        worker = min((w for w in crew.workers if w.process is not None), key=lambda w: not w.ready)
        crew.set_up(worker, jobs[0].subject)
        while _busy(crew) and not stop():  # the others are silent then
            crew.listen(stop)
        for job in jobs:
            if worker.process is not None and not stop():
                crew.set_up(worker, job.subject)
                crew.build(worker, job)
                while job.unbuilt and not stop():
                    crew.listen(stop)
        for job, condition in contest.turns():
            if stop():
                break
            crew.time(worker, job, Plan.one_round(job.subject.limits), stop, condition)
        if not stop():
            for job in jobs:
                if job.step is JobState.BUILT:
                    worker.send({"do": "drop", "bench": job.subject.number, "id": job.number})
                    crew.finish_timed(worker, job)
        self._take_back(crew)

    def _take_back(self, crew: Crew) -> None:
        """Jobs whose workers died are the next to be handed out."""
        self._waiting.extendleft(reversed(crew.orphans))
        crew.orphans.clear()

    def _hired(self) -> Crew:
        if self._crew is None:
            self._crew = Crew(self.workers, self.folder, self.limits, self._warn)
        return self._crew


def _busy(crew: Crew) -> bool:
    """Whether a worker builds, starts or times."""
    return any(w.unbuilt or w.current or (w.process and not w.ready) for w in crew.workers)
