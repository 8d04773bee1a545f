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
    warps, turns, resident = raw("warps"), raw("blocks_in_turn"), raw("blocks_resident")
    fmas, functions = raw("multiply_adds"), raw("functions")
    rounds, loops = raw("rounds"), raw("loop_rounds")
    loads, stores = raw("global_loads"), raw("global_stores")
    spilled = fmas * raw("spilled_share")
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
            + spilled * (r.spill_wavefronts + r.spill_far_cycles * _far(matrix, target))
        ),
    }
    waits = {
        "fetching": rounds
        * (r.l1_latency + r.l2_latency * raw("new_share") + r.fetch_cycles * loads / np.maximum(1, rounds * warps)),
        "barriers": raw("barriers") / 2 * r.barrier_cycles,
        "sums": np.maximum((fmas + raw("other_operations")) * issued / warps, raw("reduce_steps") * r.multiply_add_latency),
        "loops": loops / warps * r.shared_latency,
        "spills": spilled / warps * r.spill_latency,
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
        "second cache": raw("l2_bytes") / target.l2_bytes_per_second,
        "memory": raw("memory_bytes") / target.bytes_per_second,
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


def _far(matrix: FeatureMatrix, target: GpuTarget) -> Array:
    """Share of the spilled results that the first cache has no room for. It is what shared memory leaves of the same memory."""
    resident = np.minimum(matrix.raw("blocks_resident"), matrix.raw("blocks_in_turn"))
    room = np.maximum(0.0, target.shared_bytes_per_multiprocessor - resident * matrix.raw("shared_bytes"))
    spilled = resident * matrix.raw("warps") * target.warp * matrix.raw("results") * matrix.raw("spilled_share") * 4
    found: Array = np.maximum(0.0, 1.0 - room / np.maximum(1.0, spilled))
    return found


def estimate_seconds(matrix: FeatureMatrix, target: GpuTarget, rates: Rates = DEFAULT) -> Array:
    """Seconds that each candidate is expected to take, all its kernels one after another."""
    found: Array = estimate(matrix, target, rates).seconds.sum(axis=1)
    return found


def estimated_seconds(rows: FeatureRows, target: GpuTarget, rates: Rates = DEFAULT) -> Array:
    """The same for all candidates of a population."""
    kernels = FeatureMatrix(rows.values[:, None], ("any",), rows.schema)
    return rows.total(estimate_seconds(kernels, target, rates))
