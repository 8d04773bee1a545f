"""The steps from older versions of a record file to the next."""

from __future__ import annotations

import json
import sqlite3

from tensorsmith.errors import Refusal, UserError
from tensorsmith.lang.workload import Workload
from tensorsmith.records.keys import candidate_key, canonical_json, structure_key
from tensorsmith.records.names import renamed
from tensorsmith.space.sketch.sketch import Candidate


def from_1(connection: sqlite3.Connection) -> None:
    """Workloads get their canonical keys. Where one computation was stored under several names, all records take the first's.

    What cannot be read stays as it is, and is left out when records are read, as before.
    """
    connection.execute("ALTER TABLE workload ADD COLUMN canonical TEXT NOT NULL DEFAULT ''")
    connection.execute("CREATE INDEX workload_canonical ON workload (canonical)")
    first: dict[str, tuple[int, Workload]] = {}
    for number, key, text in connection.execute("SELECT id, key, json FROM workload ORDER BY id").fetchall():
        workload = _workload(text)
        if workload is None or workload.key != key:
            connection.execute("UPDATE workload SET canonical = key WHERE id = ?", (number,))
            continue
        values = workload.canonical_key, structure_key(workload), number
        connection.execute("UPDATE workload SET canonical = ?, structure = ? WHERE id = ?", values)
        known, wanted = first.setdefault(workload.canonical_key, (number, workload))
        if known != number:
            _move(connection, (number, workload), (known, wanted))


def from_2(connection: sqlite3.Connection) -> None:
    """Records get a note, which those that are there do not have."""
    connection.execute("ALTER TABLE record ADD COLUMN note TEXT NOT NULL DEFAULT ''")


def _move(connection: sqlite3.Connection, old: tuple[int, Workload], new: tuple[int, Workload]) -> None:
    """Records of one workload become records of another, which is the same computation under other names."""
    for number, text in connection.execute("SELECT id, candidate FROM record WHERE workload = ?", old[:1]).fetchall():
        try:
            candidate = renamed(Candidate.from_json(old[1], json.loads(text)), new[1])
        except (UserError, Refusal, ValueError, TypeError, LookupError, AttributeError, RecursionError):
            continue  # it is found all the same, since its workload has the same canonical key
        values = new[0], candidate_key(candidate), canonical_json(candidate.to_json()), number
        connection.execute("UPDATE record SET workload = ?, candidate_key = ?, candidate = ? WHERE id = ?", values)


def _workload(text: str) -> Workload | None:
    try:
        return Workload.from_json(json.loads(text))
    except (UserError, ValueError, TypeError, RecursionError):
        return None
