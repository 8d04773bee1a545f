"""The tables of a record file, its version, and the way from older versions to this one.

    workload   key, structure, JSON, canonical key      one row for each workload
    target     key, JSON of all parts                   one row for each distinct target
    record     workload, target, cache, threads, ...    one row for each trial

The version stands in SQLite's `user_version`. `STEPS[n]` turns version n into n + 1; all steps that are needed run in one
transaction, so a process that dies on the way leaves the old version.

    1   a workload is known by its key alone, which has the names of its tensors in it
    2   its canonical key is the same whatever they are called (`migration`)
    3   a record has a note: how the device was when it was timed
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

from tensorsmith.records import faults, migration

VERSION = 3
APPLICATION = 0x54534D52  # "TSMR", in the file's header: whose file it is

TABLES = (
    """CREATE TABLE workload (
        id INTEGER PRIMARY KEY,
        key TEXT NOT NULL UNIQUE,
        structure TEXT NOT NULL,
        json TEXT NOT NULL,
        canonical TEXT NOT NULL DEFAULT ''
    )""",
    "CREATE TABLE target (id INTEGER PRIMARY KEY, key TEXT NOT NULL, json TEXT NOT NULL UNIQUE)",
    """CREATE TABLE record (
        id INTEGER PRIMARY KEY,
        uid TEXT NOT NULL UNIQUE,
        workload INTEGER NOT NULL,
        target INTEGER NOT NULL,
        cache TEXT NOT NULL,
        threads INTEGER NOT NULL,
        run TEXT NOT NULL,
        created REAL NOT NULL,
        candidate_key TEXT NOT NULL,
        candidate TEXT NOT NULL,
        status TEXT NOT NULL,
        seconds REAL,
        spread REAL NOT NULL,
        at_least INTEGER NOT NULL,
        cause TEXT NOT NULL,
        build_seconds REAL NOT NULL,
        run_seconds REAL NOT NULL,
        note TEXT NOT NULL DEFAULT ''
    )""",
    "CREATE INDEX workload_structure ON workload (structure)",
    "CREATE INDEX record_key ON record (workload, target, cache, threads, candidate_key)",
    "CREATE INDEX workload_canonical ON workload (canonical)",
)

#: the step from each older version to the next
STEPS: dict[int, Callable[[sqlite3.Connection], None]] = {1: migration.from_1, 2: migration.from_2}


def inspect(connection: sqlite3.Connection, path: Path) -> int | None:
    """The version of a file, None for an empty one; changes nothing. Raises on files that are not ours, newer, or rigged."""
    objects = connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
    if not objects:
        return None
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if application != APPLICATION:
        raise faults.not_records(path, f"it is some other program's SQLite database, with {objects[0][0]} {objects[0][1]}")
    for kind, name, sql in objects:  # code that would run when we read or write
        if kind not in ("table", "index") or "VIRTUAL" in str(sql).upper().split("(")[0].split():
            raise faults.not_records(path, f"it has a {kind} {name}, which record files have not")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > VERSION:
        raise faults.StoreError(
            "newer",
            f"the record file {path} was written by a newer Tensorsmith (schema version {version}; this one knows {VERSION}). "
            f"Update Tensorsmith, or let the newer one export the file as JSON lines and import those here",
        )
    if version < VERSION and any(v not in STEPS for v in range(version, VERSION)):
        raise faults.not_records(path, f"its schema version is {version}, from which there is no way to {VERSION}")
    if version == VERSION:
        _check_columns(connection, path)
    return int(version)


def upgrade(connection: sqlite3.Connection, path: Path) -> None:
    """Makes the tables of an empty file, or migrates an older one; inside a write transaction of the caller's."""
    version = inspect(connection, path)
    if version is None:
        for statement in TABLES:
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
    else:
        for step in range(version, VERSION):
            STEPS[step](connection)
    connection.execute(f"PRAGMA user_version = {VERSION}")
    _check_columns(connection, path)


def columns(connection: sqlite3.Connection, table: str) -> set[str]:
    return {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}


def _check_columns(connection: sqlite3.Connection, path: Path) -> None:
    for table, wanted in _expected().items():
        missing = wanted - columns(connection, table)
        if missing:
            raise faults.not_records(path, f"its table {table} has no {', '.join(sorted(missing))}")


def _expected() -> dict[str, set[str]]:
    fresh = sqlite3.connect(":memory:")
    try:
        for statement in TABLES:
            fresh.execute(statement)
        return {name: columns(fresh, name) for name in ("workload", "target", "record")}
    finally:
        fresh.close()
