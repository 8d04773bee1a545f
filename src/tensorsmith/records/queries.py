"""The SQL that reads a record file; rows come out as the JSON forms of `record`."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tensorsmith.lang.workload import Workload
from tensorsmith.records.keys import Timing
from tensorsmith.records.record import FINALS, FORMAT, WINNER, Invalid
from tensorsmith.targets.target import Target

COLUMNS = (
    "r.uid, r.cache, r.threads, r.run, r.created, r.candidate_key, r.candidate, r.status, r.seconds, r.spread, r.at_least, "
    "r.cause, r.build_seconds, r.run_seconds, r.note, t.json AS target, w.key AS workload_key"
)
JOINED = "record r JOIN workload w ON w.id = r.workload JOIN target t ON t.id = r.target"

# What counts of a candidate is its last trial that was not cut short: finalists are measured again, and better; a time that was
# luck is gone then, and so is a program that no longer works. One that ever crashed or gave a wrong answer, however it was timed,
# is not trusted again. The winner of the last final stands before all that was known when it won, see `record.ranked`.
_RANKED = f"""
    WITH mine AS (SELECT r.id, r.candidate_key, r.status, r.seconds, r.at_least, r.created, r.run FROM {JOINED} WHERE {{where}}),
    trials AS (
        SELECT *, row_number() OVER (PARTITION BY candidate_key ORDER BY created DESC, id DESC) AS age FROM mine WHERE NOT at_least
    ),
    usable AS (SELECT * FROM trials WHERE age = 1 AND status = 'ok' AND seconds > 0 AND candidate_key NOT IN ({{distrusted}})),
    winner AS (SELECT id, seconds, created FROM usable WHERE run = '{WINNER}' ORDER BY created DESC, id DESC LIMIT 1),
    standing AS (
        SELECT u.*, coalesce(u.created <= w.created AND u.id != w.id, 0) AS outdone, w.seconds AS won
        FROM usable u LEFT JOIN winner w
    ),
    ranking AS (
        SELECT id, row_number() OVER (ORDER BY CASE outdone WHEN 1 THEN max(seconds, won) ELSE seconds END, outdone, created, id)
            AS place
        FROM standing
    )
    SELECT {COLUMNS} FROM ranking CROSS JOIN record r ON r.id = ranking.id JOIN workload w ON w.id = r.workload
    JOIN target t ON t.id = r.target ORDER BY ranking.place
"""

# The candidates of a workload that are not trusted.
_DISTRUSTED = f"SELECT r.candidate_key FROM {JOINED} WHERE {{where}} AND r.status IN ('wrong answer', 'crashed')"

# Candidates are drawn by their keys: as good as at random, and repeatable.
_SAMPLE = f"""
    WITH mine AS (
        SELECT r.id, r.workload, r.candidate_key FROM {JOINED}
        WHERE t.key = ? AND r.cache = ? AND r.threads = ? AND r.status = 'ok' AND r.run NOT IN {FINALS}
    ),
    latest AS (SELECT workload, max(id) AS last FROM mine GROUP BY workload ORDER BY last DESC LIMIT ?),
    drawn AS (
        SELECT mine.id, last, row_number() OVER (PARTITION BY mine.workload ORDER BY candidate_key, mine.id) AS place
        FROM mine JOIN latest ON latest.workload = mine.workload
    )
    SELECT {COLUMNS}, w.key, w.json AS workload FROM drawn CROSS JOIN {JOINED}
    WHERE r.id = drawn.id AND place <= ? / (SELECT count(*) FROM latest) ORDER BY drawn.last DESC, r.id
"""


class Where:
    """A condition on records: of a workload, whatever it calls its tensors, and of a target and a timing where given."""

    def __init__(self, workload: Workload, target: Target | None = None, timing: Timing | None = None) -> None:
        self.sql, self.values = "w.canonical = ?", [workload.canonical_key]  # type: str, list[str | int]
        if target is not None:
            self.sql += " AND t.key = ?"
            self.values.append(target.key)
        if timing is not None:
            self.sql += " AND r.cache = ? AND r.threads = ?"
            self.values += [timing.cache, timing.threads]
        self._parts = workload, target

    @property
    def of_any_timing(self) -> Where:
        return Where(*self._parts)


def rows(connection: sqlite3.Connection, sql: str, values: Sequence[str | int] = ()) -> Iterator[sqlite3.Row]:
    """Rows one by one; the read transaction ends with the iteration, also when that is left early."""
    with contextlib.closing(connection.execute(sql, values)) as cursor:
        yield from cursor


def ranked(connection: sqlite3.Connection, where: Where) -> Iterator[sqlite3.Row]:
    """The records that count, fastest first."""
    anyhow = where.of_any_timing
    sql = _RANKED.format(where=where.sql, distrusted=_DISTRUSTED.format(where=anyhow.sql))
    return rows(connection, sql, [*where.values, *anyhow.values])


def sample(connection: sqlite3.Connection, target: Target, timing: Timing, workloads: int, most: int) -> list[sqlite3.Row]:
    """Some records of the workloads tried last, workload by workload, with these."""
    values = (target.key, timing.cache, timing.threads, workloads, most)
    return connection.execute(_SAMPLE, values).fetchall()


def in_order(connection: sqlite3.Connection, where: Where) -> Iterator[sqlite3.Row]:
    return rows(connection, f"SELECT {COLUMNS} FROM {JOINED} WHERE {where.sql} ORDER BY r.created, r.id", where.values)


def candidate_keys(connection: sqlite3.Connection, where: Where, workload: Workload, failed: bool = False) -> Iterator[sqlite3.Row]:
    """Of each candidate its key, the key of the workload it is of and, where that has other names than the given one, its JSON."""
    sql = f"""SELECT r.candidate_key, w.key, CASE WHEN w.key = ? THEN NULL ELSE r.candidate END FROM {JOINED}
        WHERE {where.sql} {"AND r.status != 'ok'" if failed else ""} GROUP BY r.candidate_key, w.id"""
    return rows(connection, sql, [workload.key, *where.values])


def everything(connection: sqlite3.Connection) -> Iterator[sqlite3.Row]:
    """All records with their workloads, as they were stored."""
    return rows(connection, f"SELECT {COLUMNS}, w.json AS workload FROM {JOINED} ORDER BY r.id")


def failures(connection: sqlite3.Connection, where: Where) -> list[sqlite3.Row]:
    """(status, cause, count, the first example's columns), the most frequent first."""
    sql = f"""SELECT {COLUMNS}, count(*) AS count, min(r.id) FROM {JOINED}
        WHERE {where.sql} AND r.status != 'ok' GROUP BY r.status, r.cause ORDER BY count(*) DESC, min(r.id)"""
    return connection.execute(sql, where.values).fetchall()


def groups(connection: sqlite3.Connection, where: str = "1", values: Sequence[str | int] = ()) -> list[sqlite3.Row]:
    """One row for each workload, target key and timing."""
    sql = f"""SELECT w.key, w.json AS workload, t.key AS target_key, t.json AS target, r.cache, r.threads, count(*) AS trials,
        sum(r.status != 'ok') AS failed, min(r.created) AS first, max(r.created) AS last
        FROM {JOINED} WHERE {where} GROUP BY w.id, t.key, r.cache, r.threads ORDER BY min(r.id)"""
    return connection.execute(sql, values).fetchall()


def json_form(row: sqlite3.Row | Mapping[str, Any], workload: Workload | None = None) -> dict[str, Any]:
    """The JSON form of a row, not validated; with a workload, without the row's own."""
    form: dict[str, Any] = {"format": FORMAT, "uid": row["uid"]}
    if workload is None:
        form["workload"] = parsed(row, "workload")
    form |= {
        "target": parsed(row, "target"),
        "timing": {"cache": row["cache"], "threads": row["threads"]},
        "run": row["run"],
        "created": row["created"],
        "candidate": parsed(row, "candidate"),
    }
    form |= {
        name: row[name] for name in ("status", "seconds", "spread", "at_least", "cause", "build_seconds", "run_seconds", "note")
    }
    form["at_least"] = bool(row["at_least"])
    return form


def parsed(row: sqlite3.Row | Mapping[str, Any], name: str) -> Any:
    try:
        return json.loads(row[name])
    except (ValueError, TypeError, RecursionError) as problem:
        raise Invalid(f"{name}: not JSON") from problem
