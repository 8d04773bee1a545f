"""Why no record was found, told from the parts of the key."""

from __future__ import annotations

import sqlite3

from tensorsmith.errors import UserError
from tensorsmith.lang.workload import Workload
from tensorsmith.records import queries
from tensorsmith.records.keys import Timing, structure_key, target_differences, target_from_json, timing_differences
from tensorsmith.records.record import Invalid
from tensorsmith.target import Target

_MOST_NAMED = 3  # other targets, timings or causes that are listed


def why_missing(connection: sqlite3.Connection, workload: Workload, target: Target, timing: Timing) -> str:
    """The first part of the key that matches nothing; or what is wrong with the records that match."""
    of_workload = queries.groups(connection, "w.key = ?", (workload.key,))
    if not of_workload:
        return _no_workload(connection, workload)
    of_target = [row for row in of_workload if row["target_key"] == target.key]
    if not of_target:
        return _other_targets(of_workload, workload, target)
    of_timing = [row for row in of_target if (row["cache"], row["threads"]) == (timing.cache, timing.threads)]
    if not of_timing:
        return _other_timings(of_target, workload, timing)
    return _unusable(connection, of_timing[0], queries.Where(workload.key, target, timing))


def _no_workload(connection: sqlite3.Connection, workload: Workload) -> str:
    (count,) = connection.execute("SELECT count(*) FROM workload").fetchone()
    if not count:
        return "there are no records yet"
    (alike,) = connection.execute("SELECT count(*) FROM workload WHERE structure = ?", (structure_key(workload),)).fetchone()
    shapes = f", {alike} of them with the same structure but other shapes" if alike else ""
    return f"no such workload: {workload.key} was never tuned; there are records of {count} others{shapes}"


def _other_targets(groups: list[sqlite3.Row], workload: Workload, target: Target) -> str:
    found = {}
    for row in groups:
        try:
            differences = target_differences(target, target_from_json(queries.parsed(row, "target")))
        except (Invalid, UserError) as problem:
            differences = [str(problem)]
        found[row["target_key"]] = f"{row['target_key']} ({', '.join(differences)})"
    return f"workload {workload.key} has no record for the target {target.key}; it has for {_listed(list(found.values()))}"


def _other_timings(groups: list[sqlite3.Row], workload: Workload, timing: Timing) -> str:
    found = []
    for row in groups:
        try:
            found.append(", ".join(timing_differences(timing, Timing(row["cache"], row["threads"]))))
        except UserError as problem:
            found.append(str(problem))
    return f"workload {workload.key} was never timed with {timing}; its records differ: {_listed(found)}"


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
        f"of {group['trials']} trials {ran} ran, but none can be used: cut short, of a candidate that also crashed or gave a wrong "
        f"answer, or invalid (`skipped` has the reasons){failed}"
    )


def _listed(items: list[str]) -> str:
    more = len(items) - _MOST_NAMED
    return "; ".join(items[:_MOST_NAMED]) + (f"; and {more} more" if more > 0 else "")
