"""Runs random candidates on arrays with an unreadable page right before or behind them: `python -m ... FIRST LAST`.

Prints each seed before it runs, so that the last line of a crash is its reproducer.
"""

from __future__ import annotations

import ctypes
import sys
from random import Random

import numpy as np
from tests.property.agreement import describe, problem
from tests.property.definitions import random_arrays, random_workload
from tests.property.schedules import random_candidate

from tensorsmith.build import build
from tensorsmith.errors import Refusal
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.lang.workload import Workload
from tensorsmith.runtime.running import POISON
from tensorsmith.space.sketch.sketch import Candidate

PAGE = 4096
_READ_WRITE, _PRIVATE_ANONYMOUS = 3, 0x22

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


class Guarded:
    """Arrays between two pages that may not be touched; all are freed together."""

    def __init__(self, at_end: bool) -> None:
        self.at_end = at_end  # the array ends where the second page begins, else begins where the first one ends
        self.maps: list[tuple[int, int]] = []

    def empty(self, shape: tuple[int, ...], kind: np.dtype) -> np.ndarray:
        size = int(np.prod(shape, dtype=int)) * kind.itemsize
        pages = max(1, -(-size // PAGE))
        length = (pages + 2) * PAGE
        base = _libc.mmap(None, length, _READ_WRITE, _PRIVATE_ANONYMOUS, -1, 0)
        _libc.mprotect(base, PAGE, 0)
        _libc.mprotect(base + (pages + 1) * PAGE, PAGE, 0)
        self.maps.append((base, length))
        start = base + (pages + 1) * PAGE - size if self.at_end else base + PAGE
        memory = (ctypes.c_char * size).from_address(start)
        return np.frombuffer(memory, kind, count=size // kind.itemsize).reshape(shape)

    def copy(self, array: np.ndarray) -> np.ndarray:
        result = self.empty(array.shape, array.dtype)
        result[...] = array
        return result

    def free(self) -> None:
        for base, length in self.maps:
            _libc.munmap(base, length)
        self.maps.clear()


def run(seed: int) -> None:
    rng = Random(seed)
    workload = random_workload(rng)
    check(workload, random_candidate(workload, rng), random_arrays(workload, seed))


def check(workload: Workload, candidate: Candidate, arrays: dict[str, np.ndarray]) -> None:
    """Ends the process unless the candidate's results are right; what touches memory past an end ends it as well."""
    want = evaluate(workload, arrays, precise=True)
    try:
        executable = build(candidate)
    except Refusal:
        print("refused")
        return
    for at_end in (True, False):
        memory = Guarded(at_end)
        out = [memory.empty(want[name].shape, want[name].dtype) for name in workload.outputs]
        for x in out:
            x.reshape(-1).view(np.uint8).fill(POISON)
        executable(**{name: memory.copy(x) for name, x in arrays.items()}, out=tuple(out))
        found = [problem(workload, name, x.copy(), want[name]) for name, x in zip(workload.outputs, out)]
        del out
        memory.free()
        if any(found):
            sys.exit(f"{found}\n{describe(workload, candidate)}")


if __name__ == "__main__":
    for number in range(int(sys.argv[1]), int(sys.argv[2])):
        print(number, flush=True)
        run(number)
