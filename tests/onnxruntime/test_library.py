"""The shared library: what a loader finds in it, and that its functions go where the table says."""

from __future__ import annotations

import ctypes
import struct

import pytest

from tensorsmith.errors import UserError
from tensorsmith.onnxruntime import library
from tensorsmith.onnxruntime.library import FUNCTIONS, MACHINES, TABLE, opened


def symbols(content: bytes) -> dict[str, int]:
    """The exported names with their addresses, found as a loader does: header, dynamic segment, tables."""
    at, size, count = struct.unpack_from("<Q", content, 32)[0], *struct.unpack_from("<HH", content, 54)
    segments = [struct.unpack_from("<IIQQQQQQ", content, at + n * size) for n in range(count)]
    loaded = [s for s in segments if s[0] == 1]

    def offset(address: int) -> int:
        (found,) = [s[2] + address - s[3] for s in loaded if s[3] <= address < s[3] + s[5]]
        return int(found)

    for _, flags, start, address, _, length, _, alignment in loaded:
        assert address % alignment == start % alignment and start + length <= len(content)
        assert flags & 3 != 3  # nothing is both written and executed
    (dynamic,) = [s for s in segments if s[0] == 2]
    entries = dict(struct.iter_unpack("<QQ", content[dynamic[2] : dynamic[2] + dynamic[5]]))
    buckets, chain = struct.unpack_from("<II", content, offset(entries[4]))
    assert buckets == 1
    links = struct.unpack_from(f"<{1 + chain}I", content, offset(entries[4]) + 8)  # where the bucket begins, then the chain
    names = content[offset(entries[5]) :]
    found, n = {}, links[0]
    while n:
        name, _, _, section, value, _ = struct.unpack_from("<IBBHQQ", content, offset(entries[6]) + 24 * n)
        assert section and name < entries[10]
        found[names[name : names.index(b"\0", name)].decode()] = value
        n = links[1 + n]
    return found


@pytest.mark.parametrize("machine", MACHINES)
def test_a_loader_finds_the_functions_and_the_table(machine: str) -> None:
    content = library.library(MACHINES[machine])
    assert content[:6] == b"\x7fELF\x02\x01" and len(content) < 1024
    assert struct.unpack_from("<HH", content, 16) == (3, {"x86_64": 62, "aarch64": 183}[machine])
    assert set(symbols(content)) == {*FUNCTIONS, TABLE}


def test_jumps_on_x86_64_go_through_their_slots() -> None:
    content = library.library(MACHINES["x86_64"])
    found = symbols(content)
    for n, name in enumerate(FUNCTIONS):
        at = found[name]
        assert content[at : at + 2] == b"\xff\x25"  # jmp [rip + distance]
        assert at + 6 + struct.unpack_from("<i", content, at + 2)[0] == found[TABLE] + 8 * n


def test_jumps_on_aarch64_go_through_their_slots() -> None:
    """The fields of the instructions as the architecture's manual has them."""
    content = library.library(MACHINES["aarch64"])
    found = symbols(content)
    for n, name in enumerate(FUNCTIONS):
        at = found[name]
        adrp, ldr, br = struct.unpack_from("<3I", content, at)
        assert adrp & 0x9F000000 == 0x90000000 and ldr & 0xFFC00000 == 0xF9400000 and br == 0xD61F0000 | 16 << 5
        assert adrp & 31 == ldr & 31 == ldr >> 5 & 31 == 16
        pages = (adrp >> 5 & 0x7FFFF) << 2 | adrp >> 29 & 3
        slot = ((at >> 12) + pages << 12) + (ldr >> 10 & 0xFFF) * 8
        assert slot == found[TABLE] + 8 * n


@pytest.mark.parametrize("in_memory", [True, False])
def test_its_functions_are_those_of_the_table(in_memory: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not in_memory:

        def refuse(_: bytes) -> None:
            raise OSError

        monkeypatch.setattr(library, "_in_memory", refuse)
    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)
    one, other = kind(lambda x: x + 1), kind(lambda x: 10 * x)
    path, held = opened(tuple(ctypes.cast(f, ctypes.c_void_p).value for f in (one, other)))  # type: ignore[arg-type]
    again = ctypes.CDLL(path)  # as ONNX Runtime opens it
    assert (again.CreateEpFactories(4), again.ReleaseEpFactory(4)) == (5, 40)
    assert held


def test_other_systems_are_told_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    with pytest.raises(UserError, match="is for Linux on x86_64 and aarch64; this is Darwin"):
        opened((0, 0))
