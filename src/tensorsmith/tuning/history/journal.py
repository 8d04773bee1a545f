"""The store as a run sees it: a file that cannot be written for a while costs no trial.

Everything the run measures is in memory too. What the file did not take is offered again with the next trials, and at the end;
what it still does not take then goes to a file of JSON lines, which the store imports.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from tensorsmith.lang.workload import Workload
from tensorsmith.records.faults import StoreError
from tensorsmith.records.keys import Timing
from tensorsmith.records.record import Record, ranked
from tensorsmith.records.store import Store
from tensorsmith.search.trial import Trial
from tensorsmith.space.sketch.sketch import Candidate
from tensorsmith.targets.target import Target

log = logging.getLogger(__name__)

_LOCK_SECONDS = 5.0  # waited for other processes' locks: a run goes on meanwhile only in memory
_PAUSE = 10.0  # seconds until a file that failed is tried again
_LAST_ATTEMPTS, _LAST_PAUSE = 3, 0.5  # at the end


@dataclass(frozen=True)
class _Unsaved:
    workload: Workload
    target: Target
    timing: Timing
    trials: Sequence[Trial]
    run: str


class Journal:
    """Trials of a run, in memory and in a record file, if there is one. Raises `StoreError` only when it is opened."""

    def __init__(self, database: str | Path | None) -> None:
        self.memory = Store.in_memory()
        self.file = None if database is None else Store.open(database, patience=_LOCK_SECONDS)
        self.problem: StoreError | None = None  # why the file did not take the last trials
        self.added = 0  # trials of this run
        self.emulated = False  # whether times of this run come from an emulator: then nothing of it is stored
        self._unsaved: list[_Unsaved] = []
        self._try_again = 0.0

    def add(self, workload: Workload, target: Target, timing: Timing, trials: Sequence[Trial], *, run: str = "") -> None:
        self.memory.add(workload, target, timing, trials, run=run)
        self.added += len(trials)
        self.emulated = self.emulated or any(trial.emulated for trial in trials)
        if self.file is not None and trials and not self.emulated:
            self._unsaved.append(_Unsaved(workload, target, timing, trials, run))
            if time.monotonic() >= self._try_again:
                self._save()

    def history(self, workload: Workload, target: Target, timing: Timing) -> list[Record]:
        """What is known of a workload, in the file and of this run; without a file, of this run alone."""
        if self.file is None:
            return self.memory.history(workload, target, timing)
        try:
            found = self.file.history(workload, target, timing)
        except StoreError:  # in the middle of a run, what this run knows will do
            known = self.memory.history(workload, target, timing)
            if not known:
                raise
            return known
        if self._unsaved or self.emulated:
            stored = {r.key for r in found}
            found += [r for r in self.memory.history(workload, target, timing) if r.key not in stored]
        return found

    def touched(self, workload: Workload, target: Target, timing: Timing) -> bool:
        """Whether this run has tried a workload; if not, what is known of it was measured on another day."""
        return bool(self.memory.measured(workload, target, timing))

    def similar(self, workload: Workload, target: Target, timing: Timing, k: int = 3) -> list[Record]:
        return self._others().similar(workload, target, timing, k=k)

    def hints(self, workload: Workload, target: Target) -> list[Candidate]:
        """Candidates that were fast where another system measured them, as far as the file has such of machines of this kind."""
        if self.file is not None:
            with contextlib.suppress(StoreError):
                return self.file.hints(workload, target.kind)
        return []

    def sample(self, target: Target, timing: Timing, workloads: int, most: int) -> list[Record]:
        """Some records of the workloads that were tried last, for a model to learn from; none if the file cannot be read now."""
        with contextlib.suppress(StoreError):
            return self._others().sample(target, timing, workloads, most)
        return []

    def top(self, workload: Workload, target: Target, timing: Timing, k: int) -> list[Record]:
        """The records of the k fastest candidates, of the file and of this run."""
        found: dict[str, Record] = {}
        if self.file is not None:
            with contextlib.suppress(StoreError):  # those of this run remain
                found = {r.key: r for r in self.file.top(workload, target, timing, k)}
        if self._unsaved or self.emulated or self.file is None:
            found |= {r.key: r for r in self.memory.top(workload, target, timing, k)}
        return ranked(found.values())[:k]

    def failed(self, workload: Workload, target: Target) -> set[str]:
        """The keys of the candidates that ever failed, of the file and of this run."""
        found = self.memory.failed(workload, target)
        if self.file is not None:
            with contextlib.suppress(StoreError):
                found |= self.file.failed(workload, target)
        return found

    @property
    def unsaved(self) -> int:
        return sum(len(u.trials) for u in self._unsaved)

    @property
    def left_out(self) -> str | None:
        """What to tell the user of stored records that could not be used; None if there are none."""
        if self.file is None or not self.file.skipped:
            return None
        example, _ = self.file.skipped.most_common(1)[0]
        return f"{self.file.skipped.total()} records of {self.file.path} cannot be used and were left out, for example: {example}"

    def finish(self) -> str | None:
        """Saves what is not saved yet. What to tell the user if the file does not take it."""
        for attempt in range(_LAST_ATTEMPTS):
            if not self._unsaved:
                return None
            time.sleep(_LAST_PAUSE if attempt else 0.0)
            self._save()
        return self._rescue() if self._unsaved else None

    def close(self) -> None:
        self.memory.close()
        if self.file is not None:
            with contextlib.suppress(StoreError):
                self.file.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _others(self) -> Store:
        """What is known of other workloads: the file has all of it, unless this run is one of those that store nothing."""
        return self.memory if self.file is None or self.emulated else self.file

    def _save(self) -> None:
        try:
            while self._unsaved and self.file is not None:
                u = self._unsaved[0]
                self.file.add(u.workload, u.target, u.timing, u.trials, run=u.run)
                self._unsaved.pop(0)
            self.problem = None
        except StoreError as problem:
            if self.problem is None:
                log.warning("trials are kept in memory for now: %s", problem)
            self.problem, self._try_again = problem, time.monotonic() + _PAUSE

    def _rescue(self) -> str:
        """Writes the unsaved trials to a file of their own, beside the record file or where temporary files go."""
        with Store.in_memory() as unsaved:
            for u in self._unsaved:
                unsaved.add(u.workload, u.target, u.timing, u.trials, run=u.run)
            database = self.file.path if self.file is not None else Path("tune.db")
            name = f"{database.name}.unsaved-{os.urandom(4).hex()}.jsonl"
            for folder in (database.parent, Path(tempfile.gettempdir())):
                try:
                    unsaved.export(folder / name)
                except StoreError:
                    continue
                command = shlex.join(["tensorsmith", "records", str(database), "import", str(folder / name)])
                return (
                    f"{self.unsaved} trials could not be added to {database}: {self.problem}. They are in {folder / name}; add "
                    f"them later by: {command}"
                )
        return f"{self.unsaved} trials could not be added to {database}, nor be written anywhere else: {self.problem}"
