"""Buffer accesses of a block: where they go in memory as it really is laid out, what they touch at every loop, and what that costs.

An access is the store of a block, or all its loads of one buffer. Positions are linear in loop variables, after subtracting where
an attached buffer's region starts; a packed tensor has one dimension per loop, as it has in memory.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from tensorsmith.backends.cpu.features.nest import Level, Nested
from tensorsmith.backends.cpu.features.numbers import Array, Num, magnitude, number, product, times
from tensorsmith.lang.affine import affine
from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.expr import Load, variables
from tensorsmith.lang.workload import Stage, Workload
from tensorsmith.program.flags import Flag, both, either, flag, opposite, where
from tensorsmith.program.ir import Block, Program, ProgramBuffer
from tensorsmith.program.layout import Layout
from tensorsmith.program.linear import Linear
from tensorsmith.program.positions import in_elements, read_at, reshaped_at, stored_at

PAGE = 4096
ALONE = -np.inf


@dataclass
class Dimension:
    """One dimension of a buffer as an access moves through it."""

    extent: Num
    coefficients: dict[str, Num]  # absolute, by loop
    loose: bool = False  # not affine: every step of a loop may touch another element
    spread: Num = 0.0  # between the least and the greatest offset of the loads
    offsets: Num = 1.0  # how many different ones


@dataclass
class Access:
    """The store of a block (`write`), or its loads of one buffer."""

    name: str  # of the buffer
    packed: Flag  # in the order of the loops
    write: bool
    element: float  # bytes
    dimensions: list[Dimension]
    flats: list[dict[str, Num]]  # per load: elements that a step of each loop moves it by, absolute
    gathered: Flag  # some position is not linear
    skipped: frozenset[str]  # loops in which it is not executed
    held: bool  # in registers
    span: Num = 0.0  # elements from the first to the last that the loads read at one point
    # the nearest other statement that uses the buffer: how many loops run around both (ALONE without one), how many there are
    shared: Num = ALONE
    partners: Num = 0.0
    # by level, one more than there are levels; entry i is with the loops from i on running, those outside standing still
    elements: list[Num] = field(default_factory=list)
    lines: list[Num] = field(default_factory=list)
    moves: list[Flag] = field(default_factory=list)  # by level: whether a step of it changes the position

    def stride(self, loop: str) -> Num:
        """Elements between neighbouring steps of a loop."""
        found: Num = 0.0
        for flat in self.flats:
            if loop in flat:
                found = np.maximum(found, flat[loop]) if len(self.flats) > 1 else flat[loop]
        return found

    def counted(self, level: Level) -> Num:
        return 1.0 if level.name in self.skipped else level.count


def accesses(program: Program, layouts: Mapping[str, Layout], nested: Nested, block: Block, held: frozenset[str]) -> list[Access]:
    """The store, then the buffers that are read, those of which most is read first. `held` are buffers that stay in registers."""
    reductions = frozenset(v.name for v in block.reduce)
    found = [_store(program, layouts[block.stage.name], block, reductions, block.stage.name in held)]
    for name, loads in _reads(block.stage, program.workload):
        found.append(_read(program, layouts[name], nested, block, loads, name in held))
    return found


@functools.lru_cache(maxsize=1024)
def _reads(stage: Stage, workload: Workload) -> list[tuple[str, list[Load]]]:
    """Loads by buffer, ordered by the bytes that all of them together touch, then by first use. The same for every candidate."""
    groups: dict[str, list[Load]] = {}
    for load in stage.reads:
        groups.setdefault(load.tensor, []).append(load)
    extents = {a.name: a.extent for a in stage.all_axes}

    def touched(load: Load) -> int:
        total = dtype(load.dtype).bytes
        for index, extent in zip(load.indices, workload.buffers[load.tensor].shape):
            form = affine(index)
            if form is None:
                reach = math.prod(extents.get(n, 1) for n in variables(index))
            else:
                reach = 1 + sum(abs(c) * (extents[n] - 1) for n, c in form.terms.items())
            total *= max(1, min(reach, extent))
        return total

    return sorted(groups.items(), key=lambda g: -max(map(touched, g[1])))


def _extents(buffer: ProgramBuffer) -> list[Num]:
    return [number(n) for n in (buffer.packed.shape if buffer.packed else buffer.shape)]


def _store(program: Program, layout: Layout, block: Block, skipped: frozenset[str], held: bool) -> Access:
    buffer = program.buffers[block.stage.name]
    element = float(dtype(buffer.dtype).bytes)
    if held:
        return Access(buffer.name, False, True, element, [], [], False, skipped, True)
    forms = stored_at(block, buffer)
    dimensions = [Dimension(extent, _absolute(form)) for form, extent in zip(forms, _extents(buffer))]
    flat = _absolute(in_elements(forms, layout.strides))
    return Access(buffer.name, buffer.packed is not None, True, element, dimensions, [flat], False, skipped, False)


def _read(program: Program, layout: Layout, nested: Nested, block: Block, loads: list[Load], held: bool) -> Access:
    name = loads[0].tensor
    buffer = program.buffers[name]
    element = float(dtype(buffer.dtype).bytes)
    if held:
        return Access(name, False, False, element, [], [], False, frozenset(), True)
    strides = [number(n) for n in layout.strides]
    by_load = [read_at(load, block, buffer) for load in loads]
    flats: list[dict[str, Num]] = []
    gathered: Flag = False
    several = {level.name: level.several for level in nested.levels}
    for load, forms in zip(loads, by_load):
        known = [f for f in forms if f is not None]
        if len(known) == len(forms):
            flats.append(_absolute(in_elements(known, layout.strides)))
            continue
        # a read through a reshape is linear all the same, but only of a whole tensor
        reshaped = reshaped_at(load, block, program.workload.buffers[name].shape)
        whole: Flag = reshaped is not None
        for origin in buffer.origin if whole else ():
            whole = both(whole, flag(number(origin.offset) == 0))
            for outer, step in origin.terms.items():
                whole = both(whole, opposite(both(several.get(outer, True), flag(number(step) != 0))))
        straight = _absolute(reshaped) if reshaped is not None else {}
        if whole is True:
            flats.append(straight)
            continue
        gathered = either(gathered, opposite(whole))
        flat: dict[str, Num] = {}
        for form, index, stride in zip(forms, load.indices, strides):
            loops = form.terms if form is not None else _loops_of(block, variables(index))
            for loop in loops:
                flat[loop] = np.maximum(flat.get(loop, 0.0), stride)
        flats.append({n: where(whole, straight.get(n, 0.0), flat.get(n, 0.0)) for n in {**straight, **flat}})
    dimensions = []
    span: Num = 0.0
    for d, (extent, stride) in enumerate(zip(_extents(buffer), strides)):
        column = [forms[d] for forms in by_load]
        known = [f for f in column if f is not None]
        if len(known) < len(column):
            moving = {n for load in loads for n in _loops_of(block, variables(load.indices[d]))}
            dimensions.append(Dimension(extent, dict.fromkeys(moving, 1.0), loose=True))
            continue
        dimension = Dimension(extent, _absolute(known[0]))
        if len(known) > 1:
            for other in known[1:]:
                for loop, coefficient in _absolute(other).items():
                    dimension.coefficients[loop] = np.maximum(dimension.coefficients.get(loop, 0.0), coefficient)
            offsets = [number(f.offset) for f in known]
            high, low = functools.reduce(np.maximum, offsets), functools.reduce(np.minimum, offsets)
            dimension.spread = high - low
            dimension.offsets = (
                float(len({o for o in offsets if isinstance(o, float)})) if _all_floats(offsets) else float(len(offsets))
            )
            span = span + times(dimension.spread, stride)
        dimensions.append(dimension)
    return Access(name, buffer.packed is not None, False, element, dimensions, flats, gathered, frozenset(), False, span)


def _all_floats(values: list[Num]) -> bool:
    return all(isinstance(v, float) for v in values)


def _loops_of(block: Block, axes: set[str]) -> set[str]:
    return {n for a in axes if a in block.axes for n in block.axes[a].value.terms}


def _absolute(form: Linear) -> dict[str, Num]:
    return {n: magnitude(number(c)) for n, c in form.terms.items()}


def footprints(access: Access, levels: tuple[Level, ...], line: float) -> None:
    """Distinct elements and cache lines that the loops from each level on touch."""
    dims = access.dimensions
    spans: list[Num] = [d.spread for d in dims]  # last minus first index
    products: list[Num] = [d.offsets for d in dims]  # steps, if no two met
    boxes: list[Num] = [np.minimum(d.spread + 1.0, d.extent) for d in dims]
    distinct: list[Num] = [np.minimum(b, p) for b, p in zip(boxes, products)]
    reach = access.span  # elements from the first to the last
    elements = [product(distinct)]
    lines: list[Num] = [_lines(dims, boxes, distinct, reach + 1.0, access.element, line)]
    moves: list[Flag] = []
    for level in reversed(levels):
        name = level.name
        through = [] if name in access.skipped else [n for n, d in enumerate(dims) if name in d.coefficients]
        if not through or level.several is False:
            elements.append(elements[-1])
            lines.append(lines[-1])
            moves.append(False)
            continue
        more = level.count - 1.0
        moved: Flag = False
        for n in through:
            dim = dims[n]
            coefficient = dim.coefficients[name]
            if isinstance(coefficient, float):
                products[n] = times(products[n], level.count)
                moved = level.several
            else:
                moving = flag(coefficient > 0)
                products[n] = times(products[n], where(moving, level.count, 1.0))
                moved = either(moved, both(level.several, moving))
            if dim.loose:
                boxes[n] = distinct[n] = np.minimum(products[n], dim.extent)
                continue
            spans[n] = spans[n] + times(coefficient, more)
            boxes[n] = np.minimum(spans[n] + 1.0, dim.extent)
            distinct[n] = np.minimum(boxes[n], products[n])
        reach = reach + times(access.stride(name), more)
        elements.append(product(distinct))
        lines.append(_lines(dims, boxes, distinct, reach + 1.0, access.element, line))
        moves.append(moved)
    for n in range(len(lines) - 2, -1, -1):  # fewer loops touch no more lines, whatever rounding up said
        if lines[n] is not lines[n + 1]:
            lines[n] = np.minimum(lines[n], lines[n + 1])
    access.elements, access.lines, access.moves = elements[::-1], lines[::-1], moves[::-1]


def _lines(dims: list[Dimension], boxes: list[Num], distinct: list[Num], reach: Num, element: float, line: float) -> Num:
    """Lines of a box: rows of neighbours, each as long as the box covers whole dimensions from the last one on."""
    run: Num = 1.0
    rows: Num = 1.0
    whole: Flag = True
    for dim, box, apart in zip(reversed(dims), reversed(boxes), reversed(distinct)):
        if whole is True:
            run = times(run, box)
        elif whole is False:
            rows = times(rows, apart)
        else:
            run = where(whole, times(run, box), run)
            rows = where(whole, rows, times(rows, apart))
        if whole is not False:
            whole = both(whole, flag(box >= dim.extent))
    count = times(rows, np.ceil(run * (element / line)))
    if any(d.loose for d in dims):
        return count
    return np.minimum(count, np.ceil(reach * (element / line)))


# -- what an access costs ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reuse:
    """When a buffer's element is used again: at the innermost loop that does not move it, or by another statement before that."""

    loop: Flag
    serial: Flag
    iterations: Num
    bytes: Num  # 0 where another statement reuses it
    count: Num


def reuse(access: Access, nested: Nested, touched: list[Num], inside: list[Num]) -> Reuse:
    """The nearest reuse. `touched`: bytes of the statement by level; `inside`: steps of the loops from a level on."""
    decided: Flag = False
    serial: Flag = False
    iterations: Num = 0.0
    distance: Num = 0.0
    count: Num = 0.0
    for j in range(len(nested.levels) - 1, -2, -1):
        met = flag(access.shared == j + 1)
        if met is not False:
            first = both(met, opposite(decided))
            iterations = where(first, inside[j + 1], iterations)
            count = where(first, access.partners, count)
            serial = either(serial, first)
            decided = either(decided, met)
        if decided is True or j < 0:
            break
        level = nested.levels[j]
        if level.several is False or level.name in access.skipped or access.moves[j] is level.several:
            continue
        again = both(opposite(decided), both(level.several, opposite(access.moves[j])))
        iterations = where(again, inside[j + 1], iterations)
        distance = where(again, touched[j + 1], distance)
        count = where(again, level.count, count)
        decided = either(decided, again)
    return Reuse(both(decided, opposite(serial)), serial, iterations, distance, count)


def stride_and_lines(access: Access, nested: Nested, executions: Num, line: float) -> tuple[Num, Num]:
    """(elements per step of the innermost loop, 0 if it stays; lines asked for, neighbours in one line asking once)."""
    found: Flag = False
    innermost: Flag = True
    ratio: Num = 1.0
    step: Num = 0.0
    stride: Num = 0.0
    for level, moves in zip(reversed(nested.levels), reversed(access.moves)):
        if level.several is False or level.name in access.skipped:
            continue
        here = both(moves, opposite(found))
        distance = access.stride(level.name)
        step = where(here, distance, step)
        stride = where(both(here, innermost), distance, stride)
        ratio = where(both(level.several, opposite(either(found, moves))), times(ratio, level.count), ratio)
        innermost = both(innermost, opposite(level.several))
        found = either(found, moves)
        if found is True:
            break
    share = np.minimum(1.0, step * (access.element / line))
    share = where(opposite(found), 1.0, share)
    return stride, np.maximum(1.0, executions / ratio * share)


def traffic(access: Access, nested: Nested, fits: list[Array], warm: Array, trips: list[Num], lines: list[Num]) -> Array:
    """Lines brought into each of the three caches, shape (3, candidates) or (3, 1).

    While what one step of a loop touches fits the cache, a line is fetched once over all steps; once it does not, every step
    fetches again. `fits[j]` says that of level j, `warm` that the buffer is there already.
    """
    fetched: Array = np.zeros((3, 1)) + lines[len(nested.levels)]
    for j in range(len(nested.levels) - 1, -1, -1):
        level = nested.levels[j]
        if level.several is False or level.name in access.skipped:
            continue
        fetched = np.where(fits[j], lines[j], fetched * trips[j])
    return np.where(warm, 0.0, fetched)


def loads_of(access: Access, nested: Nested, lanes: Num, chunks: Num) -> tuple[Num, Num, Num, Num, Num]:
    """(vectors, broadcasts or scalars, strided lanes, gathered lanes loaded per step of a tile; registers held by them)."""
    totals: list[Num] = [0.0, 0.0, 0.0, 0.0]
    registers: Num = 0.0
    vector = nested.lanes
    tile = nested.of_kind("tile")
    for flat in access.flats:
        places: Num = 1.0
        live: Num = 1.0
        again: Flag = False  # some loop outside reuses what the loops inside load
        for level in tile:
            moves = both(level.several, flag(flat.get(level.name, 0.0) > 0))
            places = times(places, where(moves, level.count, 1.0))
            live = times(live, where(both(again, moves), level.count, 1.0))
            again = either(again, both(level.several, opposite(moves)))
        step = flat.get(vector.name, 0.0) if vector is not None else 0.0
        if nested.group is not None:  # a group is loaded at once where it lies side by side, else step by step
            steps = nested.group_steps
            together = flag(flat.get(nested.group.name, 0.0) == 1.0)
            places = times(places, where(together, 1.0, steps))
            step = where(together, step / steps, step)
        along = both(flag(step > 0), vector.several) if vector is not None else False
        live = times(live, where(both(again, along), chunks, 1.0))
        apart = both(along, either(access.gathered, flag(step != 1.0)))
        totals[0] = totals[0] + times(places, where(both(along, opposite(apart)), chunks, 0.0))
        totals[1] = totals[1] + times(places, where(along, 0.0, 1.0))
        single = times(places, where(apart, lanes, 0.0))
        totals[2] = totals[2] + where(access.gathered, 0.0, single)
        totals[3] = totals[3] + where(access.gathered, single, 0.0)
        registers = registers + live
    return totals[0], totals[1], totals[2], totals[3], registers


def same_set(access: Access, levels: list[Level], line: float, way: float) -> Num:
    """How many lines, one per row that the loops visit, fall into the fullest cache set. `way` is the bytes of one way."""
    rows: Num = 1.0
    power: Num = way  # the largest power of two that divides all distances
    top = float(int(way) & -int(way))
    for level in levels:
        distance = access.stride(level.name) * access.element
        far = both(level.several, flag(distance >= line))
        if far is False:
            continue
        rows = times(rows, where(far, level.count, 1.0))
        whole = np.asarray(distance, dtype=np.int64)
        power = np.minimum(power, where(far, np.minimum(top, (whole & -whole).astype(np.float64)), top))
    sets = way / np.maximum(power, line)
    return np.ceil(rows / sets)


def pages(access: Access, levels: list[Level]) -> Num:
    """Memory pages that the loops touch."""
    rows: Num = 1.0
    span: Num = access.element
    for level in levels:
        distance = access.stride(level.name) * access.element
        far = both(level.several, flag(distance >= PAGE))
        rows = times(rows, where(far, level.count, 1.0))
        span = span + where(far, 0.0, distance * (level.count - 1.0))
    return rows * np.ceil(span / PAGE)
