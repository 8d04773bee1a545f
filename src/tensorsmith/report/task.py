"""One task of a report: all that the record file knows of a workload, in whatever formulation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tensorsmith.backends import backend_of
from tensorsmith.errors import Refusal
from tensorsmith.graph.tasks import Task as ModelTask
from tensorsmith.lang.workload import Workload
from tensorsmith.records import Record, Store, Timing, candidate_key
from tensorsmith.records.keys import IN_NETWORK
from tensorsmith.records.record import ranked
from tensorsmith.report import data
from tensorsmith.report.candidates import Candidates, decisions, in_order
from tensorsmith.report.changes import changes
from tensorsmith.report.curves import Clock, curve, full_seconds, trials
from tensorsmith.rewrites.formulations import Options, likely
from tensorsmith.space.sketch.sketch import Candidate
from tensorsmith.targets.target import Target
from tensorsmith.tuning.history.trials import default_record
from tensorsmith.tuning.progress.failures import Failures
from tensorsmith.tuning.roofline import work


@dataclass(frozen=True)
class Subject:
    """What a task is about: a workload in some formulations, its name, and how often the network runs it."""

    name: str
    workload: Workload
    options: Options
    weight: int = 1
    origins: tuple[str, ...] = ()

    @staticmethod
    def of_model(task: ModelTask, options: Options) -> Subject:
        return Subject(task.name, task.workload, options, task.weight, task.origins)

    @property
    def shapes(self) -> str:
        """`1x56x56x64, 3x3x64x64 -> 1x56x56x64`; vectors and scalars that are read are left out."""
        buffers = self.workload.buffers
        read = [_shape(b.shape) for b in self.workload.inputs if len(b.shape) > 1]
        return f"{', '.join(read)} -> {', '.join(_shape(buffers[n].shape) for n in self.workload.outputs)}"


class Known:
    """The records of a subject for one target and timing, and of its steps in a network."""

    def __init__(self, subject: Subject, store: Store, target: Target, timing: Timing) -> None:
        self.subject, self.target = subject, target
        in_network = Timing(IN_NETWORK, timing.threads)
        searched = subject.options if timing != in_network else ()
        self.history = _of_all(searched, lambda w: store.history(w, target, timing))
        self.best = _first(_of_all(searched, lambda w: store.top(w, target, timing, 1)))
        self.network_history = _of_all(subject.options, lambda w: store.history(w, target, in_network))
        self.network_best = _first(_of_all(subject.options, lambda w: store.top(w, target, in_network, 1)))

    @property
    def moments(self) -> list[float]:
        """When the records of the search were made."""
        return [r.created for r in self.history]

    @property
    def empty(self) -> bool:
        return not self.history and not self.network_history

    def task(self, clock: Clock, candidates: Candidates) -> data.Task:
        """The task, but for its share of the network's time."""
        target, default = self.target, self._default()
        brief = self.brief(candidates)
        searched = trials(self.history)
        points, improvements = curve(searched, clock, self._formulations)
        forecasts = candidates.forecasts(searched, target)
        found = self.network_best or self.best
        alone = brief.default if brief.default_is == data.DEFAULT else None
        plain_seconds = brief.network_default if self.network_best else alone
        plain = candidates.listing(default, target, self._formulation(default), plain_seconds) if default else None
        formulation = self._formulation(found.candidate) if found else ""
        return replace(
            brief,
            points=points,
            improvements=improvements,
            failures=_failures([*self.history, *self.network_history]),
            forecasts=forecasts,
            in_order=in_order(forecasts),
            winner=candidates.listing(found.candidate, target, formulation, brief.seconds) if found else None,
            plain=plain,
            differences=self._differences(default, found.candidate) if default and found else (),
        )

    def brief(self, candidates: Candidates) -> data.Task:
        """The task in figures alone, without its curves and programs, and without its share."""
        subject = self.subject
        searched = trials(self.history)
        needed = work(subject.workload)
        before, before_is = self._before()
        found = self.network_best or self.best
        seconds, source = self._seconds(candidates)
        return data.Task(
            name=subject.name,
            key=subject.workload.key,
            shapes=subject.shapes,
            weight=subject.weight,
            origins=subject.origins,
            flops=int(needed.flops),
            bytes=needed.bytes,
            trials=len(searched),
            failed=sum(not r.trial.ok for r in searched),
            best=self.best.seconds if self.best else None,
            default=before,
            default_is=before_is,
            network_best=self.network_best.seconds if self.network_best else None,
            network_default=self._default_seconds(self.network_history),
            seconds=seconds,
            source=source,
            share=None,
            candidate=found.key if found else "",
        )

    def _default(self) -> Candidate | None:
        """The schedule that is used without any search."""
        workload = likely(self.subject.workload, self.subject.options).workload
        try:
            return backend_of(self.target).default_candidate(workload, self.target)
        except Refusal:
            return None

    def _before(self) -> tuple[float | None, str]:
        """Seconds without a search: of the default schedule; where that was not timed, of the first program that ran."""
        seconds = self._default_seconds(self.history)
        if seconds is not None:
            return seconds, data.DEFAULT
        return next((s for r in self.history if (s := full_seconds(r))), None), data.FIRST

    def _default_seconds(self, history: Sequence[Record]) -> float | None:
        """By the last full timing of the default schedule."""
        timed = [r for r in reversed(history) if full_seconds(r)]
        found = default_record(timed, likely(self.subject.workload, self.subject.options).workload, self.target)
        return found.seconds if found else None

    def _seconds(self, candidates: Candidates) -> tuple[float | None, str]:
        """Seconds of one call, and where they are from."""
        if self.network_best is not None:
            return self.network_best.seconds, data.IN_NETWORK
        if self.best is not None:
            return self.best.seconds, data.ALONE
        default = self._default()
        expected = candidates.expected(default, self.target) if default else None
        return expected, data.UNKNOWN if expected is None else data.ESTIMATED

    @property
    def _formulations(self) -> dict[str, str]:
        """Names by the keys of workloads; none where there is no choice."""
        options = self.subject.options
        return {f.workload.key: f.name if len(options) > 1 else "" for f in options}

    def _formulation(self, candidate: Candidate) -> str:
        return self._formulations[candidate.sketch.workload.key]

    def _differences(self, default: Candidate, winner: Candidate) -> tuple[data.Change, ...]:
        return changes(default, winner, (self._formulation(default), self._formulation(winner)))


def _of_all(options: Options, ask: Callable[[Workload], list[Record]]) -> list[Record]:
    """What there is of every formulation, in the order of their making."""
    return sorted((r for f in options for r in ask(f.workload)), key=lambda r: r.created)


def _first(records: Sequence[Record]) -> Record | None:
    """The one to use."""
    return next(iter(ranked(records)), None)


def _failures(history: Sequence[Record]) -> tuple[data.Failure, ...]:
    """By status and cause, the most frequent first; numbers within a cause do not make it another one."""
    failures = Failures()
    for record in history:
        failures.add(record.trial)
    found = []
    for (status, cause), count in failures.counts.most_common():
        example = failures.examples[status, cause].candidate
        found.append(data.Failure(status.value, cause, count, candidate_key(example), decisions(example)))
    return tuple(found)


def _shape(sizes: Sequence[int]) -> str:
    return "x".join(map(str, sizes)) or "scalar"
