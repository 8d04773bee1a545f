"""What goes wrong with files: each time a clear message, and nothing that was stored is lost."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from tests.records.full import tiny_disk
from tests.records.rights import public_folder, unprivileged
from tests.records.samples import TARGET, TIMING, matmul, trial

from tensorsmith.errors import UserError
from tensorsmith.records import Store, StoreError

W = matmul()
ROOT = Path(__file__).parents[2]


def filled(path, batches=1, size=3):
    with Store.open(path) as store:
        for b in range(batches):
            store.add(W, TARGET, TIMING, [trial(W, 1e-3, 1 + b * size + n) for n in range(size)])
    return path


def count(path):
    with Store.open(path) as store:
        return len(store.history(W, TARGET, TIMING))


# -- no space ------------------------------------------------------------------------------------------------------


def test_a_full_disk_loses_nothing_and_can_be_freed(tmp_path):
    path = filled(tmp_path / "tune.db")
    with Store.open(path) as store:
        connection = store._connection
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages + 2}")
        batch = [trial(W, 1e-3, i) for i in range(100, 200)]
        with pytest.raises(StoreError, match=r"disk is full: nothing was added to .*tune.db; .*Free some space") as problem:
            store.add(W, TARGET, TIMING, batch)
        assert problem.value.kind == "full"
        assert len(store.history(W, TARGET, TIMING)) == 3
        connection.execute("PRAGMA max_page_count = 1000000")
        store.add(W, TARGET, TIMING, batch)
    assert count(path) == 103


LIMITED = """
import resource, sys
from tensorsmith.records import Store, StoreError
from tests.records.samples import *
W = matmul()
done = 0
with Store.open(sys.argv[1]) as store:
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
    try:
        while done < 1000:
            store.add(W, TARGET, TIMING, [trial(W, 1e-3, 1 + done + n) for n in range(10)])
            done += 10
    except StoreError as problem:
        print(problem.kind, "|", problem)
    assert len(store.history(W, TARGET, TIMING)) == done
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    store.add(W, TARGET, TIMING, [trial(W, 1e-3, 1 + done + n) for n in range(10)])
print(done + 10)
"""


def test_a_write_that_the_system_refuses(tmp_path):
    """Python ignores SIGXFSZ, so a file that grows past the limit is a failed write, as with a quota."""
    found = subprocess.run(
        [sys.executable, "-c", LIMITED, tmp_path / "tune.db"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    message, done = found.stdout.splitlines()
    assert message.startswith(("full |", "write failed |"))
    assert "safe" in message and "try again" in message
    assert count(tmp_path / "tune.db") == int(done) < 1000


def test_a_disk_that_really_is_full():
    with tiny_disk(400) as folder:
        fill_up(folder)


def fill_up(folder):
    path, done = filled(folder / "tune.db"), 3
    with Store.open(path) as store:
        (folder / "ballast").write_bytes(bytes(100_000))
        with pytest.raises(StoreError, match="disk is full"):
            while True:
                store.add(W, TARGET, TIMING, [trial(W, 1e-3, 1 + done + n) for n in range(10)])
                done += 10
        assert len(store.history(W, TARGET, TIMING)) == done
        with pytest.raises(StoreError, match="disk is full"):
            store.export(folder / "out.jsonl")
        assert sorted(p.name for p in folder.iterdir() if "jsonl" in p.name) == []
        (folder / "ballast").unlink()
        store.add(W, TARGET, TIMING, [trial(W, 1e-3, 1 + done + n) for n in range(10)])
    assert count(path) == done + 10


# -- no rights -----------------------------------------------------------------------------------------------------


@pytest.fixture
def public():
    with public_folder() as folder:
        yield folder


@pytest.mark.parametrize("file_mode, folder_mode", [(0o444, 0o777), (0o444, 0o555), (0o666, 0o555)])
def test_read_only_files_and_folders(public, file_mode, folder_mode):
    path = filled(public / "tune.db")
    path.chmod(file_mode)
    public.chmod(folder_mode)
    with unprivileged():
        with pytest.raises(StoreError, match=r"cannot write to the record file .*tune.db: .* open it for reading only") as problem:
            Store.open(path)
        assert problem.value.kind == "read-only"
        with Store.open(path, read_only=True) as store:
            assert len(store.history(W, TARGET, TIMING)) == 3
    public.chmod(0o777)
    path.chmod(0o666)
    assert count(path) == 3


def test_no_new_file_in_a_read_only_folder(public):
    public.chmod(0o555)
    with unprivileged(), pytest.raises(StoreError, match="cannot write to the record file"):
        Store.open(public / "tune.db")


def test_no_right_to_read(public):
    path = filled(public / "tune.db")
    path.chmod(0)
    with unprivileged():
        for read_only in (False, True):
            with pytest.raises(StoreError, match=r"tune\.db"):
                Store.open(path, read_only=read_only)


# -- wrong paths ---------------------------------------------------------------------------------------------------


def test_paths_that_cannot_be(tmp_path):
    with pytest.raises(StoreError, match="is a folder"):
        Store.open(tmp_path)
    with pytest.raises(StoreError, match=r"the folder .* does not exist; make it first"):
        Store.open(tmp_path / "none" / "tune.db")
    with pytest.raises(StoreError, match=r"there is no record file .*; tune first"):
        Store.open(tmp_path / "none.db", read_only=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("content", [b"hello, world\n", bytes(5000), os.urandom(20000), b"SQLite format 3\0" + bytes(5000)])
def test_not_a_database(tmp_path, content, read_only):
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"notes\.txt") as problem:
        Store.open(path, read_only=read_only)
    assert problem.value.kind in ("not a record file", "corrupt")
    assert path.read_bytes() == content
    assert [p.name for p in tmp_path.iterdir()] == ["notes.txt"]


# -- locks ---------------------------------------------------------------------------------------------------------


def test_locked_too_long(tmp_path):
    path = filled(tmp_path / "tune.db")
    holder = sqlite3.connect(path, isolation_level=None)
    with Store.open(path, patience=0.05) as store:
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match=r"was locked by another process for 0\.05 seconds; nothing was changed") as problem:
            store.add(W, TARGET, TIMING, [trial(W)])
        assert problem.value.kind == "locked"
        assert len(store.history(W, TARGET, TIMING)) == 3  # readers do not wait
        with pytest.raises(StoreError, match="was locked"):
            Store.open(path, patience=0.05)
        holder.execute("ROLLBACK")
        store.add(W, TARGET, TIMING, [trial(W)])
    holder.close()
    assert count(path) == 4
