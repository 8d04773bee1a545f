from __future__ import annotations

import os

import pytest

from tensorsmith.errors import InternalError
from tensorsmith.measure import wire


def test_messages_survive_any_fragmentation() -> None:
    sent = [{"do": "x" * n, "n": n, "float": 1.5, "none": None} for n in (0, 1, 70000)]
    stream = b"".join(map(wire.encode, sent))
    for step in (1, 7, 4096, len(stream)):
        decoder = wire.Decoder()
        received = [m for at in range(0, len(stream), step) for m in decoder.feed(stream[at : at + step])]
        assert received == sent


def test_blocking_ends() -> None:
    reading, writing = os.pipe()
    wire.write(writing, {"a": [1, 2]})
    assert wire.read(reading) == {"a": [1, 2]}
    os.write(writing, wire.encode({"b": 1})[:5])
    os.close(writing)
    assert wire.read(reading) is None
    os.close(reading)


@pytest.mark.parametrize("garbage", [b"\xff" * 100, b"\x02\x00\x00\x00{]", b"\x02\x00\x00\x00[]", b"\x02\x00\x00\x00\xff\xfe"])
def test_garbage_is_noticed(garbage: bytes) -> None:
    with pytest.raises(InternalError):
        wire.Decoder().feed(garbage)
