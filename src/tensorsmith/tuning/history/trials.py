"""The trials of a task that a journal knows: of a workload in all its formulations, each of which has records of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tensorsmith.backends import backend_of
from tensorsmith.errors import Refusal
from tensorsmith.lang.workload import Workload
from tensorsmith.records.keys import Timing
from tensorsmith.records.record import FINALS, Record
from tensorsmith.rewrites.formulations import Options, likely
from tensorsmith.space.population.embed import Programs
from tensorsmith.targets.target import Target
from tensorsmith.tuning.history.journal import Journal


def trials_of(journal: Journal, target: Target, timing: Timing, options: Options) -> list[Record]:
    """The trials of a task so far, in all its formulations, in the order of their making, each with its candidate's last result."""
    found = [r for f in options for r in _corrected(journal.history(f.workload, target, timing))]
    return sorted(found, key=lambda r: r.created)


def _corrected(history: Sequence[Record]) -> list[Record]:
    """The trials of a search, with what came out when some of the candidates were timed once more."""
    again = {r.key: r.trial for r in history if r.run in FINALS}
    trials = [r for r in history if r.run not in FINALS]
    return [replace(r, trial=again.get(r.key, r.trial)) for r in trials] if again else trials


def seconds(record: Record) -> float | None:
    """A full timing; None for what failed or was cut short."""
    return None if record.trial.at_least else record.seconds


def default_seconds(records: Sequence[Record], target: Target, options: Options) -> float | None:
    """What the schedule takes that is used without any search; where that is not known, the first program that ran."""
    ran = [r for r in records if r.seconds is not None]
    if not ran:
        return None
    return (default_record(ran, likely(options[0].original, options).workload, target) or ran[0]).seconds


def default_record(records: Sequence[Record], workload: Workload, target: Target) -> Record | None:
    """The first of the records whose program is that of the default schedule of a workload."""
    programs = Programs()
    try:
        wanted = programs.key(backend_of(target).default_candidate(workload, target))
    except Refusal:
        return None
    return next((r for r in records if r.workload.key == workload.key and programs.key(r.candidate) == wanted), None)
