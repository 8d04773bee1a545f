"""What can still be read of a damaged record file, saved to a new one. The damaged file is only copied, never opened.

Rows are read by ranges of their numbers; a range that fails is halved until only the unreadable rows are left. A first page that is
destroyed is replaced by that of a new file, whose tables lie in the same places.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tensorsmith.records import connect, faults, schema
from tensorsmith.records.lines import Counts
from tensorsmith.records.queries import json_form
from tensorsmith.records.record import Invalid
from tensorsmith.records.store import Store

_SMALLEST_ROW = 64  # bytes; no file holds more rows than its size over this
_MAGIC = b"SQLite format 3\0"


def recover(path: str | Path, new_path: str | Path) -> Counts:
    """Saves the readable and valid records of a damaged file to a new one, and counts them."""
    path, new_path = Path(path), Path(new_path)
    with faults.explained(path), tempfile.TemporaryDirectory(prefix="tensorsmith-recover-") as folder:
        if new_path.exists():
            raise faults.StoreError("exists", f"{new_path} exists already and is left as it is; give the path of a new file")
        copy = Path(folder) / "copy.db"
        shutil.copyfile(path, copy)
        wal = path.with_name(path.name + "-wal")
        if wal.exists():
            shutil.copyfile(wal, copy.with_name(copy.name + "-wal"))
        lost = Counts()
        forms = list(_forms(copy, path, lost))
        with Store.open(new_path) as store:
            counts = store._take(forms)
    counts.skipped.update(lost.skipped)
    return counts


def _forms(copy: Path, path: Path, lost: Counts) -> Iterator[dict[str, Any] | Invalid]:
    connection = _opened(copy, path)
    try:
        workloads = {row["id"]: row for row in _salvaged(connection, "workload", copy, lost)}
        targets = {row["id"]: row for row in _salvaged(connection, "target", copy, lost)}
        for row in _salvaged(connection, "record", copy, lost):
            try:
                whole = dict(row)
                for name, known in (("workload", workloads), ("target", targets)):
                    if row[name] not in known:
                        raise Invalid(f"its {name} cannot be read")
                    whole[name] = known[row[name]]["json"]
                yield json_form(whole)
            except Invalid as problem:
                yield problem
    finally:
        connection.close()


def _opened(copy: Path, path: Path) -> sqlite3.Connection:
    """A connection to the copy that does not mind damage; with a new first page where the old one is unreadable."""
    for attempt in range(2):
        connection = sqlite3.connect(copy, isolation_level=None)
        try:
            connection.row_factory = sqlite3.Row
            connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA writable_schema = ON")  # opens a file that is shorter than its header says
            if schema.inspect(connection, path) != schema.VERSION:
                with connect.transaction(connection):
                    schema.upgrade(connection, path)
            return connection
        except (sqlite3.Error, faults.StoreError):
            connection.close()
            if attempt or not _replace_first_page(copy):
                raise
    raise AssertionError("not reached")


def _replace_first_page(copy: Path) -> bool:
    """Puts the first page of a new record file in the place of a destroyed one; False if the file is some other program's."""
    fresh = copy.with_name("fresh.db")
    Store.open(fresh).close()
    page = bytearray(fresh.read_bytes())
    size = int.from_bytes(page[16:18], "big")
    page = page[:size]
    with copy.open("r+b") as file:
        head = file.read(100)
        if head.startswith(_MAGIC) and head[68:72] != schema.APPLICATION.to_bytes(4, "big"):
            return False
        page[28:32] = max(1, copy.stat().st_size // size).to_bytes(4, "big")  # pages; and no free ones:
        page[32:40] = bytes(8)
        file.seek(0)
        file.write(page)
    copy.with_name(copy.name + "-shm").unlink(missing_ok=True)
    return True


def _salvaged(connection: sqlite3.Connection, table: str, copy: Path, lost: Counts) -> Iterator[sqlite3.Row]:
    """The readable rows of a table by their numbers."""
    most = copy.stat().st_size // _SMALLEST_ROW
    try:
        (last,) = connection.execute(f"SELECT max(id) FROM {table}").fetchone()
        last = min(last or 0, most)
    except sqlite3.Error:
        last = most
    select = f"SELECT * FROM {table} NOT INDEXED WHERE id BETWEEN ? AND ? ORDER BY id"
    ranges = [(1, last)]
    failed = False
    while ranges:
        low, high = ranges.pop()
        if low > high:
            continue
        try:
            yield from connection.execute(select, (low, high)).fetchall()
        except sqlite3.Error:
            if low < high:
                middle = (low + high) // 2
                ranges += [(middle + 1, high), (low, middle)]
            else:
                failed = True
    if failed:
        lost.skipped[f"a part of the table {table} cannot be read"] += 1
