"""A worker ends with its parent and tidies up after it, whenever that dies."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from tensorsmith.measure.process import environment

# A parent whose pipe to the worker is closed some time before it is gone: so dies a large process on a busy machine.
_SLOW_DEATH = """
import os, subprocess, sys, time
worker = [sys.executable, "-m", "tensorsmith.measure.worker", sys.argv[1], str(os.getpid())]
process = subprocess.Popen(worker, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
process.stdout.read(1)  # it has started
process.stdin.close()
time.sleep(1.0)
os._exit(0)
"""


def _goes(folder: Path) -> bool:
    for _ in range(600):
        if not folder.exists():
            return True
        time.sleep(0.1)
    return False


def test_the_folder_of_a_parent_that_takes_its_time_to_die_is_removed(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    subprocess.run([sys.executable, "-c", _SLOW_DEATH, str(tmp_path / "folder")], env=environment(), check=True, timeout=300)
    assert _goes(tmp_path / "folder")


def test_the_folder_of_a_parent_that_was_gone_before_the_worker_began_is_removed(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    parent = subprocess.Popen([sys.executable, "-c", ""])
    parent.wait()
    command = [sys.executable, "-m", "tensorsmith.measure.worker", str(tmp_path / "folder"), str(parent.pid)]
    subprocess.run(command, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=300)
    assert _goes(tmp_path / "folder")
