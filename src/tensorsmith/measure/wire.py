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
_MOST = 1 << 30  # bytes; longer than that is no message but garbage


def text(message: Message) -> bytes:
    """The JSON of a message, which `decode` reads."""
    return json.dumps(message, separators=(",", ":")).encode()


def encode(message: Message) -> bytes:
    """The same behind its length."""
    body = text(message)
    return _LENGTH.pack(len(body)) + body


def decode(body: bytes) -> Message:
    """The message whose text it is. Raises `InternalError` on what is none."""
    try:
        message = json.loads(body)
    except (ValueError, RecursionError) as problem:  # lists in lists in lists
        raise InternalError(f"garbage in the pipe: {problem}") from problem
    if not isinstance(message, dict):
        raise InternalError(f"a message that is a {type(message).__name__}")
    return message


class Decoder:
    """Bytes in, as they arrive; whole messages out."""

    def __init__(self, most: int = _MOST) -> None:
        """`most`: bytes of a message."""
        self._bytes, self._most = bytearray(), most

    def feed(self, data: bytes) -> list[Message]:
        """The messages that `data` completes. Raises `InternalError` on what is no message."""
        self._bytes += data
        found: list[Message] = []
        while len(self._bytes) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._bytes)
            if length > self._most:
                raise InternalError(f"a message of {length} bytes: garbage in the pipe")
            end = _LENGTH.size + length
            if len(self._bytes) < end:
                break
            found.append(decode(bytes(self._bytes[_LENGTH.size : end])))
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
