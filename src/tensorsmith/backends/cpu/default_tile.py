"""The register tile of a stage with reuse, chosen by counting cycles: for the default schedule, for seeds and for samples."""

from __future__ import annotations

import math

from tensorsmith.backends.cpu import in_order
from tensorsmith.backends.cpu.across_tile import AcrossTile, across_lanes, across_pays, across_tile
from tensorsmith.backends.cpu.products import group_size, groups_pay, operand_registers, pair_cycles, unpacks_pairs
from tensorsmith.backends.cpu.target import CpuTarget
from tensorsmith.backends.cpu.window_tile import row_of_window, window_tile
from tensorsmith.lang.affine import affine, conjuncts
from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.expr import Axis, Expr, Select, variables, walk
from tensorsmith.lang.workload import Stage, Workload
from tensorsmith.program.grouping import group_axis, group_steps
from tensorsmith.space.sketch.loops import NestLoop
from tensorsmith.space.transforms import is_transform

_LAID_OUT_TILES, _LAID_OUT_TAPS = 4, 8  # tiles in a row, and taps, up to which both are laid out where padding makes them differ
COPIES = 4  # steps of the innermost reduction loop in a row: two were slower, more gain little and take longer to compile
STEPS_PER_THREAD = 4  # parallel steps wanted per thread, so that a slow thread does not hold up the others
_IDLE, _LONG = 0.04, 1 << 22  # of the threads' time, at most, while one has a step more; points: below, shorter steps cost as much
_PER_BYTE_OF_MEMORY, _PER_BYTE_OF_L3 = 8, 2  # operations that a core does while these give it a byte, or somewhat more
_LEAVES_CACHES = 2  # times what all second caches hold: so much is not there any more when it is read again
_STREAMED_ROWS = 4  # of an image at once: more gained nothing, and took more of the first cache


class TilePlan:
    """The register tile of a stage with reuse: which axis runs in lanes, which in rows, and how many of each."""

    def __init__(self, workload: Workload, stage: Stage, target: CpuTarget) -> None:
        self.workload, self.stage, self.target = workload, stage, target
        self.lanes = target.lanes(dtype(stage.dtype).lane_bytes)
        self.across = False
        self.vector_axis = self._choose_vector()
        self.streams = len(self._long_axes()) > 1 and self._from_memory()
        self.window: dict[str, int] = {}
        self.sliding = self._choose_sliding()
        if not self.across and not self.streams and self.sliding is None:
            self.window = window_tile(workload, stage, self.vector_axis.name, target)
        self.group = None if self.window else self._choose_group()
        self.group_size = group_size(target, stage) if self.group else None  # where its steps are part of the structure
        self.row_axis = self._choose_rows()
        self.few = self._choose_few()
        self.rows, self.vectors = self._choose_sizes()
        self.beside: dict[str, int] = self._choose_beside()
        self.vector = NestLoop(self.vector_axis.name, 1)

    @property
    def fixed(self) -> dict[NestLoop, int]:
        """Sizes that are part of the structure."""
        return {self.group: self.group_size} if self.group is not None and self.group_size is not None else {}

    def row_tiles(self) -> int:
        """How many tiles there are along the rows."""
        return -(-self.row_axis.extent // self.rows) if self.row_axis is not None else 1

    def _choose_vector(self) -> Axis:
        """The last axis; the last reduction axis that fills the lanes where that one does not; else the last that runs at all."""
        axes = self.stage.axes
        results = axes[-1].extent if axes else 1
        halves = self.target.halves_are_free and 2 * results <= self.lanes
        reduce = [a for a in self.stage.reduce_axes if a.extent >= (self.lanes // 2 if halves else self.lanes)]
        few = reduce and results < self.lanes and across_pays(self.workload, self.stage, reduce[-1], self.lanes, self.target)
        if few or (reduce and self._lies_along(reduce[-1])):
            self.across = True
            return reduce[-1]
        return ([a for a in axes if a.extent > 1] or axes or self.stage.reduce_axes)[-1]

    def _lies_along(self, axis: Axis) -> bool:
        """Whether values that are used once lie side by side along a reduction, not along the results: the rows of a matrix that a
        vector is multiplied by."""
        long = {a.name for a in self.stage.axes if a.extent > 1}
        values = [x for x in self.stage.reads if not self.workload.buffers[x.tensor].constant and long <= variables(x)]
        return any(axis.name in variables(x.indices[-1]) and not long & variables(x.indices[-1]) for x in values if x.indices)

    def _choose_group(self) -> NestLoop | None:
        """The loop of which a lane takes all steps at once, in a sum of products of small integers."""
        axis = group_axis(self.stage) if not self.across and groups_pay(self.target, self.stage) else None
        along = any(self.vector_axis is a for a in self.stage.reduce_axes)
        return None if axis is None or along else NestLoop(axis.name, 1)

    def _from_memory(self) -> bool:
        """Whether values come from memory about as fast as they are used, as in a depthwise convolution of many images: then a tile
        has its rows in several rows of the image and goes along them, so that memory is read in long pieces, several at a time."""
        stage, buffers = self.stage, self.workload.buffers
        values = {x.tensor for x in stage.reads if not buffers[x.tensor].constant}
        if self.across or self.target.in_order or len(values) != 1 or len(values) == len({x.tensor for x in stage.reads}):
            return False  # in-order cores follow few pieces of memory at a time
        if _STREAMED_ROWS * -(-self.vector_axis.extent // self.lanes) < self._sums_in_flight():
            return False
        moved = sum(buffers[t].bytes for t in {*values, stage.name})
        if moved <= _LEAVES_CACHES * self.target.cores * self.target.l2_bytes:
            return False
        per_byte = _PER_BYTE_OF_MEMORY if moved > self.target.l3_bytes // 2 else _PER_BYTE_OF_L3
        return 2 * math.prod(a.extent for a in stage.all_axes) < per_byte * moved

    def _sums_in_flight(self) -> int:
        """Vectors of results that a tile needs, so that multiply-adds do not wait for each other."""
        halves = self.target.halves_are_free and 2 * self.vector_axis.extent <= self.lanes
        return self.target.chains * (2 if halves else 1)

    def _row_axes(self) -> list[Axis]:
        """Those along which the operand that runs in lanes stays the same."""
        fixed: set[str] = set()
        for x in self.stage.reads:
            if self.vector_axis.name in variables(x):
                fixed |= {a.name for a in self.stage.axes if a.name not in variables(x)}
        others = [a for a in self.stage.axes if a.extent > 1 and a is not self.vector_axis]
        return [a for a in others if a.name in fixed] or others

    def _long_axes(self) -> list[Axis]:
        return [a for a in self._row_axes() if a.extent >= 4]

    def _choose_rows(self) -> Axis | None:
        """The last of the row axes that is long enough; the one before it where a tile goes along the last."""
        if self.window:
            return self.stage.axis([*self.window][-1])
        enough = self._long_axes()
        if self.across:  # which has results of the last axis on its tile anyway
            enough = [a for a in enough if a is not self.stage.axes[-1]] or enough
        if enough:
            return enough[-2 if self.streams else -1]
        return max(self._row_axes(), key=lambda a: a.extent, default=None)

    def _choose_sizes(self) -> tuple[int, int]:
        if self.window:
            return [*self.window.values()][-1], 1
        rows = self.row_axis.extent if self.row_axis is not None else 1
        if self.streams and self.row_axis is not None:
            rows = self._streamed_rows(self.row_axis)
        if self.sliding is not None:
            return self.sliding[0], 1
        if self.few is not None:
            return self.few.rows, self.few.columns
        if self.across:
            return self._best(rows, self.stage.axes[-1].extent if self.stage.axes else 1)
        return self._best(rows, -(-self.vector_axis.extent // self.lanes))

    def _choose_sliding(self) -> tuple[int, str] | None:
        """Results of a row, and the tap along it, where a large window slides over an image channel by channel."""
        row = self._choose_rows()
        if self.across or self.streams or row is None:
            return None
        return row_of_window(self.workload, self.stage, self.vector_axis.name, row, self.target)

    def _choose_few(self) -> AcrossTile | None:
        """The tile where lanes run along the reduction and each row has so few results that a tile has all of them."""
        rows = self.row_axis
        if not self.across or rows is None:
            return None
        return across_tile(self.stage, rows, self.vector_axis, self._width(), lambda columns: self._tiles(rows.extent, columns))

    def _width(self) -> int:
        """Lanes of a vector along the reduction."""
        return across_lanes(self.vector_axis, self.lanes, self.target)

    def _choose_beside(self) -> dict[str, int]:
        """Rows of a second axis on the tile, and how many, where those of the first are few: on machines that load nothing while
        they multiply, few rows have many loads for each multiply-add. Padding would differ between such rows."""
        if self.few is not None:
            return self.few.beside
        in_lanes = set().union(*(variables(x) for x in self.stage.reads if self.vector_axis.name in variables(x)))
        others = [a for a in self._row_axes() if a is not self.row_axis and a.name not in in_lanes]
        special = self.across or self.streams or self.window or self.sliding is not None or self.group is not None
        if special or self.row_axis is None:
            return {}
        if not self.target.in_order:
            return self._more_sums(self.row_axis)
        if not others or self._padded():
            return {}
        all_rows, vectors, axis = self.row_axis.extent, -(-self.vector_axis.extent // self.lanes), others[-1]
        least, found = axis.extent * self._tiles(all_rows, vectors)[0][0], (1, self.rows, self.vectors)
        for n in (n for n in range(2, axis.extent + 1) if axis.extent % n == 0):
            whole = [(c, tile) for c, tile in self._tiles(n * all_rows, vectors) if tile[0] == n * all_rows]
            if whole and (cycles := axis.extent // n * whole[0][0]) < least:
                least, found = cycles, (n, all_rows, whole[0][1][1])
        size, self.rows, self.vectors = found
        return {axis.name: size} if size > 1 else {}

    def _more_sums(self, rows: Axis) -> dict[str, int]:
        """Steps of a second axis on the tile, and how many, where it has too few sums otherwise."""
        tested = set().union(*(variables(x.cond) for x in walk(self.stage.body) if isinstance(x, Select)))
        tested |= {rows.name, self.vector_axis.name}
        axes = [a for a in self.stage.axes if a.extent > 1 and a.name not in tested]
        have = self.rows * self.vectors
        if have >= self._sums_in_flight() or not axes or self._transformed():
            return {}
        room = (self.target.vector_registers - 1) // (have + self.vectors)
        sizes = [n for n in range(2, axes[-1].extent + 1) if axes[-1].extent % n == 0 and n <= room]
        return {axes[-1].name: max(sizes)} if sizes else {}

    def _transformed(self) -> bool:
        """Whether values come from a transform, which is cut into slices along rows of its own."""
        sources = [self.workload.stage(x.tensor) for x in self.stage.reads if self.workload.is_stage(x.tensor)]
        return any(is_transform(self.workload, source) for source in sources)

    def _padded(self) -> bool:
        return any(isinstance(x, Select) for x in walk(self.stage.body))

    def _streamed_rows(self, axis: Axis) -> int:
        """So many rows of the image that what a tile reads and writes at once finds room in the first cache, where rows that lie a
        multiple of its reach apart share a set."""
        reach = self.target.l1_bytes // self.target.l1_ways
        stage, buffers = self.stage, self.workload.buffers
        touched = [(x.indices, buffers[x.tensor]) for x in stage.reads] + [(stage.axes, buffers[stage.name])]

        def ways(rows: int) -> float:
            found = 0.0
            for indices, buffer in touched:
                at = max((n for n, index in enumerate(indices) if axis.name in variables(index)), default=None)
                if at is not None:
                    apart = math.prod(buffer.shape[at + 1 :]) * dtype(buffer.dtype).bytes
                    found += _rows_read(indices[at], axis, rows, stage) * math.gcd(apart, reach) / reach
            return found

        return max((r for r in range(1, min(axis.extent, _STREAMED_ROWS) + 1) if ways(r) <= self.target.l1_ways), default=1)

    def _best(self, rows: int, vectors: int) -> tuple[int, int]:
        """The tile with the fewest cycles for all rows and vectors."""
        return self._tiles(rows, vectors)[0][1]

    def _tiles(self, rows: int, vectors: int) -> list[tuple[float, tuple[int, int]]]:
        in_lanes = not self.across and all(self.vector_axis.name in variables(x) for x in self.stage.reads)
        return register_tiles(rows, vectors, self.target, in_lanes, self.stage if self.group else None)

    def loops(self) -> tuple[list[NestLoop], list[NestLoop], dict[NestLoop, int]]:
        """(outer loops, register tile, sizes)"""
        stage = self.stage
        if self.window:
            sizes = {NestLoop(name, 1): size for name, size in self.window.items()} | {self.vector: self.lanes}
            return [NestLoop(a.name, 0) for a in stage.axes], [*(NestLoop(a.name, 0) for a in stage.reduce_axes), *sizes], sizes
        sizes = {}
        tile: list[NestLoop] = []
        reduce = [NestLoop(a.name, 0) for a in stage.reduce_axes]
        if self.group is not None:  # the last of them
            first = NestLoop(self.group.axis, 0)
            reduce = [*(n for n in reduce if n != first), first, self.group]
            sizes[self.group] = group_steps(stage, self.group_size)
        blocks, names = self._row_blocks(), [a.name for a in stage.axes]
        for name, size in self.beside.items():
            tile.append(NestLoop(name, 1))
            sizes[tile[-1]] = size
        if self.row_axis is not None:
            last = 1 if blocks == 1 else 2
            tile.append(NestLoop(self.row_axis.name, last))
            sizes[tile[-1]] = self.rows
            if blocks > 1:
                sizes[NestLoop(self.row_axis.name, 1)] = blocks
        if self.across:
            sizes[self.vector] = self._width()
            if stage.axes and stage.axes[-1] is not self.row_axis:
                tile.append(NestLoop(stage.axes[-1].name, 1))
                sizes[tile[-1]] = self.vectors
        tile.sort(key=lambda n: names.index(n.axis))
        if self.across:
            inner = [*tile, *reduce, self.vector]
        else:
            sizes[self.vector] = self.vectors * self.lanes
            inner = [*reduce, *tile, self.vector]
        outer = self._outer_order()
        if blocks > 1 and self.row_axis is not None:
            # a block of rows stays in the second cache while all panels of the other operand pass by
            row = NestLoop(self.row_axis.name, 0)
            lane = NestLoop(self.vector_axis.name, 0)
            outer = [n for n in outer if n not in (row, lane)] + [row, lane, NestLoop(self.row_axis.name, 1)]
        return outer, inner, sizes

    def laid_out(self) -> frozenset[NestLoop]:
        """The taps of a window; else the loops that padding along the rows depends on, where they are short: laid out, taps on
        padding are left out."""
        if self.window:
            return frozenset(NestLoop(a.name, 0) for a in self.stage.reduce_axes)
        if self.sliding is not None and self.row_axis is not None:
            tiles = {NestLoop(self.row_axis.name, 0)} if self.row_tiles() <= _LAID_OUT_TILES and self._padded() else set()
            return frozenset({NestLoop(self.sliding[1], 0), *tiles})
        if self.row_axis is None or self.across or self.streams or self.row_tiles() > _LAID_OUT_TILES or self._row_blocks() > 1:
            return frozenset()
        for condition in (x.cond for x in walk(self.stage.body) if isinstance(x, Select)):
            for fact in conjuncts(condition):
                kernel = [a.name for a in self.stage.reduce_axes if a.name in fact.terms and 1 < a.extent <= _LAID_OUT_TAPS]
                if self.row_axis.name in fact.terms and kernel:
                    return frozenset({NestLoop(self.row_axis.name, 0), NestLoop(kernel[0], 0)})
        return frozenset()

    def _row_blocks(self) -> int:
        """Tiles in a block of rows that fits half of the second cache; 1 where blocks do not pay."""
        if self.across or self.row_axis is None:
            return 1
        reads = [x for x in self.stage.reads if self.row_axis.name in variables(x)]
        lane = [x for x in self.stage.reads if self.vector_axis.name in variables(x)]
        if any(self.workload.buffers[x.tensor].constant for x in lane) or len(reads) != 1:
            return 1
        if any(a.name not in variables(reads[0]) for a in self.stage.reduce_axes):
            return 1
        depth = math.prod(a.extent for a in self.stage.reduce_axes) * dtype(reads[0].dtype).bytes
        fit = max(1, self.target.l2_bytes // 2 // max(1, depth * self.rows))
        return 1 if fit >= self.row_tiles() else max(1, -(-self.row_tiles() // (-(-self.row_tiles() // fit))))

    def _outer_order(self) -> list[NestLoop]:
        """Spatial loops; whichever operand is larger is kept in place while the other streams by."""
        axes = list(self.stage.axes)
        lane_axis = self.vector_axis if not self.across else (axes[-1] if axes else None)
        order = [NestLoop(a.name, 0) for a in axes]
        if lane_axis is None or self.row_axis is None or self.row_axis is lane_axis:
            return order
        if self.streams or (not self.across and lane_axis.extent < self.lanes):  # along such an axis a loop runs once
            return order
        streamed, kept = 0, 0  # bytes of the operands that do not, and do, move with the lanes
        for x in self.stage.reads:
            size = self.workload.buffers[x.tensor].bytes
            if lane_axis.name in variables(x):
                kept += size
            else:
                streamed += size
        lane = NestLoop(lane_axis.name, 0)
        panels = -(-lane_axis.extent // max(1, self.vectors * (1 if self.across else self.lanes)))
        between = [a for a in axes if a is not lane_axis and a is not self.row_axis]
        repeats = math.prod(a.extent // self.beside.get(a.name, 1) for a in between) or 1
        rest = [n for n in order if n != lane]
        shared = [NestLoop(a.name, 0) for a in between if self._moves_both(a)]
        free = [n for n in rest if n not in shared]
        if streamed * panels <= kept * repeats:
            return [*shared, lane, *free]
        row = NestLoop(self.row_axis.name, 0)
        return [*shared, *(n for n in free if n != row), lane, row]

    def _moves_both(self, axis: Axis) -> bool:
        """Whether all operands move along an axis (a batch)."""
        return all(axis.name in variables(x) for x in self.stage.reads)

    def unroll(self) -> int:
        """Steps of the innermost reduction loop in a row; few where taps are laid out: there is much code already."""
        innermost = self.stage.reduce_axes[-1].extent if self.stage.reduce_axes else 1
        if self.group is not None:
            innermost = -(-self.stage.axis(self.group.axis).extent // group_steps(self.stage, self.group_size))
            if unpacks_pairs(self.target, self.stage):  # a step in pairs is long by itself, and of several LLVM spills sums
                return 1
        if self.window or self.sliding is not None:
            return 1
        if self.target.in_order:
            return in_order.copies([a.extent for a in self.stage.reduce_axes])
        return max(1, min(innermost, COPIES // 2 if self.laid_out() and innermost > COPIES else COPIES))

    def parallel(self, outer: list[NestLoop]) -> int:
        """How many outer loops to share among threads."""
        work = math.prod(a.extent for a in self.stage.all_axes)
        if work < 1 << 15:
            return 0
        steps, count = 1, 0
        tiles = {self.vector_axis.name: self.vectors * self.lanes} | self.window | self.beside
        if self.row_axis is not None:
            tiles[self.row_axis.name] = self.rows
        for loop in outer:
            even = -(-steps // self.target.cores) * self.target.cores <= (1 + _IDLE) * steps
            if steps >= STEPS_PER_THREAD * self.target.cores and (even or work < _LONG):
                break
            name = loop.axis
            if self.row_axis is not None and name == self.row_axis.name and self._row_blocks() > 1:
                steps *= -(-self.row_tiles() // self._row_blocks())
            else:
                steps *= -(-self.stage.axis(name).extent // tiles.get(name, 1))
            count += 1
        return count


def _rows_read(index: Expr, axis: Axis, rows: int, stage: Stage) -> int:
    """How many steps of a dimension are read at once for so many rows of a tile."""
    terms = form.terms if (form := affine(index)) is not None else {axis.name: 1}
    inside = sum(abs(terms[a.name]) * (a.extent - 1) for a in stage.reduce_axes if a.name in terms)
    return 1 + abs(terms[axis.name]) * (rows - 1) + inside


def register_tiles(
    rows: int, vectors: int, target: CpuTarget, in_lanes: bool = False, grouped: Stage | None = None
) -> list[tuple[float, tuple[int, int]]]:
    """Tiles that fit the registers, best first: (cycles for everything, leftovers included; (rows, vectors) of the tile).

    `in_lanes`: every point has vectors of its own as factors (a depthwise convolution), not one number for a row of them.
    `grouped`: a sum of products of bytes that is made in groups; its factors may take more registers.
    """
    found = []
    windows = in_lanes and not target.folds_loads
    ahead = target.in_order and not in_lanes and grouped is None  # factors that each point has for itself are not loaded ahead
    cycles_of = in_order.cycles if ahead else _cycles_of_windows if windows else _cycles
    for r in range(1, min(rows, target.vector_registers) + 1):
        for v in range(1, min(vectors, 6) + 1):
            if in_order.fits(r, v, target) if ahead else _fits(r, v, target, windows, grouped):
                cycles = 0.0
                for row, times_row in _leftovers(rows, r):
                    for vec, times_vec in _leftovers(vectors, v):
                        in_pairs = pair_cycles(target, grouped, row, vec) if grouped is not None else None
                        cycles += times_row * times_vec * (cycles_of(row, vec, target) if in_pairs is None else in_pairs)
                found.append((cycles, (r, v)))
    return sorted(found, key=lambda tile: tile[0]) or [(0.0, (1, 1))]


def _fits(rows: int, vectors: int, target: CpuTarget, windows: bool, grouped: Stage | None) -> bool:
    """Whether the results of a tile, its vectors and what rows are multiplied by fit the registers.

    Newer x86 reads the latter from memory as it multiplies. Elsewhere a few of them are loaded early, and products may want a
    register before they are added; and where every point has its own, those of two taps of a window are there at once: the next but
    one reads most of the first again.
    """
    of_a_vector = 1
    if grouped is not None:
        of_a_vector, factors = operand_registers(target, grouped)
    else:
        factors = 1 if target.folds_loads else 2 * rows * vectors if windows else 3 if target.fuses else 5
    return rows * vectors + vectors * of_a_vector + factors <= target.vector_registers


def _leftovers(total: int, size: int) -> list[tuple[int, int]]:
    """(size, how often) of the tiles that cover a length."""
    found = [(size, total // size)] if total >= size else []
    return found + ([(total % size, 1)] if total % size else [])


def _cycles(rows: int, vectors: int, target: CpuTarget) -> float:
    """Cycles of one reduction step of a tile."""
    return _bound(rows * vectors, rows + vectors, target)


def _cycles_of_windows(rows: int, vectors: int, target: CpuTarget) -> float:
    """The same where every point has its own factors: a tap of a window reads half of them anew, and vectors of weights."""
    return _bound(rows * vectors, rows * vectors / 2 + vectors, target)


def _bound(multiply_adds: int, loads: float, target: CpuTarget) -> float:
    """FMAs, loads, of which as many start in a cycle, or waiting for the previous result; and what every step costs.

    The small terms (for loads that miss the first cache, and for the loop) were fitted to measured tiles.
    """
    rate = target.fmas_per_cycle
    return max(multiply_adds / rate, loads / rate, target.fma_latency) + 0.05 * loads + 0.3
