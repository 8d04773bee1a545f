"""Register tiles: a block as straight-line vector code around its reduction loops.

Every point of the tile is one value, a vector along the vector loop; all of them live in registers while the reduction
loops run. A tile that does not fit what is left of an axis is written again for each size that can be left (they
are known beforehand: the remainder of a division), so that full tiles run without a guard.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tensorsmith.codegen.arith import Arithmetic
from tensorsmith.codegen.body import (
    BodyEmitter,
    Bound,
    Lanes,
    affine_facts,
    axis_form,
    form_key,
)
from tensorsmith.codegen.irtext import Function, Value, const, i64, storage_type, type_text
from tensorsmith.errors import Refusal
from tensorsmith.lang.affine import Affine, affine
from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.expr import Binary, Const, Expr, Select
from tensorsmith.lang.workload import Stage
from tensorsmith.program.ir import Block, LoopVar, Node, Program
from tensorsmith.program.linear import Linear
from tensorsmith.space.rewrite import identity
from tensorsmith.target import Target

MAX_POINTS = 512  # values of one tile
MAX_LAID_OUT = 16  # steps of a loop that are written one by one; a longer loop stays one
_TILES_WITH_AN_INSIDE = 6  # in a row, from which on most tiles are not on its border, and get code without tests
MAX_SIZES = 3  # how many sizes of a partial tile get code of their own


@dataclass(frozen=True)
class Remaining:
    """How much of an axis is left for the loops inside: a number, or a value of which all possible numbers may be known."""

    now: Value | int
    possible: tuple[int, ...] | None = None

    def trips(self, f: Function, stride: int) -> Value | int:
        """Steps of a loop of that stride, the last one perhaps partial."""
        if isinstance(self.now, int):
            return -(-self.now // stride)
        if stride == 1:
            return self.now
        rounded = f.op(f"add nsw i64 {self.now.text}, {stride - 1}", "i64")
        return f.op(f"sdiv i64 {rounded.text}, {stride}", "i64")

    def inside(self, f: Function, var: Bound, stride: int) -> Remaining:
        """What is left inside one step of a loop."""
        if isinstance(self.now, int):
            if self.now % stride == 0:
                return Remaining(stride)
            if isinstance(var, int):
                return Remaining(min(self.now - var * stride, stride))
        possible = None
        if isinstance(self.now, int):
            possible = _inside({self.now}, stride)
        elif self.possible is not None:
            possible = _inside(set(self.possible), stride)
        if possible is not None and len(possible) == 1:
            return Remaining(possible[0])
        start = i64(var * stride) if isinstance(var, int) else f.op(f"mul nsw i64 {var.text}, {stride}", "i64")
        now = i64(self.now) if isinstance(self.now, int) else self.now
        left = f.op(f"sub nsw i64 {now.text}, {start.text}", "i64")
        short = f.op(f"icmp slt i64 {left.text}, {stride}", "bool")
        return Remaining(f.op(f"select {short}, {left}, i64 {stride}", "i64"), possible)


def _inside(values: set[int], stride: int) -> tuple[int, ...]:
    full = {stride} if any(v >= stride for v in values) else set()
    return tuple(sorted(full | {v % stride for v in values if v % stride}, reverse=True))


Remainders = Mapping[str, Remaining]  # by axis, of the nest being emitted
Key = tuple[tuple[int, ...], int]  # (values of the unrolled loops, number of the chunk of lanes)


@dataclass(frozen=True)
class Shape:
    """One variant of a tile: how many steps each of its loops takes."""

    sizes: Mapping[str, int]  # by loop variable
    chunks: tuple[Lanes | None, ...]  # of the vector loop; (None,) without one


class TileEmitter:
    """Writes the blocks of one function."""

    def __init__(
        self,
        function: Function,
        arithmetic: Arithmetic,
        body: BodyEmitter,
        program: Program,
        target: Target,
        node: Callable[[Node, dict[str, Bound], Mapping[str, int] | None], None],
    ) -> None:
        self.f = function
        self.arith = arithmetic
        self.body = body
        self.program = program
        self.target = target
        self.node = node  # writes what is attached

    # -- variants --------------------------------------------------------------------------------------------------

    def block(self, block: Block, env: dict[str, Bound], left: Remainders) -> None:
        """A block, in a variant for every size its tile can have here."""
        self._variant(block, env, left, list(block.tile), {})

    def _variant(self, block: Block, env: dict[str, Bound], left: Remainders, todo: list[LoopVar], sizes: dict[str, int]) -> None:
        if not todo:
            self._tile(block, env, left, sizes)
            return
        var, rest = todo[0], todo[1:]
        count = int(var.count)
        remaining = left[var.axis]
        if isinstance(remaining.now, int):
            self._variant(block, env, left, rest, {**sizes, var.name: min(remaining.now, count)})
            return
        now = remaining.now
        if remaining.possible is not None and len(remaining.possible) <= MAX_SIZES:
            self._switch(now, remaining.possible, lambda n: self._variant(block, env, left, rest, {**sizes, var.name: n}))
            return

        def one_by_one() -> list[Value]:
            def step(position: Value, _: list[Value]) -> list[Value]:
                self._variant(block, {**env, var.name: position}, left, rest, {**sizes, var.name: -1})
                return []

            return self.f.loop(i64(0), now, 1, [], step)

        def full() -> list[Value]:
            self._variant(block, env, left, rest, {**sizes, var.name: count})
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

    def _tile(self, block: Block, env: dict[str, Bound], left: Remainders, sizes: dict[str, int]) -> None:
        """A tile of known sizes, stored to memory."""
        if 0 in sizes.values():
            return  # an empty axis
        held = self._before(block, env, sizes)
        self.body.forget()
        results, shape = self.compute(block, env, left, sizes)
        for key, value in results.items():
            point, lanes = self._point(block, shape, env, key)
            self._store(block, value, point, lanes)
        for name in held:
            del self.body.registers[name]
        self.body.forget()

    def _before(self, block: Block, env: dict[str, Bound], sizes: dict[str, int]) -> list[str]:
        """Computes what is attached to the tile: into registers where it can stay there."""
        held: list[str] = []
        for node in block.before:
            inner = _stage_of(node)
            regions = self._regions(block, inner, sizes)
            if isinstance(node, Block) and regions is not None and self._fits_registers(block, node, sizes, regions):
                self.body.registers[inner.name] = self._hold(node, env, regions)
                held.append(inner.name)
            else:
                self.node(node, dict(env), regions)
        return held

    def _hold(self, node: Block, env: dict[str, Bound], regions: Mapping[str, int]) -> dict[tuple[int, ...], Value]:
        nested = self._before(node, env, {v.name: regions[v.axis] for v in node.tile})
        left = {a.name: Remaining(regions.get(a.name, a.extent)) for a in node.stage.all_axes}
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
                if coefficient < 0 or name in outside:
                    # a smaller tile needs the region's end, not its start; what an outer loop leaves is not known here
                    return None
                if name in {a.name for a in block.stage.reduce_axes}:
                    length += coefficient * (block.stage.axis(name).extent - 1)
                else:
                    length += coefficient * (by_axis.get(name, 1) - 1)
            lengths[axis.name] = length
        return lengths

    def _fits_registers(self, block: Block, node: Block, sizes: Mapping[str, int], regions: Mapping[str, int]) -> bool:
        """Whether a block attached to a tile yields just the values, in just the lanes, that the tile reads."""
        if node.outer_reduce or block.stage.reduction or (node.vector is None) != (block.vector is None):
            return False
        if node.vector is not None and node.loop(node.vector).reduce:
            return False
        if 0 in regions.values():
            return False
        covered = {v.axis for v in node.tile}
        if any(n > 1 and axis not in covered for axis, n in regions.items()):
            return False
        (read,) = (x for x in block.stage.reads if x.tensor == node.stage.name)
        for axis, index in zip(node.stage.axes, read.indices):
            form = affine(index)
            assert form is not None
            if self.vector_axis(node) == axis.name and dict(form.terms) != {self.vector_axis(block): 1}:
                return False
            if self.vector_axis(node) != axis.name and self.vector_axis(block) in form.terms:
                return False
            if any(c < 0 for c in form.terms.values()):
                return False
        if node.stage.dtype != block.stage.dtype and node.vector is not None:
            return False  # another type has other lanes
        return _count_points(block, sizes) <= MAX_POINTS

    def vector_axis(self, block: Block) -> str | None:
        return block.loop(block.vector).axis if block.vector else None

    def compute(
        self, block: Block, env: dict[str, Bound], left: Remainders, sizes: Mapping[str, int]
    ) -> tuple[dict[Key, Value], Shape]:
        """The values of a tile, by point."""
        shape = Shape(sizes, self._chunks(block, sizes, left))
        if _count_points(block, sizes) * len(shape.chunks) > MAX_POINTS:
            raise Refusal("tile too large", f"{block.stage.name}: {_count_points(block, sizes)} points")
        keys = [
            (numbers, chunk)
            for numbers in itertools.product(*(range(max(1, sizes[v.name])) for v in _unrolled(block)))
            for chunk in range(len(shape.chunks))
        ]
        if block.stage.reduction is None:
            results = {}
            for key in keys:
                point, lanes = self._point(block, shape, env, key)
                value = self.body.value(block.stage.body, block, point, lanes)
                results[key] = self.arith.splat(value, lanes.width) if lanes and not value.lanes and lanes.width > 1 else value
            return results, shape
        reduction = _Reduction(self, block, shape, keys)
        results = reduction.run(env, left)
        return results, replace(shape, chunks=(None,)) if reduction.across else shape

    def _chunks(self, block: Block, sizes: Mapping[str, int], left: Remainders) -> tuple[Lanes | None, ...]:
        """The vector loop cut into vectors: full ones, then one for what is left."""
        if block.vector is None or sizes.get(block.vector) == -1:
            return (None,)
        var = block.loop(block.vector)
        count = sizes[var.name] if not var.reduce else max(1, int(var.count))
        return chunks(var.name, count, self.target.lanes(dtype(block.stage.dtype).bytes))

    def _point(self, block: Block, shape: Shape, env: Mapping[str, Bound], key: Key) -> tuple[dict[str, Bound], Lanes | None]:
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

    def _store(self, block: Block, value: Value, point: Mapping[str, Bound], lanes: Lanes | None) -> None:
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
            pieces = _pieces(lanes.active)
        else:
            pieces = [(n, 1) for n in range(lanes.active)]
        for start, width in pieces:
            part = self.arith.piece(value, start, width)
            self.f.line(f"store {part}, {self.body.pointer(stage.name, running, constant + start * step)}, align {align}")

    def position(self, block: Block) -> Linear:
        """Where a block's elements go, in elements from the start of its buffer."""
        buffer = self.program.buffers[block.stage.name]
        strides = self.body.storage[block.stage.name].strides
        form = Linear()
        if buffer.packed is not None:
            for name, stride in zip(buffer.packed.writers, strides):
                form = form + Linear({name: stride})
            return form
        for axis, stride, start in zip(block.stage.axes, strides, buffer.origin):
            form = form + (block.axes[axis.name].value - start).scaled(stride)
        return form


def chunks(var: str, count: int, lanes: int) -> tuple[Lanes, ...]:
    """`count` steps of a loop in vectors of `lanes`; the last may be narrower, or have idle lanes."""
    found = [Lanes(var, start, lanes, lanes) for start in range(0, count - lanes + 1, lanes)]
    rest = count % lanes
    if rest:
        width = 1 << (rest - 1).bit_length()
        found.append(Lanes(var, count - rest, width, rest))
    return tuple(found)


def _pieces(active: int) -> list[tuple[int, int]]:
    """(start, width) of power-of-two stores that cover the active lanes."""
    pieces, start = [], 0
    while start < active:
        width = 1 << ((active - start).bit_length() - 1)
        pieces.append((start, width))
        start += width
    return pieces


def _unrolled(block: Block) -> list[LoopVar]:
    """The tile's loops that are laid out one by one."""
    return [v for v in block.tile if v.name != block.vector]


def _count_points(block: Block, sizes: Mapping[str, int]) -> int:
    total = 1
    for v in _unrolled(block):
        total *= max(1, sizes[v.name])
    return total


def _stage_of(node: Node) -> Stage:
    while not isinstance(node, Block):
        node = node.body[-1]
    return node.stage


_OPERATIONS = {"sum": "add", "prod": "mul", "max": "max", "min": "min"}


class _Reduction:
    """The reduction loops of one variant of a tile, its values in registers all the while."""

    def __init__(self, tile: TileEmitter, block: Block, shape: Shape, keys: list[Key]) -> None:
        self.tile, self.block, self.shape = tile, block, shape
        self.f, self.arith, self.body = tile.f, tile.arith, tile.body
        self.op = block.stage.reduction or ""
        self.start = identity(self.op, block.stage.dtype)
        self.across = block.vector is not None and block.loop(block.vector).reduce  # lanes run along the reduction
        if self.across and block.reduce[-1].name != block.vector:
            raise Refusal("vector loop not innermost", f"{block.stage.name}: the vector reduction loop must come last")
        self.keys = keys
        self.facts = [axis_form(fact, block) for fact in skippable(block.stage)]
        self.copies = self._copies()

    def run(self, env: dict[str, Bound], left: Remainders) -> dict[Key, Value]:
        state = []
        for _, chunk in self.keys:
            lanes = self.shape.chunks[chunk]
            state.append(const(self.start.value, self.start.dtype, lanes.width if lanes and lanes.width > 1 else 0))
        state = self._inside_first(env, left, state)
        self.body.forget()
        results = dict(zip(self.keys, state))
        return self._with_stored(self._across(results) if self.across else results, env)

    def _with_stored(self, results: dict[Key, Value], env: dict[str, Bound]) -> dict[Key, Value]:
        """Adds what earlier steps of outer reduction loops have stored.

        It is read after the loops, not before, so that nobody waits for it: the next tile can start meanwhile.
        """
        bounds = [env[v.name] for v in self.block.outer_reduce]
        if all(isinstance(b, int) and b == 0 for b in bounds):
            return results

        def added() -> list[Value]:
            new = []
            for key, value in results.items():
                point, lanes = self.tile._point(self.block, self.shape, env, key)
                old = self._read_back(point, None if self.across else lanes)
                new.append(self.arith.binary(_OPERATIONS[self.op], old, value))
            return new

        if any(isinstance(b, int) and b > 0 for b in bounds):
            return dict(zip(results, added()))
        first: Value | None = None
        for bound in bounds:
            if isinstance(bound, Value):
                is_zero = self.f.op(f"icmp eq i64 {bound.text}, 0", "bool")
                first = is_zero if first is None else self.f.op(f"and {first}, {is_zero.text}", "bool")
        assert first is not None
        chosen = self.f.choose(first, lambda: list(results.values()), added)
        return dict(zip(results, chosen))

    def _read_back(self, point: Mapping[str, Bound], lanes: Lanes | None) -> Value:
        stage = self.block.stage
        form = self.tile.position(self.block)
        running, constant, step = self.body.linear(form, point, lanes)
        align = dtype(stage.dtype).bytes
        if lanes is None or not step:
            pointer = self.body.pointer(stage.name, running, constant)
            return self.f.op(f"load {storage_type(stage.dtype)}, {pointer}, align {align}", stage.dtype)
        if step == 1 and lanes.active == lanes.width:
            pointer = self.body.pointer(stage.name, running, constant)
            return self.f.op(f"load {storage_type(stage.dtype, lanes.width)}, {pointer}, align {align}", stage.dtype, lanes.width)
        result = Value("poison", stage.dtype, lanes.width)
        for n in range(lanes.active):
            pointer = self.body.pointer(stage.name, running, constant + n * step)
            item = self.f.op(f"load {storage_type(stage.dtype)}, {pointer}, align {align}", stage.dtype)
            result = self.f.op(f"insertelement {result}, {item}, i32 {n}", stage.dtype, lanes.width)
        return result

    # -- loops -----------------------------------------------------------------------------------------------------

    def _copies(self) -> dict[str, int]:
        """How many steps of each reduction loop are laid out in a row, innermost loops first."""
        budget = int(self.block.unroll)
        copies: dict[str, int] = {}
        for var in reversed(self.block.reduce):
            if var.name == self.block.vector:
                continue
            count = max(1, int(var.count))
            copies[var.name] = min(budget, count)
            budget = budget // count if budget >= count else 1  # a loop that is left stops the unrolling around it
            budget = max(1, budget)
        return copies

    def _inside_first(self, env: dict[str, Bound], left: Remainders, state: list[Value]) -> list[Value]:
        """All loops; for tiles that no tap can take to the border, once more without any test inside."""
        tests, keys = [], set()
        for fact in self.facts:
            low, high = self._span(fact)
            reduce_low = sum(min(0, int(fact.terms.get(v.name, 0)) * (int(v.count) - 1)) for v in self.block.reduce)
            if low == high or not any(v.name in fact.terms for v in self.block.reduce):
                continue
            first = {v.name: 0 for v in self.block.reduce}
            running, constant, _ = self.body.linear(fact, {**env, **self._zeros(env), **first}, None)
            if running is not None:
                tests.append(self.f.op(f"icmp sge i64 {running.text}, {-(constant + low + reduce_low)}", "bool"))
                keys.add(form_key(fact))
        if not tests or self._tiles_of_a_row() < _TILES_WITH_AN_INSIDE:
            return self._level(0, env, left, state)
        every = functools.reduce(lambda a, b: self.f.op(f"and {a}, {b.text}", "bool"), tests)
        return self.f.choose(
            every,
            lambda: self._knowing(keys, lambda s: self._level(0, env, left, s), state),
            lambda: self._level(0, env, left, state),
        )

    def _tiles_of_a_row(self) -> int:
        """How many tiles lie along the axis that has most of them."""
        return max((-(-self.block.axes[v.axis].extent // max(1, int(v.count))) for v in self.block.tile), default=1)

    def _level(self, depth: int, env: dict[str, Bound], left: Remainders, state: list[Value]) -> list[Value]:
        """The loops from `depth` on, after the conditions that can be decided here."""
        return self._decide(depth, env, state, lambda s: self._loop(depth, env, left, s))

    def _loop(self, depth: int, env: dict[str, Bound], left: Remainders, state: list[Value]) -> list[Value]:
        if depth == len(self.block.reduce):
            return self._step(env, state, self.shape.chunks)
        var = self.block.reduce[depth]
        if var.name == self.block.vector:
            return self._vector_step(var, env, left, state)
        trips = left[var.axis].trips(self.f, int(var.stride))
        copies = self.copies[var.name]
        stride = int(var.stride)

        def once(bound: Bound, now: list[Value], last: Remaining | None = None) -> list[Value]:
            inside = last or left[var.axis].inside(self.f, bound, stride)
            return self._level(depth + 1, {**env, var.name: bound}, {**left, var.axis: inside}, now)

        if isinstance(trips, int):
            # a partial last step has a known size: it is written on its own, so that the others stay free of tests
            total = left[var.axis].now
            assert isinstance(total, int)
            whole = total // stride
            full = Remaining(stride)
            if trips <= copies or (var.name in self.block.laid_out and trips <= MAX_LAID_OUT):
                for n in range(trips):
                    if n:
                        self._barrier()
                    state = once(n, state)
                return state
            main = whole - whole % copies
            if main:

                def several(bound: Value, now: list[Value]) -> list[Value]:
                    for n in range(copies):
                        if n:
                            self._barrier()
                        shifted: Bound = bound if n == 0 else self.f.op(f"add nuw nsw i64 {bound.text}, {n}", "i64")
                        now = once(shifted, now, full)
                    return now

                state = self.f.loop(i64(0), i64(main), copies, state, several, runs=True)
            for n in range(main, trips):
                state = once(n, state)
            return state
        if copies == 1:
            return self.f.loop(i64(0), trips, 1, state, lambda b, s: once(b, s))
        blocks = self.f.op(f"sdiv i64 {trips.text}, {copies}", "i64")
        main_end = self.f.op(f"mul nsw i64 {blocks.text}, {copies}", "i64")

        def in_a_row(bound: Value, now: list[Value]) -> list[Value]:
            for n in range(copies):
                shifted: Bound = bound if n == 0 else self.f.op(f"add nuw nsw i64 {bound.text}, {n}", "i64")
                now = once(shifted, now)
            return now

        state = self.f.loop(i64(0), main_end, copies, state, in_a_row)
        return self.f.loop(main_end, trips, 1, state, lambda b, s: once(b, s))

    def _barrier(self) -> None:
        """Keeps the loads of one unrolled step from moving before an earlier one.

        LLVM's scheduler would gather the loads of all steps in front, where they take the registers the tile needs.
        """
        if len(self.keys) > self.tile.target.vector_registers // 2:
            self.f.line('call void asm sideeffect "", "~{memory}"()')

    def _vector_step(self, var: LoopVar, env: dict[str, Bound], left: Remainders, state: list[Value]) -> list[Value]:
        """One step with lanes along the reduction; where it is partial, the idle lanes keep what they have."""
        remaining = left[var.axis]
        if isinstance(remaining.now, int):
            return self._partial(var, env, state, min(remaining.now, int(var.count)))
        if remaining.possible is None or len(remaining.possible) > MAX_SIZES:
            raise Refusal("vector reduction of unknown length", f"{self.block.stage.name}.{var.axis}")

        def choose(possible: tuple[int, ...]) -> list[Value]:
            if len(possible) == 1:
                return self._partial(var, env, state, possible[0])
            is_it = self.f.op(f"icmp eq i64 {remaining.now.text}, {possible[0]}", "bool")  # type: ignore[union-attr]
            return self.f.choose(is_it, lambda: self._partial(var, env, state, possible[0]), lambda: choose(possible[1:]))

        return choose(remaining.possible)

    def _partial(self, var: LoopVar, env: dict[str, Bound], state: list[Value], count: int) -> list[Value]:
        cut = []
        for lanes in self.shape.chunks:
            assert lanes is not None
            active = max(0, min(lanes.active, count - lanes.start))
            cut.append(replace(lanes, active=active) if active else None)
        return self._step(env, state, tuple(cut))

    def _decide(
        self, depth: int, env: dict[str, Bound], state: list[Value], rest: Callable[[list[Value]], list[Value]]
    ) -> list[Value]:
        """Tests conditions under which points contribute nothing (padding) as far outside as they are known.

        One that is the same for the whole tile skips the loops inside; one that differs between points is tested for all
        at once, and only a tile on the border runs the loops with tests inside.
        """
        ready = []
        open_vars = {v.name for v in self.block.reduce[depth:]}
        for fact in self.facts:
            if form_key(fact) in self.body.known or open_vars & set(fact.terms):
                continue
            low, high = self._span(fact)
            running, constant, _ = self.body.linear(fact, {**env, **self._zeros(env)}, None)
            if running is None:
                continue  # decided point by point, now
            ready.append((fact, running, constant + low, constant + high))
        if not ready:
            return rest(state)
        skip = [(f, r, low) for f, r, low, high in ready if low == high]
        mixed = [(f, r, low) for f, r, low, high in ready if low != high]

        def holds(tests: list[tuple[Linear, Value, int]]) -> Value:
            total: Value | None = None
            for _, running, low in tests:
                one = self.f.op(f"icmp sge i64 {running.text}, {-low}", "bool")
                total = one if total is None else self.f.op(f"and {total}, {one.text}", "bool")
            assert total is not None
            return total

        def inside() -> list[Value]:
            with_all = {form_key(f) for f, _, _ in skip}
            if not mixed:
                return self._knowing(with_all, rest, state)
            return self.f.choose(
                holds(mixed),
                lambda: self._knowing(with_all | {form_key(f) for f, _, _ in mixed}, rest, state),
                lambda: self._knowing(with_all, lambda s: self._undecided(mixed, rest, s), state),
            )

        return self.f.choose(holds(skip), inside, None, state) if skip else inside()

    def _undecided(
        self, mixed: list[tuple[Linear, Value, int]], rest: Callable[[list[Value]], list[Value]], state: list[Value]
    ) -> list[Value]:
        """The loops inside with the tests left to the points."""
        keys = [form_key(f) for f, _, _ in mixed]
        kept = [f for f in self.facts if form_key(f) not in keys]
        before, self.facts = self.facts, kept
        result = rest(state)
        self.facts = before
        return result

    def _knowing(
        self, keys: set[tuple[object, ...]], rest: Callable[[list[Value]], list[Value]], state: list[Value]
    ) -> list[Value]:
        added = keys - self.body.known
        self.body.known |= added
        result = rest(list(state))
        self.body.known -= added
        return result

    def _zeros(self, env: Mapping[str, Bound]) -> dict[str, int]:
        return {v.name: 0 for v in self.block.tile if v.name not in env}

    def _span(self, fact: Linear) -> tuple[int, int]:
        """The least and the most that the tile's own loops add to a linear form."""
        low = high = 0
        for var in self.block.tile:
            coefficient = int(fact.terms.get(var.name, 0))
            reach = coefficient * (max(1, self.shape.sizes[var.name]) - 1)
            low, high = low + min(0, reach), high + max(0, reach)
        return low, high

    # -- one step --------------------------------------------------------------------------------------------------

    def _step(self, env: dict[str, Bound], state: list[Value], parts: tuple[Lanes | None, ...]) -> list[Value]:
        """Every point's contribution at one step of the reduction."""
        result = []
        for key, old in zip(self.keys, state):
            lanes = parts[key[1]]
            if self.across and lanes is None:
                result.append(old)
                continue
            point, plain = self.tile._point(self.block, self.shape, env, key)
            if self.across and lanes is not None:
                plain = lanes if lanes.width > 1 else None
            result.append(self._combine(old, self.block.stage.body, point, plain))
        return result

    def _combine(self, old: Value, body: Expr, point: Mapping[str, Bound], lanes: Lanes | None) -> Value:
        if self.op == "sum" and isinstance(body, Binary) and body.op == "mul" and dtype(body.dtype).kind == "f":
            a = self.body.value(body.a, self.block, point, lanes)
            if _is_zero(a):
                return old
            b = self.body.value(body.b, self.block, point, lanes)
            if _is_zero(b):
                return old
            new = self.arith.fma(a, b, old)
        else:
            value = self.body.value(body, self.block, point, lanes)
            if value == const(self.start.value, self.start.dtype):
                return old
            new = self.arith.binary(_OPERATIONS[self.op], old, value)
        if self.across and lanes is not None and lanes.active < lanes.width:
            on = [f"i1 {'true' if n < lanes.active else 'false'}" for n in range(lanes.width)]
            new = self.arith.select(Value(f"<{', '.join(on)}>", "bool", lanes.width), new, old)
        return new

    def _across(self, results: dict[Key, Value]) -> dict[Key, Value]:
        """One number per point out of its lanes."""
        op = _OPERATIONS[self.op]
        totals: dict[Key, Value] = {}
        for numbers in dict.fromkeys(k[0] for k in self.keys):
            values = [results[k] for k in self.keys if k[0] == numbers]
            while len(values) > 1:
                widest = max(v.lanes for v in values)
                same = [v for v in values if v.lanes == widest]
                others = [v for v in values if v.lanes != widest]
                if len(same) == 1:
                    same = [self._halve(same[0], op)]
                else:
                    paired = [self.arith.binary(op, a, b) for a, b in zip(same[::2], same[1::2])]
                    same = paired + ([same[-1]] if len(same) % 2 else [])
                values = same + others
            value = values[0]
            while value.lanes:
                value = self._halve(value, op)
            totals[numbers, 0] = value
        return totals

    def _halve(self, v: Value, op: str) -> Value:
        half = v.lanes // 2
        return self.arith.binary(op, self.arith.piece(v, 0, half), self.arith.piece(v, half, half))


def _is_zero(v: Value) -> bool:
    return not v.text.startswith("%") and v == const(0.0, v.dtype, v.lanes)


def skippable(stage: Stage) -> list[Affine]:
    """Affine facts (each >= 0) without which a step of the stage's reduction contributes nothing.

    They are the conditions of selects that give the reduction's identity otherwise, or, in a sum, a zero factor.
    """
    if stage.reduction is None:
        return []
    found: list[Affine] = []

    def visit(e: Expr, neutral: Const) -> None:
        if isinstance(e, Select) and e.b == neutral:
            facts = affine_facts(e.cond)
            if facts is not None:
                found.extend(facts)
        elif isinstance(e, Binary) and e.op == "mul" and stage.reduction == "sum" and dtype(e.dtype).kind == "f":
            visit(e.a, neutral)
            visit(e.b, neutral)

    visit(stage.body, identity(stage.reduction, stage.dtype))
    return found
