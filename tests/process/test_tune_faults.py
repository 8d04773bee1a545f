"""Tuning while everything goes wrong: nothing measured is lost, nothing hangs, and every message says what to do."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.process import faults
from tests.process.waiting import alive, wait
from tests.records.full import tiny_disk

import tensorsmith as ts
from tensorsmith.records import Record, Store
from tensorsmith.records.record import FINALS

ROOT = Path(__file__).parents[2]
HARD = 120  # seconds after which anything here hangs

DEFINITION = """
import tensorsmith as ts
A = ts.placeholder((16, 24), name="A")
B = ts.placeholder((24, 32), name="B", constant=True)
k = ts.reduce_axis(24, name="k")
tensors = [A, B, ts.compute((16, 32), lambda i, j: ts.sum(A[i, k] * B[k, j], axis=k), name="C")]
"""


def _ignore_ctrl_c() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


class Tuner:
    """A `tensorsmith tune` process."""

    def __init__(
        self,
        folder: Path,
        fault: str,
        trials: int,
        *,
        database: Path,
        run_seconds: float,
        name: str,
        ignore_ctrl_c: bool,
        **env: str,
    ) -> None:
        (folder / "definition.py").write_text(DEFINITION)
        self.arrivals = folder / f"arrivals-{name}"
        self.arrivals.mkdir()
        self.out, self.err = folder / f"out-{name}.txt", folder / f"err-{name}.txt"
        command = ["tune", str(folder / "definition.py"), "--trials", str(trials), "--db", str(database)]
        temporary = folder / "tmp"
        temporary.mkdir(exist_ok=True)
        known = {"TEST_ARRIVALS": str(self.arrivals), "TENSORSMITH_NUM_THREADS": "2", "TMPDIR": str(temporary)}
        with self.out.open("w") as out, self.err.open("w") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.process.faulty", fault, str(run_seconds), *command],
                stdout=out,
                stderr=err,
                cwd=ROOT,
                env={**os.environ, **known, **env},
                start_new_session=True,
                preexec_fn=_ignore_ctrl_c if ignore_ctrl_c else None,
            )

    def arrived(self, number: int) -> bool:
        """Whether so many candidates were run before the one that is run now."""
        return (self.arrivals / str(number)).exists() and len(self._arrival(number)) == 2

    def key(self, number: int) -> str:
        return self._arrival(number)[0]

    def worker(self, number: int) -> int:
        """The process in which a candidate was run."""
        return int(self._arrival(number)[1])

    def workers(self) -> set[int]:
        return {self.worker(int(p.name)) for p in self.arrivals.iterdir()}

    def wait_for(self, number: int) -> None:
        wait(f"for candidate {number}", lambda: self.arrived(number) or self.process.poll() is not None, HARD)
        assert self.process.poll() is None, self.text()

    def finish(self) -> int:
        """Its exit code; no worker is left."""
        code = self.process.wait(HARD)
        self.gone()
        return code

    def gone(self) -> None:
        wait("for the workers to end", lambda: not any(map(alive, self.workers())))

    def text(self) -> str:
        return self.out.read_text() + self.err.read_text()

    def _arrival(self, number: int) -> list[str]:
        return (self.arrivals / str(number)).read_text().split()


@pytest.fixture
def tuner(tmp_path: Path):
    started: list[Tuner] = []

    def start(
        fault: str = "nothing", trials: int = 8, *, database: Path | None = None, run_seconds: float = HARD,
        ignore_ctrl_c: bool = False, **env: str,
    ) -> Tuner:  # fmt: skip
        options = {"database": database or tmp_path / "tune.db", "run_seconds": run_seconds, "ignore_ctrl_c": ignore_ctrl_c}
        one = Tuner(tmp_path, fault, trials, name=str(len(started)), **options, **env)
        started.append(one)
        return one

    yield start
    for one in started:
        one.process.kill()
        one.process.wait()


Start = Callable[..., Tuner]


def stored(database: Path) -> list[Record]:
    """The trials of a file, without the finalists' second timings; nothing in the file is invalid."""
    with Store.open(database) as store:
        found = [r for s in store.workloads() for r in store.history(s.workload, s.target, s.timing)]
        assert not store.skipped
    return [r for r in found if r.run not in FINALS]


def keys(records: list[Record]) -> list[str]:
    return [r.key for r in records]


def check_answer(database: Path) -> None:
    """The best program of a file gives the right answer."""
    names: dict[str, list] = {}
    exec(DEFINITION, names)
    rng = np.random.default_rng(0)
    a, b = rng.random((16, 24), np.float32), rng.random((24, 32), np.float32)
    np.testing.assert_allclose(ts.compile(names["tensors"], database=database)(a, b), a @ b, rtol=1e-5)


# -- workers -------------------------------------------------------------------------------------------------------


def test_candidates_that_crash_hang_lie_and_die(tuner: Start, tmp_path: Path) -> None:
    run = tuner("each_in_turn", 16, run_seconds=10.0)
    assert run.finish() == 0, run.text()
    found = stored(tmp_path / "tune.db")
    assert len(found) == len(set(keys(found))) == 16
    ended = {r.key: (r.trial.status.value, r.trial.cause) for r in found}
    assert ended[run.key(faults.SEGFAULT)] == ("crashed", "SIGSEGV while running")
    assert ended[run.key(faults.ENDLESS)] == ("timed out", "run took too long")
    assert ended[run.key(faults.KILLED)] == ("crashed", "SIGKILL while running")
    status, cause = ended[run.key(faults.WRONG)]
    assert status == "wrong answer" and cause.startswith("C: 1 of 512 elements are wrong, the worst at [15, 31]")
    check_answer(tmp_path / "tune.db")


def test_a_worker_killed_from_outside(tuner: Start, tmp_path: Path) -> None:
    run = tuner("waits", 12)
    run.wait_for(faults.KILLED)
    os.kill(run.worker(faults.KILLED), signal.SIGKILL)
    assert run.finish() == 0, run.text()
    found = {r.key: r.trial for r in stored(tmp_path / "tune.db")}
    assert len(found) == 12
    assert found[run.key(faults.KILLED)].cause == "SIGKILL while running"


# -- the tuner itself ----------------------------------------------------------------------------------------------


def test_killed_and_resumed(tuner: Start, tmp_path: Path) -> None:
    """Nothing that was stored is measured again, and the workers do not outlive the tuner."""
    run = tuner("hangs", 40)
    run.wait_for(faults.HANGS_AT)
    run.process.kill()
    assert run.finish() == -signal.SIGKILL
    before = keys(stored(tmp_path / "tune.db"))
    assert len(before) >= 16  # the first batch at least
    again = tuner(trials=8)
    assert again.finish() == 0, again.text()
    after = keys(stored(tmp_path / "tune.db"))
    assert len(after) == len(set(after)) == len(before) + 8
    assert after[: len(before)] == before
    check_answer(tmp_path / "tune.db")


def test_ctrl_c_keeps_everything_and_shows_the_best(tuner: Start, tmp_path: Path) -> None:
    run = tuner("hangs", 40)
    run.wait_for(faults.HANGS_AT)
    os.killpg(run.process.pid, signal.SIGINT)  # the whole group, as a terminal does
    assert run.finish() == 0, run.text()
    assert "stopped" in run.text() and "kept" in run.text() and "Traceback" not in run.text()
    assert "GFLOP/s" in run.text()
    assert len(stored(tmp_path / "tune.db")) >= 16
    check_answer(tmp_path / "tune.db")


def test_ctrl_c_twice_ends_at_once(tuner: Start, tmp_path: Path) -> None:
    run = tuner("hangs", 40)
    run.wait_for(faults.HANGS_AT)
    for _ in range(2):
        os.killpg(run.process.pid, signal.SIGINT)
        time.sleep(0.05)
    assert run.finish() != 0, run.text()
    assert "Traceback" not in run.text()
    assert len(stored(tmp_path / "tune.db")) >= 16


def test_ctrl_c_that_is_ignored_on_entry_does_nothing(tuner: Start, tmp_path: Path) -> None:
    """As under `nohup`: the run goes on to its end."""
    run = tuner("waits", 12, ignore_ctrl_c=True)
    run.wait_for(faults.KILLED)
    os.killpg(run.process.pid, signal.SIGINT)
    os.kill(run.worker(faults.KILLED), signal.SIGKILL)  # lets the run go on
    assert run.finish() == 0, run.text()
    assert "stopped" not in run.text()
    assert len(stored(tmp_path / "tune.db")) >= 12


def test_two_tuners_on_one_file(tuner: Start, tmp_path: Path) -> None:
    """Both make the file at the same moment, and both write to it."""
    runs = [tuner(trials=16) for _ in range(2)]
    for run in runs:
        assert run.finish() == 0, run.text()
        assert "lock" not in run.text()
    found = stored(tmp_path / "tune.db")
    assert len(found) == 32
    assert {keys(found).count(run.key(0)) for run in runs} <= {1, 2}
    check_answer(tmp_path / "tune.db")


# -- the disk ------------------------------------------------------------------------------------------------------


def check_nothing_lost(run: Tuner, database: Path, message: str, expected: int) -> None:
    """The run goes on in memory, and what the file does not take in the end is in another one, which can be imported."""
    assert run.finish() == 0, run.text()
    said = " ".join(run.text().split())
    assert "Traceback" not in said
    assert re.search(message, said) and str(database) in said and "try again" in said
    found = re.search(r"They are in (\S+\.jsonl)", said)
    assert found, said
    before = len(stored(database))
    with Store.in_memory() as memory:
        memory.import_(found[1])
        rescued = [r for s in memory.workloads() for r in memory.history(s.workload, s.target, s.timing) if r.run not in FINALS]
    assert rescued and before + len(rescued) == expected


def test_the_disk_is_full(tuner: Start) -> None:
    with tiny_disk(400) as folder:
        database = folder / "tune.db"
        first = tuner(trials=8, database=database)
        assert first.finish() == 0, first.text()
        disk = os.statvfs(folder)
        (folder / "ballast").write_bytes(bytes(disk.f_bavail * disk.f_frsize - 60_000))
        run = tuner(trials=24, database=database)
        check_nothing_lost(run, database, "the disk is full", 8 + 24)


def test_the_system_refuses_to_write(tuner: Start, tmp_path: Path) -> None:
    """A file that may not grow any more, as with a quota; what is rescued has to fit into one of that size."""
    database = tmp_path / "tune.db"
    assert tuner(trials=16).finish() == 0
    run = tuner(trials=12, TEST_FILE_BYTES=str(database.stat().st_size + 2048))
    check_nothing_lost(run, database, "the disk is full|the system refused", 16 + 12)
