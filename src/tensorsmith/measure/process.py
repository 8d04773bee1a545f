"""A worker process seen from the measurer: started, spoken to without ever blocking, killed."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import tensorsmith
from tensorsmith.errors import InternalError, UserError
from tensorsmith.measure import wire

_TAIL = 2000  # bytes of a worker's last words
_NO_ROOM = (errno.ENOMEM, errno.EAGAIN)  # no memory, or no place among the processes, just now


class NoRoom(UserError):
    """The system has no room for another process just now."""


class WorkerProcess:
    """A fresh interpreter that runs `tensorsmith.measure.worker`."""

    def __init__(self, folder: Path, number: int) -> None:
        """`folder` receives its standard error. Raises `UserError` if the system does not start it, `NoRoom` if it may later."""
        self._errors = folder / f"worker-{number}.txt"
        if not sys.executable:
            raise UserError("measurement needs a Python interpreter to start as a worker, and sys.executable is empty")
        command = [sys.executable, "-m", "tensorsmith.measure.worker", str(folder)]
        try:
            with open(self._errors, "wb") as errors:
                self._process = subprocess.Popen(
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
        if self._process.stdin is None or self._process.stdout is None:
            raise InternalError("a worker without pipes")
        self._in, self._out = self._process.stdin, self._process.stdout
        os.set_blocking(self._in.fileno(), False)
        os.set_blocking(self._out.fileno(), False)
        self._unsent = bytearray()
        self._decoder = wire.Decoder()

    @property
    def pid(self) -> int:
        return self._process.pid

    def fileno(self) -> int:
        """To wait for replies."""
        return self._out.fileno()

    @property
    def writer(self) -> int | None:
        """To wait for room for what could not be sent yet; None when all is sent."""
        return self._in.fileno() if self._unsent else None

    def send(self, message: wire.Message) -> None:
        self._unsent += wire.encode(message)
        self.flush()

    def flush(self) -> None:
        """Send what fits. A worker that is gone shows when it is listened to."""
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            while self._unsent:
                del self._unsent[: os.write(self._in.fileno(), self._unsent)]

    def receive(self) -> tuple[list[wire.Message], bool]:
        """The replies that have come, and whether there will be no more: it is dead, or talks nonsense."""
        messages: list[wire.Message] = []
        while True:
            try:
                data = os.read(self._out.fileno(), 1 << 16)
            except BlockingIOError:
                return messages, False
            if not data:
                return messages, True
            try:
                messages += self._decoder.feed(data)
            except InternalError:
                return messages, True

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        self.bury()

    def bury(self) -> str:
        """After its last reply: what it died of, "SIGSEGV" or "exit status 1". One that closed its pipe and lives on is killed."""
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for pipe in (self._in, self._out):
            with contextlib.suppress(OSError):
                pipe.close()
        code = self._process.returncode
        return died_of(code)

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
