"""What each of Ansor's 164 columns means, in the order of TVM 0.14 (spec: ansor.md, sections 6.2 to 6.6).

One row describes a tensor that is stored to. A loop of one step counts as absent. Where TVM computes something that its own
description does not say, the column is what TVM computes: multiply-adds are never found, annotated loops are `mixed` wherever they
are, `lines` is divided by the steps of the innermost loop for each loop that does not move the access.
"""

from __future__ import annotations

from tensorsmith.learn.features.schema import Feature, Schema
from tensorsmith.program.expression_counts import KINDS

BUFFERS = 5
CURVE = 10  # samples of the arithmetic intensity curve
LINE = 64.0  # bytes of a cache line, whatever the machine
POSITIONS = (
    "none", "inner_spatial", "middle_spatial", "outer_spatial", "inner_reduce", "middle_reduce", "outer_reduce", "mixed",
)  # fmt: skip
THREADS = ("blockIdx_x", "blockIdx_y", "blockIdx_z", "threadIdx_x", "threadIdx_y", "threadIdx_z", "vthread")

_KIND_TEXT = {
    "mad": "multiply-adds: always 0, as in TVM",
    "addsub": "additions and subtractions",
    "mul": "multiplications",
    "divmod": "divisions and remainders",
    "cmp": "comparisons, max and min, by operand type",
    "mathfunc": "calls of pure functions",
    "otherfunc": "other calls: there are none here",
}

_BUFFER_FEATURES = (
    ("is_read", "flag", "It is only read."),
    ("is_write", "flag", "It is only written."),
    ("is_readwrite", "flag", "It is read and written: the result of a reduction."),
    ("bytes", "bytes", "Element bytes times executions."),
    ("unique_bytes", "bytes", "Bytes of the box of elements touched at the outermost loop."),
    ("lines", "lines",
     "max(1, executions / r * min(1, stride in bytes / 64)), stride at the innermost loop that moves the access, r the steps of "
     "the innermost loop to the power of the loops inside that one."),
    ("unique_lines", "lines",
     "max(1, `unique_bytes` / min(64, c)), c the bytes along the last dimension that is touched as a whole, or of one element."),
    ("reuse_loop", "flag", "The nearest reuse is at a loop that does not move the access (LoopMultipleRead)."),
    ("reuse_serial", "flag", "It is by another store in a loop around both (SerialMultipleReadWrite)."),
    ("reuse_none", "flag", "Neither."),
    ("reuse_dis_iter", "points", "Points between two uses; for serial reuse, elements touched per step of the shared loop."),
    ("reuse_dis_bytes", "bytes", "Bytes touched between two uses."),
    ("reuse_ct", "times", "Steps of the reusing loop; for serial reuse, the number of other accesses."),
    ("bytes_d_reuse_ct", "bytes", "`bytes` / `reuse_ct`; twice `bytes` without reuse."),
    ("unique_bytes_d_reuse_ct", "bytes", "`unique_bytes` / `reuse_ct`; twice without reuse."),
    ("lines_d_reuse_ct", "lines", "`lines` / `reuse_ct`; twice without reuse."),
    ("unique_lines_d_reuse_ct", "lines", "`unique_lines` / `reuse_ct`; twice without reuse."),
    ("stride", "elements", "Of the innermost loop, in the whole tensor; 0 if it does not move the access."),
)  # fmt: skip
BUFFER_NAMES = tuple(name for name, _, _ in _BUFFER_FEATURES)


def _features() -> tuple[Feature, ...]:
    found = [
        Feature(f"{t}_{k}", "operations", f"{t.capitalize()} {_KIND_TEXT[k]}; times executions.", "computation")
        for t in ("float", "int")
        for k in KINDS
    ]
    found.append(Feature("bool_op", "operations", "and, or, not; times executions.", "computation"))
    found.append(Feature("select_op", "operations", "Selects; times executions.", "computation"))
    for kind, what in (("vec", "vectorized"), ("unroll", "unrolled"), ("parallel", "parallel")):
        found.append(Feature(f"{kind}_num", "loops", f"Loops that are {what}.", "annotations"))
        found.append(Feature(f"{kind}_prod", "steps", "Product of their steps; 0 without.", "annotations"))
        found.append(Feature(f"{kind}_len", "steps", "Steps of the innermost of them; 0 without.", "annotations"))
        for position in POSITIONS:
            text = {"none": "There is none.", "mixed": "There is one, wherever."}.get(position, "Always 0, as in TVM.")
            found.append(Feature(f"{kind}_type_{position}", "flag", text, "annotations"))
    found.append(Feature("is_gpu", "flag", "Some loop is bound to blocks or threads.", "bindings"))
    found += [Feature(f"{t}_len", "steps", f"Steps bound to {t.replace('_', '.')}; 1 without.", "bindings") for t in THREADS]
    for n in range(BUFFERS):
        which = f"({n + 1}. buffer by lines, then bytes) "
        for m, (name, unit, text) in enumerate(_BUFFER_FEATURES):
            found.append(Feature(f"B{n}_{name}", unit, text if m else which + text, f"buffer {n}"))
    for n in range(1, CURVE + 1):
        found.append(Feature(f"curve_{n}", "operations/byte", f"Float operations per byte at {10 * n} % of them.", "intensity"))
    found += [
        Feature("alloc_size", "bytes", "Of the region that is made.", "allocation"),
        Feature("alloc_prod", "elements", "Its elements times how often it is made.", "allocation"),
        Feature("alloc_outer_prod", "times", "How often it is made: steps of the loops around that.", "allocation"),
        Feature("alloc_inner_prod", "points", "`outer_prod` / `alloc_outer_prod`.", "allocation"),
        Feature("outer_prod", "points", "Steps of all loops around the store.", "outer scope"),
        Feature("num_loops", "loops", "Loops around the store.", "outer scope"),
        Feature("auto_unroll_max_step", "stores",
                "The least of 0, 16, 64, 512 under which TVM would unroll what this program does.", "outer scope"),
    ]  # fmt: skip
    return tuple(found)


SCHEMA = Schema("ansor", 1, _features())
