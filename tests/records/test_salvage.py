"""Damaged files: never written to, and what is readable can be saved."""

from __future__ import annotations

import shutil

import pytest
from tests.records.samples import TARGET, TIMING, matmul, trial

from tensorsmith.records import Store, StoreError, recover

W = matmul()
PAGE = 4096
COUNT = 300


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "tune.db"
    with Store.open(path) as store:
        for b in range(COUNT // 10):
            store.add(W, TARGET, TIMING, [trial(W, 1e-3 + 1e-6 * (b * 10 + n), 1 + b * 10 + n) for n in range(10)])
    return path


@pytest.fixture
def damaged(whole, tmp_path):
    def damage(at, content):
        path = tmp_path / "tune.db"
        data = bytearray(whole.read_bytes())
        data[at : at + len(content)] = content
        path.write_bytes(data)
        return path

    return damage


def saved(path):
    before = path.read_bytes()
    new = path.with_name("new.db")
    counts = recover(path, new)
    assert path.read_bytes() == before
    with Store.open(new) as store:
        assert len(store.history(W, TARGET, TIMING)) == counts.added
        assert not store.skipped
    return counts


def refused(path):
    """Opening says what to do, and does not touch the file."""
    before = path.read_bytes()
    with pytest.raises(StoreError, match=r"tensorsmith\.records\.recover\(.*, new_path\)") as problem:
        Store.open(path)
    assert path.read_bytes() == before
    return problem.value.kind


def test_a_whole_file_is_recovered_whole(whole):
    assert saved(whole).added == COUNT


def test_pages_of_records_overwritten(damaged, whole):
    """Every page in turn: most of the records survive, unless it is the one with the workloads or targets."""
    pages = whole.stat().st_size // PAGE
    outcomes = []
    for page in range(1, pages, 3):
        path = damaged(page * PAGE, b"\xa5" * PAGE)
        assert refused(path) == "corrupt"
        outcomes.append(saved(path).added)
        path.with_name("new.db").unlink()
    assert sum(n >= COUNT * 3 // 4 for n in outcomes) >= len(outcomes) - 4
    assert any(0 < n < COUNT for n in outcomes)


def test_the_first_page_overwritten(damaged):
    path = damaged(0, b"\xa5" * PAGE)
    assert refused(path) == "not a record file"
    assert saved(path).added == COUNT


def test_cut_off(whole, tmp_path):
    path = tmp_path / "tune.db"
    path.write_bytes(whole.read_bytes()[: whole.stat().st_size * 2 // 3])
    assert refused(path) == "corrupt"
    counts = saved(path)
    assert COUNT // 3 < counts.added < COUNT
    assert counts.skipped


def test_records_that_are_still_in_the_wal(tmp_path):
    with Store.open(tmp_path / "tune.db") as store:
        store.add(W, TARGET, TIMING, [trial(W)])
        for name in ("tune.db", "tune.db-wal"):
            shutil.copyfile(tmp_path / name, tmp_path / f"copy-{name}")
    assert saved(tmp_path / "copy-tune.db").added == 1


def test_a_damaged_wal_loses_only_what_it_held(tmp_path):
    with Store.open(tmp_path / "tune.db") as store:
        store.add(W, TARGET, TIMING, [trial(W)])
    with Store.open(tmp_path / "tune.db") as store:
        store.add(W, TARGET, TIMING, [trial(W, i=2)])
        wal = bytearray((tmp_path / "tune.db-wal").read_bytes())
        shutil.copyfile(tmp_path / "tune.db", tmp_path / "copy.db")
    wal[100:200] = b"\xa5" * 100
    (tmp_path / "copy.db-wal").write_bytes(wal)
    with Store.open(tmp_path / "copy.db") as store:
        assert len(store.history(W, TARGET, TIMING)) == 1


def test_refusals(whole, tmp_path):
    with pytest.raises(StoreError, match="exists already and is left as it is"):
        recover(whole, whole)
    with pytest.raises(StoreError, match="there is no file"):
        recover(tmp_path / "none.db", tmp_path / "new.db")
    assert not (tmp_path / "new.db").exists()


def test_nothing_to_save(tmp_path):
    path = tmp_path / "tune.db"
    path.write_bytes(b"hello, world\n" * 1000)
    assert saved(path).added == 0
