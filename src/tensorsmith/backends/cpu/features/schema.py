"""The features of programs for CPUs: what every column of a feature matrix means.

One row of features describes one statement (block) of a program. Unless a feature's unit is `ratio` or `flag`, its column
holds slog(x) = log2(x + 1) of the defined value x (all are at least 0). A loop of one step counts as absent everywhere.

Words used below. *Point*: one execution of the statement's body. *Tile*: the statement's unrolled loops and its loop in lanes; its
values are in registers while the reduction loops of the block run. *Step*: one pass over the tile's points, i.e. one step of
the innermost reduction loop. *Touched at a loop*: by all steps of that loop and those inside, with loops outside standing still.
*Body of a loop*: one step of it. Tensors are seen as they lie in memory: an attached stage has its region's shape, a packed
tensor the order of its loops, intermediate tensors the gaps that keep their rows off one cache set (`program/layout.py`). Values
held in registers between two statements touch no memory.

Ansor's 164 features are here, without those that only a GPU has, and with their known faults mended: multiply-adds are found,
positions of annotated loops are real, strides and layouts are those in memory, buffers come in a fixed order, int operations
count in the intensity, line counts use each buffer's own region. The groups `tile`, `memory`, `parallel` and `target` are ours.
"""

from __future__ import annotations

from tensorsmith.backends.cpu.features.operations import KINDS
from tensorsmith.learn.features.schema import Feature, Schema
from tensorsmith.program.unrolling import MAX_LAID_OUT

_VERSION = 2

SLOTS = ("store", "read1", "read2", "read3", "read4")
CURVE = 10  # samples of the arithmetic intensity curve
POSITIONS = (
    "none", "inner_spatial", "middle_spatial", "outer_spatial", "inner_reduce", "middle_reduce", "outer_reduce", "mixed",
)  # fmt: skip
CACHES = ("l1", "l2", "l3")


def _operations() -> list[Feature]:
    meaning = {
        "mad": "multiply-adds of a sum of products (one fused instruction for floats)",
        "addsub": "additions and subtractions, those of a sum's terms included",
        "mul": "multiplications",
        "divmod": "divisions and remainders",
        "cmp": "comparisons by operand type, max and min, those of a max or min reduction included",
        "mathfunc": "calls of exp, expm1, log, log1p, tanh, sigmoid, erf, sin, cos, pow",
        "otherfunc": "cheap functions (neg, abs, sqrt, rsqrt, rounding) and casts, by result type",
    }
    free = "Affine index arithmetic and conditions are free."
    found = [
        Feature(f"{t}_{k}", "operations", f"{t.capitalize()} {meaning[k]}, times points. {free}", "operations")
        for t in ("float", "int")
        for k in KINDS
    ]
    selects = "Selects, times points; those on affine conditions (padding) are in `masks_*` instead."
    found.append(Feature("bool_op", "operations", "and, or, not: times points.", "operations"))
    found.append(Feature("select_op", "operations", selects, "operations"))
    return found


def _annotations() -> list[Feature]:
    loops = {
        "vec": ("in lanes", "the loop in lanes"),
        "unroll": (
            f"laid out step by step: the tile's loops, marked loops of up to {MAX_LAID_OUT} steps, unrolled reduction steps",
            "such loops",
        ),
        "parallel": ("shared among threads: the leading parallel loops of the root nest", "such loops"),
    }
    found = []
    for kind, (what, these) in loops.items():
        found.append(Feature(f"{kind}_num", "loops", f"Loops {what}.", "annotations"))
        found.append(Feature(f"{kind}_prod", "steps", f"Product of the steps of {these}; 0 without.", "annotations"))
        found.append(Feature(f"{kind}_len", "steps", f"Steps of the innermost of {these}; 0 without.", "annotations"))
        for position in POSITIONS:
            text = {
                "none": f"No loop is {what.split(':')[0]}.",
                "mixed": f"{these.capitalize()} fall into several of the six positions.",
            }.get(
                position, f"All of {these} are over the {position.replace('_', ' ')} axes of their stage (axes of extent 1 aside)."
            )
            found.append(Feature(f"{kind}_{position}", "flag", text, "annotations"))
    return found


_SLOT_FEATURES = (
    ("is_read", "flag", "The slot's buffer is only read."),
    ("is_write", "flag", "It is only written."),
    ("is_readwrite", "flag", "It is written and read back: reduction loops of several steps run outside of the tile."),
    ("bytes", "bytes", "Element bytes times executions of the access (a store is executed after the block's reduction loops)."),
    ("unique_bytes", "bytes",
     "Bytes of the distinct elements touched at the outermost loop: bounding box, at most the loops' steps and the shape."),
    ("lines", "lines",
     "Executions / (steps of inner loops that do not move the access) * min(1, stride in bytes / line), stride at the "
     "innermost loop that does move it."),
    ("unique_lines", "lines",
     "Distinct cache lines touched at the outermost loop: rows of the box, each whole lines; no more than from first to "
     "last address."),
    ("reuse_loop", "flag", "The nearest reuse is at a loop that does not move the access."),
    ("reuse_serial", "flag", "The nearest reuse is by another statement (producer or reader) in the loops around both."),
    ("reuse_none", "flag", "Neither."),
    ("reuse_iterations", "points",
     "Steps of the loops inside the reusing loop (for serial reuse: inside the shared loops), multiplied."),
    ("reuse_bytes", "bytes",
     "Bytes the statement touches in the body of the reusing loop; for serial reuse, the lines of all statements in the "
     "shared loop's body."),
    ("reuse_count", "times", "Steps of the reusing loop; for serial reuse, the number of other statements."),
    ("bytes_per_reuse", "bytes", "`bytes` / `reuse_count`; twice `bytes` without reuse."),
    ("unique_bytes_per_reuse", "bytes", "`unique_bytes` / `reuse_count`; twice without reuse."),
    ("lines_per_reuse", "lines", "`lines` / `reuse_count`; twice without reuse."),
    ("unique_lines_per_reuse", "lines", "`unique_lines` / `reuse_count`; twice without reuse."),
    ("stride", "elements", "Distance between neighbouring steps of the innermost loop; 0 if it does not move the access."),
    ("lane_stride", "elements", "Distance between lanes: 1 is a vector load, 0 a broadcast, more a strided one. 0 without lanes."),
    ("packed", "flag", "The tensor is laid out in the order of the loops."),
    ("accesses", "instructions",
     "Load instructions per step (store: store instructions per tile); a strided vector counts per lane."),
    ("set_lines", "lines", "Lines of the tile's rows that fall into the fullest L1 set, from the power of two in their distances."),
    ("into_l1", "bytes", "Bytes fetched into L1 for this access in all: see `into_l1` of the statement."),
    ("into_l2", "bytes", "The same for L2."),
    ("into_l3", "bytes", "The same for L3."),
)  # fmt: skip


def _slots() -> list[Feature]:
    which = {slot: f"{n}. buffer read, by bytes touched over the whole stage, then by first use" for n, slot in enumerate(SLOTS)}
    which["store"] = "the result"
    return [
        Feature(f"{slot}_{name}", unit, text if n else f"({which[slot]}) {text}", f"access: {slot}")
        for slot in SLOTS
        for n, (name, unit, text) in enumerate(_SLOT_FEATURES)
    ]


_REST = (
    ("alloc_bytes", "bytes",
     "Size of the result's buffer as it lies in memory: a region for an attached stage; gaps between rows included.", "allocation"),
    ("alloc_total", "elements", "Its elements times how often it is made anew.", "allocation"),
    ("alloc_outer", "times", "How often it is made anew: product of the loops around the attach point.", "allocation"),
    ("alloc_inner", "points", "Points per time it is made.", "allocation"),
    ("alloc_local", "flag", "It is private to a thread: an attached stage.", "allocation"),
    ("alloc_held", "flag", "It never exists: its values stay in registers.", "allocation"),
    ("points", "points", "How often the body is executed, partial tiles counted as they are.", "outer"),
    ("num_loops", "loops", "Loops of more than one step around the body.", "outer"),
    ("unroll_steps", "steps",
     "Steps of the reduction loops that are written one after another: those of a round, or all of a short loop.", "outer"),
    ("outer_runs", "times", "How often the tile is computed: product of the loops around it.", "outer"),
    ("is_root", "flag", "The stage has a nest of its own, instead of being attached.", "outer"),
    ("tile_values", "elements", "Values of the tile: product of its loops, lanes included.", "tile"),
    ("tile_vectors", "registers", "Vectors of the tile: product of its unrolled loops times vectors of the loop in lanes.", "tile"),
    ("operand_registers", "registers",
     "Vectors loaded in a step that must stay while others reuse them, and one for each other load.", "tile"),
    ("registers_used", "registers",
     "Results (of a reduction, or held from the producer) + operands + 1 where the body is more than a multiply-add.",
     "tile"),
    ("register_share", "ratio", "min(1, `registers_used` / registers of the target).", "tile"),
    ("registers_spilled", "registers", "max(0, `registers_used` - registers of the target).", "tile"),
    ("step_loads", "instructions", "Loads per step, a strided or gathered vector counted per lane.", "tile"),
    ("step_operations", "instructions", "Vector operations per step: operations per point times `tile_vectors`.", "tile"),
    ("loads_per_operation", "slog ratio", "`step_loads` / `step_operations`.", "tile"),
    ("load_share_vector", "ratio", "Share of `step_loads` that are whole vectors.", "tile"),
    ("load_share_broadcast", "ratio", "Share that are broadcasts or scalars.", "tile"),
    ("load_share_strided", "ratio", "Share that are single lanes at a distance.", "tile"),
    ("load_share_gathered", "ratio", "Share that are single lanes at positions that are not linear.", "tile"),
    ("chains", "registers",
     "Independent results of a reduction: what hides the latency of its operations. 0 without a reduction.", "tile"),
    ("chain_share", "ratio", "min(1, `chains` / (FMA latency * FMAs per cycle)); 1 without a reduction.", "tile"),
    ("lanes_useful", "ratio",
     "Useful lanes of all vectors over the axis in lanes, tails included; 1 / lanes without vectors.", "tile"),
    ("points_useful", "ratio", "Product over tiled axes of length / (tiles * tile size): what partial tiles leave.", "tile"),
    ("vector_points", "instructions", "Vectors computed per operation of the body, over the whole program.", "tile"),
    ("reduce_steps", "steps", "Steps of the block's reduction loops, multiplied.", "tile"),
    ("steps", "steps", "`outer_runs` * `reduce_steps`.", "tile"),
    ("across_lanes", "flag", "Lanes run along the reduction, and are added up at the end.", "tile"),
    ("masks_lanes", "conditions", "Affine conditions of the body that differ between lanes.", "tile"),
    ("masks_tile", "conditions", "Those that differ between unrolled points, not lanes.", "tile"),
    ("masks_reduce", "conditions", "Those that change only with the block's reduction loops.", "tile"),
    ("variants", "times", "How often the tile's code is written: twice for each tiled axis that it does not divide.", "tile"),
    ("code_size", "instructions", "(`step_operations` + `step_loads`) * steps laid out * `variants`.", "tile"),
    ("into_l1", "bytes",
     "Fetched into L1 from L2 by all accesses, stores twice. While the lines touched in a loop's body fit the cache, "
     "each is fetched once over all its steps, else anew in every step; nothing is fetched if the shared loop's body "
     "fits since the producer, or the whole program since the last run.", "memory"),
    ("into_l2", "bytes", "The same into L2 from L3.", "memory"),
    ("into_l3", "bytes", "The same into L3 from memory.", "memory"),
    ("operations_per_l1_byte", "operations/byte", "Arithmetic operations (a multiply-add is two) per byte of `into_l1`.", "memory"),
    ("operations_per_l2_byte", "operations/byte", "The same for `into_l2`.", "memory"),
    ("operations_per_l3_byte", "operations/byte", "The same for `into_l3`.", "memory"),
    ("step_bytes", "bytes", "Cache lines, in bytes, touched in one step.", "memory"),
    ("tile_bytes", "bytes", "Cache lines, in bytes, touched by one tile with its reduction loops.", "memory"),
    ("tile_l1_share", "ratio", "min(1, `tile_bytes` / L1).", "memory"),
    ("tile_l2_share", "ratio", "min(1, `tile_bytes` / L2).", "memory"),
    ("program_bytes", "bytes", "Cache lines, in bytes, touched by the whole program.", "memory"),
    ("program_l2_share", "ratio", "min(1, `program_bytes` / L2).", "memory"),
    ("program_l3_share", "ratio", "min(1, `program_bytes` / L3).", "memory"),
    ("step_set_lines", "lines", "The greatest `set_lines` of the reads: lines of one step in one L1 set.", "memory"),
    ("tile_set_lines", "lines", "The same with the block's reduction loops.", "memory"),
    ("set_overflow", "lines",
     "max(0, `step_set_lines` - ways of L1), summed over reads: lines of a step that evict each other.", "memory"),
    ("step_pages", "pages", "4 KiB pages that one step's reads and the store touch.", "memory"),
    ("tile_pages", "pages", "The same for a tile with its reduction loops.", "memory"),
    ("parallel_steps", "steps", "Steps of the root nest that threads share; 1 without parallel loops.", "parallel"),
    ("parallel_balance", "ratio", "steps / (cores * ceil(steps / cores)): share of the cores' time that is used.", "parallel"),
    ("parallel_work", "operations", "Arithmetic operations of the statement per parallel step.", "parallel"),
    ("target_lanes", "elements", "Lanes of a vector register for the result's type.", "target"),
    ("target_registers", "registers", "Vector registers.", "target"),
    ("target_l1", "bytes", "L1 size.", "target"),
    ("target_l2", "bytes", "L2 size.", "target"),
    ("target_l3", "bytes", "L3 size.", "target"),
    ("target_cores", "cores", "Threads a parallel nest uses.", "target"),
)  # fmt: skip


def _features() -> tuple[Feature, ...]:
    curve = [
        Feature(
            f"intensity_{n}", "operations/byte",
            f"Arithmetic operations (int ones too, a multiply-add is two) per touched byte, over loops innermost to outermost, "
            f"at {10 * n} % of all operations; linear between loops.",
            "intensity",
        )
        for n in range(1, CURVE + 1)
    ]  # fmt: skip
    return (*_operations(), *_annotations(), *_slots(), *curve, *(Feature(*f) for f in _REST))


SCHEMA = Schema("cpu", _VERSION, _features())
SLOT_NAMES = tuple(name for name, _, _ in _SLOT_FEATURES)
