"""Constants that come from memory: many places for them, together larger than the last-level cache, taken in turns.

In a network whose weights do not fit the caches, every kernel finds its weights in memory and its activations in the caches. What
the places hold does not matter to the time, as long as it is ordinary numbers, so all kernels of a process share one stretch of
memory that is filled once.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tensorsmith.elements import kind_of
from tensorsmith.runtime.buffers import aligned_empty, round_up
from tensorsmith.runtime.running import Prepared
from tensorsmith.targets.target import Target

Array = np.ndarray[Any, np.dtype[Any]]

_TIMES_THE_CACHE = 1.5  # what all places take together
_MOST_PLACES = 256  # few constants then come from the last-level cache at least
_LEAST_BYTES = 1 << 14  # of constants; fewer are in place before anybody waits for them
_BLOCK = 1 << 14  # numbers, repeated all over the memory


def streamed(prepared: Prepared, target: Target) -> Callable[[int], float]:
    """A clock of runs that find their constants of floating-point numbers in no cache: (runs) -> seconds of one."""
    places = places_of(prepared.bound, 2 * target.core_cache_bytes, target.shared_cache_bytes)
    if not places:
        return prepared.seconds
    turns = itertools.cycle(places)

    def seconds(count: int) -> float:
        total = 0.0
        try:
            for _ in range(count):
                prepared.point_constants(next(turns))
                total += prepared.seconds(1)
        finally:
            prepared.point_constants(prepared.bound)
        return total / count

    return seconds


def places_of(constants: Mapping[str, Array], *caches: int) -> list[dict[str, Array]]:
    """Arrays like the constants, as often as the largest of the caches asks for; none where the constants are small."""
    kept = {name: a for name, a in constants.items() if kind_of(a.dtype) == "f" or a.dtype.itemsize == 1}  # others may be indices
    each = sum(round_up(a.nbytes) for a in kept.values())
    if each < _LEAST_BYTES:
        return []
    wanted = int(_TIMES_THE_CACHE * max(caches))
    count = min(_MOST_PLACES, max(2, -(-wanted // each)))
    memory = _memory(1 << (max(wanted, count * each) - 1).bit_length())
    found = []
    for place in range(count):
        start, arrays = place * each, {}
        for name, a in kept.items():
            arrays[name] = memory[start : start + a.nbytes].view(a.dtype).reshape(a.shape)
            start += round_up(a.nbytes)
        found.append(arrays)
    return found


@functools.lru_cache(maxsize=1)
def _memory(size: int) -> Array:
    """A power of two of bytes; ordinary numbers, whether they are read as f32 or as f64."""
    numbers = np.random.default_rng(0).uniform(0.5, 1, min(_BLOCK, size // 4)).astype(np.float32)
    memory = aligned_empty((size,), np.uint8)
    memory.view(np.float32).reshape(-1, len(numbers))[:] = numbers
    return memory
