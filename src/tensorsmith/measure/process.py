"""A worker process seen from the measurer: started, spoken to without ever blocking, killed."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import tensorsmith
from tensorsmith.errors import UserError
from tensorsmith.measure.pipe import Pipe

_TAIL = 2000  # bytes of a worker's last words
_NO_ROOM = (errno.ENOMEM, errno.EAGAIN)  # no memory, or no place among the processes, just now


class NoRoom(UserError):
    """The system has no room for another process just now."""


class WorkerProcess(Pipe):
    """A fresh interpreter that runs `tensorsmith.measure.worker`."""

    def __init__(self, folder: Path, number: int) -> None:
        """`folder` receives its standard error. Raises `UserError` if the system does not start it, `NoRoom` if it may later."""
        self._errors = folder / f"worker-{number}.txt"
        if not sys.executable:
            raise UserError("measurement needs a Python interpreter to start as a worker, and sys.executable is empty")
        command = [sys.executable, "-m", "tensorsmith.measure.worker", str(folder), str(os.getpid())]
        try:
            with open(self._errors, "wb") as errors:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    bufsize=0,
                    env=environment(),
                    start_new_session=True,  # Ctrl-C in the terminal is for the tuner
                )
        except OSError as problem:
            kind = NoRoom if problem.errno in _NO_ROOM else UserError
            raise kind(f"a measurement worker could not start: {' '.join(command)}: {problem}") from problem
        super().__init__(process)

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        self.bury()

    def bury(self) -> str:
        """After its last reply: what it died of, "SIGSEGV" or "exit status 1". One that closed its pipe and lives on is killed."""
        return died_of(self.ended())

    def last_words(self) -> str:
        """The end of its standard error."""
        try:
            return self._errors.read_bytes()[-_TAIL:].decode(errors="replace").strip()
        except OSError:
            return ""


def environment() -> dict[str, str]:
    """The parent's, with this very package first on the path, and without threads in NumPy that nobody uses."""
    root = str(Path(tensorsmith.__file__).parent.parent)
    path = os.environ.get("PYTHONPATH")
    return {
        **os.environ,
        "PYTHONPATH": root + os.pathsep + path if path else root,
        "PYTHONSAFEPATH": "1",  # a random.py in the current folder is not ours
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
    }


def died_of(code: int) -> str:
    """A return code in words: "SIGSEGV" or "exit status 1"."""
    if code >= 0:
        return f"exit status {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
