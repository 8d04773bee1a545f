"""Numbers about a core that `Target` does not tell: rates and latencies, in cycles.

Only ratios between candidates matter to a search, so the defaults describe a typical recent x86 core (Zen 3/4, Golden Cove) and
are good enough elsewhere; the learned cost model takes over once there are measurements.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tensorsmith.backends.cpu.target import CpuTarget


@dataclass(frozen=True)
class Machine:
    """Rates of one core. Every field says where its default comes from."""

    hertz: float = 3.5e9  # a sustained all-core clock; scales every estimate alike
    fma_per_cycle: float = 2.0  # two vector FMA pipes on all the cores named above
    fma_latency: float = 4.0  # cycles from an FMA to the next one that needs its result: 4 on all of them
    loads_per_cycle: float = 2.0  # vector loads
    stores_per_cycle: float = 1.0  # vector stores
    int_per_cycle: float = 2.0  # vector integer operations; wide multiplies are slower, masks faster
    division_cycles: float = 5.0  # a vector division occupies its pipe for 4-8 cycles
    int_divisions: float = 4.0  # float divisions that one of integers comes to: there is no vector instruction for it
    function_cycles: float = 10.0  # exp, tanh, erf: about 20 vector operations of polynomial code on two pipes
    insert_cycles: float = 1.0  # a strided or gathered lane: a scalar load and an insert on one shuffle pipe
    l2_bytes_per_cycle: float = 28.0  # between L1 and L2: 32 by design, less in practice
    l3_bytes_per_cycle: float = 12.0  # between L2 and L3, per core
    memory_bytes_per_cycle: float = 5.0  # one core's share of a stream from memory: 15-20 GB/s
    memory_bytes_per_cycle_all: float = 10.0  # all cores together: 35 GB/s of two channels or a virtual machine's share
    conflict_cycles: float = 0.5  # a line that was evicted by its own set: an L2 hit of 8 to 14 cycles, nearly all of it hidden
    page_cycles: float = 1.5  # a first-level TLB miss that hits the second level, mostly overlapped
    l1_pages: float = 64.0  # entries of the first-level data TLB
    loop_cycles: float = 1.0  # counter, compare and branch of a loop's step that nothing hides
    tile_cycles: float = 12.0  # starting a tile: addresses, a mispredicted loop end now and then
    result_cycles: float = 0.5  # zeroing a result at the start of a tile: two in a cycle
    halving_cycles: float = 2.0  # adding one half of a vector's lanes to the other: a shuffle and an addition
    mask_cycles: float = 0.5  # testing a condition and choosing by it, for a vector
    border_share: float = 0.05  # of the tiles: those on a border, which alone test conditions that differ between their points
    spill_cycles: float = 1.5  # a result that lives in memory: a load and a store in every step
    overlap: float = 0.08  # share of the lesser bounds that does not hide behind the greatest one
    start_seconds: float = 2e-6  # starting and joining the threads of a parallel nest
    call_seconds: float = 2e-7  # calling a nest at all


DEFAULT = Machine()


def rates_of(target: CpuTarget) -> Machine:
    """Those of a target: what it tells itself, and the usual for the rest.

    Where instructions are taken in their order, one load starts in a cycle, and while it does no multiply-add: half of the time
    that loads take is felt, by llvm-mca's models of such cores (`benchmarks/mca.py`).
    """
    own = replace(DEFAULT, fma_per_cycle=float(target.fmas_per_cycle), fma_latency=float(target.fma_latency))
    return replace(own, loads_per_cycle=1.0, overlap=0.5) if target.in_order else own
