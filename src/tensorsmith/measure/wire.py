"""Messages between the measurer and its workers: JSON objects, each behind its length in 4 bytes, little-endian.

No pickle: what comes out of a worker that ran wild code is data, and nothing else.
"""

from __future__ import annotations

import json
import os
import struct
from typing import Any

from tensorsmith.errors import InternalError

Message = dict[str, Any]

_LENGTH = struct.Struct("<I")
_MOST = 1 << 30  # longer than that is no message but garbage


def encode(message: Message) -> bytes:
    body = json.dumps(message, separators=(",", ":")).encode()
    return _LENGTH.pack(len(body)) + body


class Decoder:
    """Bytes in, as they arrive; whole messages out."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, data: bytes) -> list[Message]:
        """The messages that `data` completes. Raises `InternalError` on what is no message."""
        self._bytes += data
        found: list[Message] = []
        while len(self._bytes) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._bytes)
            if length > _MOST:
                raise InternalError(f"a message of {length} bytes: garbage in the pipe")
            end = _LENGTH.size + length
            if len(self._bytes) < end:
                break
            try:
                message = json.loads(bytes(self._bytes[_LENGTH.size : end]))
            except ValueError as problem:
                raise InternalError(f"garbage in the pipe: {problem}") from problem
            if not isinstance(message, dict):
                raise InternalError(f"a message that is a {type(message).__name__}")
            found.append(message)
            del self._bytes[:end]
        return found


def read(fd: int) -> Message | None:
    """The next message, waiting for it; None at the end of the pipe."""
    head = _exactly(fd, _LENGTH.size)
    if head is None:
        return None
    body = _exactly(fd, _LENGTH.unpack(head)[0])
    return None if body is None else json.loads(body)


def write(fd: int, message: Message) -> None:
    data = memoryview(encode(message))
    while data:
        data = data[os.write(fd, data) :]


def _exactly(fd: int, count: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < count:
        part = os.read(fd, count - len(parts))
        if not part:
            return None
        parts += part
    return bytes(parts)
