"""How many blocks a multiprocessor has at once."""

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
