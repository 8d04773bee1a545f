"""Networks run in a process of their own: their answers, and the times of their steps, taken in turns.

Whatever a program does there, crash, hang or answer wrongly, is a result. The networks go there as the files that users save:
machine code and packed weights, which are mapped and not copied.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tensorsmith.backends import backend_of
from tensorsmith.errors import UserError
from tensorsmith.measure.process import died_of, environment
from tensorsmith.runtime.executable import Executable
from tensorsmith.search.trial import Status

Array = np.ndarray[Any, np.dtype[Any]]

_START, _EACH = 120.0, 60.0  # seconds until a process that does not end is ended: to start, and for each network
REQUEST, PROGRESS, TIMES = "request.json", "progress.txt", "times.npz"


@dataclass(frozen=True)
class Failure:
    """What the process died of, and with which network."""

    network: int
    status: Status
    cause: str


@dataclass(frozen=True)
class Ran:
    """What came of networks that ran in turns. `answers`: of each, the outputs of its first run and of its last."""

    answers: list[list[list[Array]]] = field(default_factory=list)
    seconds: list[Array] = field(default_factory=list)  # of each, those of its steps
    failure: Failure | None = None


def run(networks: Sequence[Executable], timed: bool = True, hook: str | None = None) -> Ran:
    """Runs networks on the random inputs of `Executable.random_inputs`, and times them in turns if that is wanted.

    `hook`, for tests, is "file.py:function", called in the process as `function(point, number)` at "check" and "time".
    """
    with tempfile.TemporaryDirectory(prefix="tensorsmith-networks-") as place:
        folder = Path(place)
        for n, network in enumerate(networks):
            network.save(folder / f"{n}.tsm")
        backends = sorted({backend_of(network.network.target).module for network in networks} - {""})
        request = {"networks": len(networks), "timed": timed, "hook": hook, "backends": backends}
        (folder / REQUEST).write_text(json.dumps(request))
        failure = _process(folder, _START + _EACH * len(networks))
        if failure is not None:
            return Ran(failure=failure)
        answers = [[_arrays(path) for path in sorted(folder.glob(f"{n}-*.npz"))] for n in range(len(networks))]
        return Ran(answers, _arrays(folder / TIMES) if timed else [])


def _arrays(path: Path) -> list[Array]:
    with np.load(path) as arrays:
        return [arrays[f"arr_{n}"] for n in range(len(arrays.files))]


def _process(folder: Path, limit: float) -> Failure | None:
    command = [sys.executable, "-m", "tensorsmith.measure.network_worker", str(folder), str(os.getpid())]
    with open(folder / "errors.txt", "wb") as errors:
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=errors, stderr=errors, env=environment(), start_new_session=True
            )
        except OSError as problem:
            raise UserError(f"a process for networks could not start: {' '.join(command)}: {problem}") from problem
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            return Failure(_at(folder), Status.TIMED_OUT, "run took too long")
        finally:
            process.kill()
            process.wait()
            if process.stdin is not None:
                process.stdin.close()
    if code == 0:
        return None
    words = (folder / "errors.txt").read_text(errors="replace").strip().splitlines()
    cause = f"{died_of(code)} while running in a network" + (f": {words[-1]}" if code > 0 and words else "")
    return Failure(_at(folder), Status.CRASHED, cause[:300])


def _at(folder: Path) -> int:
    """The network that was running."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int((folder / PROGRESS).read_text().split()[-1])
    return 0
