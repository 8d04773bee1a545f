"""All 164 numbers of one store, unscaled, for every candidate of a batch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tensorsmith.learn.features.ansor.accesses import Regions, buffer_values
from tensorsmith.learn.features.ansor.schema import BUFFER_NAMES, BUFFERS, CURVE, THREADS
from tensorsmith.program.expression_counts import KINDS
from tensorsmith.program.stores import Array, Store, StoreLoop
from tensorsmith.program.unrolling import pragma_of

_ROOM = 1e-4  # of operations, below a sample of the curve, as in TVM
#: what loops of each binding are in TVM. Several of one kind are fused there, as `x`
_BOUND = {"block": "blockIdx_x", "grid": "blockIdx_x", "thread": "threadIdx_x", "vthread": "vthread"}


def store_values(store: Store, regions: Regions) -> dict[str, Array]:
    """The features by name; those that are left out are 0. `regions` has all stores before this one, and takes it in."""
    touched = regions.add(store)
    size = len(store.realized)
    executions = _product(store.loops, size)
    found: dict[str, Array] = {name: count * executions for name, count in store.counts.items()}
    found |= _annotations("vec", store.loops, lambda x: np.full(size, x.vectorized))
    found |= _annotations("unroll", store.loops, lambda x: x.unrolled)
    found |= _annotations("parallel", store.loops, lambda x: x.parallel)
    found |= _bindings(store.loops, size)
    found |= _slots(store, regions)
    found |= _curve(store, touched)
    found |= {
        "alloc_size": store.realized * store.accesses[0].element,
        "alloc_prod": store.realized * store.outside,
        "alloc_outer_prod": store.outside,
        "alloc_inner_prod": executions / store.outside,
        "outer_prod": executions,
        "num_loops": np.sum([x.several for x in store.loops], axis=0, dtype=np.float64) + np.zeros(size),
        "auto_unroll_max_step": np.asarray(pragma_of(store.written_out)),
    }
    return found


def _product(loops: tuple[StoreLoop, ...], size: int) -> Array:
    found = np.ones(size)
    for loop in loops:
        found = found * loop.extent
    return found


def _annotations(kind: str, loops: tuple[StoreLoop, ...], has: Callable[[StoreLoop], Array]) -> dict[str, Array]:
    number, product, last = (np.zeros(len(loops[0].extent) if loops else 1) for _ in range(3))
    for loop in loops:
        here = has(loop) & loop.several & (loop.bound == "")
        product = np.where(here, np.maximum(product, 1.0) * loop.extent, product)
        last = np.where(here, loop.extent, last)
        number = number + here
    return {
        f"{kind}_num": number,
        f"{kind}_prod": product,
        f"{kind}_len": last,
        f"{kind}_type_none": (number == 0).astype(np.float64),
        f"{kind}_type_mixed": (number > 0).astype(np.float64),
    }


def _bindings(loops: tuple[StoreLoop, ...], size: int) -> dict[str, Array]:
    lengths = {t: np.ones(size) for t in THREADS}
    for loop in loops:
        if loop.bound:
            lengths[_BOUND[loop.bound]] = lengths[_BOUND[loop.bound]] * loop.extent
    return {"is_gpu": np.full(size, float(any(x.bound for x in loops)))} | {f"{t}_len": n for t, n in lengths.items()}


def _slots(store: Store, regions: Regions) -> dict[str, Array]:
    """The buffers with most lines, then most bytes, the greatest first; equal ones in the order of the store's accesses."""
    buffers = buffer_values(store, regions)
    lines, sizes = (np.stack([b[name] for b in buffers]) for name in ("lines", "bytes"))
    order = np.lexsort((-sizes, -lines), axis=0)[:BUFFERS]
    found: dict[str, Array] = {}
    for name in BUFFER_NAMES:
        values = np.take_along_axis(np.stack([b[name] for b in buffers]), order, axis=0)
        found |= {f"B{n}_{name}": value for n, value in enumerate(values)}
    return found


def _curve(store: Store, touched: list[Array]) -> dict[str, Array]:
    """Float operations per byte over the loops, innermost first, at tenths of all operations; linear in between."""
    size = len(store.realized)
    each = np.zeros(size)
    for kind in KINDS:
        each = each + store.counts.get(f"float_{kind}", 0.0)
    total = each * _product(store.loops, size)
    wanted = total * (np.arange(1, CURVE + 1) / CURVE)[:, None]
    values = np.zeros((CURVE, size))
    open_ = np.ones((CURVE, size), bool)
    done, before, level = each, np.zeros(size), np.zeros(size)  # operations; of the loop inside, and their intensity
    inner = np.ones(size, bool)  # no loop yet
    for loop, size_of in zip(reversed(store.loops), reversed(touched)):
        done = done * loop.extent
        intensity = done / size_of
        slope = np.where(done > before, (intensity - level) / np.maximum(done - before, 1e-30), 0.0)
        line = np.where(inner, intensity, level + (wanted - before) * slope)
        here = open_ & loop.several & (done >= wanted - _ROOM)
        values = np.where(here, line, values)
        open_ = open_ & ~here
        before, level = np.where(loop.several, done, before), np.where(loop.several, intensity, level)
        inner = inner & ~loop.several
    return {f"curve_{n + 1}": np.where(total > 0, value, 0.0) for n, value in enumerate(values)}
