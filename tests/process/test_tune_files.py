"""`ts.tune` and `ts.compile` on files that cannot be used: told before anything is searched, and left as they are."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.records.rights import public_folder, unprivileged

import tensorsmith as ts
from tensorsmith.backends.cpu.default import default_candidate
from tensorsmith.errors import UserError
from tensorsmith.measure.measurer import Measurer
from tensorsmith.records import Store, Timing
from tensorsmith.search.trial import Status, Trial
from tensorsmith.targets.target import native

N = 16


def matmul() -> list:
    a, b = ts.placeholder((N, N), name="A"), ts.placeholder((N, N), name="B")
    k = ts.reduce_axis(N, name="k")
    return [a, b, ts.compute((N, N), lambda i, j: ts.sum(a[i, k] * b[k, j], axis=k), name="C")]


def fill(path: Path, count: int = 400) -> None:
    """A record file of some 30 pages."""
    target, workload = native(), ts.workload(matmul())
    plain = default_candidate(workload, target)
    trial = Trial(plain, Status.OK, 1e-3)
    with Store.open(path) as store:
        store.add(workload, target, Timing("warm", target.cores), [trial] * count)


@pytest.fixture
def no_measuring(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever begins to search has not looked at the file first."""

    def begun(*arguments: object, **options: object) -> None:
        raise AssertionError("the search began")

    monkeypatch.setattr(Measurer, "measure", begun)
    monkeypatch.setattr(Measurer, "submit", begun)


def text_file(path: Path) -> None:
    path.write_text("time,candidate\n" * 1000)


def noise(path: Path) -> None:
    path.write_bytes(np.random.default_rng(0).bytes(20_000))


def cut_off(path: Path) -> None:
    fill(path)
    os.truncate(path, path.stat().st_size * 2 // 3)


def no_beginning(path: Path) -> None:
    fill(path)
    with path.open("r+b") as file:
        file.write(bytes(200))


def bytes_flipped(path: Path) -> None:
    """The heads of some pages in the middle."""
    fill(path)
    with path.open("r+b") as file:
        for page in range(5, 12):
            file.seek(4096 * page)
            head = file.read(16)
            file.seek(4096 * page)
            file.write(bytes(b ^ 0xFF for b in head))


def newer(path: Path) -> None:
    fill(path)
    statement(path, "PRAGMA user_version = 99")


def somebody_elses(path: Path) -> None:
    statement(path, "CREATE TABLE songs (title)")


def statement(path: Path, sql: str) -> None:
    connection = sqlite3.connect(path)
    connection.execute(sql)
    connection.commit()
    connection.close()


BAD = [
    (text_file, "is not a record file"),
    (noise, "is not a record file"),
    (cut_off, "is damaged"),
    (no_beginning, "is not a record file, or its first page is damaged"),
    (bytes_flipped, "is damaged"),
    (newer, r"was written by a newer Tensorsmith \(schema version 99; this one knows \d+\)\. Update"),
    (somebody_elses, "is some other program's SQLite database"),
    (Path.mkdir, "is a folder; give the path of a record file"),
]


@pytest.mark.parametrize(("make", "message"), BAD, ids=[make.__name__ for make, _ in BAD])
def test_unusable_files(tmp_path: Path, no_measuring: None, make: Callable[[Path], None], message: str) -> None:
    path = tmp_path / "tune.db"
    make(path)
    before = path.read_bytes() if path.is_file() else b""
    with pytest.raises(UserError, match=message) as problem:
        ts.tune(matmul(), trials=4, database=path)
    assert str(path) in str(problem.value)
    if "damaged" in message:
        assert f"tensorsmith.records.recover({str(path)!r}, new_path)" in str(problem.value)
    assert (path.read_bytes() if path.is_file() else b"") == before
    assert [p.name for p in tmp_path.iterdir()] == ["tune.db"]


@pytest.mark.parametrize(("make", "message"), BAD, ids=[make.__name__ for make, _ in BAD])
def test_compiling_from_unusable_files(tmp_path: Path, make: Callable[[Path], None], message: str) -> None:
    """Either it is told, or what is read is right: reading does not look at pages it does not need."""
    path = tmp_path / "tune.db"
    make(path)
    before = path.read_bytes() if path.is_file() else b""
    eye = np.eye(N, dtype=np.float32)
    try:
        np.testing.assert_array_equal(ts.compile(matmul(), database=path)(eye, eye), eye)
    except UserError as problem:
        assert str(path) in str(problem)
    else:
        assert make is bytes_flipped
    assert (path.read_bytes() if path.is_file() else b"") == before


@pytest.mark.parametrize(("file_mode", "folder_mode"), [(0o444, 0o777), (0o444, 0o555), (0o666, 0o555)])
def test_read_only(no_measuring: None, file_mode: int, folder_mode: int) -> None:
    ts.compile(matmul())  # imports what it needs, while we may read it
    with public_folder() as folder:
        path = folder / "tune.db"
        fill(path, 3)
        path.chmod(file_mode)
        folder.chmod(folder_mode)
        eye = np.eye(N, dtype=np.float32)
        with unprivileged():
            with pytest.raises(
                UserError, match=r"cannot write to the record file .*tune\.db: .*Make the file and its folder writable"
            ):
                ts.tune(matmul(), trials=4, database=path)
            np.testing.assert_array_equal(ts.compile(matmul(), database=path)(eye, eye), eye)


def test_no_new_file_in_a_read_only_folder(no_measuring: None) -> None:
    with public_folder() as folder:
        folder.chmod(0o555)
        with unprivileged(), pytest.raises(UserError, match="cannot write to the record file"):
            ts.tune(matmul(), trials=4, database=folder / "tune.db")
        assert not list(folder.iterdir())


def test_a_folder_that_does_not_exist(tmp_path: Path, no_measuring: None) -> None:
    with pytest.raises(UserError, match=r"the folder .*none of the record file tune.db does not exist; make it first"):
        ts.tune(matmul(), trials=4, database=tmp_path / "none" / "tune.db")
