"""Why no record was found, told from the parts of the key."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from tensorsmith.errors import UserError
from tensorsmith.lang.workload import Workload
from tensorsmith.records import queries
from tensorsmith.records.keys import Timing, structure_key, timing_differences
from tensorsmith.records.record import Invalid
from tensorsmith.targets.target import Target, target_differences

_MOST_NAMED = 3  # other targets, timings or causes that are listed


@dataclass(frozen=True)
class KeyPart:
    """One part of a key. `records`: how many have it and all parts before it; `others`: what there is instead of none."""

    name: str
    value: str
    records: int
    others: str = ""


def key_parts(connection: sqlite3.Connection, workload: Workload, target: Target, timing: Timing) -> list[KeyPart]:
    """The parts of a key in the order in which they are looked up."""
    of_workload, of_target, of_timing = _narrowed(connection, workload, target, timing)
    return [
        KeyPart("workload", workload.key, _trials(of_workload), "" if of_workload else _other_workloads(connection, workload)),
        KeyPart("target", target.key, _trials(of_target), "" if of_target else _listed(_targets(of_workload, target))),
        KeyPart("timing", str(timing), _trials(of_timing), "" if of_timing else _listed(_timings(of_target, timing))),
    ]


def why_missing(connection: sqlite3.Connection, workload: Workload, target: Target, timing: Timing) -> str:
    """The first part of the key that matches nothing; or what is wrong with the records that match."""
    of_workload, of_target, of_timing = _narrowed(connection, workload, target, timing)
    if not of_workload:
        others = _other_workloads(connection, workload)
        return f"no such workload: {workload.key} was never tuned; {others}" if others else "there are no records yet"
    if not of_target:
        known = _listed(_targets(of_workload, target))
        return f"workload {workload.key} has no record for the target {target.key}; it has for {known}"
    if not of_timing:
        known = _listed(_timings(of_target, timing))
        return f"workload {workload.key} was never timed with {timing}; its records differ: {known}"
    return _unusable(connection, of_timing[0], queries.Where(workload, target, timing))


def _narrowed(
    connection: sqlite3.Connection, workload: Workload, target: Target, timing: Timing
) -> tuple[list[sqlite3.Row], list[sqlite3.Row], list[sqlite3.Row]]:
    """The groups of records with that workload; of those, with that target; of those, with that timing."""
    of_workload = queries.groups(connection, "w.canonical = ?", (workload.canonical_key,))
    of_target = [row for row in of_workload if row["target_key"] == target.key]
    of_timing = [row for row in of_target if (row["cache"], row["threads"]) == (timing.cache, timing.threads)]
    return of_workload, of_target, of_timing


def _trials(groups: list[sqlite3.Row]) -> int:
    return sum(row["trials"] for row in groups)


def _other_workloads(connection: sqlite3.Connection, workload: Workload) -> str:
    """What else was tuned; empty if nothing was."""
    (count,) = connection.execute("SELECT count(*) FROM workload").fetchone()
    if not count:
        return ""
    (alike,) = connection.execute("SELECT count(*) FROM workload WHERE structure = ?", (structure_key(workload),)).fetchone()
    shapes = f", {alike} of them with the same structure but other shapes" if alike else ""
    return f"there are records of {count} other{'s' if count > 1 else ''}{shapes}"


def _targets(groups: list[sqlite3.Row], target: Target) -> list[str]:
    found = {}
    for row in groups:
        try:
            differences = target_differences(target, Target.from_json(queries.parsed(row, "target")))
        except (Invalid, UserError) as problem:
            differences = [str(problem)]
        found[row["target_key"]] = f"{row['target_key']} ({', '.join(differences)})"
    return list(found.values())


def _timings(groups: list[sqlite3.Row], timing: Timing) -> list[str]:
    found = []
    for row in groups:
        try:
            found.append(", ".join(timing_differences(timing, Timing(row["cache"], row["threads"]))))
        except UserError as problem:
            found.append(str(problem))
    return found


def _unusable(connection: sqlite3.Connection, group: sqlite3.Row, where: queries.Where) -> str:
    causes = [
        f"{row['count']} x {row['status']}{': ' + row['cause'] if row['cause'] else ''}"
        for row in queries.failures(connection, where)
    ]
    if group["failed"] == group["trials"]:
        return f"all {group['trials']} trials failed: {_listed(causes)}"
    ran = group["trials"] - group["failed"]
    failed = f"; the others failed: {_listed(causes)}" if causes else ""
    return (
        f"of {group['trials']} trials {ran} ran, but none can be used: cut short, of a candidate that failed later or ever crashed "
        f"or gave a wrong answer, or invalid (`skipped` has the reasons){failed}"
    )


def _listed(items: list[str]) -> str:
    more = len(items) - _MOST_NAMED
    return "; ".join(items[:_MOST_NAMED]) + (f"; and {more} more" if more > 0 else "")
