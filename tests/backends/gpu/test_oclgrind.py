"""Kernels under oclgrind, which interprets OpenCL C and finds races, accesses out of bounds and barriers that not all reach."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.backends.gpu.drawn import WORKLOADS

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).parents[3]


def grind(*arguments: str) -> tuple[str, str]:
    command = [
        "oclgrind",
        "--data-races",
        "--local-mem-size",
        "65536",
        sys.executable,
        "-m",
        "tests.backends.gpu.grind",
        *arguments,
    ]
    path = os.pathsep.join([str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout, done.stderr


@pytest.mark.parametrize("name", WORKLOADS)
def test_no_race_and_nothing_out_of_bounds(name: str) -> None:
    out, complaints = grind(name, "3", "21")
    assert complaints == "", complaints[:2000]
    assert set(out.split()) == {"right"}


def test_a_missing_barrier_is_noticed() -> None:
    """So that silence means something."""
    _, complaints = grind("matmul-small", "1", "11", "0")
    assert "data race" in complaints, complaints[:500]
