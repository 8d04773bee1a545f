"""The eighteen numbers of each buffer that a store touches (spec: ansor.md, section 6.4).

What a loop touches is kept by loop and tensor, store by store in the order they run: a tensor that an earlier store has touched in
the same loop is used again there. TVM takes `unique_lines` of a region that another buffer left behind, which depends on the
order of a hash table; here it is the buffer's own.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tensorsmith.learn.features.ansor.schema import BUFFER_NAMES, LINE
from tensorsmith.program.stores import Array, Store, StoreAccess, StoreLoop

_UNKNOWN = 2.0  # the coefficient that TVM takes where it cannot read one


@dataclass(frozen=True, eq=False)
class _Touched:
    """What one store touches of a tensor at a loop."""

    elements: Array
    element: float  # bytes
    box: list[Array]  # by dimension


@dataclass
class _AtLoop:
    """What stores have touched in a loop so far."""

    entries: dict[str, list[_Touched]] = field(default_factory=dict)  # by tensor, one for each store
    bytes: Array | float = 0.0  # of all entries
    element_bytes: float = 0.0  # one element of each

    def add(self, tensor: str, one: _Touched) -> None:
        self.entries.setdefault(tensor, []).append(one)
        self.bytes = self.bytes + one.elements * one.element
        self.element_bytes += one.element


@dataclass
class Regions:
    """What stores have touched so far, by loop."""

    known: dict[str, _AtLoop] = field(default_factory=dict)

    def add(self, store: Store) -> list[Array]:
        """Takes in a store; gives the bytes that it touches itself, by loop, outermost first."""
        size = len(store.realized)
        total = [np.zeros(size) for _ in store.loops]
        for access in store.accesses:
            for n, touched in enumerate(_touched(access, store.loops, size)):
                self.known.setdefault(store.loops[n].name, _AtLoop()).add(access.tensor, touched)
                total[n] = total[n] + touched.elements * access.element
        return total

    def at(self, loop: StoreLoop) -> _AtLoop:
        return self.known[loop.name]


def _touched(access: StoreAccess, loops: tuple[StoreLoop, ...], size: int) -> list[_Touched]:
    """By loop, outermost first: the box of elements that it and the loops inside go through, with those outside standing still."""
    low = [[place[d].offset for place in access.places] for d in range(len(access.shape))]
    high = [list(one) for one in low]
    steps = [np.ones(size) for _ in access.shape]  # where an index is not affine, every step may be at another element
    loose = [any(not place[d].affine for place in access.places) for d in range(len(access.shape))]
    box = [_box(low[d], high[d]) for d in range(len(access.shape))]
    elements = np.prod(box, axis=0) if box else np.ones(size)
    found: list[_Touched] = []
    for loop in reversed(loops):
        moved = False
        for d, extent in enumerate(access.shape):
            here = False
            for p, place in enumerate(access.places):
                coefficient = place[d].coefficients.get(loop.name)
                if coefficient is not None:
                    far = coefficient * (loop.extent - 1)
                    low[d][p], high[d][p] = low[d][p] + np.minimum(far, 0), high[d][p] + np.maximum(far, 0)
                    here = True
            if here:
                steps[d] = steps[d] * loop.extent
                box = [*box[:d], np.minimum(steps[d], extent) if loose[d] else _box(low[d], high[d]), *box[d + 1 :]]
                moved = True
        elements = np.prod(box, axis=0) if moved else elements
        found.append(_Touched(elements, access.element, box))
    return found[::-1]


def _box(low: list[Array], high: list[Array]) -> Array:
    """Elements from the least to the greatest index of all places."""
    return np.max(high, axis=0) - np.min(low, axis=0) + 1.0 if len(low) > 1 else high[0] - low[0] + 1.0


def buffer_values(store: Store, regions: Regions) -> list[dict[str, Array]]:
    """Of each access: its numbers by name, unscaled."""
    return [_values(store, access, regions) for access in store.accesses]


def _values(store: Store, access: StoreAccess, regions: Regions) -> dict[str, Array]:
    size = len(store.realized)
    executions = _product([x.extent for x in store.loops], size)
    unique, run = np.full(size, access.element), np.full(size, access.element)
    whole = np.ones(size, bool)  # no loop so far
    for loop in store.loops:  # the outermost that is there decides
        entries = regions.at(loop).entries[access.tensor]
        here = whole & loop.several
        unique = np.where(here, entries[0].elements * access.element, unique)
        run = np.where(here, _run(entries[-1].box, access), run)
        whole = whole & ~here
        if not whole.any():
            break
    stride, lines = _stride_and_lines(store, access, executions)
    ways = {
        "bytes": executions * access.element,
        "unique_bytes": unique,
        "lines": np.where(whole, 1.0, lines),
        "unique_lines": np.where(whole, 1.0, np.maximum(1.0, unique / np.minimum(run, LINE))),
    }
    reuse = _reuse(store, access, regions)
    count = reuse["reuse_ct"]
    divided = {
        f"{name}_d_reuse_ct": np.where(count > 0.5, value / np.maximum(count, 0.5), value * 2.0) for name, value in ways.items()
    }
    kinds = {"is_read": not access.written, "is_write": not access.read, "is_readwrite": access.written and access.read}
    found = {**{n: np.full(size, float(v)) for n, v in kinds.items()}, **ways, **reuse, **divided, "stride": stride}
    return {name: found[name] for name in BUFFER_NAMES}


def _run(box: list[Array], access: StoreAccess) -> Array:
    """Bytes along the last dimension of which everything is touched; those of one element if there is none."""
    found = np.full(len(box[0]) if box else 1, access.element)
    for region, extent in zip(box, access.shape):  # the last one that is whole is what stays
        found = np.where(region == extent, access.element * region, found)
    return found


def _stride_and_lines(store: Store, access: StoreAccess, executions: Array) -> tuple[Array, Array]:
    size = len(executions)
    innermost = _innermost([x.extent for x in store.loops], size)
    ratio, step, stride = np.ones(size), np.zeros(size), np.zeros(size)
    found, first = np.zeros(size, bool), np.ones(size, bool)
    for loop in reversed(store.loops):
        here = loop.several & ~found
        if not here.any():
            continue
        distance = _stride(access, loop, size)
        moves = here & (distance != 0)
        step = np.where(moves, distance, step)
        stride = np.where(moves & first, distance, stride)
        ratio = np.where(here & ~moves, ratio * innermost, ratio)
        first = first & ~loop.several
        found = found | moves
    return stride, np.maximum(1.0, executions / ratio * np.minimum(1.0, step * (access.element / LINE)))


def _stride(access: StoreAccess, loop: StoreLoop, size: int) -> Array:
    """Elements of the whole tensor from one step of a loop to the next, by the last dimension that depends on it; the least where
    there are several places."""
    if not access.shape:
        return np.ones(size)
    least = np.full(size, np.inf)
    for place in access.places:
        behind = 1.0
        done = np.zeros(size, bool)
        for index, extent in zip(reversed(place), reversed(access.shape)):
            coefficient = index.coefficients.get(loop.name)
            if coefficient is not None:
                there = (coefficient != 0) & ~done
                along = np.abs(coefficient) if index.affine else np.full(size, _UNKNOWN)
                least = np.where(there, np.minimum(least, along * behind), least)
                done = done | there
            behind *= extent
    return np.where(np.isfinite(least), least, 0.0)


def _reuse(store: Store, access: StoreAccess, regions: Regions) -> dict[str, Array]:
    """The nearest reuse, from the innermost loop outwards."""
    size = len(store.realized)
    decided, serial = np.zeros(size, bool), np.zeros(size, bool)
    steps, distance, count = np.ones(size), np.full(size, -1.0), np.zeros(size)
    for loop in reversed(store.loops):
        open_ = loop.several & ~decided
        if not open_.any():
            continue
        depends = _depends(access, loop, size)
        total, entries = regions.at(loop).bytes, regions.at(loop).entries[access.tensor]
        # a loop that moves the access: further outwards, unless another store has been here
        moves = open_ & depends
        steps = np.where(moves, steps * loop.extent, steps)
        distance = np.where(moves, total, distance)
        if len(entries) > 1:
            steps = np.where(moves, np.min([e.elements for e in entries], axis=0) / loop.extent, steps)
            distance = np.where(moves, total / loop.extent, distance)
            count = np.where(moves, len(entries) - 1.0, count)
            serial, decided = serial | moves, decided | moves
        # a loop that does not
        stays = open_ & ~depends
        distance = np.where(stays & (distance < 0), regions.at(loop).element_bytes, distance)
        count = np.where(stays, loop.extent, count)
        decided = decided | stays
    return {
        "reuse_loop": (decided & ~serial).astype(np.float64),
        "reuse_serial": serial.astype(np.float64),
        "reuse_none": (~decided).astype(np.float64),
        "reuse_dis_iter": np.where(decided, steps, 0.0),
        "reuse_dis_bytes": np.where(decided, distance, 0.0),
        "reuse_ct": count,
    }


def _depends(access: StoreAccess, loop: StoreLoop, size: int) -> Array:
    found = np.zeros(size, bool)
    for place in access.places:
        for index in place:
            if loop.name in index.coefficients:
                found = found | (index.coefficients[loop.name] != 0)
    return found


def _innermost(extents: list[Array], size: int) -> Array:
    """Steps of the innermost loop that is there."""
    found = np.ones(size)
    for extent in extents:
        found = np.where(extent > 1, extent, found)
    return found


def _product(values: list[Array], size: int) -> Array:
    return np.prod(values, axis=0) if values else np.ones(size)
