"""What a record file knows, as data: of its workloads, of one of them, of a model's tasks. `cli/records.py` shows it.

Times are in seconds, moments in seconds since 1970. What is not known is None.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tensorsmith.cli.computation import AS_IT_IS, Loading, is_model, is_module, load, load_fixed
from tensorsmith.errors import UserError
from tensorsmith.graph.model import Model
from tensorsmith.lang.flops import flops
from tensorsmith.lang.workload import Workload
from tensorsmith.records import Record, Store, Summary, Timing
from tensorsmith.records.explain import KeyPart
from tensorsmith.report.collect import standing
from tensorsmith.report.data import Setting, Task
from tensorsmith.rewrites.formulations import formulations
from tensorsmith.space.sketch.sketch import Candidate
from tensorsmith.targets.target import native

_SHORTEST_KEY = 4  # characters of a workload's key that may stand for it


@dataclass(frozen=True)
class Kept:
    """What a file holds of one workload on one target under one timing."""

    key: str
    workload: str
    target: str
    cache: str
    threads: int
    trials: int
    failed: int
    best_seconds: float | None
    flops: int
    last_trial: float

    @staticmethod
    def of(s: Summary) -> Kept:
        return Kept(
            key=s.workload.key,
            workload=s.title,
            target=s.target.key,
            cache=s.timing.cache,
            threads=s.timing.threads,
            trials=s.trials,
            failed=s.failed,
            best_seconds=s.best,
            flops=flops(s.workload),
            last_trial=s.last,
        )

    @property
    def timing(self) -> Timing:
        return Timing(self.cache, self.threads)


@dataclass(frozen=True)
class Described:
    """A candidate: its key, the structure, and the numbers for its holes."""

    key: str
    sketch: str
    decisions: Mapping[str, int]

    @staticmethod
    def of(key: str, candidate: Candidate) -> Described:
        return Described(key, candidate.sketch.brief(), dict(candidate.decisions))


@dataclass(frozen=True)
class Timed:
    """A candidate and its time."""

    seconds: float | None
    spread: float
    measured: float
    note: str
    candidate: Described

    @staticmethod
    def of(record: Record) -> Timed:
        described = Described.of(record.key, record.candidate)
        return Timed(record.seconds, record.trial.spread, record.created, record.trial.note, described)


@dataclass(frozen=True)
class Best:
    """The fastest program of a workload; where there is none, `why`."""

    kept: Kept
    best: Timed | None
    why: str | None


@dataclass(frozen=True)
class Top:
    """The fastest candidates of a workload, the fastest first."""

    kept: Kept
    candidates: tuple[Timed, ...]


@dataclass(frozen=True)
class TrialLine:
    """A trial. `at_least`: the timing was cut short. `best_seconds`: so far."""

    number: int
    made: float
    run: str
    status: str
    seconds: float | None
    at_least: bool
    best_seconds: float | None
    candidate: str
    cause: str


@dataclass(frozen=True)
class History:
    """The trials of a workload in the order of their making."""

    kept: Kept
    trials: tuple[TrialLine, ...]


@dataclass(frozen=True)
class Failed:
    """Trials that failed in one way, and the first of their candidates."""

    status: str
    cause: str
    count: int
    example: Described | None


@dataclass(frozen=True)
class Failures:
    """What failed of a workload, the most frequent first."""

    kept: Kept
    failures: tuple[Failed, ...]


@dataclass(frozen=True)
class Why:
    """What is found for a workload on this machine, or why nothing is: each part of the key, and what the file has instead."""

    workload: str
    parts: tuple[KeyPart, ...]
    seconds: float | None
    candidate: str | None
    reason: str | None


@dataclass(frozen=True)
class TaskRecord:
    """The best record of a task. `source` says where `seconds`, of one call, are from: a step of the network, the kernel
    alone, an estimate; `share` is of the model's time; `default_seconds` are those without a search, from the same source."""

    task: str
    key: str
    shapes: str
    calls: int
    seconds: float | None
    source: str
    share: float | None
    flops: int
    default_seconds: float | None
    trials: int
    failed: int
    candidate: str | None

    @staticmethod
    def of(t: Task) -> TaskRecord:
        return TaskRecord(
            task=t.name,
            key=t.key,
            shapes=t.shapes,
            calls=t.weight,
            seconds=t.seconds,
            source=t.source,
            share=t.share,
            flops=t.flops,
            default_seconds=t.before,
            trials=t.trials,
            failed=t.failed,
            candidate=t.candidate or None,
        )

    @property
    def speed_up(self) -> float | None:
        """Over the default schedule."""
        return self.default_seconds / self.seconds if self.default_seconds and self.seconds else None


@dataclass(frozen=True)
class ModelRecords:
    """The best records of a model's tasks for one target and timing, those first that take most of the time.

    `seconds` is the sum over the tasks of calls times seconds, `default_seconds` the same without a search."""

    model: str
    target: str
    timing: str
    trials: int
    seconds: float
    default_seconds: float
    tasks: tuple[TaskRecord, ...]

    @staticmethod
    def of(model: Model, s: Setting) -> ModelRecords:
        return ModelRecords(
            model=model.name,
            target=s.target,
            timing=s.timing,
            trials=s.trials,
            seconds=s.after,
            default_seconds=s.before,
            tasks=tuple(TaskRecord.of(t) for t in s.tasks),
        )


# -- what a name stands for ------------------------------------------------------------------------------------------------


def model_of(name: str, given: Loading) -> Model | None:
    """The model that a name stands for; None: it is a workload's."""
    if is_model(name) or is_module(name):
        return load_fixed(name, given)
    given.refuse_for(name)
    return None


def workloads_of(store: Store, name: str, given: Loading = AS_IT_IS) -> list[Workload]:
    """The workload whose key in the file begins like that, or the one of that name; of a model, those of all its tasks."""
    model = model_of(name, given)
    if model is not None:
        tasks = [t for pairs in (False, True) for t in model.with_pairs(pairs).tasks()]  # as any machine computes them
        return list(dict.fromkeys(f.workload for t in tasks for f in t.formulations or formulations(t.workload)))
    if len(name) >= _SHORTEST_KEY:
        found = {s.workload.key: s.workload for s in store.workloads() if s.workload.key.startswith(name)}
        if len(found) > 1:
            raise UserError(f"{name} is the beginning of {len(found)} keys in {store.path}: {', '.join(found)}")
        if found:
            return list(found.values())
    try:
        return [load(name)]
    except UserError as problem:
        raise UserError(f"no workload in {store.path} has a key that begins with {name!r}; ", *problem.parts) from problem


def summaries_of(store: Store, name: str, given: Loading = AS_IT_IS) -> list[Summary]:
    """What the file has of a workload, or of a model's, for each target and timing. Raises `UserError` if it has nothing."""
    wanted = workloads_of(store, name, given)
    keys = {w.canonical_key for w in wanted}
    found = [s for s in store.workloads() if s.workload.canonical_key in keys]
    if not found and len(wanted) == 1:
        target = native()
        why = store.why_missing(wanted[0], target, Timing("warm", target.cores))
        raise UserError(f"{store.path} has no record of {name}: {why}")
    if not found:
        raise UserError(f"{store.path} has no record of any task of {name}")
    return found


# -- what the file says of it ----------------------------------------------------------------------------------------------


def best_of_model(store: Store, model: Model) -> list[ModelRecords]:
    """The best record of every task, for each target and timing. Raises `UserError` if there is none."""
    found = [ModelRecords.of(model, s) for s in standing(store, model)]
    if not found:
        raise UserError(
            f"{store.path} has no record of any task of {model.name}; give the file that it was tuned with, "
            "and the shapes of that time"
        )
    return found


def best_of(store: Store, s: Summary) -> Best:
    record = store.best(s.workload, s.target, s.timing)
    if record is None:
        return Best(Kept.of(s), None, store.why_missing(s.workload, s.target, s.timing))
    return Best(Kept.of(s), Timed.of(record), None)


def top_of(store: Store, s: Summary, k: int) -> Top:
    return Top(Kept.of(s), tuple(Timed.of(r) for r in store.top(s.workload, s.target, s.timing, k)))


def history_of(store: Store, s: Summary, last: int) -> History:
    """The `last` so many trials; 0: all."""
    lines: list[TrialLine] = []
    best: float | None = None
    for number, record in enumerate(store.history(s.workload, s.target, s.timing), 1):
        t = record.trial
        if t.seconds is not None and not t.at_least:
            best = min(t.seconds, best or t.seconds)
        lines.append(
            TrialLine(number, record.created, record.run, t.status.value, t.seconds, t.at_least, best, record.key, t.cause)
        )
    return History(Kept.of(s), tuple(lines[-last:]))


def failures_of(store: Store, s: Summary) -> Failures:
    found = store.failures(s.workload, s.target, s.timing)
    causes = [
        Failed(status.value, cause, count, Described.of(example.key, example.candidate) if example else None)
        for (status, cause), (count, example) in found.items()
    ]
    return Failures(Kept.of(s), tuple(causes))


def why_of(store: Store, wanted: Workload, timing: Timing) -> Why:
    """On this machine."""
    target = native()
    found = store.best(wanted, target, timing)
    return Why(
        workload=wanted.key,
        parts=tuple(store.key_parts(wanted, target, timing)),
        seconds=found.seconds if found else None,
        candidate=found.key if found else None,
        reason=None if found else store.why_missing(wanted, target, timing),
    )
