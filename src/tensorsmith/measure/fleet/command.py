"""Nodes that a command starts: `ssh board`, `env -i /usr/bin/python3`, a script that runs Python under an emulator."""

from __future__ import annotations

import os
import selectors
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import tensorsmith
from tensorsmith.errors import InternalError, UserError, install
from tensorsmith.measure.fleet.node import MARK
from tensorsmith.measure.fleet.transport import MOST_BYTES, Event
from tensorsmith.measure.pipe import Pipe
from tensorsmith.measure.process import died_of
from tensorsmith.measure.wire import Decoder, Message

_MODULE = "tensorsmith.measure.fleet.node"
_MOST_BEFORE = 1 << 16  # bytes that a login may print
_TAIL = 2000  # bytes of last words


def whole_command(prefix: Sequence[str]) -> list[str]:
    """What is run: the node by the interpreter that the prefix ends with (its name begins with "py"), else by python3."""
    python = Path(prefix[-1]).name.startswith("py") if prefix else False
    return [*prefix, *(() if python else ("python3",)), "-m", _MODULE]


class Commands:
    """A transport to nodes that are each started by a command. They are called by it."""

    silent_because = ""

    def __init__(self, prefixes: dict[str, Sequence[str]]) -> None:
        self._prefixes = dict(prefixes)
        self._pipes: dict[str, _Node] = {}
        self._met: set[str] = set()  # those that ever said something: one that was there before may come back

    def find(self) -> list[str]:
        return list(self._prefixes)

    def call(self, node: str) -> None:
        self._pipes[node] = _Node(node, self._prefixes[node])

    def send(self, node: str, message: Message) -> None:
        if node in self._pipes:
            self._pipes[node].send(message)

    def end(self, node: str) -> None:
        pipe = self._pipes.pop(node, None)
        if pipe is not None:
            pipe.end()

    def poll(self, seconds: float) -> list[Event]:
        with selectors.DefaultSelector() as selector:
            for pipe in self._pipes.values():
                selector.register(pipe, selectors.EVENT_READ)
                if pipe.writer is not None:
                    selector.register(pipe.writer, selectors.EVENT_WRITE)
            selector.select(max(0.0, seconds))
        found = []
        for node, pipe in list(self._pipes.items()):
            pipe.flush()
            messages, over = pipe.receive()
            found += [Event(node, message) for message in messages]
            self._met |= {node} if messages else set()
            if over:
                del self._pipes[node]
                why, for_good = pipe.bury()
                found.append(Event(node, None, why, for_good and node not in self._met))
        return found

    def close(self) -> None:
        for node in list(self._pipes):
            self.end(node)

    @property
    def processes(self) -> tuple[int, ...]:
        return tuple(pipe.pid for pipe in self._pipes.values())


class _Node(Pipe):
    """One node's process, as far as it is on this machine."""

    def __init__(self, name: str, prefix: Sequence[str]) -> None:
        self.name, self._errors = name, tempfile.TemporaryFile()  # noqa: SIM115  it lives as long as the process
        try:
            process = subprocess.Popen(
                whole_command(prefix),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                bufsize=0,
                start_new_session=True,  # Ctrl-C is for the tuner; and ssh must not ask the terminal for a password
            )
        except OSError as problem:
            raise UserError(f"runner {name!r} cannot be started: {problem}") from problem
        super().__init__(process)
        self._decoder = Decoder(MOST_BYTES)
        self._before: bytearray | None = bytearray()  # what came before the mark; None when that has come

    def _of_messages(self, data: bytes) -> bytes:
        """What comes behind the mark."""
        if self._before is None:
            return data
        self._before += data
        at = self._before.find(MARK)
        if at < 0:
            if len(self._before) > _MOST_BEFORE:
                raise InternalError("no node, but something that prints without end")
            return b""
        behind = bytes(self._before[at + len(MARK) :])
        self._before = None
        return behind

    def end(self) -> None:
        self._process.kill()
        self.bury()

    def bury(self) -> tuple[str, bool]:
        """What it died of, in a line, and whether it would do so again."""
        died = died_of(self.ended())
        self._errors.seek(max(0, self._errors.seek(0, os.SEEK_END) - _TAIL))
        words = self._errors.read().decode(errors="replace")
        self._errors.close()
        return self._cause(died, words)

    def _cause(self, died: str, words: str) -> tuple[str, bool]:
        lines = [" ".join(line.split()) for line in words.splitlines() if line.strip()]
        last = lines[-1] if lines else ""
        if "No module named" in words and "tensorsmith" in last:
            return f"there is no tensorsmith on the other side; install it there: {install(version=tensorsmith.__version__)}", True
        if self._before is not None:  # it never was a node
            if len(self._before) > _MOST_BEFORE:
                return f"no node answered, and the command printed more than {_MOST_BEFORE >> 10} KiB of something else", True
            said = f": {last}" if last else ""
            return f"no node answered, the command ended with {died}{said}", True
        return f"the node ended with {died}{f': {last}' if last else ''}", False


def exists(prefix: Sequence[str]) -> bool:
    """Whether this machine has the command."""
    return bool(prefix) and shutil.which(prefix[0]) is not None
