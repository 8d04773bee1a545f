"""A record file that cannot be written costs no trial."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tests.measure.small import candidates, matmul

from tensorsmith.records.faults import StoreError
from tensorsmith.records.keys import Timing
from tensorsmith.records.store import Store
from tensorsmith.search.trial import Status, Trial
from tensorsmith.targets.target import native
from tensorsmith.tuning.history import journal as module
from tensorsmith.tuning.history.journal import Journal

WORKLOAD, TARGET, TIMING = matmul(), native(), Timing("warm", 2)
PLACE = (WORKLOAD, TARGET, TIMING)


def trials(*unrolls: int) -> list[Trial]:
    """A higher unroll factor is slower."""
    return [Trial(c, Status.OK, n * 1e-6) for n, c in zip(unrolls, candidates(WORKLOAD, *unrolls))]


class Disk:
    """Makes every record file fail while it is broken."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.broken, self.attempts = False, 0
        original = Store.add

        def add(store: Store, *arguments, **options) -> None:
            if str(store.path) != ":memory:":
                self.attempts += 1
                if self.broken:
                    raise StoreError("full", "the disk is full: free some space and try again")
            original(store, *arguments, **options)

        monkeypatch.setattr(Store, "add", add)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    monkeypatch.setattr(module, "_LAST_PAUSE", 0.0)
    return Disk(monkeypatch)


def stored(path: Path) -> list[float]:
    with Store.open(path, read_only=True) as store:
        return sorted(round(r.seconds * 1e6) for r in store.history(*PLACE))


def test_without_a_file() -> None:
    with Journal(None) as journal:
        journal.add(*PLACE, trials(3, 1, 2))
        assert [round(r.seconds * 1e6) for r in journal.top(*PLACE, 2)] == [1, 2]
        assert [round(r.seconds * 1e6) for r in journal.history(*PLACE)] == [3, 1, 2] and journal.finish() is None


def test_a_file_that_cannot_be_read_for_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What this run measured is known all the same; what it did not measure is not made up."""
    read = Store.history

    def history(store: Store, *arguments) -> list:
        if str(store.path) != ":memory:":
            raise StoreError("locked", "another process holds it")
        return read(store, *arguments)

    with Journal(tmp_path / "tune.db") as journal:
        monkeypatch.setattr(Store, "history", history)
        with pytest.raises(StoreError, match="another process holds it"):
            journal.history(*PLACE)
        journal.add(*PLACE, trials(3, 1))
        assert [round(r.seconds * 1e6) for r in journal.history(*PLACE)] == [3, 1]


def test_a_disk_that_is_full_for_a_while(disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PAUSE", 0.0)
    with Journal(tmp_path / "tune.db") as journal:
        journal.add(*PLACE, trials(5))
        disk.broken = True
        journal.add(*PLACE, trials(2))
        assert journal.problem is not None and journal.unsaved == 1
        assert journal.top(*PLACE, 1)[0].seconds == 2e-6  # not in the file, but known
        assert len(journal.top(*PLACE, 4)) == 2 == len(journal.history(*PLACE))
        disk.broken = False
        journal.add(*PLACE, trials(3))
        assert journal.problem is None and journal.unsaved == 0
        assert journal.finish() is None
    assert stored(tmp_path / "tune.db") == [2, 3, 5]


def test_a_file_that_failed_is_left_alone_for_a_while(disk: Disk, tmp_path: Path) -> None:
    with Journal(tmp_path / "tune.db") as journal:
        disk.broken = True
        for n in range(1, 5):
            journal.add(*PLACE, trials(n))
        assert disk.attempts == 1
        disk.broken = False
        assert journal.finish() is None
    assert stored(tmp_path / "tune.db") == [1, 2, 3, 4]


def test_what_is_never_taken_goes_to_a_file_that_can_be_imported(disk: Disk, tmp_path: Path) -> None:
    """By the command that the message gives, in a folder with a space in its name."""
    folder = tmp_path / "my records"
    folder.mkdir()
    with Journal(folder / "tune.db") as journal:
        disk.broken = True
        journal.add(*PLACE, trials(1, 2))
        message = journal.finish()
    assert message is not None
    (rescued,) = folder.glob("*.jsonl")
    for words in ("2 trials", str(folder / "tune.db"), "the disk is full", "try again", f"They are in {rescued}"):
        assert words in message
    command = shlex.split(message.partition("add them later by: ")[2])
    assert command[0] == "tensorsmith"
    script = "from tensorsmith.cli import main; main()"  # the entry point of that name
    done = subprocess.run([sys.executable, "-c", script, *command[1:]], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "2 records added" in done.stdout, done.stdout + done.stderr
    assert stored(folder / "tune.db") == [1, 2]


def test_when_nothing_can_be_written_at_all(disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(store: Store, to: Path) -> None:
        raise StoreError("full", "the disk is full")

    monkeypatch.setattr(Store, "export", refuse)
    with Journal(tmp_path / "tune.db") as journal:
        disk.broken = True
        journal.add(*PLACE, trials(1))
        message = journal.finish()
    assert message is not None and "1 trials could not be added" in message and "nor be written anywhere else" in message


def test_a_locked_file_is_reported_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sqlite3

    monkeypatch.setattr(module, "_LOCK_SECONDS", 0.05)
    monkeypatch.setattr(module, "_LAST_PAUSE", 0.0)
    with Journal(tmp_path / "tune.db") as journal:
        other = sqlite3.connect(tmp_path / "tune.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        journal.add(*PLACE, trials(1))
        assert journal.problem is not None and journal.problem.kind == "locked"
        other.execute("ROLLBACK")
        other.close()
        assert journal.finish() is None
    assert stored(tmp_path / "tune.db") == [1]
