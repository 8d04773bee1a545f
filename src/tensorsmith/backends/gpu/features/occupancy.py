"""How many blocks a multiprocessor has at once, and what caches hold of what they use."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorsmith.backends.gpu.target import GpuTarget

Array = np.ndarray[Any, np.dtype[Any]]


def resident_blocks(threads: Array, registers: Array, shared_bytes: Array, target: GpuTarget) -> Array:
    """Blocks that a multiprocessor has at once; 0 where not even one fits."""
    warps = -(-threads // target.warp)
    granted = np.minimum(registers, target.registers_per_thread)
    of_warp = -(-granted * target.warp // target.register_unit) * target.register_unit
    shared = shared_bytes + target.shared_bytes_reserved
    limits = (
        target.threads_per_multiprocessor // (warps * target.warp),
        target.registers // np.maximum(1, of_warp * warps),
        target.shared_bytes_per_multiprocessor // np.maximum(1, shared),
    )
    found: Array = np.minimum(target.blocks_per_multiprocessor, np.minimum.reduce(limits))
    return found


def beyond(room: Any, wanted: Array) -> Array:
    """Share of accesses in turn to so many bytes that find them gone: all when they are twice what there is room for, because the
    oldest go first."""
    found: Array = np.clip(2.0 * (1.0 - room / np.maximum(1.0, wanted)), 0.0, 1.0)
    return found
