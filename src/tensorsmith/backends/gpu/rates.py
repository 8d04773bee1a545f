"""What GPUs need for things that no target's facts tell. Every number is the same for all of them; cycles are those of a
multiprocessor.

Latencies are about those that NVIDIA's tuning guides and microbenchmarks of Volta and Ampere give. What has no source but being
plausible says so; the order of programs on `benchmarks/a100.py` hardly changes when any of these is halved or doubled.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rates:
    """See the module's text."""

    launch_seconds: float = 2.2e-6  # from one kernel to the next, of a kernel that does nothing
    multiply_add_latency: float = 4.0
    function_cycles: float = 8.0  # of a warp on one scheduler's special function unit, which has four lanes
    shared_latency: float = 25.0  # from a load of shared memory to its use
    l1_latency: float = 33.0
    l2_latency: float = 200.0  # beyond that of the first cache
    barrier_cycles: float = 30.0  # and the first instructions after it
    address_instructions: float = 6.0  # for each access of device memory: where it is, and whether
    store_instructions: float = 3.0  # the same for a result, whose place follows from that of the one before
    loop_instructions: float = 4.0  # of each round of a loop that is not laid out
    fetch_cycles: float = 16.0  # that a warp waits for each further load of a round; plausible
    sector_cycles: float = 0.5  # of the first cache, for each sector loaded
    store_sector_cycles: float = 2.0  # for each stored; plausible: two that are written one after another share none
    spill_wavefronts: float = 2.0  # of each multiply-add whose result is in memory: it is loaded and stored
    spill_latency: float = 8.0  # that a warp waits for each; about half the first cache's latency, as two are under way
    spill_far_latency: float = 20.0  # the same beyond the first cache
    spill_farther_latency: float = 60.0  # the same beyond the second
    block_cycles: float = 200.0  # of a multiprocessor, to begin a block and end it; plausible
    start_cycles: float = 500.0  # that a block waits at its beginning and end; plausible
    overlap: float = 0.3  # share of every bound but the tightest that is felt; plausible
    sharpness: float = 2.0  # of the greater of throughput and latency: the root of the sum of such powers


DEFAULT = Rates()
