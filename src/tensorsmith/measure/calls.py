"""Calls as users make them: an executable whose constants are bound, called from Python on NumPy arrays.

    while True:
        y = exe(x)

The caller keeps a result until it has the next one, so two arrays take turns; each is allocated by the call, and its pages may be
new. The inputs lie where NumPy puts large arrays, 16 bytes behind the beginning of a page: a vector of 64 bytes there crosses a
cache line, and a program that loads more of them loses more by it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tensorsmith.runtime.buffers import PAGE, aligned_allocator
from tensorsmith.runtime.executable import Executable
from tensorsmith.runtime.pool import with_threads

Array = np.ndarray[Any, np.dtype[Any]]

_HEADER = 16  # bytes of the allocator in front of what it gives, where that is a mapping of its own


class Calls:
    """An executable with the arrays that it is called on. `outputs` are those of the last call."""

    def __init__(
        self, executable: Executable, inputs: Mapping[str, Array], threads: int, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self.threads = threads
        self.outputs: list[Array] = []
        self._executable, self._clock = executable, clock
        self._inputs = [inputs[argument.name] for argument in executable.inputs]

    def seconds(self, count: int) -> float:
        """Seconds of a call, over `count` calls."""
        call, inputs, result = self._executable, self._inputs, None
        with with_threads(self.threads):
            start = self._clock()
            for _ in range(count):
                result = call(*inputs)
            took = self._clock() - start
        self.outputs = list(result) if isinstance(result, tuple) else [np.asarray(result)]
        return took / count


def of_a_caller(array: Array) -> Array:
    """A copy where a caller's array lies."""
    copy = aligned_allocator(array.shape, array.dtype, "an input", _HEADER, PAGE)()
    copy[...] = array
    return copy
