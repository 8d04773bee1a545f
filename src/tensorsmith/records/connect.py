"""Opening a record file: WAL, so that readers and a writer do not wait for each other; synced at every commit."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

from tensorsmith.records import faults, schema

_PAUSE = 0.01  # seconds between attempts where SQLite itself does not wait for a lock


def open_for_writing(path: Path, patience: float) -> sqlite3.Connection:
    """A connection to a record file, made or migrated if need be. A file that is damaged or not ours is not touched."""
    _check_path(path, must_exist=False)
    connection = _connect(path, "mode=rwc", patience)
    try:
        with faults.explained(path, patience):
            version = schema.inspect(connection, path)
            _check_health(connection, path)
            _use_wal(connection, patience)
            connection.execute("PRAGMA synchronous = FULL")
            if version != schema.VERSION:
                with transaction(connection):
                    schema.upgrade(connection, path)
            _check_writable(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def open_for_reading(path: Path, patience: float) -> sqlite3.Connection:
    """A connection that never writes to the file; works in a read-only folder. An older version is migrated in memory."""
    _check_path(path, must_exist=True)
    connection = _connect(path, "mode=ro", patience)
    try:
        with faults.explained(path, patience):
            try:
                version = schema.inspect(connection, path)
            except sqlite3.OperationalError as problem:
                if "unable to open" not in str(problem) and "readonly" not in str(problem):
                    raise
                # SQLite cannot make its -shm file there; without unmerged changes in a -wal it can do without
                wal = path.with_name(path.name + "-wal")
                if wal.exists() and wal.stat().st_size:
                    raise
                connection.close()
                connection = _connect(path, "mode=ro&immutable=1", patience)
                version = schema.inspect(connection, path)
            if version != schema.VERSION:
                connection = _copied_to_memory(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def open_in_memory() -> sqlite3.Connection:
    return _copied_to_memory(None, Path(":memory:"))


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All or nothing. The write lock is taken at the start, so that two writers never deadlock."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite may have rolled back by itself
            connection.execute("ROLLBACK")
        raise


def _connect(path: Path, options: str, patience: float) -> sqlite3.Connection:
    with faults.explained(path, patience):
        return _configured(
            sqlite3.connect(f"{path.resolve().as_uri()}?{options}", uri=True, timeout=patience, isolation_level=None)
        )


def _copied_to_memory(source: sqlite3.Connection | None, path: Path) -> sqlite3.Connection:
    """A copy in memory, of this version; closes the original."""
    copy = _configured(sqlite3.connect(":memory:", isolation_level=None))
    if source is not None:
        source.backup(copy)
        source.close()
    with transaction(copy):
        schema.upgrade(copy, path)
    return copy


def _configured(connection: sqlite3.Connection) -> sqlite3.Connection:
    """A connection that is safe on a file from a stranger: nothing in its schema may call functions with side effects."""
    connection.row_factory = sqlite3.Row
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    return connection


def _check_path(path: Path, must_exist: bool) -> None:
    with faults.explained(path):
        if path.is_dir():
            raise faults.StoreError("not a record file", f"{path} is a folder; give the path of a record file in it")
        if must_exist and not path.exists():
            raise faults.StoreError("missing", f"there is no record file {path}; tune first, or give another path")
        if not path.parent.is_dir():
            raise faults.StoreError(
                "missing", f"the folder {path.parent} of the record file {path.name} does not exist; make it first"
            )


def _check_health(connection: sqlite3.Connection, path: Path) -> None:
    """Before anything is written: a damaged file is never written to."""
    (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise faults.corrupt(path, str(found).replace("\n", " "))


def _check_writable(connection: sqlite3.Connection) -> None:
    """Raises SQLite's error for a file that can only be read. It comes at the first write, no earlier; this one is taken back."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute(f"PRAGMA user_version = {schema.VERSION}")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _use_wal(connection: sqlite3.Connection, patience: float) -> None:
    """Switches the file to WAL, once in its life. SQLite does not wait for locks here, so we do."""
    deadline = time.monotonic() + patience
    while True:
        try:
            (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
            if mode != "wal":
                connection.execute("PRAGMA journal_mode = WAL").fetchone()
            return
        except sqlite3.OperationalError as problem:
            if not faults.is_lock(problem) or time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE)
