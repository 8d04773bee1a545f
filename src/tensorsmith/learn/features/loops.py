"""Context features of loops, after AutoTVM: a row per loop of a program, with the loop that it is in, for a network on that tree.

Of each loop what AutoTVM's features say of it (spec: baselines.md, section 1.4, items 1 to 4), where those of the accesses inside
are added up, so that every loop has as many numbers, whatever it contains. A loop comes after the one that it is in.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensorsmith.learn.features.rows import Array, Batch, FeatureRows, stacked
from tensorsmith.learn.features.schema import Feature, Schema
from tensorsmith.program.lower import lower_decisions
from tensorsmith.program.stores import Store, StoreAccess, StoreLoop, stores

KINDS = ("block", "grid", "thread", "vthread", "unrolled", "vectorized", "parallel", "serial")
_TOUCHES = ("stride", "count", "reuse", "thread_count", "thread_reuse")

SCHEMA = Schema(
    "loops",
    1,
    (
        Feature("parent", "rows", "Number of the row of the loop around it, the first is 1; 0 without.", "tree"),
        Feature("length", "steps", "Of the loop.", "loop"),
        Feature("nest_level", "loops", "Loops around it, and it.", "loop"),
        Feature("topdown", "points", "Product of the steps of the loops around it, and its own.", "loop"),
        Feature("bottomup", "points", "Product of its steps and those of the loops inside, of the deepest store.", "loop"),
        *(Feature(f"is_{kind}", "flag", f"Its steps are {kind}.", "loop") for kind in KINDS),
        *(
            Feature(f"float_{k}", "operations", "Of the stores of which it is the innermost loop.", "loop")
            for k in ("addsub", "mul", "divmod")
        ),
        Feature("accesses", "accesses", "Inside it.", "accesses"),
        *(Feature(f"sum_{t}", "logs", f"log2(1 + {t}), added up over the accesses inside.", "accesses") for t in _TOUCHES),
    ),
)


def extract_rows(batches: Sequence[Batch]) -> FeatureRows:
    """The features of the loops of all candidates of all batches."""
    return stacked([_of_batch(batch) for batch in batches], SCHEMA)


def _of_batch(batch: Batch) -> tuple[tuple[str, ...], Array]:
    sketch, decisions = batch
    size = max((len(v) for v in decisions.values() if isinstance(v, np.ndarray) and v.ndim), default=1)
    found = [s for s in stores(lower_decisions(sketch, decisions), size, decisions) if not s.initial]
    rows: dict[str, dict[str, Array]] = {}
    for store in found:
        _add(store, rows, size)
    values = np.zeros((size, len(rows), len(SCHEMA)))
    for n, row in enumerate(rows.values()):
        for name, value in row.items():
            values[:, n, SCHEMA.index[name]] = value
    scaled = np.array([f.scaled for f in SCHEMA.features])
    return tuple(rows), np.where(scaled, np.log2(values + 1.0), values).astype(np.float32)


def _add(store: Store, rows: dict[str, dict[str, Array]], size: int) -> None:
    """A store's loops, each where it is not there yet, and what the store adds to them."""
    nothing, one = np.zeros(size), np.ones(size)
    # a store without loops: as if one ran once
    loops = store.loops or (StoreLoop(store.stage.name, store.stage.name, one, False, nothing > 0, nothing > 0),)
    inside, topdown = one, one
    bottomup: list[Array] = []
    for loop in reversed(loops):
        inside = inside * loop.extent
        bottomup.insert(0, inside)
    numbers = {name: n + 1 for n, name in enumerate(rows)}
    for n, loop in enumerate(loops):
        topdown = topdown * loop.extent
        row = rows.setdefault(loop.name, {})
        if not row:
            numbers[loop.name] = len(rows)
            row["parent"] = np.full(size, float(numbers[loops[n - 1].name] if n else 0))
            row |= {"length": loop.extent, "nest_level": one * (n + 1), "topdown": topdown} | _kinds(loop, size)
        row["bottomup"] = np.maximum(row.get("bottomup", nothing), bottomup[n])
        for access in store.accesses:
            row["accesses"] = row.get("accesses", nothing) + 1.0
            for name, value in zip(_TOUCHES, _touches(access, loops, n, size)):
                row[f"sum_{name}"] = row.get(f"sum_{name}", nothing) + np.log2(1.0 + value)
    last = rows[loops[-1].name]
    for kind in ("addsub", "mul", "divmod"):
        last[f"float_{kind}"] = last.get(f"float_{kind}", nothing) + store.counts.get(f"float_{kind}", 0.0)


def _kinds(loop: StoreLoop, size: int) -> dict[str, Array]:
    if loop.bound:
        return {f"is_{loop.bound}": np.ones(size)}
    found = {"is_vectorized": np.full(size, loop.vectorized), "is_parallel": loop.parallel, "is_unrolled": loop.unrolled}
    found["is_serial"] = ~(found["is_vectorized"] | found["is_parallel"] | found["is_unrolled"])
    return found


def _touches(access: StoreAccess, loops: tuple[StoreLoop, ...], number: int, size: int) -> tuple[Array, ...]:
    """(stride, count, reuse, and the last two by thread) of an access in a loop."""
    count, reuse, own_count, own_reuse = (np.ones(size) for _ in range(4))
    strides = [_stride(access, loop, size) for loop in loops[number:]]
    for loop, stride in zip(loops[number:], strides):
        moved, stayed = np.where(stride != 0, loop.extent, 1.0), np.where(stride != 0, 1.0, loop.extent)
        count, reuse = count * moved, reuse * stayed
        own_count, own_reuse = (
            np.where(loop.parallel, own_count * moved, own_count),
            np.where(loop.parallel, own_reuse * stayed, own_reuse),
        )
    shared = loops[number].parallel
    return strides[0], count, reuse, np.where(shared, own_count, 0.0), np.where(shared, own_reuse, 0.0)


def _stride(access: StoreAccess, loop: StoreLoop, size: int) -> Array:
    """Elements of the flat tensor that a step of the loop moves the first place of an access by; none where it has one step."""
    found, behind = np.zeros(size), 1.0
    for index, extent in zip(reversed(access.places[0]), reversed(access.shape)):
        found = found + np.abs(index.coefficients.get(loop.name, 0.0)) * behind
        behind *= extent
    return np.where(loop.several, found, 0.0)
