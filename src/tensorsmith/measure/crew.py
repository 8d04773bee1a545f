"""The worker processes: what each is at, what it says, and what happens when it dies or says nothing."""

from __future__ import annotations

import dataclasses
import json
import logging
import selectors
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from tensorsmith.errors import InternalError, UserError
from tensorsmith.measure import wire
from tensorsmith.measure.conditions import Condition
from tensorsmith.measure.job import Job, JobState
from tensorsmith.measure.limits import Limits
from tensorsmith.measure.process import NoRoom, WorkerProcess
from tensorsmith.measure.subject import Subject
from tensorsmith.measure.timing import Plan, summary
from tensorsmith.search.trial import Status, Trial

log = logging.getLogger(__name__)

_MOST_DEATHS = 20  # of a job's workers, through no fault of its own
_OUT_OF_MEMORY = ("out of memory", "bad_alloc", "Allocation failed")  # last words of LLVM and of C++
_POLL = 0.1  # seconds between two looks at whether to stop


def never() -> bool:
    """Waits that nothing but their result ends."""
    return False


class Worker:
    """A place for a worker process, and the jobs it has."""

    def __init__(self) -> None:
        self.process: WorkerProcess | None = None
        self.awaited = 0  # setups, the start among them, that it has not answered yet
        self.attempts = 0  # to start or set it up, in vain
        self.rests_until: float | None = None  # when it is started again, if the system killed it
        self.heard = 0.0  # when it last said something, or was started
        self.jobs: dict[int, Job] = {}
        self.benches: dict[int, Subject] = {}  # what it is set up for, the one used last at the end
        self.candidates = 0
        self.first_rss = self.rss = 0

    @property
    def ready(self) -> bool:
        return self.process is not None and not self.awaited

    @property
    def unbuilt(self) -> int:
        return sum(job.unbuilt for job in self.jobs.values())

    @property
    def current(self) -> Job | None:
        """The job it is at."""
        return next((job for job in self.jobs.values() if job.active), None)

    @property
    def grown(self) -> int:
        """Bytes of memory more than at the start, besides what its benches have a right to."""
        return self.rss - self.first_rss - sum(2 * s.bytes for s in self.benches.values())

    def send(self, message: wire.Message) -> None:
        if self.process is None:
            raise InternalError("a worker without a process")
        self.process.send(message)


class Crew:
    """Workers. A job that is finished goes to its subject, one whose worker died through no fault of its own to `orphans`."""

    def __init__(self, count: int, folder: Path, limits: Limits, warn: Callable[[str], None]) -> None:
        """`warn` is told what the user should know and what the crew gets over."""
        self.workers = [Worker() for _ in range(count)]
        self.orphans: deque[Job] = deque()
        self._folder, self._limits, self._warn = folder, limits, warn
        self._started = 0

    def start(self) -> None:
        """Start the workers that are missing, but for those that rest. They are ready later."""
        for worker in self.workers:
            if worker.process is None and (worker.rests_until is None or time.monotonic() >= worker.rests_until):
                self._started, worker.rests_until = self._started + 1, None
                try:
                    worker.process = WorkerProcess(self._folder, self._started)
                except NoRoom as problem:
                    self._rest(worker, str(problem))
                    continue
                worker.awaited, worker.heard, worker.candidates = 1, time.monotonic(), 0

    @property
    def resting(self) -> bool:
        """Whether no worker lives, because those that were killed rest before they are started again."""
        return all(w.process is None for w in self.workers) and any(w.rests_until is not None for w in self.workers)

    def set_up(self, worker: Worker, subject: Subject) -> None:
        """See that a worker has, or will have, a bench for a subject; the one not used for longest goes if there are too many."""
        if worker.process is None:
            return  # it rests; whoever gives it something to build later asks again
        if subject.number in worker.benches:
            worker.benches[subject.number] = worker.benches.pop(subject.number)
            return
        if subject.setup is None:
            raise InternalError("a subject without a setup")
        in_use = {job.subject.number for job in worker.jobs.values()}
        for number in [n for n in worker.benches if n not in in_use]:
            kept = sum(s.bytes for s in worker.benches.values()) + subject.bytes
            if len(worker.benches) < self._limits.benches and kept <= self._limits.bench_bytes:
                break
            self._forget(worker, number)
        worker.benches[subject.number] = subject
        worker.awaited, worker.heard = worker.awaited + 1, time.monotonic()
        worker.send(subject.setup)

    def forget(self, subject: Subject) -> None:
        """No worker needs a bench for the subject any more."""
        for worker in self.workers:
            self._forget(worker, subject.number)

    def _forget(self, worker: Worker, number: int) -> None:
        if worker.benches.pop(number, None) is not None and worker.process is not None:
            worker.send({"do": "forget", "bench": number})

    def build(self, worker: Worker, job: Job) -> None:
        worker.jobs[job.number] = job
        job.step, job.begun = JobState.SENT, time.monotonic()
        sketch = json.dumps(job.candidate.sketch.to_json(), sort_keys=True)
        decisions = {k: int(v) for k, v in job.candidate.decisions.items()}
        worker.send({"do": "build", "bench": job.subject.number, "id": job.number, "sketch": sketch, "decisions": decisions})

    def time(
        self,
        worker: Worker,
        job: Job,
        plan: Plan,
        stop: Callable[[], bool] = never,
        condition: Condition = Condition.ALONE,
    ) -> None:
        """Time a job that is built, and wait for the end of it, or until `stop()`."""
        job.step, job.begun, job.condition = JobState.TIMING, time.monotonic(), condition
        message = {"do": "time", "bench": job.subject.number, "id": job.number, "plan": dataclasses.asdict(plan), "keep": job.keep}
        worker.send(message | {"condition": condition.value})
        while job.step is JobState.TIMING and not stop():
            self.listen(stop)

    def drop(self, worker: Worker, subject: Subject) -> list[Job]:
        """Take all jobs of a subject from a worker; it is ended if it is at one, or has one to build."""
        dropped = [job for job in worker.jobs.values() if job.subject is subject]
        busy = any(job.unbuilt or job.active for job in dropped)
        for job in dropped:
            del worker.jobs[job.number]
            if worker.process is not None and not busy:
                worker.send({"do": "drop", "bench": subject.number, "id": job.number})
        if busy:
            self.end(worker)
            self._orphan(worker)
        return dropped

    def recycle(self) -> None:
        """End workers that have served long enough and have nothing to do."""
        for worker in self.workers:
            old = worker.candidates >= self._limits.recycle_after
            if worker.ready and not worker.jobs and (old or worker.grown > self._limits.recycle_bytes):
                log.debug("a measurement worker has served long enough: %d candidates", worker.candidates)
                self.end(worker)

    def end(self, worker: Worker) -> None:
        if worker.process is not None:
            worker.process.kill()
            self._ended(worker)

    def abandon(self) -> None:
        """End all, and forget what they were at."""
        for worker in self.workers:
            self.end(worker)
            worker.jobs.clear()
        self.orphans.clear()

    # -- listening ---------------------------------------------------------------------------------------------------

    def listen(self, stop: Callable[[], bool] = never) -> None:
        """Wait until a worker says something, dies, or has had its time, and act on it. Comes back now and then to see `stop`."""
        alive = [(w, w.process) for w in self.workers if w.process is not None]
        if self.resting:
            until = min(w.rests_until for w in self.workers if w.rests_until is not None)
            time.sleep(min(max(0.0, until - time.monotonic()), _POLL))
            return
        if not alive:
            raise InternalError("listening, and no worker is alive")
        deadlines = [d for worker, _ in alive if (d := self._deadline(worker)) is not None]
        wait = max(0.0, min(deadlines) - time.monotonic()) if deadlines else None
        if stop is not never:
            wait = _POLL if wait is None else min(wait, _POLL)
        with selectors.DefaultSelector() as selector:
            for _, process in alive:
                selector.register(process, selectors.EVENT_READ)
                if process.writer is not None:
                    selector.register(process.writer, selectors.EVENT_WRITE)
            selector.select(wait)
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
        job = worker.current
        if job is not None:
            return job.begun + job.subject.timeout(job.step)
        if not worker.ready:
            return worker.heard + self._limits.start_seconds
        sent = [j for j in worker.jobs.values() if j.step is JobState.SENT]
        return max(sent[0].begun, worker.heard) + sent[0].subject.timeout(JobState.SENT) if sent else None

    def _hear(self, worker: Worker, m: wire.Message) -> None:
        did, number = m["did"], m["id"]
        worker.heard, worker.rss = m["at"], m.get("rss", worker.rss)
        if number is None:
            self._hear_setup(worker, m)
            return
        job = worker.jobs.get(number)
        if job is None:
            return
        if did == "begun":
            job.begun = m["at"]
            job.step = JobState.BUILDING if job.step is JobState.SENT else job.step
        elif did == "compiled":
            job.step, job.begun, job.build_seconds = JobState.RUNNING, m["at"], m["build"]
            job.subject.builds.append(m["build"])
            job.subject.times.build += m["build"]
        elif did == "built":
            job.step = JobState.BUILT
            job.subject.times.check += m["check"]
        elif did == "timed":
            job.step = JobState.BUILT
            job.rounds[job.condition] += m["times"]
            job.cut, job.run_seconds, job.note = m["cut"], job.run_seconds + m["run"], m["note"]
            if not job.keep:
                self.finish_timed(worker, job)
        elif did == "failed":
            self._fail(worker, job, Status(m["status"]), m["cause"], m["at"] - job.begun)

    def _hear_setup(self, worker: Worker, m: wire.Message) -> None:
        if m["did"] == "started":
            worker.awaited, worker.first_rss = worker.awaited - 1, worker.rss
        elif m["did"] == "ready":
            worker.awaited, worker.attempts = worker.awaited - 1, 0
        elif m["did"] == "failed":
            self._cannot_start(worker, f"{m['status']}: {m['cause']}")

    # -- ends of jobs ------------------------------------------------------------------------------------------------

    def finish_timed(self, worker: Worker, job: Job) -> None:
        seconds, spread = summary(job.rounds[Condition.ALONE])
        subject = job.subject
        if not job.cut and (subject.incumbent is None or seconds < subject.incumbent):
            subject.incumbent = seconds
        self._finish(worker, job, Status.OK, seconds=seconds, spread=spread)

    def _fail(self, worker: Worker, job: Job, status: Status, cause: str, seconds: float) -> None:
        times = job.subject.times
        if job.step in (JobState.RUNNING, JobState.TIMING):
            job.run_seconds += seconds
            times.check += seconds if job.step is JobState.RUNNING else 0.0
        else:
            job.build_seconds = seconds
            times.build += seconds
        self._finish(worker, job, status, cause)

    def _finish(
        self, worker: Worker, job: Job, status: Status, cause: str = "", seconds: float | None = None, spread: float = 0.0
    ) -> None:
        worker.jobs.pop(job.number, None)
        worker.candidates += 1
        job.step = JobState.DONE
        job.trial = Trial(job.candidate, status, seconds, spread, job.cut, cause, job.build_seconds, job.run_seconds, note=job.note)
        job.subject.times.trials += 1
        job.subject.finished.append(job)

    # -- ends of workers ---------------------------------------------------------------------------------------------

    def _bury(self, worker: Worker, process: WorkerProcess) -> None:
        """A worker has died: the job it was at is to blame."""
        reason, words = process.bury(), process.last_words()
        job = worker.current
        if not worker.ready and job is None:
            if reason == "SIGKILL":
                self._ended(worker)
                self._orphan(worker)
                return self._rest(worker, "a measurement worker was killed (SIGKILL) while starting")
            return self._cannot_start(worker, f"{reason}: {words}" if words else reason)
        self._ended(worker)
        log.warning("a measurement worker died of %s; another one takes its place%s", reason, f": {words}" if words else "")
        if job is not None:
            doing = "building" if job.step is JobState.BUILDING else "running"
            memory = reason == "SIGABRT" and any(w in words for w in _OUT_OF_MEMORY)
            status = Status.OUT_OF_MEMORY if memory else Status.CRASHED
            self._fail(worker, job, status, f"{reason} while {doing}", time.monotonic() - job.begun)
        self._orphan(worker)

    def _time_is_up(self, worker: Worker) -> None:
        if not worker.ready and worker.current is None:
            return self._cannot_start(worker, f"not ready after {self._limits.start_seconds:g} s")
        job = worker.current or next(j for j in worker.jobs.values() if j.step is JobState.SENT)
        what = "run" if job.step in (JobState.RUNNING, JobState.TIMING) else "build"
        log.info("a measurement worker is ended and started again: the %s of a candidate took too long", what)
        self.end(worker)
        self._fail(worker, job, Status.TIMED_OUT, f"{what} took too long", time.monotonic() - job.begun)
        self._orphan(worker)

    def _orphan(self, worker: Worker) -> None:
        for job in list(worker.jobs.values()):
            job.deaths += 1
            if job.deaths >= _MOST_DEATHS:
                self._finish(worker, job, Status.CRASHED, "its workers died again and again")
            else:
                job.step = JobState.WAITING
                for times in job.rounds.values():
                    times.clear()
                self.orphans.append(job)
        worker.jobs.clear()

    def _cannot_start(self, worker: Worker, why: str) -> None:
        log.warning("a measurement worker could not start: %s", why)
        self.end(worker)
        self._orphan(worker)
        worker.attempts += 1
        if worker.attempts >= self._limits.start_attempts:
            raise UserError(f"a measurement worker could not start: {why}")

    def _rest(self, worker: Worker, why: str) -> None:
        """The system is at fault, not the worker: it is started again after a pause; any number of times if others are at work."""
        worker.attempts += 1
        limits = self._limits
        if worker.attempts >= limits.killed_attempts and not any(w.ready for w in self.workers):
            raise UserError(
                f"{why}, {worker.attempts} times in a row. The system does so when memory runs out: free some, or have fewer "
                f"workers by a smaller TENSORSMITH_NUM_THREADS"
            )
        pause = limits.killed_pause * 2 ** (min(worker.attempts, limits.killed_attempts) - 1)
        worker.rests_until = time.monotonic() + pause
        log.warning("%s; it is started again in %g s", why, pause)
        self._warn(f"{why}, perhaps for want of memory; it is started again in {pause:g} s")

    def _ended(self, worker: Worker) -> None:
        worker.process, worker.awaited = None, 0
        worker.benches.clear()
