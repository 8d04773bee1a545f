"""The schema's version: migration from older ones, refusal of newer ones, and of files that are not ours."""

from __future__ import annotations

import sqlite3

import pytest
from tests.records.samples import TARGET, TIMING, matmul, trial

from tensorsmith.records import Store, StoreError, schema

W = matmul()


def to_version_0(path):
    """Makes a file of a version 0 that never was: without `run`, times in milliseconds."""
    with Store.open(path) as store:
        store.add(W, TARGET, TIMING, [trial(W, 2e-3, 1), trial(W, 1e-3, 2)], run="lost")
    connection = sqlite3.connect(path)
    connection.execute("DROP INDEX workload_canonical")
    connection.execute("ALTER TABLE workload DROP COLUMN canonical")
    connection.execute("ALTER TABLE record DROP COLUMN note")
    connection.execute("ALTER TABLE record DROP COLUMN run")
    connection.execute("UPDATE record SET seconds = seconds * 1000")
    connection.execute("PRAGMA user_version = 0")
    connection.commit()
    connection.close()


def step_from_0(connection):
    connection.execute("ALTER TABLE record ADD COLUMN run TEXT NOT NULL DEFAULT 'before runs had names'")
    connection.execute("UPDATE record SET seconds = seconds / 1000")


def version(path):
    connection = sqlite3.connect(path)
    try:
        return connection.execute("PRAGMA user_version").fetchone()[0]
    finally:
        connection.close()


def test_an_older_version_is_migrated(tmp_path, monkeypatch):
    to_version_0(tmp_path / "old.db")
    monkeypatch.setitem(schema.STEPS, 0, step_from_0)
    for _ in range(2):  # once
        with Store.open(tmp_path / "old.db") as store:
            best = store.best(W, TARGET, TIMING)
            assert (best.seconds, best.run) == (pytest.approx(1e-3), "before runs had names")
    assert version(tmp_path / "old.db") == schema.VERSION


@pytest.mark.parametrize("read_only", [False, True])
def test_records_of_version_2_have_no_notes(tmp_path, read_only):
    path = tmp_path / "old.db"
    with Store.open(path) as store:
        store.add(W, TARGET, TIMING, [trial(W, 2e-3, 1, note="SM 1410 MHz")])
    connection = sqlite3.connect(path)
    connection.execute("ALTER TABLE record DROP COLUMN note")
    connection.execute("PRAGMA user_version = 2")
    connection.commit()
    connection.close()
    with Store.open(path, read_only=read_only) as store:
        assert store.best(W, TARGET, TIMING).trial == trial(W, 2e-3, 1)
    assert version(path) == (2 if read_only else schema.VERSION)


def test_reading_an_older_version_leaves_the_file_as_it_is(tmp_path, monkeypatch):
    to_version_0(tmp_path / "old.db")
    monkeypatch.setitem(schema.STEPS, 0, step_from_0)
    before = (tmp_path / "old.db").read_bytes()
    with Store.open(tmp_path / "old.db", read_only=True) as store:
        assert store.best(W, TARGET, TIMING).seconds == pytest.approx(1e-3)
    with Store.open(tmp_path / "new.db") as store:
        assert store.merge(tmp_path / "old.db").added == 2
    assert (tmp_path / "old.db").read_bytes() == before


def test_a_migration_that_fails_changes_nothing(tmp_path, monkeypatch):
    def fails(connection):
        step_from_0(connection)
        raise KeyboardInterrupt

    to_version_0(tmp_path / "old.db")
    monkeypatch.setitem(schema.STEPS, 0, fails)
    with pytest.raises(KeyboardInterrupt):
        Store.open(tmp_path / "old.db")
    assert version(tmp_path / "old.db") == 0
    monkeypatch.setitem(schema.STEPS, 0, step_from_0)
    with Store.open(tmp_path / "old.db") as store:
        assert store.best(W, TARGET, TIMING).seconds == pytest.approx(1e-3)


def test_steps_run_one_after_the_other(tmp_path, monkeypatch):
    to_version_0(tmp_path / "old.db")
    last = schema.VERSION
    monkeypatch.setattr(schema, "VERSION", last + 1)
    monkeypatch.setitem(schema.STEPS, 0, step_from_0)
    monkeypatch.setitem(schema.STEPS, last, lambda c: c.execute("UPDATE record SET run = run || '!'"))
    with Store.open(tmp_path / "old.db") as store:
        assert store.best(W, TARGET, TIMING).run == "before runs had names!"
    assert version(tmp_path / "old.db") == last + 1


def test_a_version_without_a_way_is_refused(tmp_path):
    to_version_0(tmp_path / "old.db")
    with pytest.raises(StoreError, match="schema version is 0, from which there is no way to 3"):
        Store.open(tmp_path / "old.db")


@pytest.mark.parametrize("read_only", [False, True])
def test_a_newer_version_is_refused(tmp_path, read_only):
    Store.open(tmp_path / "new.db").close()
    connection = sqlite3.connect(tmp_path / "new.db")
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(StoreError, match=r"newer Tensorsmith \(schema version 99; this one knows 3\). Update") as problem:
        Store.open(tmp_path / "new.db", read_only=read_only)
    assert problem.value.kind == "newer"
    assert version(tmp_path / "new.db") == 99


def rigged(path, *statements):
    Store.open(path).close()
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()
    return path


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize(
    "statements, message",
    [
        (["PRAGMA application_id = 7"], "some other program's SQLite database"),
        (["CREATE TRIGGER t AFTER INSERT ON record BEGIN DELETE FROM record; END"], "has a trigger t"),
        (["DROP TABLE record", "CREATE VIEW record AS SELECT 1"], "has a view record"),
        (["CREATE VIRTUAL TABLE v USING fts5(x)"], "has a table v"),
        (["DROP TABLE target"], "its table target has no id, json, key"),
        (["ALTER TABLE record DROP COLUMN cause"], "its table record has no cause"),
    ],
)
def test_a_file_that_is_not_ours_is_refused_and_left_alone(tmp_path, statements, message, read_only):
    path = rigged(tmp_path / "rigged.db", *statements)
    before = path.read_bytes()
    with pytest.raises(StoreError, match=message) as problem:
        Store.open(path, read_only=read_only)
    assert problem.value.kind == "not a record file"
    assert path.read_bytes() == before


def test_another_programs_database_is_not_switched_to_wal(tmp_path):
    connection = sqlite3.connect(tmp_path / "music.db")
    connection.execute("CREATE TABLE songs (title)")
    connection.close()
    before = (tmp_path / "music.db").read_bytes()
    with pytest.raises(StoreError, match="some other program's SQLite database, with table songs"):
        Store.open(tmp_path / "music.db")
    assert (tmp_path / "music.db").read_bytes() == before


def test_strange_values_in_rows_are_skipped(tmp_path):
    with Store.open(tmp_path / "tune.db") as store:
        store.add(W, TARGET, TIMING, [trial(W, 1e-3, i) for i in range(1, 8)])
    rigged(
        tmp_path / "tune.db",
        "UPDATE record SET candidate = x'ff00' WHERE id = 1",
        "UPDATE record SET candidate = '{}' WHERE id = 2",
        "UPDATE record SET candidate = 7 WHERE id = 3",
        "UPDATE record SET cause = x'01' WHERE id = 4",
        "UPDATE record SET seconds = 'fast' WHERE id = 5",
        "UPDATE record SET status = 'marvellous' WHERE id = 6",
    )
    with Store.open(tmp_path / "tune.db") as store:
        assert [r.candidate.decisions["C.i.1"] for r in store.history(W, TARGET, TIMING)] == [7]
        assert store.skipped.total() == 6
        assert store.best(W, TARGET, TIMING).candidate.decisions["C.i.1"] == 7
        assert list(store.failures(W)) == []
        assert len(store.workloads()) == 1
    with Store.open(tmp_path / "clean.db") as store:
        counts = store.merge(tmp_path / "tune.db")
        assert (counts.added, counts.skipped.total()) == (1, 6)


def test_a_workload_under_a_false_key_is_skipped(tmp_path):
    other = matmul(64)
    with Store.open(tmp_path / "tune.db") as store:
        store.add(other, TARGET, TIMING, [trial(other)])
    rigged(tmp_path / "tune.db", "UPDATE workload SET key = 'abc'")
    with Store.open(tmp_path / "tune.db") as store:
        assert store.workloads() == store.similar(W, TARGET) == []
        assert store.skipped == {"workload: it is not the one its key says": 2}


def test_a_killed_creation_leaves_an_empty_file_that_opens(tmp_path):
    (tmp_path / "tune.db").touch()
    with Store.open(tmp_path / "tune.db", read_only=True) as store:
        assert store.workloads() == []
    assert (tmp_path / "tune.db").stat().st_size == 0
    with Store.open(tmp_path / "tune.db") as store:
        store.add(W, TARGET, TIMING, [trial(W)])
