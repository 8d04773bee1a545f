"""An analytic estimate of running time, for the time before there are measurements.

Roofline style: each statement takes as long as its tightest bound (arithmetic, waiting for results, load and store ports,
traffic between caches), plus a share of the other bounds that does not overlap, plus overheads (loops, starting tiles, spills,
set conflicts, TLB misses). Statements add up; what a parallel nest does is divided by the threads that its steps keep busy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tensorsmith.backends.cpu.features.extract import extract
from tensorsmith.backends.cpu.features.numbers import Array
from tensorsmith.backends.cpu.rates import Machine, rates_of
from tensorsmith.backends.cpu.target import CpuTarget
from tensorsmith.learn.features.rows import FeatureMatrix, FeatureRows
from tensorsmith.program.ir import Program

_LEAST = 1e-6  # of a share that something is divided by: an empty statement has none


@dataclass(frozen=True)
class Estimate:
    """Cycles of one core by cause, each of shape (candidates, blocks), and the seconds they come to."""

    bounds: dict[str, Array]  # that overlap: the greatest counts
    overheads: dict[str, Array]  # that add up
    threads: Array  # that share the work
    cycles: Array  # of one core, were it alone
    seconds: Array

    def tightest(self, candidate: int, block: int) -> str:
        """The bound that counts."""
        return max(self.bounds, key=lambda name: float(self.bounds[name][candidate, block]))


def estimate(matrix: FeatureMatrix, target: CpuTarget, machine: Machine | None = None) -> Estimate:
    """Where the time of every statement goes, at the rates of a `machine`: the target's, unless others are given."""
    raw = matrix.raw
    m = machine or rates_of(target)
    steps, runs = raw("steps"), raw("outer_runs")
    width, useful = raw("target_lanes"), raw("lanes_useful")
    vectors = 1.0 / (width * np.maximum(useful, _LEAST))  # vector instructions per scalar operation
    cheap = raw("float_mad") + raw("float_addsub") + raw("float_mul") + raw("float_cmp") + raw("float_otherfunc") + raw("select_op")
    integer = sum((raw(f"int_{k}") for k in ("mad", "addsub", "mul", "cmp", "otherfunc")), raw("bool_op"))
    divisions = raw("float_divmod") + m.int_divisions * raw("int_divmod")
    functions = raw("float_mathfunc") + raw("int_mathfunc")
    arithmetic = vectors * (
        cheap / m.fma_per_cycle + integer / m.int_per_cycle + divisions * m.division_cycles + functions * m.function_cycles
    )
    one_by_one = raw("step_loads") * (raw("load_share_strided") + raw("load_share_gathered"))
    partial = np.maximum(raw("points_useful"), _LEAST)  # tiles at an edge load less; `steps` counts them whole
    loads = steps * (raw("step_loads") / m.loads_per_cycle + one_by_one * m.insert_cycles)
    read_back = raw("store_is_readwrite") * raw("store_accesses") / m.loads_per_cycle
    stores = runs * (raw("store_accesses") / m.stores_per_cycle + read_back)
    threads = _threads(matrix, target)
    shared = np.minimum(m.memory_bytes_per_cycle, m.memory_bytes_per_cycle_all / threads)
    bounds = {
        "arithmetic": arithmetic,
        "latency": steps * m.fma_latency * (raw("chains") > 0),
        "load and store ports": (loads + stores) * partial,
        "L2 to L1": raw("into_l1") / m.l2_bytes_per_cycle,
        "L3 to L2": raw("into_l2") / m.l3_bytes_per_cycle,
        "memory to L3": raw("into_l3") / shared,
    }
    unrolled = np.maximum(1.0, raw("unroll_steps"))
    masks = (raw("masks_lanes") + m.border_share * raw("masks_tile")) * raw("tile_vectors")
    halvings = raw("across_lanes") * raw("tile_vectors") * np.log2(np.maximum(2.0, width))  # of lanes, until one is left
    overheads = {
        "loops": m.loop_cycles * (steps / unrolled + runs),
        "tiles": runs * (m.tile_cycles + m.result_cycles * raw("tile_vectors") + m.halving_cycles * halvings),
        "spills": steps * raw("registers_spilled") * m.spill_cycles,
        "masks": steps * masks * m.mask_cycles,
        "set conflicts": steps * raw("set_overflow") * m.conflict_cycles,
        "pages": runs * np.maximum(0.0, raw("tile_pages") - m.l1_pages) * m.page_cycles,
    }
    every = np.stack(list(bounds.values()))
    greatest = every.max(axis=0)
    cycles = greatest + m.overlap * (every.sum(axis=0) - greatest) + np.sum(list(overheads.values()), axis=0)
    root = raw("is_root")
    parallel = raw("parallel_steps") > 1.5  # more than one, whatever the scaling rounded
    start = root * (m.call_seconds + m.start_seconds * parallel)
    return Estimate(bounds, overheads, threads, cycles, cycles / threads / m.hertz + start)


def _threads(matrix: FeatureMatrix, target: CpuTarget) -> Array:
    """Threads kept busy: with 3 steps on 2 cores, 1.5."""
    steps = np.maximum(1.0, np.rint(matrix.raw("parallel_steps")))
    return steps / np.ceil(steps / target.cores)


def estimate_seconds(given: FeatureMatrix | Program, target: CpuTarget, machine: Machine | None = None) -> Array:
    """Seconds that each candidate is expected to take, float64. A batch's program needs its parallel degrees: see `extract`."""
    matrix = extract(given, target) if isinstance(given, Program) else given
    return estimate(matrix, target, machine).seconds.sum(axis=1)


def estimated_seconds(rows: FeatureRows, target: CpuTarget, machine: Machine | None = None) -> Array:
    """The same for all candidates of a population."""
    statements = FeatureMatrix(rows.values[:, None], ("any",), rows.schema)  # they add up, so one at a time will do
    return rows.total(estimate_seconds(statements, target, machine))
