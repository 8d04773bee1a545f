"""A loop program as one LLVM module.

    void entry(ptr args, ptr scratch, ptr pool, ptr parallel_for)

`args` holds the data pointers of inputs, then outputs; between them, where the program has axes whose extents are read at run time,
that of the table of counts (i64). Every root nest is a function of its own,

    void nest(ptr context, i64 begin, i64 end, i64 thread)        context = [args..., scratch]

that runs steps `begin` to `end` of its fused parallel loops; `parallel_for(pool, nest, context, count)` shares them among
threads. A nest without parallel loops has one step and is called directly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tensorsmith.backends.cpu.codegen import interleave
from tensorsmith.backends.cpu.codegen.addresses import Storage
from tensorsmith.backends.cpu.codegen.arith import Arithmetic
from tensorsmith.backends.cpu.codegen.body import BodyEmitter
from tensorsmith.backends.cpu.codegen.irtext import Function, Value, i64, storage_type
from tensorsmith.backends.cpu.codegen.points import LoopValue, LoopValues
from tensorsmith.backends.cpu.codegen.remaining import Remainders, Remaining
from tensorsmith.backends.cpu.codegen.tile import TileEmitter
from tensorsmith.backends.cpu.codegen.transpose import turns_over
from tensorsmith.backends.cpu.llvm import TIDY
from tensorsmith.backends.cpu.memory import ROOM, spacing
from tensorsmith.backends.cpu.target import CpuTarget
from tensorsmith.errors import Refusal
from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.inplace import replaceable_inputs
from tensorsmith.lang.workload import Stage
from tensorsmith.program.ir import AxisBinding, Block, Loop, Node, Program, ProgramBuffer, blocks, loop_vars, own_block
from tensorsmith.program.layout import layouts
from tensorsmith.program.linear import Linear
from tensorsmith.program.memory import places, touched
from tensorsmith.program.registers import loops_of_sums
from tensorsmith.program.unrolling import is_laid_out

ENTRY = "entry"
_COUNTS = "#counts"  # among the arguments; no tensor is called so
_MAX_ORIGINS = 4096  # positions of a region that are looked at for what can be left of an axis


@dataclass(frozen=True)
class Generated:
    """An LLVM module and the memory it needs. The output may lie where one of the `replaceable` inputs does."""

    ir: str
    scratch_bytes: int
    scratch_bytes_per_thread: int
    replaceable: frozenset[str]


def generate(program: Program, target: CpuTarget) -> Generated:
    """The module of a program whose extents are numbers."""
    return _Generator(program, target).run()


class _Generator:
    def __init__(self, program: Program, target: CpuTarget) -> None:
        self.program = program
        self.target = target
        self.helpers: dict[str, str] = {}
        self.declarations: set[str] = set()
        self.tidy = True
        table = [_COUNTS] if program.counts else []
        self.arguments = [b.name for b in program.workload.inputs] + table + list(program.workload.outputs)
        self.replaceable = replaceable_inputs(program.workload)
        self.sharing = (
            {*self.replaceable, *program.workload.outputs} if self.replaceable else set()
        )  # may be handed the same memory
        self.layouts = layouts(program, spacing(target))
        self.places = places(program, self.layouts, ROOM)

    def run(self) -> Generated:
        functions = [self._nest(number, node) for number, node in enumerate(self.program.body)]
        entry = self._entry()
        tidy = [TIDY] if self.tidy and not self.helpers else []
        text = "\n\n".join([*tidy, *sorted(self.declarations), *self.helpers.values(), *functions, entry]) + "\n"
        return Generated(text, self.places.shared_bytes, self.places.local_bytes, self.replaceable)

    def _entry(self) -> str:
        f = Function(f"define void @{ENTRY}(ptr %args, ptr %scratch, ptr %pool, ptr %parallel_for)")
        count = len(self.arguments) + 1
        context = f.alloca("ptr", count)
        for n in range(len(self.arguments)):
            slot = f.op(f"getelementptr ptr, ptr %args, i64 {n}", "ptr")
            pointer = f.op(f"load ptr, {slot}, align 8", "ptr")
            f.line(f"store {pointer}, {f.op(f'getelementptr ptr, {context}, i64 {n}', 'ptr')}, align 8")
        f.line(f"store ptr %scratch, {f.op(f'getelementptr ptr, {context}, i64 {count - 1}', 'ptr')}, align 8")
        for number, node in enumerate(self.program.body):
            if 0 in _stage(node).shape:
                continue
            steps = _parallel_steps(node)
            if (counted := self._counted(node)) is not None:
                slot = f.op(f"getelementptr ptr, ptr %args, i64 {self.arguments.index(_COUNTS)}", "ptr")
                table = f.op(f"load ptr, {slot}, align 8", "ptr")
                some = _steps_of_call(f, node, {n: _count(f, table, n) for n in counted}, self.program.counts)
                f.line(f"call void %parallel_for(ptr %pool, ptr @nest{number}, {context}, {some})")
            elif steps > 1:
                f.line(f"call void %parallel_for(ptr %pool, ptr @nest{number}, {context}, i64 {steps})")
            else:
                f.line(f"call void @nest{number}({context}, i64 0, i64 1, i64 0)")
        return f.text()

    def _counted(self, node: Node) -> list[int] | None:
        """The counts on which the number of a root nest's parallel steps depends; None: it does not."""
        of_axes = self.program.counts.get(_stage(node).name, {})
        found = {of_axes[loop.var.axis] for loop in _parallel_loops(node) if loop.var.axis in of_axes}
        return sorted(found) or None

    def _nest(self, number: int, node: Node) -> str:
        f = Function(f"define internal void @nest{number}(ptr %context, i64 %begin, i64 %end, i64 %thread) nounwind")
        names = touched(node)
        arguments = [n for n in self.arguments if n in names]
        counts = sorted({n for block in blocks(node) for n in self.program.counts.get(block.stage.name, {}).values()})
        pointers = [f"ptr {'' if name in self.sharing else 'noalias '}%p{n}" for n, name in enumerate(arguments)]
        parameters = ", ".join([*pointers, *(f"i64 %n{n}" for n in counts)])
        work = Function(
            f"define internal void @work{number}({parameters}{', ' if parameters else ''}"
            "ptr noalias %scratch, ptr noalias %local, i64 %begin, i64 %end) noinline nounwind",
            hoists=self.target.folds_loads,
        )
        passed = []
        for name in arguments:
            slot = f.op(f"getelementptr ptr, ptr %context, i64 {self.arguments.index(name)}", "ptr")
            passed.append(f.op(f"load ptr, {slot}, align 8", "ptr"))
        if counts:
            slot = f.op(f"getelementptr ptr, ptr %context, i64 {self.arguments.index(_COUNTS)}", "ptr")
            table = f.op(f"load ptr, {slot}, align 8", "ptr")
            passed += [_count(f, table, n) for n in counts]
        slot = f.op(f"getelementptr ptr, ptr %context, i64 {len(self.arguments)}", "ptr")
        memory = f.op(f"load ptr, {slot}, align 8", "ptr")
        shift = f.op(f"mul i64 %thread, {self.places.local_bytes}", "i64")
        shift = f.op(f"add i64 {shift.text}, {self.places.shared_bytes}", "i64")
        local = f.op(f"getelementptr i8, {memory}, i64 {shift.text}", "ptr")
        everything = ", ".join(map(str, [*passed, memory, local]))
        f.line(f"call void @work{number}({everything}, i64 %begin, i64 %end)")
        _Work(self, work, {n: Value(f"%p{i}", "ptr") for i, n in enumerate(arguments)}, names).run(node)
        self.tidy = self.tidy and work.scopes.tidy
        return f"{work.text()}\n\n{f.text()}"


class _Work:
    """Writes one root nest."""

    def __init__(self, generator: _Generator, f: Function, pointers: Mapping[str, Value], names: set[str]) -> None:
        self.generator, self.f, self.program = generator, f, generator.program
        self.storage = {n: self._storage(self.program.buffers[n], pointers) for n in sorted(names)}
        arithmetic = Arithmetic(f, generator.helpers, generator.declarations, generator.target)
        target = generator.target
        self.body = BodyEmitter(f, arithmetic, self.program, self.storage, target.vector_bytes, target.interleaved_bytes)
        self.loops = loop_vars(self.program)
        self.tile = TileEmitter(f, arithmetic, self.body, self.program, self.loops, generator.target, self.attached, self._counted)

    def _storage(self, b: ProgramBuffer, pointers: Mapping[str, Value]) -> Storage:
        layout, places = self.generator.layouts[b.name], self.generator.places
        strides = tuple(int(n) for n in layout.strides)
        if b.name in pointers:
            return Storage(pointers[b.name], b.dtype, strides, slack=b.packed is not None)
        if b.name in places.shared:
            base, offset = "%scratch", places.shared[b.name]
        elif b.name in places.local:
            base, offset = "%local", places.local[b.name]
        else:
            elements = (int(layout.bytes) + ROOM.slack) // dtype(b.dtype).bytes
            return Storage(self.f.alloca(storage_type(b.dtype), elements), b.dtype, strides, slack=True)
        return Storage(self.f.op(f"getelementptr i8, ptr {base}, i64 {offset}", "ptr"), b.dtype, strides, slack=True)

    def run(self, node: Node) -> None:
        parallel = _parallel_loops(node)
        begin, end = Value("%begin", "i64"), Value("%end", "i64")

        def step(position: Value, _: list[Value]) -> list[Value]:
            self._shared_steps(node, position)
            return []

        if parallel:
            self.f.loop(begin, end, 1, [], step)
        else:
            self.attached(node, {}, None)

    def _shared_steps(self, node: Node, position: Value) -> None:
        """One step of the fused parallel loops: its number taken apart into their variables."""
        loops = _parallel_loops(node)
        env: dict[str, LoopValue] = {}
        values: dict[str, Value | int] = {}
        rest: Value = position
        for loop in reversed(loops):
            count = int(loop.var.count)
            if count == 1:
                values[loop.var.name] = 0
            elif (trips := self._trips_of_call(loop)) is not None and loop is not loops[0]:
                values[loop.var.name] = self.f.op(f"urem i64 {rest.text}, {trips.text}", "i64")
                rest = self.f.op(f"udiv i64 {rest.text}, {trips.text}", "i64")
            elif loop is loops[0]:
                values[loop.var.name] = rest
            else:
                values[loop.var.name] = self.f.op(f"urem i64 {rest.text}, {count}", "i64")
                rest = self.f.op(f"udiv i64 {rest.text}, {count}", "i64")
        left = self._whole(own_block(node), env, None)

        def enter(depth: int, left: Remainders) -> None:
            if depth == len(loops):
                self._nodes(loops[-1].body, env, left, _stage(node))
                return
            var = loops[depth].var
            env[var.name] = values[var.name]
            before, value = left[var.axis], values[var.name]
            deeper = {**left, var.axis: before.inside(self.f, value, int(var.stride))}
            reach = (int(var.count) - 1) * int(var.stride)
            if before.there is not None and self._trips_of_call(loops[depth]) is None:
                trips = before.trips(self.f, int(var.stride))
                assert isinstance(trips, Value)
                number = value.text if isinstance(value, Value) else value
                some = self.f.op(f"icmp sgt i64 {trips.text}, {number}", "bool")
                self.f.choose(some, lambda: enter_list(depth + 1, deeper), None)
            elif isinstance(value, Value) and (isinstance(before.now, Value) or reach >= before.now):
                # parts of one axis, fused, or a copy smaller than the loops it follows: there are steps with nothing to do
                start = self.f.op(f"mul nsw i64 {value.text}, {int(var.stride)}", "i64")
                end = before.now.text if isinstance(before.now, Value) else before.now
                some = self.f.op(f"icmp slt i64 {start.text}, {end}", "bool")
                self.f.choose(some, lambda: enter_list(depth + 1, deeper), None)
            else:
                enter(depth + 1, deeper)

        def enter_list(depth: int, left: Remainders) -> list[Value]:
            enter(depth, left)
            return []

        enter(0, left)

    def _counted(self, stage: Stage, axis: str) -> Remaining | None:
        """All of an axis whose extent is read at run time; None for others."""
        number = self.program.counts.get(stage.name, {}).get(axis)
        return None if number is None else Remaining(Value(f"%n{number}", "i64"), exact=True)

    def _trips_of_call(self, loop: Loop) -> Value | None:
        """How many steps a call has of a parallel loop, where that is read at run time: of the outermost along its axis."""
        counted = self._counted(_stage(loop), loop.var.axis)
        if counted is None or int(loop.var.count) * int(loop.var.stride) < loop.binding.extent:
            return None
        trips = counted.trips(self.f, int(loop.var.stride))
        assert isinstance(trips, Value)
        return trips

    def attached(self, node: Node, env: dict[str, LoopValue], regions: Mapping[str, int] | None) -> None:
        """A nest with its own axes: at the root, or attached, with region lengths that are known better here."""
        block = own_block(node)
        some = self._is_some(block, env, regions)
        if some is None:
            self._node(node, env, self._whole(block, env, regions))
            return

        def compute() -> list[Value]:
            self._node(node, env, self._whole(block, env, regions))
            return []

        self.f.choose(some, compute, None)

    def _is_some(self, block: Block, env: LoopValues, regions: Mapping[str, int] | None) -> Value | None:
        """Whether there is anything to compute of a nest here; None if there always is.

        A reader that looks past the nest's tensor under a condition (right padding) asks for a region that starts behind it.
        """
        some: Value | None = None
        for axis in block.stage.axes:
            binding = block.axes[axis.name]
            reach = sum(max(0, int(c) * (int(self.loops[n].count) - 1)) for n, c in binding.origin.terms.items())
            if (regions is not None and axis.name in regions) or int(binding.origin.offset) + reach < binding.extent:
                continue
            start = self.body.integer(binding.origin, env, None)
            one = self.f.op(f"icmp slt i64 {start.text}, {binding.extent}", "bool")
            some = one if some is None else self.f.op(f"and {some}, {one.text}", "bool")
        return some

    def _whole(self, block: Block, env: LoopValues, regions: Mapping[str, int] | None) -> dict[str, Remaining]:
        """What is to be computed of each axis of a nest: its region, as far as the axis goes."""
        left = self._whole_at_most(block, env, regions)
        reduced = {a.name for a in block.stage.reduce_axes}
        for axis in block.stage.all_axes:
            counted = self._counted(block.stage, axis.name)
            if counted is None:
                continue
            if axis.name in reduced:
                left[axis.name] = counted
            elif axis.name in self._loops_outside(block) and left[axis.name].now != 1:
                there = self._there(counted, block.axes[axis.name], left[axis.name], env)
                left[axis.name] = replace(left[axis.name], there=there)
        return left

    def _there(self, counted: Remaining, binding: AxisBinding, most: Remaining, env: LoopValues) -> Value:
        """How much a call has of the region of an axis that a nest computes here; not positive: nothing."""
        there = counted.now
        assert isinstance(there, Value)
        if binding.origin.terms or binding.origin.offset:
            start = self.body.integer(binding.origin, env, None)
            there = self.f.op(f"sub nsw i64 {there.text}, {start.text}", "i64")
        if most.now == binding.extent:
            return there
        length = most.now.text if isinstance(most.now, Value) else most.now
        short = self.f.op(f"icmp slt i64 {there.text}, {length}", "bool")
        return self.f.op(f"select {short}, {there}, i64 {length}", "i64")

    def _loops_outside(self, block: Block) -> set[str]:
        """The axes of a nest with loops around its block."""
        inside = {v.name for v in block.tile}
        return {v.axis for v in self.loops.values() if v.stage == block.stage.name and v.name not in inside}

    def _whole_at_most(self, block: Block, env: LoopValues, regions: Mapping[str, int] | None) -> dict[str, Remaining]:
        """The same, where every axis is as long as it can be."""
        left: dict[str, Remaining] = {}
        for axis in block.stage.all_axes:
            binding = block.axes[axis.name]
            length = int(binding.length)
            if regions is not None and axis.name in regions:
                left[axis.name] = Remaining(regions[axis.name])
                continue
            starts = self._starts(binding.origin)
            if starts is not None:
                possible = {min(length, binding.extent - s) for s in starts if s < binding.extent}
                if len(possible) == 1:
                    left[axis.name] = Remaining(possible.pop())
                    continue
            else:
                possible = set()
            start = self.body.integer(binding.origin, env, None)
            there = self.f.op(f"sub nsw i64 {binding.extent}, {start.text}", "i64")
            short = self.f.op(f"icmp slt i64 {there.text}, {length}", "bool")
            now = self.f.op(f"select {short}, {there}, i64 {length}", "i64")
            left[axis.name] = Remaining(now, tuple(sorted(possible, reverse=True)) or None)
        return left

    def _starts(self, origin: Linear) -> set[int] | None:
        """Every value that the start of a region can take, if they are few enough to list."""
        starts = {int(origin.offset)}
        for name, coefficient in origin.terms.items():
            count = int(self.loops[name].count)
            if len(starts) * count > _MAX_ORIGINS:
                return None
            starts = {s + int(coefficient) * n for s in starts for n in range(count)}
        return starts

    def _nodes(self, nodes: tuple[Node, ...], env: dict[str, LoopValue], left: Remainders, owner: Stage) -> None:
        for node in nodes:
            if _stage(node).name == owner.name:
                self._node(node, env, left)
            else:
                self.attached(node, dict(env), None)

    def _node(self, node: Node, env: dict[str, LoopValue], left: Remainders) -> None:
        if isinstance(node, Block):
            self.tile.block(node, env, left)
            return
        sums = loops_of_sums(node)
        if sums is not None:
            self.tile.block(own_block(node), env, left, sums)
            return
        var = node.var
        stride = int(var.stride)
        trips = left[var.axis].trips(self.f, stride)
        if isinstance(trips, int) and (trips == 1 or is_laid_out(node.unrolled, trips)):
            for n in range(trips):
                inside = left[var.axis].inside(self.f, n, stride)
                self._nodes(node.body, {**env, var.name: n}, {**left, var.axis: inside}, _stage(node))
            return

        def step(position: Value, _: list[Value]) -> list[Value]:
            inside = left[var.axis].inside(self.f, position, stride)
            self._nodes(node.body, {**env, var.name: position}, {**left, var.axis: inside}, _stage(node))
            return []

        lanes = self.generator.target.lanes(dtype(_stage(node).dtype).lane_bytes)
        most = replace(left[var.axis], there=None).trips(self.f, stride) if left[var.axis].there is not None else trips
        if isinstance(most, int) and 1 < lanes <= most and turns_over(self.body, node, lanes):
            self._together(node, env, left, most, lanes, step)
            return
        groups = left[var.axis].whole(stride) if lanes == self.generator.target.lanes(4) else 0  # of those that are whole
        if isinstance(most, int) and 1 < lanes <= groups and interleave.turns_over(self.tile, node, lanes):
            self._together(node, env, left, most, lanes, step, groups)
            return
        if isinstance(trips, int):
            self.f.loop(i64(0), i64(trips), 1, [], step, runs=trips > 0)
        else:
            self.f.loop(i64(0), trips, 1, [], step)

    def _together(
        self,
        node: Loop,
        env: dict[str, LoopValue],
        left: Remainders,
        trips: int,
        lanes: int,
        step: Callable[[Value, list[Value]], list[Value]],
        most: int | None = None,
    ) -> None:
        """A loop in groups of as many steps as a vector has lanes, of the first `most`, then what is left step by step."""
        (block,) = node.body
        assert isinstance(block, Block)
        inside = {**left, node.var.axis: Remaining(int(node.var.stride))}

        def group(position: Value, _: list[Value]) -> list[Value]:
            self.tile.steps(block, env, inside, node.var, position, lanes)
            return []

        whole = (trips if most is None else most) // lanes * lanes
        counted = left[node.var.axis]
        if counted.there is not None:
            steps = counted.trips(self.f, int(node.var.stride))
            assert isinstance(steps, Value)
            some = self.f.op(f"icmp slt i64 {steps.text}, {whole}", "bool")
            self.f.loop(i64(0), self.f.op(f"select {some}, {steps}, i64 {whole}", "i64"), lanes, [], group)
            if whole < trips:
                self.f.loop(i64(whole), steps, 1, [], step)
            return
        self.f.loop(i64(0), i64(whole), lanes, [], group, runs=True)
        if whole < trips:
            self.f.loop(i64(whole), i64(trips), 1, [], step, runs=True)


def _stage(node: Node) -> Stage:
    return own_block(node).stage


def _parallel_loops(node: Node) -> list[Loop]:
    found = []
    while isinstance(node, Loop) and node.parallel:
        if node.var.reduce:
            raise Refusal("parallel reduction", node.var.name)
        found.append(node)
        if len(node.body) > 1:
            break
        node = node.body[0]
    return found


def _count(f: Function, table: Value, number: int) -> Value:
    """A count of the table."""
    return f.op(f"load i64, {f.op(f'getelementptr i64, {table}, i64 {number}', 'ptr')}, align 8", "i64")


def _steps_of_call(f: Function, node: Node, counts: Mapping[int, Value], of_axes: Mapping[str, Mapping[str, int]]) -> Value:
    """The parallel steps of a root nest, some of whose loops have as many as a call says."""
    total = i64(1)
    for loop in _parallel_loops(node):
        number = of_axes.get(_stage(node).name, {}).get(loop.var.axis)
        trips: Value | int = int(loop.var.count)
        if number is not None and int(loop.var.count) * int(loop.var.stride) >= loop.binding.extent:
            trips = Remaining(counts[number]).trips(f, int(loop.var.stride))
        text = trips.text if isinstance(trips, Value) else trips
        total = f.op(f"mul i64 {total.text}, {text}", "i64")
    return total


def _parallel_steps(node: Node) -> int:
    total = 1
    for loop in _parallel_loops(node):
        total *= int(loop.var.count)
    return total
