"""A process that is spoken to by messages on its standard input and output, without ever blocking."""

from __future__ import annotations

import contextlib
import os
import subprocess

from tensorsmith.errors import InternalError
from tensorsmith.measure import wire

_READ = 1 << 16  # bytes
_AT_ONCE = 1 << 24  # bytes that are read before others have their turn: a process may write without end


class Pipe:
    """The pipes of a process that was started with both of them."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        if process.stdin is None or process.stdout is None:
            raise InternalError("a process without pipes")
        self._process, self._in, self._out = process, process.stdin, process.stdout
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
        """Send what fits. A process that is gone shows when it is listened to."""
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            while self._unsent:
                del self._unsent[: os.write(self._in.fileno(), self._unsent)]

    def receive(self) -> tuple[list[wire.Message], bool]:
        """The replies that have come, and whether there will be no more: it is dead, or talks nonsense."""
        messages: list[wire.Message] = []
        for _ in range(_AT_ONCE // _READ):
            try:
                data = os.read(self._out.fileno(), _READ)
            except BlockingIOError:
                return messages, False
            if not data:
                return messages, True
            try:
                messages += self._decoder.feed(self._of_messages(data))
            except InternalError:
                return messages, True
        return messages, False

    def _of_messages(self, data: bytes) -> bytes:
        """What of the bytes that have come belongs to messages."""
        return data

    def ended(self) -> int:
        """After its last reply: its return code. One that closed its pipe and lives on is killed."""
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for pipe in (self._in, self._out):
            with contextlib.suppress(OSError):
                pipe.close()
        return self._process.returncode
