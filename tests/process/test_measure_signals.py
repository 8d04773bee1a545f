"""What is left of the workers when the tuner is killed or interrupted, from outside."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.process.waiting import alive, wait

ROOT = Path(__file__).parents[2]

SCRIPT = """
import sys
from tests.measure.small import BAD, candidates, fault, matmul
from tensorsmith.measure import Measurer

workload = matmul()
measurer = Measurer(workload, workers=2, threads=2, hook=fault("endless_run"))
measurer.submit(candidates(workload, 1, 2, BAD, 3))
print(*measurer.processes, flush=True)
try:
    print(len(list(measurer.results())), flush=True)
except KeyboardInterrupt:
    print("interrupted", measurer.pending, len(measurer.processes), flush=True)
    trials = measurer.measure(candidates(workload, 4, 5))
    print(*(t.status.value for t in trials), flush=True)
    if "close" in sys.argv:
        measurer.close()
"""


@pytest.fixture
def tuner(tmp_path: Path):
    """A process with a measurer whose worker is in an endless loop; and the workers' process numbers."""
    started = []

    def start(*arguments: str) -> tuple[subprocess.Popen, list[int]]:
        mark, temporary = tmp_path / "mark", tmp_path / "tmp"
        temporary.mkdir()
        process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, *arguments],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "TEST_MARK": str(mark), "TMPDIR": str(temporary)},
            start_new_session=True,
        )
        started.append(process)
        workers = [int(n) for n in process.stdout.readline().split()]
        assert len(workers) == 2
        wait("for the endless loop", mark.exists)
        assert all(map(alive, workers)) and list(temporary.iterdir())
        return process, workers

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def test_no_orphans_after_sigkill(tuner, tmp_path: Path) -> None:
    process, workers = tuner()
    process.kill()
    process.wait()
    wait("for the workers to end", lambda: not any(map(alive, workers)))
    wait("for the files to be gone", lambda: not list((tmp_path / "tmp").iterdir()))


@pytest.mark.parametrize("arguments", [("close",), ()])
def test_ctrl_c(tuner, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """The whole group gets the signal, as in a terminal. The measurer can be used on, and leaves nothing, closed or not."""
    process, workers = tuner(*arguments)
    os.killpg(process.pid, signal.SIGINT)
    assert process.stdout.readline() == "interrupted 0 0\n"
    assert process.stdout.readline() == "ok ok\n"
    assert process.wait(60) == 0
    wait("for the workers to end", lambda: not any(map(alive, workers)))
    wait("for the files to be gone", lambda: not list((tmp_path / "tmp").iterdir()))


def test_terminated(tuner) -> None:
    process, workers = tuner()
    process.terminate()
    process.wait()
    wait("for the workers to end", lambda: not any(map(alive, workers)))
