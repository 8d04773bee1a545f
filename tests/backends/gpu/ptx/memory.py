"""Device memory with edges, and the shared memory of blocks with a record of who touched what."""

from __future__ import annotations

import numpy as np
from tests.backends.gpu.ptx.parse import PtxError

BASE = 1 << 16  # where device memory begins: a null pointer, and numbers near it, are none
GAP = 512  # bytes between two pieces
UNSET = 0xFF  # what memory holds that nobody has written: NaN in every type of floats


class Memory:
    """Pieces of device memory. Addresses are plain numbers."""

    def __init__(self, size: int = 1 << 24) -> None:
        self.data = np.full(size, UNSET, np.uint8)
        self.there = np.zeros(size, bool)  # by byte: whether it belongs to a piece
        self.end = BASE
        self.sizes: dict[int, int] = {}

    def room(self, size: int) -> int:
        """A new piece; raises `MemoryError` where there is no more."""
        start = self.end
        if start + size + GAP > len(self.data):
            raise MemoryError(f"{size} bytes of device memory")
        self.there[start : start + size] = True
        self.data[start : start + size] = UNSET
        self.sizes[start] = size
        self.end = -(-(start + size + GAP) // 256) * 256
        return start

    def put(self, array: np.ndarray) -> int:
        """A new piece with the bytes of an array."""
        raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        start = self.room(len(raw))
        self.data[start : start + len(raw)] = raw
        return start

    def get(self, start: int, dtype: type | np.dtype, count: int) -> np.ndarray:
        """A copy of what is there."""
        return self.data[start : start + count * np.dtype(dtype).itemsize].view(dtype).copy()

    def free(self, start: int) -> None:
        """Gives a piece back; whoever touches it from now on is out of bounds."""
        self.there[start : start + self.sizes.pop(start)] = False

    def check(self, address: np.ndarray, size: int, what: str) -> None:
        """That every access of so many bytes lies inside of one piece, and is aligned."""
        if (address % size).any():
            raise PtxError(f"misaligned: {what} of {size} bytes at {int(address[address % size != 0][0])}")
        outside = (address < 0) | (address + size > len(self.data))
        if not outside.any():
            outside = ~(self.there[address] & self.there[address + size - 1])
        if outside.any():
            raise PtxError(f"out of bounds: {what} of {size} bytes at device address {int(address[outside][0])}")


class Watched:
    """Who read and wrote each piece of some memory since when, to find races.

    Two threads race if both touch the same bytes, one of them writes, and no barrier of their block lies between. Threads of
    different blocks always race.
    """

    NOBODY, MANY = -1, -2

    def __init__(self, units: int, what: str) -> None:
        self.what = what
        self.writer, self.reader = np.full(units, self.NOBODY, np.int32), np.full(units, self.NOBODY, np.int32)
        self.write_epoch, self.read_epoch = np.full(units, -1, np.int32), np.full(units, -1, np.int32)

    def read(self, unit: np.ndarray, thread: np.ndarray, epoch: np.ndarray, same: np.ndarray) -> None:
        """`unit[accesses]`; `epoch` counts the barriers of each thread's block, `same` says who wrote last is of the same block."""
        other = (self.writer[unit] != thread) & (self.writer[unit] != self.NOBODY)
        bad = other & ((self.write_epoch[unit] == epoch) | ~same)
        if bad.any():
            self._race("reads what thread", "wrote", thread[bad][0], self.writer[unit][bad][0])
        earlier = (self.read_epoch[unit] == epoch) & (self.reader[unit] != thread) & (self.reader[unit] != self.NOBODY)
        self.reader[unit] = np.where(earlier, self.MANY, thread)
        self.read_epoch[unit] = epoch
        order = np.argsort(unit, kind="stable")
        again = unit[order][1:] == unit[order][:-1]
        apart = again & (thread[order][1:] != thread[order][:-1])
        self.reader[unit[order][1:][apart]] = self.MANY

    def write(self, unit: np.ndarray, thread: np.ndarray, epoch: np.ndarray, same: np.ndarray) -> None:
        other = (self.writer[unit] != thread) & (self.writer[unit] != self.NOBODY)
        bad = other & ((self.write_epoch[unit] == epoch) | ~same)
        if bad.any():
            self._race("writes what thread", "wrote", thread[bad][0], self.writer[unit][bad][0])
        bad = (self.read_epoch[unit] == epoch) & (self.reader[unit] != thread) & (self.reader[unit] != self.NOBODY)
        if bad.any():
            self._race("writes what thread", "read", thread[bad][0], self.reader[unit][bad][0])
        order = np.argsort(unit, kind="stable")
        apart = (unit[order][1:] == unit[order][:-1]) & (thread[order][1:] != thread[order][:-1])
        if apart.any():
            both = thread[order][1:][apart][0], thread[order][:-1][apart][0]
            self._race("writes what thread", "writes", *both)
        self.writer[unit], self.write_epoch[unit] = thread, epoch

    def _race(self, does: str, did: str, thread: int, other: int) -> None:
        who = "some other" if other == self.MANY else str(int(other))
        raise PtxError(f"race on {self.what} memory: thread {int(thread)} {does} {who} {did}, without a barrier in between")
