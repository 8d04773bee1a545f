"""Several processes on one file, and processes that die. Subprocesses are real; nothing depends on how fast they are."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from tests.records.samples import TARGET, TIMING, matmul, trial

from tensorsmith.records import Store

W = matmul()
ROOT = Path(__file__).parents[2]

START = """
import os, signal, sys
from tensorsmith.records import Store
from tests.records.samples import *
W = matmul()
path = sys.argv[1]
def batch(number, who=0):
    return [trial(W, 1e-3, 1 + 10 * number + n + 10_000 * who) for n in range(10)]
"""


def started(script, *arguments):
    command = [sys.executable, "-c", START + script, *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def history(path):
    with Store.open(path) as store:
        found = [r.candidate.decisions["C.i.1"] for r in store.history(W, TARGET, TIMING)]
        assert not store.skipped
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()
    return found


WRITER = """
who = int(sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
for number in range(20):
    with Store.open(path) as store:
        for more in range(3):
            store.add(W, TARGET, TIMING, batch(3 * number + more, who), run=str(who))
        assert len(store.measured(W, TARGET, TIMING)) >= 30 * (number + 1)
"""


def test_several_tuners_share_a_file(tmp_path):
    """They also make the file at the same time, and open and close it again and again."""
    path = tmp_path / "tune.db"
    writers = [started(WRITER, path, who) for who in range(3)]
    for w in writers:
        assert w.stdout.readline() == "ready\n"
    for w in writers:
        w.stdin.write("go\n")
        w.stdin.flush()
    for w in writers:
        assert w.wait() == 0
        w.stdin.close()
        w.stdout.close()
    found = history(path)
    assert len(found) == len(set(found)) == 3 * 20 * 30
    for who in range(3):  # each one's own, in its order
        own = [x for x in found if x // 10_000 == who]
        assert own == sorted(own)


KILLED = """
where, times = sys.argv[2], int(sys.argv[3])
store = Store.open(path)
store.add(W, TARGET, TIMING, batch(0))
seen = 0
def watch(statement):
    global seen
    seen += statement.startswith(where)
    if seen == times:
        os.kill(os.getpid(), signal.SIGKILL)
store._connection.set_trace_callback(watch)
store.add(W, TARGET, TIMING, batch(1))
"""


@pytest.mark.parametrize(
    "where, times", [("BEGIN", 1), ("INSERT INTO workload", 1), ("INSERT INTO record", 1), ("INSERT INTO record", 7), ("COMMIT", 1)]
)
def test_killed_in_the_middle_of_add(tmp_path, where, times):
    process = started(KILLED, tmp_path / "tune.db", where, times)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert history(tmp_path / "tune.db") == list(range(1, 11))
    with Store.open(tmp_path / "tune.db") as store:  # and can go on
        store.add(W, TARGET, TIMING, [trial(W, i=99)])
    assert len(history(tmp_path / "tune.db")) == 11


def test_killed_while_the_file_is_made(tmp_path):
    script = """
from tensorsmith.records import schema
def killed(connection, path):
    connection.execute(schema.TABLES[0])
    os.kill(os.getpid(), signal.SIGKILL)
schema.upgrade = killed
Store.open(path)
"""
    process = started(script, tmp_path / "tune.db")
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert history(tmp_path / "tune.db") == []


ENDLESS = """
store = Store.open(path)
for number in range(100_000):
    store.add(W, TARGET, TIMING, batch(number))
    print(number, flush=True)
"""


@pytest.mark.parametrize("after", [1, 20])
def test_what_add_returned_from_survives(tmp_path, after):
    """Killed from outside, wherever it is then: all that was acknowledged is there, in whole batches."""
    process = started(ENDLESS, tmp_path / "tune.db")
    for _ in range(after):
        process.stdout.readline()
    process.kill()
    rest, _ = process.communicate()
    acknowledged = after + rest.count("\n")
    found = history(tmp_path / "tune.db")
    assert found == list(range(1, len(found) + 1))
    assert len(found) % 10 == 0
    assert acknowledged <= len(found) // 10 <= acknowledged + 1


def test_a_reader_sees_what_a_running_tuner_has_stored(tmp_path):
    process = started(ENDLESS.replace("100_000", "3") + "sys.stdin.readline()", tmp_path / "tune.db")
    for _ in range(3):
        process.stdout.readline()
    with Store.open(tmp_path / "tune.db", read_only=True) as store:
        assert len(store.history(W, TARGET, TIMING)) == 30
    process.communicate("\n")
    assert process.returncode == 0
