"""The worker processes of a measurer: what each is at, what it says, and what happens when it dies or says nothing."""

from __future__ import annotations

import dataclasses
import json
import selectors
import statistics
import time
from collections import deque
from pathlib import Path

from tensorsmith.errors import InternalError, UserError
from tensorsmith.measure import wire
from tensorsmith.measure.job import Job, Step
from tensorsmith.measure.limits import Limits
from tensorsmith.measure.process import WorkerProcess
from tensorsmith.measure.times import Times
from tensorsmith.measure.timing import Plan, summary
from tensorsmith.search.trial import Status, Trial

_MOST_DEATHS = 20  # of a job's workers, through no fault of its own
_RECENT = 64  # builds whose median is the usual time of one
_OUT_OF_MEMORY = ("out of memory", "bad_alloc", "Allocation failed")  # last words of LLVM and of C++


class Worker:
    """A place for a worker process, and the jobs it has."""

    def __init__(self) -> None:
        self.process: WorkerProcess | None = None
        self.ready = False
        self.attempts = 0  # to start it, in vain
        self.heard = 0.0  # when it last said something, or was started
        self.jobs: dict[int, Job] = {}
        self.candidates = 0
        self.first_rss = self.rss = 0

    @property
    def unbuilt(self) -> int:
        return sum(job.unbuilt for job in self.jobs.values())

    @property
    def current(self) -> Job | None:
        """The job it is at."""
        return next((job for job in self.jobs.values() if job.active), None)

    def send(self, message: wire.Message) -> None:
        if self.process is None:
            raise InternalError("a worker without a process")
        self.process.send(message)


class Crew:
    """Workers. Jobs that are finished are in `finished`, those whose worker died through no fault of theirs in `orphans`."""

    def __init__(self, count: int, folder: Path, limits: Limits, times: Times) -> None:
        self.workers = [Worker() for _ in range(count)]
        self.finished: deque[Job] = deque()
        self.orphans: deque[Job] = deque()
        self.incumbent: float | None = None
        self._folder, self._limits, self._times = folder, limits, times
        self._setup: wire.Message | None = None
        self._started = 0
        self._builds: deque[float] = deque(maxlen=_RECENT)

    def start(self, count: int | None = None) -> None:
        """Start those of the first `count` workers that are missing. They are ready later."""
        for worker in self.workers[:count]:
            if worker.process is None:
                self._started += 1
                worker.process = WorkerProcess(self._folder, self._started)
                worker.ready, worker.heard, worker.candidates = False, time.monotonic(), 0
                if self._setup is not None:
                    worker.send(self._setup)

    def set_up(self, setup: wire.Message) -> None:
        """Tell all workers, those to come too, what they are to measure."""
        self._setup = setup
        for worker in self.workers:
            if worker.process is not None:
                worker.send(setup)

    def build(self, worker: Worker, job: Job) -> None:
        worker.jobs[job.number] = job
        job.step, job.begun = Step.SENT, time.monotonic()
        sketch = json.dumps(job.candidate.sketch.to_json(), sort_keys=True)
        decisions = {k: int(v) for k, v in job.candidate.decisions.items()}
        worker.send({"do": "build", "id": job.number, "sketch": sketch, "decisions": decisions})

    def time(self, worker: Worker, job: Job, plan: Plan) -> None:
        """Time a job that is built, and wait for the end of it."""
        job.step, job.begun = Step.TIMING, time.monotonic()
        worker.send({"do": "time", "id": job.number, "plan": dataclasses.asdict(plan), "keep": job.keep})
        while job.step is Step.TIMING:
            self.listen()

    def drop(self, worker: Worker) -> None:
        """Take all jobs from a worker; it is ended if it is at one."""
        if worker.process is not None and (worker.unbuilt or worker.current):
            self.end(worker)
        for number in worker.jobs if worker.process is not None else ():
            worker.send({"do": "drop", "id": number})
        worker.jobs.clear()

    def recycle(self) -> None:
        """End workers that have served long enough and have nothing to do."""
        for worker in self.workers:
            old = worker.candidates >= self._limits.recycle_after
            if worker.ready and not worker.jobs and (old or worker.rss - worker.first_rss > self._limits.recycle_bytes):
                self.end(worker)

    def end(self, worker: Worker) -> None:
        if worker.process is not None:
            worker.process.kill()
            worker.process, worker.ready = None, False

    def abandon(self) -> None:
        """End all, and forget what they were at."""
        for worker in self.workers:
            self.end(worker)
            worker.jobs.clear()
        self.orphans.clear()

    # -- listening ---------------------------------------------------------------------------------------------------

    def listen(self) -> None:
        """Wait until a worker says something, dies, or has had its time, and act on it."""
        alive = [(w, w.process) for w in self.workers if w.process is not None]
        if not alive:
            raise InternalError("listening, and no worker is alive")
        deadlines = [d for worker, _ in alive if (d := self._deadline(worker)) is not None]
        with selectors.DefaultSelector() as selector:
            for _, process in alive:
                selector.register(process, selectors.EVENT_READ)
                if process.writer is not None:
                    selector.register(process.writer, selectors.EVENT_WRITE)
            selector.select(max(0.0, min(deadlines) - time.monotonic()) if deadlines else None)
        for worker, process in alive:
            process.flush()
            messages, over = process.receive()
            for message in messages:
                self._hear(worker, message)
            deadline = self._deadline(worker)
            if worker.process is not process:
                continue  # ended on what it said
            if over:
                self._bury(worker, process)
            elif deadline is not None and time.monotonic() > deadline:
                self._time_is_up(worker)

    def _deadline(self, worker: Worker) -> float | None:
        """When a worker must have said something; None if nothing is expected of it."""
        if not worker.ready:
            return worker.heard + self._limits.start_seconds
        job = worker.current
        if job is not None:
            return job.begun + self._limit(job.step)
        sent = [j.begun for j in worker.jobs.values() if j.step is Step.SENT]
        return max(min(sent), worker.heard) + self._limit(Step.SENT) if sent else None

    def _limit(self, step: Step) -> float:
        if step is Step.RUNNING:
            return self._limits.run_timeout(self.incumbent)
        if step is Step.TIMING:
            return self._limits.timing_timeout(self.incumbent)
        return self._limits.build_timeout(statistics.median(self._builds) if self._builds else None)

    def _hear(self, worker: Worker, m: wire.Message) -> None:
        did, number = m["did"], m["id"]
        worker.heard, worker.rss = m["at"], m.get("rss", worker.rss)
        if number is None:
            if did == "ready":
                worker.ready, worker.attempts, worker.first_rss = True, 0, worker.rss
            elif did == "failed":
                self._cannot_start(worker, f"{m['status']}: {m['cause']}")
            return
        job = worker.jobs.get(number)
        if job is None:
            return
        if did == "begun":
            job.begun = m["at"]
            job.step = Step.BUILDING if job.step is Step.SENT else job.step
        elif did == "compiled":
            job.step, job.begun, job.build_seconds = Step.RUNNING, m["at"], m["build"]
            self._builds.append(m["build"])
            self._times.build += m["build"]
        elif did == "built":
            job.step = Step.BUILT
            self._times.check += m["check"]
        elif did == "timed":
            job.step = Step.BUILT
            job.rounds += m["times"]
            job.cut, job.run_seconds = m["cut"], job.run_seconds + m["run"]
            if not job.keep:
                self.finish_timed(worker, job)
        elif did == "failed":
            self._fail(worker, job, Status(m["status"]), m["cause"], m["at"] - job.begun)

    # -- ends of jobs ------------------------------------------------------------------------------------------------

    def finish_timed(self, worker: Worker, job: Job) -> None:
        seconds, spread = summary(job.rounds)
        if not job.cut and (self.incumbent is None or seconds < self.incumbent):
            self.incumbent = seconds
        self._finish(worker, job, Status.OK, seconds=seconds, spread=spread)

    def _fail(self, worker: Worker, job: Job, status: Status, cause: str, seconds: float) -> None:
        if job.step in (Step.RUNNING, Step.TIMING):
            job.run_seconds += seconds
            self._times.check += seconds if job.step is Step.RUNNING else 0.0
        else:
            job.build_seconds = seconds
            self._times.build += seconds
        self._finish(worker, job, status, cause)

    def _finish(
        self, worker: Worker, job: Job, status: Status, cause: str = "", seconds: float | None = None, spread: float = 0.0
    ) -> None:
        worker.jobs.pop(job.number, None)
        worker.candidates += 1
        job.step = Step.DONE
        job.trial = Trial(job.candidate, status, seconds, spread, job.cut, cause, job.build_seconds, job.run_seconds)
        self.finished.append(job)

    # -- ends of workers ---------------------------------------------------------------------------------------------

    def _bury(self, worker: Worker, process: WorkerProcess) -> None:
        """A worker has died: the job it was at is to blame."""
        reason, words = process.bury(), process.last_words()
        if not worker.ready:
            return self._cannot_start(worker, f"{reason}: {words}" if words else reason)
        worker.process, worker.ready = None, False
        job = worker.current
        if job is not None:
            doing = "building" if job.step is Step.BUILDING else "running"
            memory = reason == "SIGABRT" and any(w in words for w in _OUT_OF_MEMORY)
            status = Status.OUT_OF_MEMORY if memory else Status.CRASHED
            self._fail(worker, job, status, f"{reason} while {doing}", time.monotonic() - job.begun)
        self._orphan(worker)

    def _time_is_up(self, worker: Worker) -> None:
        if not worker.ready:
            return self._cannot_start(worker, f"not ready after {self._limits.start_seconds:g} s")
        job = worker.current or next(j for j in worker.jobs.values() if j.step is Step.SENT)
        what = "run" if job.step in (Step.RUNNING, Step.TIMING) else "build"
        self.end(worker)
        self._fail(worker, job, Status.TIMED_OUT, f"{what} took too long", time.monotonic() - job.begun)
        self._orphan(worker)

    def _orphan(self, worker: Worker) -> None:
        for job in list(worker.jobs.values()):
            job.deaths += 1
            if job.deaths >= _MOST_DEATHS:
                self._finish(worker, job, Status.CRASHED, "its workers died again and again")
            else:
                job.step = Step.WAITING
                job.rounds.clear()
                self.orphans.append(job)
        worker.jobs.clear()

    def _cannot_start(self, worker: Worker, why: str) -> None:
        self.end(worker)
        worker.attempts += 1
        if worker.attempts >= self._limits.start_attempts:
            raise UserError(f"a measurement worker could not start: {why}")
