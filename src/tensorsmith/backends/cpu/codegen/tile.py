"""Register tiles: a block as straight-line vector code around its reduction loops.

Every point of the tile is one value, a vector along the vector loop; all of them live in registers while the reduction
loops run. A tile that does not fit what is left of an axis is written again for each size that can be left (they
are known beforehand: the remainder of a division), so that full tiles run without a guard.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tensorsmith.backends.cpu.codegen.arith import Arithmetic
from tensorsmith.backends.cpu.codegen.body import BodyEmitter
from tensorsmith.backends.cpu.codegen.interleave import group_of_copy, store_group, store_turned
from tensorsmith.backends.cpu.codegen.irtext import BOUNDARY, Function, Value, const, i64, type_text
from tensorsmith.backends.cpu.codegen.points import Lanes, LoopValue, LoopValues, Shifted
from tensorsmith.backends.cpu.codegen.reduction import Reduction
from tensorsmith.backends.cpu.codegen.remaining import MAX_SIZES, Remainders, Remaining
from tensorsmith.backends.cpu.codegen.shape import Key, Shape, chunks, pieces
from tensorsmith.backends.cpu.codegen.transpose import preload, squares, strided_loads
from tensorsmith.backends.cpu.target import CpuTarget
from tensorsmith.errors import Refusal
from tensorsmith.lang.affine import affine
from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.workload import Stage
from tensorsmith.program.grouping import lane_bytes
from tensorsmith.program.ir import Block, Loop, LoopVar, Node, Program, own_block
from tensorsmith.program.linear import Linear
from tensorsmith.program.positions import in_elements, stored_at
from tensorsmith.program.registers import stays_in_registers
from tensorsmith.program.unrolling import is_laid_out
from tensorsmith.space.analysis import is_expensive
from tensorsmith.space.sketch.rewrite import identity

MAX_POINTS = 512  # values of one tile


class TileEmitter:
    """Writes the blocks of one function."""

    def __init__(
        self,
        function: Function,
        arithmetic: Arithmetic,
        body: BodyEmitter,
        program: Program,
        loops: Mapping[str, LoopVar],
        target: CpuTarget,
        node: Callable[[Node, dict[str, LoopValue], Mapping[str, int] | None], None],
        counted: Callable[[Stage, str], Remaining | None],
    ) -> None:
        self.f = function
        self.arith = arithmetic
        self.body = body
        self.program = program
        self.loops = loops
        self.target = target
        self.node = node  # writes what is attached
        self.counted = counted  # what is left of a reduction axis whose extent is read at run time
        self._positions: dict[int, Linear] = {}  # of a block's elements, by the block's `id`
        self.fetched: set[object] = set()  # places of streamed operands behind which memory was fetched ahead
        self.together: tuple[str, list[LoopValue]] | None = None  # a loop variable, and its values at the steps written together

    def steps(self, block: Block, env: dict[str, LoopValue], left: Remainders, var: LoopVar, start: Value, count: int) -> None:
        """A block at `count` successive steps of the loop around it, computed together, from `start` on."""
        self.together = (var.name, [Shifted(start, n) for n in range(count)])
        self.block(block, {**env, var.name: start}, left)
        self.together = None

    # -- variants --------------------------------------------------------------------------------------------------

    def block(self, block: Block, env: dict[str, LoopValue], left: Remainders, around: Sequence[Loop] = ()) -> None:
        """A block, in a variant for every size its tile can have here; all of its reduction loops may be `around` it."""
        self._variant(block, env, left, list(block.tile), {}, around)

    def _variant(
        self,
        block: Block,
        env: dict[str, LoopValue],
        left: Remainders,
        todo: list[LoopVar],
        sizes: dict[str, int],
        around: Sequence[Loop],
    ) -> None:
        if not todo:
            if around:
                self._sums(block, env, left, sizes, around)
            else:
                self._tile(block, env, left, sizes)
            return
        var, rest = todo[0], todo[1:]
        count = int(var.count)
        remaining = left[var.axis]
        if isinstance(remaining.now, int):
            self._variant(block, env, left, rest, {**sizes, var.name: min(remaining.now, count)}, around)
            return
        now = remaining.now
        if remaining.possible is not None and len(remaining.possible) <= MAX_SIZES:
            self._switch(now, remaining.possible, lambda n: self._variant(block, env, left, rest, {**sizes, var.name: n}, around))
            return

        def one_by_one() -> list[Value]:
            def step(position: Value, _: list[Value]) -> list[Value]:
                self._variant(block, {**env, var.name: position}, left, rest, {**sizes, var.name: -1}, around)
                return []

            return self.f.loop(i64(0), now, 1, [], step)

        def full() -> list[Value]:
            self._variant(block, env, left, rest, {**sizes, var.name: count}, around)
            return []

        self.f.choose(self.f.op(f"icmp sge i64 {now.text}, {count}", "bool"), full, one_by_one)

    def _switch(self, now: Value, possible: tuple[int, ...], body: Callable[[int], None]) -> None:
        first, others = possible[0], possible[1:]
        if not others:
            body(first)
            return

        def yes() -> list[Value]:
            body(first)
            return []

        def no() -> list[Value]:
            self._switch(now, others, body)
            return []

        self.f.choose(self.f.op(f"icmp eq i64 {now.text}, {first}", "bool"), yes, no)

    # -- one variant -----------------------------------------------------------------------------------------------

    def _tile(self, block: Block, env: dict[str, LoopValue], left: Remainders, sizes: dict[str, int]) -> None:
        """A tile of known sizes, stored to memory."""
        if 0 in sizes.values():
            return  # an empty axis
        held = self._before(block, env, sizes)
        self.body.forget()
        steps = [{**env, self.together[0]: bound} for bound in self.together[1]] if self.together else [env]
        if self.together and group_of_copy(self, block) is not None:
            self._map_groups(block, steps, sizes)
            return
        if strided_loads(self.body, block) and group_of_copy(self, block) is None:
            self._map_turned(block, steps, sizes)
        elif block.stage.reduction is None and not self.together:
            self._map(block, env, sizes, apart=bool(held) and is_expensive(block.stage.body))
        else:
            computed = [(step, *self.compute(block, step, left, sizes)) for step in steps]
            for step, results, shape in computed:
                for key, value in results.items():
                    point, lanes = self.point(block, shape, step, key)
                    self._store(block, value, point, lanes)
        for name in held:
            del self.body.registers[name]
        self.body.forget()

    def _sums(
        self, block: Block, env: dict[str, LoopValue], left: Remainders, sizes: dict[str, int], around: Sequence[Loop]
    ) -> None:
        """A tile of known sizes inside all of its reduction loops: its sums stay in registers while these run, and are stored once.

        What is attached to the tile is computed in each of their steps: an integer sum of products of one block of weights, say,
        that is then scaled and added.
        """
        if 0 in sizes.values():
            return  # an empty axis
        shape = self._shape(block, sizes)
        keys = _keys(block, shape)
        self.body.forget()

        def level(depth: int, env: dict[str, LoopValue], left: Remainders, state: list[Value]) -> list[Value]:
            if depth == len(around):
                held = self._before(block, env, sizes)
                self.body.forget()
                state = Reduction(self, block, shape, keys).onto(state, env, left)
                for name in held:
                    del self.body.registers[name]
                return state
            var, stride = around[depth].var, int(around[depth].var.stride)

            def once(bound: LoopValue, now: list[Value]) -> list[Value]:
                inside = left[var.axis].inside(self.f, self.body.at(bound), stride)
                return level(depth + 1, {**env, var.name: bound}, {**left, var.axis: inside}, now)

            trips = left[var.axis].trips(self.f, stride)
            if isinstance(trips, int) and (trips == 1 or is_laid_out(around[depth].unrolled, trips)):
                for n in range(trips):
                    if n:  # LLVM would gather the loads of all steps in front, and spill what it has made of them
                        self.f.barrier()
                        self.arith.declarations.add(BOUNDARY)
                        self.f.boundary()
                        self.body.forget_loads()
                    state = once(n, state)
                return state
            end = i64(trips) if isinstance(trips, int) else trips
            return self.f.loop(i64(0), end, 1, state, once, runs=isinstance(trips, int) and trips > 0)

        widths = [lanes.width if lanes and lanes.width > 1 else 0 for lanes in (shape.chunks[chunk] for _, chunk in keys)]
        start = identity(str(block.stage.reduction), block.stage.dtype)
        results = level(0, env, left, [const(start.value, start.dtype, width) for width in widths])
        self.body.forget()
        for key, value in zip(keys, results):
            self._store(block, value, *self.point(block, shape, env, key))
        self.body.forget()

    def _map(self, block: Block, env: dict[str, LoopValue], sizes: Mapping[str, int], apart: bool) -> None:
        """A tile without a reduction, each point stored when it is computed.

        LLVM would still put the last operations of all points, and the stores, behind everything else. Where a point takes many
        registers by itself, and operands hold the others, most of what is computed would be spilled and reloaded: such points are
        kept `apart`.
        """
        shape = self._shape(block, sizes)
        group, done = group_of_copy(self, block), set()
        points_of = {key: self.point(block, shape, env, key) for key in _keys(block, shape)}
        preload(self.body, block, list(points_of.values()))
        for key, (point, lanes) in points_of.items():
            if group is not None and lanes is not None and sizes[group.name] > 0:
                place = [v.name for v in _unrolled(block)].index(group.name)
                others = (key[0][:place], key[0][place + 1 :], key[1])
                if others not in done:
                    done.add(others)
                    points = [{**point, group.name: n} for n in range(sizes[group.name])]
                    store_group(self, block, group, points, lanes)
                continue
            self._store(block, self._at(block, point, lanes), point, lanes)
            if apart:
                self.f.barrier()

    def _map_turned(self, block: Block, steps: list[dict[str, LoopValue]], sizes: Mapping[str, int]) -> None:
        """A tile that reads strided vectors, square by square: what a square holds is stored before the next one is loaded."""
        shape = self._shape(block, sizes)
        points = [self.point(block, shape, step, key) for step in steps for key in _keys(block, shape)]
        for numbers in squares(self.body, block, points):
            preload(self.body, block, [points[n] for n in numbers])
            for n in numbers:
                point, lanes = points[n]
                self._store(block, self._at(block, point, lanes), point, lanes)
            self.f.barrier()

    def _map_groups(self, block: Block, steps: list[dict[str, LoopValue]], sizes: Mapping[str, int]) -> None:
        """A copy in groups at several steps of the loop around it: in squares, or one step after the other."""
        shape, group = self._shape(block, sizes), group_of_copy(self, block)
        assert group is not None
        place = [v.name for v in _unrolled(block)].index(group.name)
        for key in (k for k in _keys(block, shape) if k[0][place] == 0):
            found = [self.point(block, shape, step, key) for step in steps]
            points, lanes = [point for point, _ in found], found[0][1]
            if lanes is not None and store_turned(self, block, group, points, lanes):
                continue
            for point in points:
                of_group = [{**point, group.name: n} for n in range(sizes[group.name])]
                if lanes is not None:
                    store_group(self, block, group, of_group, lanes)
                else:
                    for one in of_group:
                        self._store(block, self._at(block, one, None), one, None)

    def _before(self, block: Block, env: dict[str, LoopValue], sizes: dict[str, int]) -> list[str]:
        """Computes what is attached to the tile: into registers where it can stay there."""
        held: list[str] = []
        for node in block.before:
            inner = own_block(node).stage
            regions = self._regions(block, inner, sizes)
            if isinstance(node, Block) and regions is not None and stays_in_registers(self.program.workload, node, block):
                self.body.registers[inner.name] = self._hold(node, env, regions)
                held.append(inner.name)
            else:
                self.node(node, dict(env), regions)
        return held

    def _hold(self, node: Block, env: dict[str, LoopValue], regions: Mapping[str, int]) -> dict[tuple[int, ...], Value]:
        nested = self._before(node, env, {v.name: regions[v.axis] for v in node.tile})
        left = {a.name: Remaining(regions.get(a.name, a.extent)) for a in node.stage.all_axes}
        left |= {a.name: found for a in node.stage.reduce_axes if (found := self.counted(node.stage, a.name)) is not None}
        sizes = {v.name: regions[v.axis] for v in node.tile}
        results, shape = self.compute(node, env, left, sizes)
        held: dict[tuple[int, ...], Value] = {}
        for (numbers, chunk), value in results.items():
            values = {v.name: n for v, n in zip(_unrolled(node), numbers)}
            lanes = shape.chunks[chunk]
            if lanes is not None:
                values[lanes.var] = lanes.start
            axis_values = {v.axis: values[v.name] for v in node.tile}
            held[tuple(axis_values.get(a.name, 0) for a in node.stage.axes)] = value
        for name in nested:
            del self.body.registers[name]
        return held

    def _regions(self, block: Block, inner: Stage, sizes: Mapping[str, int]) -> dict[str, int] | None:
        """Lengths of the region of an attached stage that this variant reads, where they are certain."""
        if any(n < 0 for n in sizes.values()):
            return None
        lengths: dict[str, int] = {}
        by_axis = {v.axis: sizes[v.name] for v in block.tile}
        outside = {v.axis for v in block.outer_reduce}
        readers = [x for x in block.stage.reads if x.tensor == inner.name]
        if self.program.workload.consumers[inner.name] != (block.stage.name,) or len(readers) != 1:
            return None
        bounds = block.stage.bounds()
        for axis, index in zip(inner.axes, readers[0].indices):
            form = affine(index)
            if form is None:
                return None
            low, high = bounds.affine_range(form)
            if low < 0 or high >= axis.extent:
                return None
            length = 1
            for name, coefficient in form.terms.items():
                if name in outside and not block.reduce:
                    continue  # all of its loops are outer ones: it stands still here
                if coefficient < 0 or name in outside:
                    # a smaller tile needs the region's end, not its start; what an outer loop leaves is not known here
                    return None
                if name in {a.name for a in block.stage.reduce_axes}:
                    length += coefficient * (block.stage.axis(name).extent - 1)
                else:
                    length += coefficient * (by_axis.get(name, 1) - 1)
            lengths[axis.name] = length
        return lengths

    def compute(
        self, block: Block, env: dict[str, LoopValue], left: Remainders, sizes: Mapping[str, int]
    ) -> tuple[dict[Key, Value], Shape]:
        """The values of a tile, by point."""
        shape = self._shape(block, sizes)
        keys = _keys(block, shape)
        if block.stage.reduction is None:
            return {key: self._at(block, *self.point(block, shape, env, key)) for key in keys}, shape
        reduction = Reduction(self, block, shape, keys)
        results = reduction.run(env, left)
        return results, replace(shape, chunks=(None,)) if reduction.across else shape

    def _at(self, block: Block, point: LoopValues, lanes: Lanes | None) -> Value:
        """The body at a point, in as many lanes as it has."""
        value = self.body.value(block.stage.body, block, point, lanes)
        return self.arith.splat(value, lanes.width) if lanes and not value.lanes and lanes.width > 1 else value

    def _shape(self, block: Block, sizes: Mapping[str, int]) -> Shape:
        shape = Shape(sizes, self._chunks(block, sizes))
        if _count_points(block, sizes) * len(shape.chunks) > MAX_POINTS:
            raise Refusal("tile too large", f"{block.stage.name}: {_count_points(block, sizes)} points")
        return shape

    def _chunks(self, block: Block, sizes: Mapping[str, int]) -> tuple[Lanes | None, ...]:
        """The vector loop cut into vectors: full ones, then one for what is left."""
        if block.vector is None or sizes.get(block.vector) == -1:
            return (None,)
        var = block.loop(block.vector)
        count = sizes[var.name] if not var.reduce else max(1, int(var.count))
        return chunks(var.name, count, self.target.lanes(lane_bytes(self.program.workload, block.stage)))

    def point(self, block: Block, shape: Shape, env: LoopValues, key: Key) -> tuple[dict[str, LoopValue], Lanes | None]:
        numbers, chunk = key
        point = dict(env)
        for var, n in zip(_unrolled(block), numbers):
            if shape.sizes[var.name] >= 0:  # else the loop's value is in `env` already
                point[var.name] = n
        lanes = shape.chunks[chunk]
        if lanes is not None and lanes.width == 1:
            point[lanes.var] = lanes.start
            lanes = None
        return point, lanes

    def _store(self, block: Block, value: Value, point: LoopValues, lanes: Lanes | None) -> None:
        stage = block.stage
        form = self.position(block)
        if stage.dtype == "bool":
            value = self.f.op(f"zext {value} to {type_text('u8', value.lanes)}", "u8", value.lanes)
        running, constant, step = self.body.linear(form, point, lanes)
        align = dtype(stage.dtype).bytes
        if lanes is None or not step:
            self.f.line(f"store {value}, {self.body.pointer(stage.name, running, constant)}, align {align}")
            return
        if step == 1:
            parts = pieces(lanes.active)
        else:
            parts = [(n, 1) for n in range(lanes.active)]
        for start, width in parts:
            part = self.arith.piece(value, start, width)
            self.f.line(f"store {part}, {self.body.pointer(stage.name, running, constant + start * step)}, align {align}")

    def position(self, block: Block) -> Linear:
        """Where a block's elements go, in elements from the start of its buffer."""
        found = self._positions.get(id(block))
        if found is None:
            name = block.stage.name
            forms = stored_at(block, self.program.buffers[name])
            found = self._positions[id(block)] = in_elements(forms, self.body.storage[name].strides)
        return found


def _unrolled(block: Block) -> list[LoopVar]:
    """The tile's loops that are laid out one by one."""
    return [v for v in block.tile if v.name != block.vector]


def _keys(block: Block, shape: Shape) -> list[Key]:
    """The points of a tile."""
    numbers = itertools.product(*(range(max(1, shape.sizes[v.name])) for v in _unrolled(block)))
    return [(n, chunk) for n in numbers for chunk in range(len(shape.chunks))]


def _count_points(block: Block, sizes: Mapping[str, int]) -> int:
    total = 1
    for v in _unrolled(block):
        total *= max(1, sizes[v.name])
    return total
