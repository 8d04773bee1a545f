"""From what is told of kernels to all columns of the schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tensorsmith.backends.gpu.features.occupancy import resident_blocks
from tensorsmith.backends.gpu.features.schema import SCHEMA, TOLD, share_name
from tensorsmith.backends.gpu.prior import shares
from tensorsmith.backends.gpu.target import GpuTarget
from tensorsmith.learn.features.rows import FeatureMatrix

Array = np.ndarray[Any, np.dtype[Any]]


def columns(told: Mapping[str, Any], count: int, target: GpuTarget) -> Array:
    """The feature matrix `[kernels, features]` (float32) of `count` kernels, each of `TOLD` being a number or an array of them;
    what is not told is 0."""
    t = {name: np.broadcast_to(np.asarray(told.get(name, 0), np.float64), count) for name in TOLD}
    threads, blocks = np.maximum(1, t["threads"]), np.maximum(1, t["blocks"])
    warps = np.ceil(threads / target.warp)
    resident = np.maximum(1, resident_blocks(threads, t["registers"], t["shared_bytes"], target))
    turns = np.ceil(blocks / target.multiprocessors)
    waves = np.ceil(turns / resident)
    touched = t["global_load_sectors"] * target.sector_bytes
    from_l2 = blocks * (touched + t["global_store_sectors"] * target.sector_bytes)
    arithmetic = t["multiply_adds"] + t["other_operations"] + t["functions"]
    memory = np.maximum(1, t["memory_bytes"])
    work = t["multiply_adds"] * target.warp + t["matrix_multiply_adds"]
    t |= {
        "warps": warps,
        "lanes_useful": threads / (warps * target.warp),
        "blocks_resident": resident,
        "occupancy": np.minimum(1, resident * warps * target.warp / target.threads_per_multiprocessor),
        "blocks_in_turn": turns,
        "waves": waves,
        "tail_useful": blocks / (waves * np.minimum(resident, turns) * target.multiprocessors),
        "multiprocessors_used": np.minimum(1, blocks / target.multiprocessors),
        "register_share": np.minimum(1, t["registers"] / target.registers_per_thread),
        "shared_share": np.minimum(1, t["shared_bytes"] / target.shared_bytes),
        "conflict_degree": t["shared_wavefronts"] / np.maximum(1, t["shared_loads"] + t["shared_stores"]),
        "coalescing": np.where(touched > 0, np.minimum(1, t["global_load_bytes"] / np.maximum(1, touched)), 1.0),
        "store_sectors": t["global_store_sectors"] / np.maximum(1, t["global_stores"]),
        "operations_per_shared_load": t["multiply_adds"] / np.maximum(1, t["shared_loads"]),
        "operations_per_sector": t["multiply_adds"] / np.maximum(1, t["global_load_sectors"]),
        "l2_bytes": from_l2,
        "l2_reuse": from_l2 / memory,
        "l2_share": np.minimum(1, memory / target.l2_bytes),
        "operations_per_memory_byte": blocks * work / memory,
        "work_per_thread": arithmetic / warps,
        "target_multiprocessors": np.float64(target.multiprocessors),
        "target_lanes": np.float64(target.fmas_per_cycle),
        "target_l2": np.float64(target.l2_bytes),
        "target_balance": np.float64(target.flops / 2 / target.bytes_per_second),
    }
    found = np.empty((len(SCHEMA), count), np.float32)
    for row, feature in zip(found, SCHEMA.features):
        if feature.name in t:
            row[:] = np.log2(t[feature.name] + 1.0) if feature.scaled else t[feature.name]
    for cause, share in shares(FeatureMatrix(found.T[:, None], ("any",), SCHEMA), target).items():
        found[SCHEMA.index[share_name(cause)]] = share[:, 0]
    return found.T
