"""A record file as version 1 wrote it: it opens, and its records are found by their workloads, also under other names."""

from __future__ import annotations

import dataclasses
import json
import sqlite3

import pytest
from tests.records.samples import TARGET, TIMING, failure, matmul, trial

from tensorsmith.records import Store, candidate_key, recover, schema
from tensorsmith.records.keys import canonical_json

VERSION_1 = (
    "CREATE TABLE workload (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, structure TEXT NOT NULL, json TEXT NOT NULL)",
    "CREATE TABLE target (id INTEGER PRIMARY KEY, key TEXT NOT NULL, json TEXT NOT NULL UNIQUE)",
    """CREATE TABLE record (id INTEGER PRIMARY KEY, uid TEXT NOT NULL UNIQUE, workload INTEGER NOT NULL, target INTEGER NOT NULL,
        cache TEXT NOT NULL, threads INTEGER NOT NULL, run TEXT NOT NULL, created REAL NOT NULL, candidate_key TEXT NOT NULL,
        candidate TEXT NOT NULL, status TEXT NOT NULL, seconds REAL, spread REAL NOT NULL, at_least INTEGER NOT NULL,
        cause TEXT NOT NULL, build_seconds REAL NOT NULL, run_seconds REAL NOT NULL)""",
    "CREATE INDEX workload_structure ON workload (structure)",
    "CREATE INDEX record_key ON record (workload, target, cache, threads, candidate_key)",
    "PRAGMA application_id = 1414745426",
    "PRAGMA user_version = 1",
)

PAGE = 4096
W, RENAMED = matmul(), matmul(name="product")


def test_keys_of_version_1_are_those_of_today():
    """A file knows workloads and candidates by them."""
    assert W.key == "e928806df9b7f663"
    assert candidate_key(trial(W).candidate) == "50117b4a701730dc"


def version_1(path, contents):
    """A file with the trials of each workload; the workload under any other structure."""
    connection = sqlite3.connect(path)
    for statement in VERSION_1:
        connection.execute(statement)
    target = canonical_json(dataclasses.asdict(TARGET))
    connection.execute("INSERT INTO target VALUES (1, ?, ?)", (TARGET.key, target))
    uid = 0
    for n, (workload, trials) in enumerate(contents, 1):
        connection.execute(
            "INSERT INTO workload VALUES (?, ?, 'of version 1', ?)", (n, workload.key, canonical_json(workload.to_json()))
        )
        for t in trials:
            uid += 1
            form = canonical_json(t.candidate.to_json())
            connection.execute(
                "INSERT INTO record VALUES (?, ?, ?, 1, 'warm', 2, 'old', ?, ?, ?, ?, ?, 0.0, 0, ?, 0.1, 0.2)",
                (uid, f"uid{uid}", n, 1.7e9 + uid, candidate_key(t.candidate), form, t.status.value, t.seconds, t.cause),
            )
    connection.commit()
    connection.close()
    return path


@pytest.mark.parametrize("read_only", [False, True])
def test_its_records_are_found_under_every_name(tmp_path, read_only):
    path = version_1(tmp_path / "old.db", [(W, [trial(W, 2e-3, 1), trial(W, 1e-3, 2)])])
    with Store.open(path, read_only=read_only) as store:
        for w in (W, RENAMED):
            best = store.best(w, TARGET, TIMING)
            assert (best.trial.candidate, best.seconds, best.run) == (trial(w, 1e-3, 2).candidate, 1e-3, "old")
        assert [r.seconds for r in store.similar(matmul(64), TARGET, TIMING)] == [1e-3, 2e-3]
        assert store.skipped == {}
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA user_version").fetchone()[0] == (1 if read_only else schema.VERSION)
    connection.close()


def test_one_computation_under_two_names_becomes_one(tmp_path):
    """A candidate that crashed under the one is not used under the other."""
    contents = [(W, [trial(W, 2e-3, 1), trial(W, 1e-3, 2)]), (RENAMED, [failure(RENAMED, i=2), trial(RENAMED, 3e-3, 3)])]
    path = version_1(tmp_path / "old.db", contents)
    with Store.open(path) as store:
        (summary,) = store.workloads()
        assert (summary.workload, summary.trials) == (W, 4)
        for w in (W, RENAMED):
            assert [r.candidate.decisions[f"{w.outputs[0]}.i.1"] for r in store.top(w, TARGET, TIMING, 9)] == [1, 3]


def test_what_cannot_be_read_stays_as_it_is(tmp_path):
    contents = [(W, [trial(W, 1e-3, 1)]), (RENAMED, [trial(RENAMED, 2e-3, 2), trial(RENAMED, 3e-3, 3)]), (matmul(64), [])]
    path = version_1(tmp_path / "old.db", contents)
    connection = sqlite3.connect(path)
    connection.execute("UPDATE record SET candidate = 'no JSON' WHERE id = 2")
    connection.execute("UPDATE workload SET json = ? WHERE id = 3", (json.dumps(["no workload"]),))
    connection.commit()
    connection.close()
    with Store.open(path) as store:
        assert [r.seconds for r in store.top(W, TARGET, TIMING, 9)] == [1e-3, 3e-3]
        assert store.skipped == {"candidate: not JSON": 1}
        assert store.best(matmul(64), TARGET, TIMING) is None


def test_a_damaged_file_is_recovered(tmp_path):
    """Page by page: what lies on the others is saved. Of the first page nothing is missed."""
    path = version_1(tmp_path / "old.db", [(w, [trial(w)]) for w in (matmul(n) for n in range(16, 56))])
    whole = path.read_bytes()
    added = []
    for page in range(len(whole) // PAGE):
        path.write_bytes(whole[: page * PAGE] + b"\xa5" * PAGE + whole[(page + 1) * PAGE :])
        added.append(recover(path, tmp_path / f"{page}.db").added)
    assert added[0] == 40
    assert added.count(0) == 3  # the roots of three tables
    assert all(n >= 20 for n in added if n)
