"""The features of programs for GPUs: what every column of a feature matrix means.

One row of features describes one kernel: one launch, with all that its threads do. Unless a feature's unit is `ratio` or `flag`,
its column holds log2(x + 1) of the defined value x (all are at least 0).

Words used below. *Multiprocessor*: what runs whole blocks of threads. *Warp*: threads that run in step; one instruction of a warp
is executed for all of its threads. *Of a block*: counted once for each of its warps, summed over the warps. *Results*: values
that a thread sums up side by side. *Round*: the threads of a block fetch operand tiles together, wait for each other, and use
them. *Wavefront*: what shared memory gives in a cycle, one word of each bank. *Sector*: the least that is fetched from device
memory or its caches. *Laid out*: all steps of a loop are written one after another, so that it costs no instructions of its own.

What a program asks for is described (groups `launch`, `work`, `accesses`) by whoever knows the program; the rest (`machine`,
`memory`, `target`) follows from that and the target's facts (`columns.py`), the group `estimate` from the prior's rates too:
whoever changes those (`rates.py`) raises the version.
"""

from __future__ import annotations

from tensorsmith.learn.features.schema import Feature, Schema

_VERSION = 3

#: what is told of a kernel
_TOLD = (
    ("blocks", "blocks", "Blocks of threads that are launched.", "launch"),
    ("threads", "threads", "Threads of a block.", "launch"),
    ("virtual_threads", "threads", "Virtual threads of a thread: tiles far apart that one thread computes in turns.", "launch"),
    ("registers", "registers",
     "32-bit registers that a thread wants, before any are spilled: results, operands, addresses.", "launch"),
    ("shared_bytes", "bytes", "Shared memory of a block.", "launch"),
    ("spilled_share", "ratio",
     "Share of the results that are kept in memory: those that find no register, or all where loops around them are not laid "
     "out, so that results have no fixed register.", "launch"),
    ("spill_bytes", "bytes",
     "Bytes that a block moves between registers and results in memory: each of these is loaded and stored once for the steps of "
     "the innermost reduction loops.", "launch"),
    ("multiply_adds", "instructions", "Multiply-adds of a block that are no matrix instructions.", "work"),
    ("matrix_multiply_adds", "multiply-adds", "Multiply-adds of a block that are done by matrix instructions.", "work"),
    ("other_operations", "instructions", "Other arithmetic and comparisons of a block, without addresses.", "work"),
    ("functions", "instructions", "Divisions and functions such as exp, sqrt, tanh of a block.", "work"),
    ("results", "values", "Results of a thread.", "work"),
    ("reduce_steps", "steps", "Steps of a thread's sums, one after another: each waits for the one before.", "work"),
    ("loop_rounds", "rounds",
     "Of a block: rounds of loops that are not laid out; each costs a test, a jump and a wait for its loads.", "work"),
    ("rounds", "rounds", "Rounds of a block, one after another; 1 where nothing is fetched together.", "work"),
    ("fetched_apart", "flag",
     "The tiles of the next round are fetched while those of this one are used, by copies that go on by themselves.", "work"),
    ("barriers", "barriers", "Times that the threads of a block wait for each other.", "work"),
    ("shared_loads", "instructions", "Loads of a block from shared memory, of up to 16 bytes a thread.", "accesses"),
    ("shared_stores", "instructions", "Stores of a block to shared memory.", "accesses"),
    ("shared_wavefronts", "wavefronts",
     "Wavefronts of these loads and stores: each takes as many as there are different words in its fullest bank.", "accesses"),
    ("global_loads", "instructions", "Loads of a block from device memory, of up to 16 bytes a thread.", "accesses"),
    ("global_load_sectors", "sectors", "Different sectors that each of these loads touches, summed up.", "accesses"),
    ("global_load_bytes", "bytes", "Bytes that these loads bring to threads.", "accesses"),
    ("global_stores", "instructions", "Stores of a block to device memory.", "accesses"),
    ("global_store_sectors", "sectors", "Different sectors that each of these stores touches, summed up.", "accesses"),
    ("new_share", "ratio",
     "Share of the rounds that begin a sector which no earlier round of the block has brought into the first cache.", "accesses"),
    ("memory_bytes", "bytes", "Bytes of the distinct elements that the kernel reads and writes in device memory.", "accesses"),
    ("far_bytes", "bytes",
     "Bytes of the sectors that a block loads and does not find in the first cache.", "accesses"),
    ("read_bytes", "bytes",
     "Bytes that come from device memory: what a wave of blocks reads comes once for all of them, and again for the next where the "
     "second cache is too small to keep it.", "accesses"),
)  # fmt: skip

#: what follows
_DERIVED = (
    ("warps", "warps", "Warps of a block.", "machine"),
    ("lanes_useful", "ratio", "Threads of a block over those of its whole warps.", "machine"),
    ("blocks_resident", "blocks",
     "Blocks that a multiprocessor has at once, as its registers (in whole units of a warp), shared memory, threads and blocks "
     "allow.", "machine"),
    ("occupancy", "ratio", "Warps of these blocks over those that a multiprocessor can have.", "machine"),
    ("blocks_in_turn", "blocks",
     "Blocks that the busiest multiprocessor runs in all: blocks over multiprocessors, rounded up.", "machine"),
    ("waves", "waves", "How often a multiprocessor fills itself with blocks: `blocks_in_turn` / `blocks_resident`, rounded up.",
     "machine"),
    ("tail_useful", "ratio", "Blocks over all places for blocks in these waves, over all multiprocessors.", "machine"),
    ("multiprocessors_used", "ratio", "Multiprocessors that have a block at all.", "machine"),
    ("register_share", "ratio", "min(1, `registers` / registers that a thread may have).", "machine"),
    ("shared_share", "ratio", "`shared_bytes` over what a block may have.", "machine"),
    ("conflict_degree", "wavefronts", "`shared_wavefronts` over `shared_loads` + `shared_stores`.", "memory"),
    ("coalescing", "ratio", "min(1, bytes that threads load over bytes of the sectors that these loads touch).", "memory"),
    ("store_sectors", "sectors", "`global_store_sectors` over `global_stores`.", "memory"),
    ("operations_per_shared_load", "operations",
     "Multiply-adds of a warp for each of its loads from shared memory.", "memory"),
    ("operations_per_sector", "operations", "Multiply-adds of a warp for each sector loaded.", "memory"),
    ("l2_bytes", "bytes", "Bytes of all sectors that all blocks load and store.", "memory"),
    ("l2_reuse", "times", "`l2_bytes` over `memory_bytes`.", "memory"),
    ("l2_share", "ratio", "min(1, `memory_bytes` over the second cache).", "memory"),
    ("operations_per_memory_byte", "operations/byte", "Multiply-adds of single threads for each of `memory_bytes`.", "memory"),
    ("work_per_thread", "instructions", "Arithmetic instructions of one thread.", "machine"),
    ("target_multiprocessors", "multiprocessors", "Of the target.", "target"),
    ("target_lanes", "lanes", "Multiply-adds of single threads that a multiprocessor does in a cycle.", "target"),
    ("target_l2", "bytes", "Second cache.", "target"),
    ("target_balance", "operations/byte", "Multiply-adds for each byte of device memory, at the target's rates.", "target"),
)  # fmt: skip

#: what the prior makes of it: which of its parts a kernel's estimated time comes from
SHARES = {
    "arithmetic": "the lanes that multiply and add",
    "issue": "starting instructions",
    "loads and stores": "the unit of loads and stores, with shared memory",
    "fetching": "waiting for operand tiles",
    "barriers": "waiting for other threads",
    "sums": "waiting for the sum so far",
    "loops": "tests, jumps and first loads of loops that are not laid out",
    "spills": "waiting for results that are in memory",
    "start and end": "beginning and ending a block",
    "second cache": "bytes through the second cache",
    "memory": "bytes of device memory",
}


def share_name(cause: str) -> str:
    return "share_" + cause.replace(" and ", "_").replace(" ", "_")


_SHARES = tuple(
    (
        share_name(cause),
        "ratio",
        f"Of the estimated time of a wave (`prior.py`): what {text} would take alone, 1 at most.",
        "estimate",
    )
    for cause, text in SHARES.items()
)

TOLD = tuple(name for name, _, _, _ in _TOLD)
SCHEMA = Schema("gpu", _VERSION, tuple(Feature(*f) for f in (*_TOLD, *_DERIVED, *_SHARES)))
