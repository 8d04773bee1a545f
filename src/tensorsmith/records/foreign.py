"""Programs that other systems measured, kept beside our own records and never among them: hints for a search, not times of ours.

A time belongs to the machine, the code generator and the log that it comes from. So these rows have tables of their own, no query
for records sees them, and what `hints` gives is candidates without times: those that were fastest where they were measured.

    foreign_sketch   kind of machine, workload, sketch as JSON        foreign_record   decisions in the order of its holes, device,
                                                                                       status, times, log
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tensorsmith.errors import Refusal, UserError
from tensorsmith.lang.workload import Workload
from tensorsmith.records.keys import canonical_json, shape_distance, structure_key
from tensorsmith.records.lines import Counts
from tensorsmith.records.record import Invalid, Reader
from tensorsmith.space.sketch.sketch import Candidate, Sketch

TABLES = (
    """CREATE TABLE IF NOT EXISTS foreign_sketch (
        id INTEGER PRIMARY KEY,
        kind TEXT NOT NULL,
        canonical TEXT NOT NULL,
        structure TEXT NOT NULL,
        workload TEXT NOT NULL,
        sketch TEXT NOT NULL,
        UNIQUE (kind, workload, sketch)
    )""",
    """CREATE TABLE IF NOT EXISTS foreign_record (
        id INTEGER PRIMARY KEY,
        uid TEXT NOT NULL UNIQUE,
        sketch INTEGER NOT NULL,
        decisions TEXT NOT NULL,
        device TEXT NOT NULL,
        generator TEXT NOT NULL,
        log TEXT NOT NULL,
        status TEXT NOT NULL,
        costs TEXT NOT NULL,
        created INTEGER NOT NULL,
        seconds REAL
    )""",
    "CREATE INDEX IF NOT EXISTS foreign_sketch_structure ON foreign_sketch (structure)",
    "CREATE INDEX IF NOT EXISTS foreign_record_sketch ON foreign_record (sketch)",
)

_OTHERS = 4  # workloads of the same structure that hints are taken of, the nearest shapes first


@dataclass(frozen=True)
class Foreign:
    """A program that another system measured."""

    candidate: Candidate
    kind: str  # of the machine: "gpu" or "cpu"
    device: str  # as the log names it
    generator: str  # what made the code, "tvm"
    log: str  # the file's name
    line: int
    status: str  # "ok" or the cause
    costs: tuple[float, ...]
    created: int  # seconds since 1970


def add(connection: sqlite3.Connection, found: Iterable[Foreign]) -> Counts:
    """Stores programs, in the caller's transaction; those that are there already are counted as such."""
    for statement in TABLES:
        connection.execute(statement)
    counts, known = Counts(), dict[int, tuple[Sketch, int, tuple[str, ...]]]()
    for one in found:
        sketch = one.candidate.sketch
        if id(sketch) not in known:  # held, so that its identity is not another's
            known[id(sketch)] = sketch, _sketch(connection, sketch, one.kind), sketch.holes
        _, number, holes = known[id(sketch)]
        decisions = canonical_json([one.candidate.decisions[h] for h in holes])
        text = canonical_json([number, decisions, one.device, one.log, one.line, list(one.costs), one.created])
        uid = hashlib.sha256(text.encode()).hexdigest()[:16]
        seconds = sum(one.costs) / len(one.costs) if one.costs else None
        row = (uid, number, decisions, one.device, one.generator, one.log, one.status, canonical_json(list(one.costs)), one.created)
        done = connection.execute(
            "INSERT OR IGNORE INTO foreign_record "
            "(uid, sketch, decisions, device, generator, log, status, costs, created, seconds) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*row, seconds),
        )
        counts.added += done.rowcount
        counts.present += 1 - done.rowcount
    return counts


def _sketch(connection: sqlite3.Connection, sketch: Sketch, kind: str) -> int:
    workload = sketch.workload
    form = (kind, canonical_json(workload.to_json()), canonical_json(sketch.to_json()))
    connection.execute(
        "INSERT OR IGNORE INTO foreign_sketch (kind, workload, sketch, canonical, structure) VALUES (?, ?, ?, ?, ?)",
        (*form, workload.canonical_key, structure_key(workload)),
    )
    query = "SELECT id FROM foreign_sketch WHERE kind = ? AND workload = ? AND sketch = ?"
    return int(connection.execute(query, form).fetchone()[0])


def exists(connection: sqlite3.Connection) -> bool:
    found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'foreign\\_%' ESCAPE '\\'")
    return {row[0] for row in found} >= {"foreign_sketch", "foreign_record"}


def hints(connection: sqlite3.Connection, reader: Reader, workload: Workload, kind: str, k: int) -> Iterator[Candidate]:
    """The k candidates of a workload that were fastest where they were measured, those of each device in turn, then as many of
    workloads of the same structure. What a stranger wrote and is no candidate is passed over."""
    if not exists(connection):
        return
    query = "SELECT DISTINCT canonical, workload FROM foreign_sketch WHERE kind = ? AND structure = ?"
    others: list[tuple[float, str, Workload]] = []
    for canonical, text in connection.execute(query, (kind, structure_key(workload))).fetchall():
        try:
            other = reader.workload(json.loads(str(text)))
            if canonical == workload.canonical_key == other.canonical_key:
                others.append((-1.0, str(text), other))
            elif canonical == other.canonical_key:
                others.append((shape_distance(workload, other), str(text), other))
        except (Invalid, UserError, ValueError, RecursionError):
            continue
    others.sort(key=lambda one: one[:2])
    for distance, text, other in others[: 1 + _OTHERS]:
        here = workload if distance < 0 else other.named_like(workload)
        yield from _fastest(connection, reader, kind, text, other, here, k)


def _fastest(
    connection: sqlite3.Connection, reader: Reader, kind: str, text: str, written: Workload, here: Workload, k: int
) -> Iterator[Candidate]:
    """Of one workload, in the names of another of the same computation: the first of each device, then the second, ..."""
    rows = connection.execute(
        "SELECT sketch, decisions FROM (SELECT s.sketch, r.decisions, r.seconds, "
        "ROW_NUMBER() OVER (PARTITION BY r.device ORDER BY r.seconds, r.id) AS place "
        "FROM foreign_record r JOIN foreign_sketch s ON s.id = r.sketch "
        "WHERE s.kind = ? AND s.workload = ? AND r.status = 'ok' AND r.seconds > 0) "
        "WHERE place <= ? ORDER BY place, seconds LIMIT ?",
        (kind, text, k, k),
    )
    for sketch, decisions in rows.fetchall():
        try:
            form = json.loads(str(sketch))
            holes = Sketch.from_json(written, form).holes
            values = json.loads(str(decisions))
            candidate = {"sketch": form, "decisions": dict(zip(holes, values, strict=True))}
            yield reader.candidate(canonical_json(candidate), here, written)
        except (Invalid, UserError, Refusal, ValueError, TypeError, RecursionError):
            continue
