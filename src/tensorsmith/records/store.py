"""The store: records in one SQLite file. Several processes may have it open, and any of them may die at any moment.

with Store.open("tune.db") as store:
    store.add(workload, target, timing, trials)
    store.best(workload, target, timing).candidate
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import time
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, TextIO

from tensorsmith.errors import InternalError, UserError
from tensorsmith.lang.workload import Workload
from tensorsmith.records import connect, explain, faults, foreign, lines, queries
from tensorsmith.records.foreign import Foreign
from tensorsmith.records.keys import Timing, candidate_key, canonical_json, shape_distance, structure_key
from tensorsmith.records.lines import Counts
from tensorsmith.records.queries import Where, json_form
from tensorsmith.records.record import Invalid, Reader, Record
from tensorsmith.records.shown import Records
from tensorsmith.search.trial import Status, Trial
from tensorsmith.show.line import line, many
from tensorsmith.show.listed import Listed
from tensorsmith.show.table import Number, table
from tensorsmith.show.units import time as time_text
from tensorsmith.space.sketch.sketch import Candidate
from tensorsmith.targets.target import Target

log = logging.getLogger(__name__)

_IN_MEMORY = Path(":memory:")  # stands for the path of a store that is in none
_PATIENCE = 30.0  # seconds: other writers hold the lock for milliseconds
_BATCH = 256  # records that are imported in one transaction


@dataclass(frozen=True)
class Summary:
    """What a file holds of one workload on one target under one timing. `best` is in seconds, None if nothing ran."""

    workload: Workload
    target: Target
    timing: Timing
    trials: int
    failed: int
    best: float | None
    first: float  # seconds since 1970
    last: float

    @property
    def title(self) -> str:
        """The workload's."""
        return self.workload.title

    def __repr__(self) -> str:
        counts = f"{many(self.trials, 'trial')}, {self.failed} failed, best {time_text(self.best)}"
        return line(self, f"{self.title} on {self.target.key}, {self.timing}", f": {counts}, key {self.workload.key[:8]}")


class Summaries(Listed[Summary]):
    """What a file holds."""

    def summary(self) -> str:
        return f"of {many(len(self), 'workload')}, {many(sum(s.trials for s in self), 'trial')}"

    def _repr_html_(self) -> str:
        columns = ("workload", "key", "target", "timing", "trials", "failed", "best")
        rows = [
            (s.title, s.workload.key, s.target.key, str(s.timing), s.trials, s.failed, Number(s.best or 0.0, time_text(s.best)))
            for s in self
        ]
        return table(columns, rows, sortable=True)


class Store:
    """An open record file. Every method may raise `StoreError`, and then has changed nothing (an import: keeps what came before).

    `skipped` counts, by reason, the stored records that were found invalid and left out of answers.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path, read_only: bool, patience: float) -> None:
        self.path = path
        self.read_only = read_only
        self.skipped: Counter[str] = Counter()
        self._skipped_uids: set[object] = set()  # each is counted once, however often it is read
        self._connection = connection
        self._patience = patience
        self._reader = Reader()

    @staticmethod
    def open(path: str | Path, *, read_only: bool = False, patience: float = _PATIENCE) -> Store:
        """Opens a record file, and makes it if need be. `patience`: seconds to wait for other processes' locks."""
        path = Path(path)
        opened = (connect.open_for_reading if read_only else connect.open_for_writing)(path, patience)
        return Store(opened, path, read_only, patience)

    @staticmethod
    def in_memory() -> Store:
        """A store that is gone when it is closed."""
        return Store(connect.open_in_memory(), _IN_MEMORY, False, _PATIENCE)

    def __repr__(self) -> str:
        return line(self, self.path, ", read only" if self.read_only else "")

    def _repr_html_(self) -> str:
        return self.workloads()._repr_html_()

    def __reduce__(self) -> NoReturn:
        raise UserError(f"an open record file cannot be pickled or copied; open it again: Store.open({str(self.path)!r})")

    def close(self) -> None:
        """Closes the file; `with Store.open(path) as store:` does it by itself."""
        with faults.explained(self.path, self._patience):
            self._connection.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # -- writing ---------------------------------------------------------------------------------------------------

    def add(self, workload: Workload, target: Target, timing: Timing, trials: Sequence[Trial], *, run: str = "") -> None:
        """Stores trials, all or none. Once it returns, they survive the death of the process and of the machine."""
        now = time.time()
        for t in trials:
            if t.emulated and self.path != _IN_MEMORY:
                raise InternalError("a time of an emulator, to be stored as if a machine had taken it")
            if t.candidate.sketch.workload.key != workload.key:
                raise InternalError(f"a trial of workload {t.candidate.sketch.workload.key} among those of {workload.key}")
        self._insert([Record(t, target, timing, run, now, os.urandom(8).hex()) for t in trials])

    def import_(self, source: str | Path | TextIO) -> Counts:
        """Adds the records of JSON lines that are valid and not there yet."""
        if not isinstance(source, (str, Path)):
            return self._take(lines.read(source))
        with faults.explained(Path(source)), open(source, encoding="utf-8", errors="replace") as stream:
            return self._take(lines.read(stream))

    def add_foreign(self, found: Iterable[Foreign]) -> Counts:
        """Adds programs that another system measured, all or none, to what `hints` tells of. No query for records sees them."""
        if self.read_only:
            raise faults.read_only(self.path, "it was opened for reading only")
        with faults.explained(self.path, self._patience), connect.transaction(self._connection):
            return foreign.add(self._connection, found)

    def hints(self, workload: Workload, kind: str, k: int = 8) -> list[Candidate]:
        """Candidates of a workload, in its names, that were fastest where another system measured them on machines of a kind, then
        such of workloads of the same structure."""
        with faults.explained(self.path, self._patience):
            return list(foreign.hints(self._connection, self._reader, workload, kind, k))

    def merge(self, other: str | Path) -> Counts:
        """Adds the records of another record file that are valid and not here yet; the other stays as it is."""
        if self.path.exists() and Path(other).exists() and self.path.samefile(other):
            raise UserError(f"{other} cannot be merged into itself")
        with (
            Store.open(other, read_only=True, patience=self._patience) as source,
            contextlib.closing(source._forms()) as forms,
        ):
            return self._take(forms)

    def _take(self, forms: Iterable[Any]) -> Counts:
        counts = Counts()
        valid = self._valid(forms, counts)
        while batch := list(islice(valid, _BATCH)):
            added = self._insert(batch)
            counts.added += added
            counts.present += len(batch) - added
        return counts

    def _valid(self, forms: Iterable[Any], counts: Counts) -> Iterator[Record]:
        for form in forms:
            try:
                if isinstance(form, Invalid):
                    raise form
                yield self._reader.record(form)
            except Invalid as problem:
                counts.skipped[str(problem)] += 1

    def _insert(self, records: Sequence[Record]) -> int:
        """Writes records in one transaction; gives how many were new."""
        if self.read_only:
            raise faults.read_only(self.path, "it was opened for reading only")
        if not records:
            return 0
        with faults.explained(self.path, self._patience):
            records = self._in_first_names(records)
            prepared = [_values(r) for r in records]  # before the lock is taken
            shared = {(r.workload.key, r.target): r.workload for r in records}
            shared_rows = {key: _shared_values(workload, key[1]) for key, workload in shared.items()}
            with connect.transaction(self._connection):
                numbers = {key: self._shared(*rows) for key, rows in shared_rows.items()}
                before = self._connection.total_changes
                for record, values in zip(records, prepared):
                    row = values | dict(zip(("workload", "target"), numbers[record.workload.key, record.target]))
                    names = ", ".join(row)
                    marks = ", ".join(f":{name}" for name in row)
                    self._connection.execute(f"INSERT INTO record ({names}) VALUES ({marks}) ON CONFLICT (uid) DO NOTHING", row)
                return self._connection.total_changes - before

    def _in_first_names(self, records: Sequence[Record]) -> list[Record]:
        """The records in the names under which the file, or the first of them, knows each computation: a candidate has one key.

        Two processes may still store one computation under two names at the same moment. Its records are found under either.
        """
        first: dict[str, Workload] = {}
        for r in records:
            if r.workload.canonical_key not in first:
                first[r.workload.canonical_key] = self._first_named(r.workload)
        return [self._in_names_of(first[r.workload.canonical_key], r) for r in records]

    def _in_names_of(self, workload: Workload, record: Record) -> Record:
        """The record with its candidate in the names of a workload; as it is, if it is in those, or cannot be."""
        if workload.key == record.workload.key:
            return record
        try:
            return replace(record, trial=replace(record.trial, candidate=self._reader.renamed(record.candidate, workload)))
        except Invalid:
            return record

    def _first_named(self, workload: Workload) -> Workload:
        sql = "SELECT key FROM workload WHERE canonical = ? ORDER BY id"
        for (key,) in self._connection.execute(sql, (workload.canonical_key,)).fetchall():
            with contextlib.suppress(Invalid):
                return self._written(key, workload)
        return workload

    def _shared(self, workload: tuple[str, str, str, str], target: tuple[str, str]) -> tuple[int, int]:
        """The row numbers of a workload and a target, which are written if they are new."""
        run = self._connection.execute
        run("INSERT INTO workload (key, canonical, structure, json) VALUES (?, ?, ?, ?) ON CONFLICT (key) DO NOTHING", workload)
        run("INSERT INTO target (key, json) VALUES (?, ?) ON CONFLICT (json) DO NOTHING", target)
        (a,) = run("SELECT id FROM workload WHERE key = ?", workload[:1]).fetchone()
        (b,) = run("SELECT id FROM target WHERE json = ?", target[1:]).fetchone()
        return a, b

    # -- reading ---------------------------------------------------------------------------------------------------

    def best(self, workload: Workload, target: Target, timing: Timing) -> Record | None:
        """The fastest record; see `top`."""
        return next(iter(self.top(workload, target, timing, 1)), None)

    def top(self, workload: Workload, target: Target, timing: Timing, k: int) -> list[Record]:
        """The records of the k fastest candidates, fastest first.

        Of a candidate that was tried several times, the last trial counts that was not cut short; if that failed, the candidate is
        left out. One that ever crashed or gave a wrong answer, however it was timed, is left out for good. The winner of a final
        comes before all that was known when it won, see `record.ranked`.
        """
        with faults.explained(self.path, self._patience):
            rows = queries.ranked(self._connection, Where(workload, target, timing))
            return Records(islice(self._records(rows, workload), k))

    def history(self, workload: Workload, target: Target, timing: Timing) -> list[Record]:
        """All records, failures too, in the order of their making."""
        with faults.explained(self.path, self._patience):
            return Records(self._records(queries.in_order(self._connection, Where(workload, target, timing)), workload))

    def failed(self, workload: Workload, target: Target) -> set[str]:
        """The keys (`candidate_key`) of all candidates that ever failed, in whatever way, however they were timed."""
        return self._candidate_keys(Where(workload, target), workload, failed=True)

    def measured(self, workload: Workload, target: Target, timing: Timing) -> set[str]:
        """The keys (`candidate_key`) of all candidates that were tried, with or without success."""
        return self._candidate_keys(Where(workload, target, timing), workload)

    def failures(
        self, workload: Workload, target: Target | None = None, timing: Timing | None = None
    ) -> dict[tuple[Status, str], tuple[int, Record | None]]:
        """How often each (status, cause) came up and the first example (None if that is invalid), the most frequent first."""
        found: dict[tuple[Status, str], tuple[int, Record | None]] = {}
        with faults.explained(self.path, self._patience):
            for row in queries.failures(self._connection, Where(workload, target, timing)):
                if row["status"] in {s.value for s in Status}:
                    found[Status(row["status"]), str(row["cause"])] = row["count"], next(self._records([row], workload), None)
        return found

    def workloads(self) -> Summaries:
        """What the file holds, in the order of first appearance."""
        found = Summaries()
        with faults.explained(self.path, self._patience):
            for row in queries.groups(self._connection):
                try:
                    workload = self._workload(row)
                    target = self._reader.target(queries.parsed(row, "target"))
                    timing = Timing(row["cache"], row["threads"])
                except (Invalid, UserError) as problem:
                    self._leave_out(problem, row["trials"])
                    continue
                best = self.best(workload, target, timing)
                seconds = None if best is None else best.seconds
                found.append(Summary(workload, target, timing, row["trials"], row["failed"], seconds, row["first"], row["last"]))
        return found

    def similar(self, workload: Workload, target: Target, timing: Timing | None = None, *, k: int = 3) -> list[Record]:
        """The k best records of each other workload with the same structure on this target, the nearest shapes first.

        Their candidates are of their own workloads (`record.workload`), in the names of this one; to use one here, it has to be
        adapted. Without a timing, all timings count.
        """
        structure = structure_key(workload)
        found: dict[str, list[Record]] = {}
        with faults.explained(self.path, self._patience):
            for row in queries.groups(
                self._connection,
                "w.structure = ? AND w.canonical != ? AND t.key = ?",
                (structure, workload.canonical_key, target.key),
            ):
                try:
                    other = self._workload(row)
                    measured = Timing(row["cache"], row["threads"])
                except (Invalid, UserError) as problem:
                    self._leave_out(problem, row["trials"])
                    continue
                if structure_key(other) == structure and timing in (None, measured):
                    here = other.named_like(workload)
                    found.setdefault(here.key, []).extend(self.top(here, target, measured, k))
        per_workload = [sorted(records, key=lambda r: r.seconds or 0.0)[:k] for records in found.values() if records]
        per_workload.sort(key=lambda records: shape_distance(workload, records[0].workload))
        return [record for records in per_workload for record in records]

    def sample(self, target: Target, timing: Timing, workloads: int, most: int) -> list[Record]:
        """Timed records of searches, at most so many, evenly of the workloads tried last; the same for the same content."""
        found: list[Record] = []
        with faults.explained(self.path, self._patience):
            rows = queries.sample(self._connection, target, timing, workloads, most)
            for _, mine in groupby(rows, key=lambda row: row["key"]):
                some = list(mine)
                try:
                    found += self._records(some, self._workload(some[0]))
                except Invalid as problem:
                    self._leave_out(problem, len(some))
        return found

    def why_missing(self, workload: Workload, target: Target, timing: Timing) -> str:
        """Why `best` finds nothing, in a sentence; empty if it does find a record."""
        if self.best(workload, target, timing) is not None:
            return ""
        with faults.explained(self.path, self._patience):
            return explain.why_missing(self._connection, workload, target, timing)

    def key_parts(self, workload: Workload, target: Target, timing: Timing) -> list[explain.KeyPart]:
        """How many records have each part of a key, and what there is where none has."""
        with faults.explained(self.path, self._patience):
            return explain.key_parts(self._connection, workload, target, timing)

    def export(self, to: str | Path | TextIO) -> Counts:
        """Writes all records as JSON lines, as they are stored. A file that exists is not replaced."""
        with contextlib.closing(self._forms()) as forms:
            if not isinstance(to, (str, Path)):
                return lines.write(forms, to)
            with lines.new_file(Path(to)) as stream:
                return lines.write(forms, stream)

    def _forms(self) -> Generator[dict[str, Any] | Invalid, None, None]:
        with faults.explained(self.path, self._patience):
            for row in queries.everything(self._connection):
                try:
                    yield json_form(row)
                except Invalid as problem:
                    yield problem

    def _workload(self, row: sqlite3.Row) -> Workload:
        workload = self._reader.workload(queries.parsed(row, "workload"))
        if workload.key != row["key"]:
            raise Invalid("workload: it is not the one its key says")
        return workload

    def _written(self, key: str, workload: Workload) -> Workload:
        """The stored workload of a key, which has to be the same computation as the given one."""
        if key == workload.key:
            return workload
        row = self._connection.execute("SELECT key, json AS workload FROM workload WHERE key = ?", (key,)).fetchone()
        found = self._workload(row)
        if found.canonical_key != workload.canonical_key:
            raise Invalid("workload: it is not the computation its key says")
        return found

    def _records(self, rows: Iterable[sqlite3.Row], workload: Workload) -> Iterator[Record]:
        """The valid records among rows of a workload, in its names."""
        for row in rows:
            try:
                written = self._written(row["workload_key"], workload)
                yield self._reader.record(json_form(row, workload), workload, written)
            except Invalid as problem:
                if row["uid"] not in self._skipped_uids:
                    self._skipped_uids.add(row["uid"])
                    self._leave_out(problem)

    def _leave_out(self, problem: Exception, count: int = 1) -> None:
        reason = str(problem)
        if reason not in self.skipped:
            log.warning("records of %s are left out: %s", self.path, reason)
        self.skipped[reason] += count

    def _candidate_keys(self, where: Where, workload: Workload, failed: bool = False) -> set[str]:
        """The keys of candidates in the names of a workload."""
        found: set[str] = set()
        with faults.explained(self.path, self._patience):
            for key, written, form in queries.candidate_keys(self._connection, where, workload, failed):
                if form is None:
                    found.add(key)
                else:
                    with contextlib.suppress(Invalid):  # what cannot be told in other names is no candidate here
                        found.add(candidate_key(self._reader.candidate(form, workload, self._written(written, workload))))
        return found


def _shared_values(workload: Workload, target: Target) -> tuple[tuple[str, str, str, str], tuple[str, str]]:
    """The columns of a workload and of a target."""
    parts = canonical_json(target.to_json())
    own = workload.key, workload.canonical_key, structure_key(workload), canonical_json(workload.to_json())
    return own, (target.key, parts)


def _values(record: Record) -> dict[str, Any]:
    """The columns of a record, but for its workload and target."""
    form = record.to_json()
    own = ("uid", "run", "created", "status", "seconds", "spread", "at_least", "cause", "build_seconds", "run_seconds", "note")
    return {
        **{name: form[name] for name in own},
        **form["timing"],
        "candidate_key": record.key,
        "candidate": canonical_json(form["candidate"]),
    }
