"""An analytic estimate of a kernel's time on a GPU, for the time before there are measurements, or where there never will be any.

A multiprocessor is filled with blocks wave by wave. A wave takes as long as the tightest of its throughputs (multiply-adds, issue
of instructions, the unit of loads and stores), or as the chain of waits of one block where there are too few warps to hide them.
The whole kernel takes no less than the caches and the memory need for its bytes. Tiles that are fetched by copies which go on by
themselves are waited for only as far as using the tiles before them takes less.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorsmith.backends.gpu.features.occupancy import beyond
from tensorsmith.backends.gpu.matrix import INSTRUCTION
from tensorsmith.backends.gpu.rates import DEFAULT, Rates
from tensorsmith.backends.gpu.target import GpuTarget
from tensorsmith.learn.features.rows import FeatureMatrix, FeatureRows

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Estimate:
    """Of each kernel, each of shape (candidates, kernels): cycles of one block by cause, and the seconds of the whole launch."""

    bounds: dict[str, Array]  # cycles of one block on a full multiprocessor: the greatest counts, and a share of the rest
    waits: dict[str, Array]  # cycles that one block waits, were it alone: they add up
    whole: dict[str, Array]  # seconds of the whole kernel that it cannot be faster than
    resident: Array  # blocks that a multiprocessor has at once
    seconds: Array

    def tightest(self, candidate: int, kernel: int) -> str:
        """What the kernel mostly waits for, in words."""

        def at(causes: dict[str, Array], name: str) -> float:
            return float(causes[name][candidate, kernel])

        whole = max(self.whole, key=lambda name: at(self.whole, name))
        if whole != "multiprocessors":
            return whole
        bound = max(self.bounds, key=lambda name: at(self.bounds, name))
        wait = max(self.waits, key=lambda name: at(self.waits, name))
        resident = float(self.resident[candidate, kernel])
        return bound if resident * at(self.bounds, bound) > at(self.waits, wait) else wait


def estimate(matrix: FeatureMatrix, target: GpuTarget, rates: Rates = DEFAULT) -> Estimate:
    """Where the time of every kernel goes."""
    raw, r = matrix.raw, rates
    threads = raw("threads")
    warps, turns, resident = raw("warps"), raw("blocks_in_turn"), raw("blocks_resident")
    fmas, functions = raw("multiply_adds"), raw("functions")
    rounds, loops = raw("rounds"), raw("loop_rounds")
    loads, stores = raw("global_loads"), raw("global_stores")
    spilled = raw("spill_bytes") / (8 * target.warp)  # instructions that load a result from memory, and as many that store it
    memory = _memory(matrix, target, r)
    busy = np.minimum(target.schedulers, warps * np.minimum(resident, turns))  # schedulers that have a warp
    lanes = target.fmas_per_cycle / target.schedulers  # of one scheduler
    issued = target.warp / lanes  # cycles of a scheduler's lanes for one instruction
    matrix_cycles = raw("matrix_multiply_adds") * target.schedulers / target.matrix_fmas_per_cycle
    arithmetic = fmas + raw("other_operations")
    instructions = (
        arithmetic
        + functions
        + raw("matrix_multiply_adds") / INSTRUCTION
        + raw("shared_loads")
        + r.loop_instructions * loops
        + r.address_instructions * loads
        + r.store_instructions * stores
        + r.barrier_cycles * raw("barriers") / 2 * warps
        + 2 * spilled
    )
    bounds = {
        "arithmetic": (arithmetic * issued + functions * r.function_cycles + matrix_cycles) / busy,
        "issue": instructions / busy,
        "loads and stores": (
            raw("shared_wavefronts")
            + r.sector_cycles * raw("global_load_sectors")
            + loads
            + r.store_sector_cycles * raw("global_store_sectors")
            + spilled * r.spill_wavefronts
        ),
    }
    waits = {
        "fetching": rounds
        * (r.l1_latency + r.l2_latency * raw("new_share") + r.fetch_cycles * loads / np.maximum(1, rounds * warps)),
        "barriers": raw("barriers") / 2 * r.barrier_cycles,
        "sums": np.maximum((fmas + raw("other_operations")) * issued / warps, raw("reduce_steps") * r.multiply_add_latency),
        "loops": loops / warps * r.shared_latency,
        "spills": raw("spill_bytes") / 8 / np.maximum(threads, target.sector_bytes // 4) * memory.spill_latency,
        "start and end": r.start_cycles + stores / warps * r.store_instructions,
    }
    used = sum(cycles for cause, cycles in waits.items() if cause not in ("fetching", "start and end"))
    hidden = np.minimum(waits["fetching"] * (1 - 1 / np.maximum(1, rounds)), used)  # but for the first round's
    waits["fetching"] = waits["fetching"] - raw("fetched_apart") * hidden
    every = np.stack(list(bounds.values()))
    greatest = every.max(axis=0)
    block = greatest + r.overlap * (every.sum(axis=0) - greatest) + r.block_cycles
    alone = np.sum(list(waits.values()), axis=0)
    full = np.floor(turns / resident)
    rest = turns - full * resident
    cycles = full * _either(resident * block, alone, r.sharpness) + (rest > 0.5) * _either(rest * block, alone, r.sharpness)
    whole = {
        "multiprocessors": cycles / target.clock,
        "second cache": memory.second / target.l2_bytes_per_second,
        "memory": memory.device / target.bytes_per_second,
    }
    seconds = np.max(np.stack(list(whole.values())), axis=0) + r.launch_seconds
    return Estimate(bounds, waits, whole, resident, seconds)


def shares(matrix: FeatureMatrix, target: GpuTarget, rates: Rates = DEFAULT) -> dict[str, Array]:
    """What each cause alone would take of the estimated time of a wave, 1 at most, of shape (candidates, kernels)."""
    found = estimate(matrix, target, rates)
    waves = np.ceil(np.maximum(1.0, matrix.raw("blocks_in_turn")) / found.resident - 1e-3)
    wave = np.maximum(1.0, found.seconds * target.clock / np.maximum(1.0, waves))
    resident = np.minimum(found.resident, matrix.raw("blocks_in_turn"))
    parts = {name: cycles * resident / wave for name, cycles in found.bounds.items()}
    parts |= {name: cycles / wave for name, cycles in found.waits.items()}
    parts |= {name: seconds / found.seconds for name, seconds in found.whole.items() if name != "multiprocessors"}
    return {name: np.minimum(1.0, part) for name, part in parts.items()}


def _either(a: Array, b: Array, sharpness: float) -> Array:
    """The greater of two, or somewhat more where they are about equal: neither hides the other wholly."""
    high = np.maximum(a, b)
    found: Array = high * (1.0 + (np.minimum(a, b) / np.maximum(high, 1e-9)) ** sharpness) ** (1.0 / sharpness)
    return found


@dataclass(frozen=True)
class _Bytes:
    """Bytes that a kernel moves through the second cache, and those that it moves to and from device memory."""

    second: Array
    device: Array
    spill_latency: Array  # cycles that a warp waits for a result in memory


def _memory(matrix: FeatureMatrix, target: GpuTarget, r: Rates) -> _Bytes:
    """What is fetched, results, and spilled results, as far as the caches do not hold them."""
    raw = matrix.raw
    blocks = raw("blocks")
    resident = np.minimum(raw("blocks_resident"), raw("blocks_in_turn"))
    here = np.minimum(blocks, resident * target.multiprocessors)  # blocks that the GPU has at once
    threads = raw("threads")
    # spilled results
    spills = blocks * raw("spill_bytes")
    room = target.first_cache_room(resident * raw("shared_bytes"))
    held = threads * raw("results") * raw("spilled_share") * 4
    far = beyond(room, resident * held)
    farther = far * beyond(target.l2_bytes, here * held)
    latency = r.spill_latency + r.spill_far_latency * far + r.spill_farther_latency * farther
    # results: sectors that are stored in parts are put together in the second cache, as long as it holds all that are begun
    own = np.minimum(threads * raw("results") * 4, raw("global_stores") * target.warp * 16)
    parts = blocks * raw("global_store_sectors") * target.sector_bytes
    begun = here * np.minimum(own, raw("global_store_sectors") * target.sector_bytes)
    results = np.minimum(blocks * own, parts)
    written = results + np.maximum(0.0, parts - results) * beyond(target.l2_bytes, begun)
    return _Bytes(blocks * raw("far_bytes") + parts + spills * far, raw("read_bytes") + written + 1.2 * spills * farther, latency)


def estimate_seconds(matrix: FeatureMatrix, target: GpuTarget, rates: Rates = DEFAULT) -> Array:
    """Seconds that each candidate is expected to take, all its kernels one after another."""
    found: Array = estimate(matrix, target, rates).seconds.sum(axis=1)
    return found


def estimated_seconds(rows: FeatureRows, target: GpuTarget, rates: Rates = DEFAULT) -> Array:
    """The same for all candidates of a population."""
    kernels = FeatureMatrix(rows.values[:, None], ("any",), rows.schema)
    return rows.total(estimate_seconds(kernels, target, rates))
