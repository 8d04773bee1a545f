"""What a journal knows of a task: a workload in all its formulations, each of which has records of its own."""

from __future__ import annotations

from collections.abc import Sequence

from tensorsmith.errors import Refusal
from tensorsmith.lang.workload import Workload
from tensorsmith.ops.formulations import formulations, likely
from tensorsmith.records.keys import Timing
from tensorsmith.records.record import Record
from tensorsmith.space.default import default_candidate
from tensorsmith.space.embed import Programs
from tensorsmith.target import Target
from tensorsmith.tuning.journal import Journal


def past(journal: Journal, workload: Workload, target: Target, timing: Timing) -> list[Record]:
    """The trials of a task so far, in the order of their making."""
    found = [r for f in formulations(workload) for r in journal.history(f.workload, target, timing)]
    return sorted((r for r in found if r.run != "finalists"), key=lambda r: r.created)


def seconds(record: Record) -> float | None:
    """A full timing; None for what failed or was cut short."""
    return None if record.trial.at_least else record.seconds


def default_seconds(records: Sequence[Record], workload: Workload, target: Target) -> float | None:
    """What the schedule takes that is used without any search; where that is not known, the first program that ran."""
    ran = [r for r in records if r.seconds is not None]
    if not ran:
        return None
    first = likely(workload).workload
    programs = Programs(target)
    try:
        wanted = programs.key(default_candidate(first, target))
    except Refusal:
        return ran[0].seconds
    same = (r for r in ran if r.workload.key == first.key and programs.key(r.candidate) == wanted)
    return next(same, ran[0]).seconds
