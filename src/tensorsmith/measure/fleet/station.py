"""What a node does: obeys a tuner's messages with a workshop of its own, and says what came out.

Worker processes, their crashes, hangs and wrong answers, and that one program is timed at a time, are the workshop's, as on the
tuner's own machine. A station knows nothing of how messages come to it.
"""

from __future__ import annotations

import functools
import importlib
import json

import tensorsmith
from tensorsmith.backends import backend_of
from tensorsmith.errors import InternalError, TensorsmithError, UserError
from tensorsmith.lang.define import compute, placeholder, reduce_axis, workload
from tensorsmith.lang.define import sum as sum_of
from tensorsmith.lang.workload import Workload
from tensorsmith.measure.bench import array_bytes
from tensorsmith.measure.contest import Contest
from tensorsmith.measure.crew import never
from tensorsmith.measure.fleet import forms
from tensorsmith.measure.fleet.health import health
from tensorsmith.measure.fleet.imports import check_hook, check_import
from tensorsmith.measure.job import Job
from tensorsmith.measure.limits import Limits
from tensorsmith.measure.measurer import Measurer
from tensorsmith.measure.subject import Subject
from tensorsmith.measure.times import Times
from tensorsmith.measure.wire import Message
from tensorsmith.measure.workshop import Workshop
from tensorsmith.rewrites.formulations import formulation_named
from tensorsmith.space.sketch.sketch import Candidate, Sketch
from tensorsmith.targets.emulator import emulator
from tensorsmith.targets.target import Target, native

_VERBS = ("hello", "setup", "forget", "measure", "compare")
_SETUP = ("workload", "formulation", "target", "backend", "seed", "threads", "check", "cache", "hook", "memory")  # for workers
_CALIBRATION = 96  # rows, columns and steps of the product that is the calibration kernel: some microseconds, in any first cache


class Station:
    """A node's work. `obey` gives the answer to a message; whatever goes wrong is one, too."""

    def __init__(self) -> None:
        self._workshop: Workshop | None = None
        self._target: Target | None = None
        self._calibration: Measurer | None = None
        self._subjects: dict[int, tuple[Subject, Workload]] = {}
        self._said: list[str] = []  # what the workshop warns of

    def obey(self, m: Message) -> Message:
        """The answer: `did` what it was told to `do`, or `cannot`, and why."""
        do, lease = m.get("do"), m.get("lease")
        try:
            if do not in _VERBS:
                raise UserError(f"a node cannot {do!r:.40}")
            found: Message = getattr(self, f"_{do}")(m)
            said, self._said = self._said, []
            return {"did": do, "lease": lease, "said": said, **found}
        except (TensorsmithError, OSError, MemoryError) as problem:
            return {"did": "cannot", "lease": lease, "why": _line(problem)}
        except Exception as problem:  # a message that is malformed; the tuner has to be told whatever it is
            return {"did": "cannot", "lease": lease, "why": f"{do!r:.40} fails: {type(problem).__name__}: {_line(problem)}"}

    def close(self) -> None:
        if self._workshop is not None:
            self._workshop.close()

    # -- messages --------------------------------------------------------------------------------------------------------------

    def _hello(self, m: Message) -> Message:
        here, emulated = native(), emulator()
        found: Message = {
            "version": tensorsmith.__version__,
            "machine": here.to_json(),
            "key": here.key,
            "emulated": emulated,
            "cores": here.cores,
            "why_not": None,
            **vars(health()),
        }
        if m.get("target") is None or m["version"] != tensorsmith.__version__:
            return found
        check_import(m.get("backend"))
        if m.get("backend"):
            importlib.import_module(m["backend"])
        self._target = target = Target.from_json(m["target"])
        limits: Limits = forms.limits_of_form(m["limits"])
        self._workshop = Workshop(here.cores, limits, self._said.append)
        found["why_not"] = self._workshop.why_not(target)
        if found["why_not"] is None and target.cores > here.cores and not emulated:
            found["why_not"] = f"is for {target.cores} cores, this machine has {here.cores}"
        if found["why_not"] is None:
            self._workshop.start()  # the workers load meanwhile
        return found

    def _setup(self, m: Message) -> Message:
        check_import(m.get("backend"))
        check_hook(m.get("hook"))
        formulation = formulation_named(Workload.from_json(m["workload"]), m["formulation"])
        subject = Subject(self._open().limits, Times(self._open().workers), array_bytes(formulation.workload))
        subject.reference = forms.arrays_of_form(m["outputs"])
        subject.setup = {name: m[name] for name in _SETUP} | {"do": "setup", "bench": subject.number}
        self._open().prepare(subject)
        self._subjects[m["bench"]] = subject, formulation.workload
        self._open().set_up(subject)
        return {}

    def _forget(self, m: Message) -> Message:
        known = self._subjects.pop(m["bench"], None)
        if known is not None:
            self._open().forget(known[0])
        return {}

    def _measure(self, m: Message) -> Message:
        workshop, jobs = self._open(), [self._job(form) for form in m["jobs"]]
        subjects = {job.subject.number: job.subject for job in jobs}
        for subject in subjects.values():
            subject.incumbent = m.get("incumbent")
        calibration = [self._calibrating()] if m.get("calibrate") else []
        workshop.submit([*jobs, *calibration])
        for subject in [*subjects.values(), *(job.subject for job in calibration)]:
            while workshop.pending(subject):
                workshop.collect(subject)
            subject.finished.clear()
        seconds = next((job.trial.seconds for job in calibration if job.trial is not None), None)
        return {"trials": [forms.trial_to_form(job) for job in jobs], "calibration": seconds, **vars(health())}

    def _compare(self, m: Message) -> Message:
        jobs = [self._job(form, keep=True) for form in m["jobs"]]
        self._open().compare(Contest(jobs, forms.turns_of_form(m["turns"])), never)
        for job in jobs:
            job.subject.finished.clear()
        return {"trials": [forms.trial_to_form(job) for job in jobs], "calibration": None, **vars(health())}

    # -- small things ----------------------------------------------------------------------------------------------------------

    def _open(self) -> Workshop:
        if self._workshop is None:
            raise InternalError("a node that was not greeted")
        return self._workshop

    def _job(self, form: Message, keep: bool = False) -> Job:
        subject, of = self._subjects[form["bench"]]
        candidate = Candidate(_sketch(of, form["sketch"]), {str(k): int(v) for k, v in form["decisions"].items()})
        return Job(form["id"], subject, candidate, keep=keep)

    def _calibrating(self) -> Job:
        """The calibration kernel once more: the default schedule of a small product, built and timed like any candidate."""
        if self._calibration is None:
            self._calibration = Measurer(calibration_workload(), self._target, check=False, runner=self._open())
            self._calibration.prepare()
        subject = self._calibration._subject
        subject.incumbent = None  # never cut short
        target = self._target or native()
        return Job(-1, subject, backend_of(target).default_candidate(self._calibration.workload, target))


@functools.cache
def calibration_workload() -> Workload:
    """A product that every node has to do in the same time as its peers."""
    n = _CALIBRATION
    a, b, k = placeholder((n, n), name="a"), placeholder((n, n), name="b"), reduce_axis(n, name="k")
    return workload([a, b, compute((n, n), lambda i, j: sum_of(a[i, k] * b[k, j], axis=k), name="product")])


@functools.lru_cache(maxsize=64)
def _sketch(of: Workload, text: str) -> Sketch:
    """Most candidates share a few structures."""
    return Sketch.from_json(of, json.loads(text))


def _line(problem: BaseException) -> str:
    """The first and the last line of what is wrong: between them there may be a traceback."""
    lines = [" ".join(line.split()) for line in str(problem).splitlines() if line.strip()] or [type(problem).__name__]
    return lines[0] if len(lines) == 1 else f"{lines[0]} ... {lines[-1]}"
