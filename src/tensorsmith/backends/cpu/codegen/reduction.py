"""The reduction loops of a register tile, every result in a register all the while.

State goes in and comes out of each loop and branch as SSA values. What is padding is left to `borders`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from tensorsmith.backends.cpu.codegen.ahead import Ahead, loads_ahead
from tensorsmith.backends.cpu.codegen.body import form_key
from tensorsmith.backends.cpu.codegen.borders import Borders
from tensorsmith.backends.cpu.codegen.folding import halved, totals
from tensorsmith.backends.cpu.codegen.groups import Groups
from tensorsmith.backends.cpu.codegen.irtext import Value, const, i64, storage_type
from tensorsmith.backends.cpu.codegen.points import Lanes, LoopValue, LoopValues, Shifted
from tensorsmith.backends.cpu.codegen.prefetch import FIRST_CACHE, Fetching, emit, fetch, fetching, streamed
from tensorsmith.backends.cpu.codegen.remaining import MAX_SIZES, Remainders, Remaining
from tensorsmith.backends.cpu.codegen.shape import Key, Shape
from tensorsmith.errors import Refusal
from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.expr import Binary, Expr, Load, Select, loads, variables, walk
from tensorsmith.program.ir import Block, LoopVar
from tensorsmith.program.linear import Linear
from tensorsmith.program.unrolling import is_written_whole, partial_sums, steps_in_a_row
from tensorsmith.space.sketch.rewrite import identity

if TYPE_CHECKING:
    from tensorsmith.backends.cpu.codegen.tile import TileEmitter

_TILES_WITH_AN_INSIDE = 6  # in a row, from which on most tiles are not on its border, and get code without tests

_STEPS_WORTH_A_FETCH = 32  # of the reduction; shorter ones end before anything can have come

_OPERATIONS = {"sum": "add", "prod": "mul", "max": "max", "min": "min"}


class Reduction(Borders):
    """The reduction loops of one variant of a tile, its values in registers all the while."""

    def __init__(self, tile: TileEmitter, block: Block, shape: Shape, keys: list[Key]) -> None:
        super().__init__(tile.f, tile.body, block, shape, tile.target.in_order)
        self.tile, self.arith = tile, tile.arith
        self.op = block.stage.reduction or ""
        self.start = identity(self.op, block.stage.dtype)
        self.across = block.vector is not None and block.loop(block.vector).reduce  # lanes run along the reduction
        if self.across and block.reduce[-1].name != block.vector:
            raise Refusal("vector loop not innermost", f"{block.stage.name}: the vector reduction loop must come last")
        self.keys = keys
        self.factors = _factors(block.stage.body) if self.op == "sum" and dtype(block.stage.body.dtype).kind == "f" else ()
        self._moves = {id(e): self._moves_with(e) for e in (block.stage.body, *self.factors)}
        steps = [v for v in block.reduce if v.name not in (block.vector, block.group)]
        in_a_row = steps_in_a_row([int(v.count) for v in steps], int(block.unroll))
        self.in_a_row = {v.name: int(n) for v, n in zip(steps, in_a_row)}  # of each loop, in one round of it
        self.groups = Groups(self) if block.group is not None else None
        self.fetched: list[Fetching] = []  # operands whose next panel is fetched meanwhile
        self.fetches = True  # every step does its part of it
        self.lanes_there: Value | None = (
            None  # how many lanes of a step there are in this call, where the others have to keep still
        )
        self.behind: Callable[[Key], None] | None = None  # writes what comes behind each point of a step
        self._steps = 0  # that were written
        self._last_fetch: dict[str, tuple[str, int]] = {}  # of each operand: the basic block and the step of its last line

    def run(self, env: dict[str, LoopValue], left: Remainders) -> dict[Key, Value]:
        state = []
        for _, chunk in self.keys:
            lanes = self.shape.chunks[chunk]
            state.append(self._nothing(lanes.width if lanes and lanes.width > 1 else 0))
        state += self.groups.start() if self.groups is not None else []
        self.fetched = fetching(self.block, self.tile.program.buffers, self.body.storage, self.tile.loops, env, self.tile.target)
        if self.groups is not None:
            self.groups.streamed = streamed(self.block, self.tile.program.buffers, self.tile.loops, env)
        self._fetch_stored(env)
        state = self._inside_first(env, left, state)
        self.body.forget()
        if self.groups is not None:
            state = self.groups.finish(state[: len(self.keys)], state[len(self.keys) :])
        results = dict(zip(self.keys, state))
        return self._with_stored(self._across(results) if self.across else results, env)

    def onto(self, state: list[Value], env: dict[str, LoopValue], left: Remainders) -> list[Value]:
        """The sums so far, and this step's on top: of a tile all of whose reduction loops are outer ones."""
        new = self._inside_first(env, left, state)
        self.body.forget()
        return new

    def _with_stored(self, results: dict[Key, Value], env: dict[str, LoopValue]) -> dict[Key, Value]:
        """Adds what earlier steps of outer reduction loops have stored.

        It is read after the loops, not before, so that nobody waits for it: the next tile can start meanwhile.
        """
        bounds = [env[v.name] for v in self.block.outer_reduce]
        if all(isinstance(b, int) and b == 0 for b in bounds):
            return results

        def added() -> list[Value]:
            new = []
            for key, value in results.items():
                point, lanes = self.tile.point(self.block, self.shape, env, key)
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

    def _fetch_stored(self, env: dict[str, LoopValue]) -> None:
        """Has what `_with_stored` will read brought to the first cache while the loops run."""
        if all(env[v.name] == 0 for v in self.block.outer_reduce) or self.across:
            return
        if math.prod(int(v.count) for v in self.block.reduce) < _STEPS_WORTH_A_FETCH:
            return
        form, size, line = self.tile.position(self.block), dtype(self.block.stage.dtype).bytes, self.tile.target.line_bytes
        lines = set()
        for key in self.keys:
            point, lanes = self.tile.point(self.block, self.shape, env, key)
            running, constant, _ = self.body.linear(form, point, lanes)
            if (where := (running, constant * size // line)) not in lines:
                lines.add(where)
                fetch(self.body, self.body.pointer(self.block.stage.name, running, constant), FIRST_CACHE)

    def _read_back(self, point: LoopValues, lanes: Lanes | None) -> Value:
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

    def _inside_first(self, env: dict[str, LoopValue], left: Remainders, state: list[Value]) -> list[Value]:
        """All loops; for tiles that no tap can take to the border, once more without any test inside."""
        tests, keys, possible = [], set(), True
        for fact in self.facts:
            low, high = self.span(fact)
            reduce_low = sum(min(0, int(fact.terms.get(v.name, 0)) * (int(v.count) - 1)) for v in self.block.reduce)
            if low == high or not any(v.name in fact.terms for v in self.block.reduce):
                continue
            first = {v.name: 0 for v in self.block.reduce}
            running, constant, _ = self.body.linear(fact, {**env, **self.zeros(env), **first}, None)
            if running is not None:
                tests.append(self.f.op(f"icmp sge i64 {self.body.total(running).text}, {-(constant + low + reduce_low)}", "bool"))
                keys.add(form_key(fact))
                possible = possible and self.is_inside_somewhere(fact)
        if not tests or self.tiles_of_a_row() < _TILES_WITH_AN_INSIDE:
            return self._level(0, env, left, state)
        if not possible:
            return self._on_the_border(env, left, state)
        every = functools.reduce(lambda a, b: self.f.op(f"and {a}, {b.text}", "bool"), tests)
        return self.f.choose(
            every,
            lambda: self.knowing(keys, lambda s: self._level(0, env, left, s), state),
            lambda: self._on_the_border(env, left, state),
        )

    def _on_the_border(self, env: dict[str, LoopValue], left: Remainders, state: list[Value]) -> list[Value]:
        """All loops for the few tiles that need tests. Those with tests inside are not unrolled: rarely run, large code.

        It would also spill, and LLVM's register allocator does not keep apart what different paths compute for the same result:
        where one of them spills, so does the other.
        """
        tested = {name for fact in self.facts for name in fact.terms}
        for e in walk(self.block.stage.body):
            if isinstance(e, Select) and isinstance(e.a, Load):
                form, _ = self.body.offset(e.a, self.block)
                tested |= (form or Linear()).terms.keys() - self.body.apart(e, self.block)[0].terms.keys()
        before, self.in_a_row = self.in_a_row, {name: 1 if name in tested else n for name, n in self.in_a_row.items()}
        result = self._level(0, env, left, state)
        self.in_a_row = before
        return result

    def _level(self, depth: int, env: dict[str, LoopValue], left: Remainders, state: list[Value]) -> list[Value]:
        """The loops from `depth` on, after the conditions that can be decided here."""
        return self.decide(depth, env, state, lambda s: self._loop(depth, env, left, s))

    def _loop(self, depth: int, env: dict[str, LoopValue], left: Remainders, state: list[Value]) -> list[Value]:
        if depth == len(self.block.reduce):
            return self.step(env, state, self.shape.chunks)
        var = self.block.reduce[depth]
        if var.name == self.block.vector:
            return self._last_step(var, left, lambda count: self._partial(env, state, count))
        if self.groups is not None and var.name == self.block.group:
            return self._last_step(var, left, lambda count: self._group(env, state, count))
        trips = left[var.axis].trips(self.f, int(var.stride))
        in_a_row = self.in_a_row[var.name]
        stride = int(var.stride)

        def once(bound: LoopValue, now: list[Value], last: Remaining | None = None) -> list[Value]:
            inside = last or left[var.axis].inside(self.f, self.body.at(bound), stride)
            return self._level(depth + 1, {**env, var.name: bound}, {**left, var.axis: inside}, now)

        if isinstance(trips, int):
            # a partial last step has a known size: it is written on its own, so that the others stay free of tests
            total = left[var.axis].now
            assert isinstance(total, int)
            whole = total // stride
            full = Remaining(stride)
            if is_written_whole(var.name in self.block.laid_out, trips, in_a_row):
                alone = self._ahead(depth, env, left, 1, 1, trips) if total == trips * stride else None
                if alone is not None:
                    return alone.rounds(trips, state)
                for n in range(trips):
                    state = once(n, state)
                    self._barrier()
                return state
            main = whole - whole % in_a_row
            if main:
                chains = self.tile.target.chains if self.groups is None else self.groups.chains
                sums = partial_sums(in_a_row, len(self.keys), chains, self._room_for_sums() if self.groups is None else None)

                def several(bound: Value, now: list[Value]) -> list[Value]:
                    groups = [now[n::sums] for n in range(sums)]
                    start, by = self._not_at_zero(bound) if in_a_row > 1 else (bound, 0)
                    for n in range(in_a_row):
                        groups[n % sums] = once(Shifted(start, by + n), groups[n % sums], full)
                        self._barrier(sums)
                    return [value for values in zip(*groups) for value in values]

                spread = [value for old in state for value in (old, *[self._nothing(old.lanes)] * (sums - 1))]
                ahead = self._ahead(depth, env, left, main // in_a_row, sums, in_a_row)
                if ahead is not None:
                    spread = ahead.rounds(main, spread)
                else:
                    spread = self.f.loop(i64(0), i64(main), in_a_row, spread, several, runs=True)
                state = [self._joined(spread[n : n + sums]) for n in range(0, len(spread), sums)]
            for n in range(main, trips):
                state = once(n, state)
                self._barrier()
            return state
        if left[var.axis].exact:
            return self._counted(var, left[var.axis], state, in_a_row, once)
        if in_a_row == 1:
            return self.f.loop(i64(0), trips, 1, state, lambda b, s: once(b, s))
        blocks = self.f.op(f"sdiv i64 {trips.text}, {in_a_row}", "i64")
        main_end = self.f.op(f"mul nsw i64 {blocks.text}, {in_a_row}", "i64")

        def row(bound: Value, now: list[Value]) -> list[Value]:
            for n in range(in_a_row):
                now = once(Shifted(bound, n), now)
            return now

        state = self.f.loop(i64(0), main_end, in_a_row, state, row)
        return self.f.loop(main_end, trips, 1, state, lambda b, s: once(b, s))

    def _counted(
        self,
        var: LoopVar,
        left: Remaining,
        state: list[Value],
        in_a_row: int,
        once: Callable[[LoopValue, list[Value], Remaining | None], list[Value]],
    ) -> list[Value]:
        """A loop over as much of an axis as a call has: whole steps in a row, then one by one, then what is left of a step."""
        now, stride = left.now, int(var.stride)
        assert isinstance(now, Value)
        whole = now if stride == 1 else self.f.op(f"udiv i64 {now.text}, {stride}", "i64")
        main, full = whole, Remaining(stride)
        if in_a_row > 1:
            rounds = self.f.op(f"udiv i64 {whole.text}, {in_a_row}", "i64")
            main = self.f.op(f"mul nsw i64 {rounds.text}, {in_a_row}", "i64")
        chains = self.tile.target.chains if self.groups is None else self.groups.chains
        sums = partial_sums(in_a_row, len(self.keys), chains, self._room_for_sums() if self.groups is None else None)

        def several(bound: Value, values: list[Value]) -> list[Value]:
            groups = [values[n::sums] for n in range(sums)]
            for n in range(in_a_row):
                groups[n % sums] = once(Shifted(bound, n), groups[n % sums], full)
                self._barrier(sums)
            return [value for values in zip(*groups) for value in values]

        spread = [value for old in state for value in (old, *[self._nothing(old.lanes)] * (sums - 1))]
        spread = self.f.loop(i64(0), main, in_a_row, spread, several)
        state = [self._joined(spread[n : n + sums]) for n in range(0, len(spread), sums)]
        if in_a_row > 1:
            state = self.f.loop(main, whole, 1, state, lambda b, s: once(b, s, full))
        if stride == 1:
            return state
        done = self.f.op(f"mul nsw i64 {whole.text}, {stride}", "i64")
        rest = Remaining(self.f.op(f"sub nsw i64 {now.text}, {done.text}", "i64"), exact=True)
        some = self.f.op(f"icmp sgt i64 {rest.now.text}, 0", "bool")  # type: ignore[union-attr]
        return self.f.choose(some, lambda: once(whole, state, rest), None, state)

    def _ahead(
        self, depth: int, env: dict[str, LoopValue], left: Remainders, rounds: int, sums: int, in_a_row: int
    ) -> Ahead | None:
        """Who writes so many rounds of a loop with its loads ahead of their use, if that can be done: all loops inside have to be
        written whole."""
        var, inside = self.block.reduce[depth], list(self.block.reduce[depth + 1 :])
        if not loads_ahead(self):
            return None
        now = {**left, var.axis: Remaining(int(var.stride))}
        for v in inside:
            count, size = int(v.count), now[v.axis].now
            if size != count * int(v.stride) or not is_written_whole(v.name in self.block.laid_out, count, self.in_a_row[v.name]):
                return None
            now[v.axis] = Remaining(int(v.stride))
        ahead = Ahead(self, var, inside, env, in_a_row, sums, rounds)
        return ahead if ahead.possible else None

    def _room_for_sums(self) -> int | None:
        """Registers for the sums of a step, where an operand is unpacked in registers: LLVM does that for all points of a step
        before it multiplies. Operands that are not unpacked are read from memory in the multiplication itself."""
        size = dtype(self.block.stage.dtype).lane_bytes
        if not any(dtype(x.dtype).bytes < size and dtype(x.dtype).kind != "b" for x in self.block.stage.reads):
            return None
        return self.tile.target.vector_registers - len(self.keys) - 2

    def _nothing(self, lanes: int) -> Value:
        """What a result is before its first step."""
        return const(self.start.value, self.start.dtype, lanes)

    def _joined(self, sums: list[Value]) -> Value:
        return functools.reduce(lambda a, b: self.arith.binary(_OPERATIONS[self.op], a, b), sums)

    def _not_at_zero(self, bound: Value) -> tuple[Value, int]:
        """A number, and what has to be added to it to have a loop's value again.

        AArch64 has an instruction that loads a number to all lanes and moves its address on, and LLVM likes it where steps in a row
        read one element after the other. It takes a unit from the multiply-adds, which can pick a lane by themselves. It has no
        offset, so the steps are counted from one before the first, in a way that LLVM does not see through.
        """
        if not self.tile.target.is_aarch64:
            return bound, 0
        before = self.f.op(f"add i64 {bound.text}, -1", "i64")
        return self.f.op(f'call i64 asm "", "=r,0"({before})', "i64"), 1

    def _barrier(self, sums: int = 1) -> None:
        """Keeps the loads of one unrolled step from moving before an earlier one.

        LLVM's scheduler would gather the loads of all steps in front, where they take the registers the tile needs. Where every
        point has factors of its own, those are as many; newer x86 reads them from memory, elsewhere they may stay for the next tap.
        """
        target = self.tile.target
        if sums * len(self.keys) >= target.vector_registers // 2:
            self.f.barrier()
            self.body.forget_loads()
        elif not target.folds_loads and self.block.vector is not None and self._all_in_lanes():
            self.f.barrier()

    def _all_in_lanes(self) -> bool:
        """Whether everything that a step reads is another vector for every point."""
        forms = [self.body.offset(x, self.block)[0] for x in loads(self.block.stage.body)]
        return all(form is not None and self.block.vector in form.terms for form in forms)

    def _last_step(self, var: LoopVar, left: Remainders, write: Callable[[int], list[Value]]) -> list[Value]:
        """All steps of the last loop at once, in lanes or as a group; `write` is told how many there are."""
        remaining = left[var.axis]
        if isinstance(remaining.now, int):
            return write(min(remaining.now, int(var.count)))
        if remaining.exact and var.name == self.block.vector:
            return self._counted_lanes(var, remaining.now, write)
        if remaining.exact and int(var.count) - 1 <= MAX_SIZES:
            remaining = Remaining(remaining.now, tuple(range(1, int(var.count))))
        if remaining.possible is None or len(remaining.possible) > MAX_SIZES:
            raise Refusal("vector reduction of unknown length", f"{self.block.stage.name}.{var.axis}")

        def choose(possible: tuple[int, ...]) -> list[Value]:
            if len(possible) == 1:
                return write(possible[0])
            is_it = self.f.op(f"icmp eq i64 {remaining.now.text}, {possible[0]}", "bool")  # type: ignore[union-attr]
            return self.f.choose(is_it, lambda: write(possible[0]), lambda: choose(possible[1:]))

        return choose(remaining.possible)

    def _counted_lanes(self, var: LoopVar, now: Value, write: Callable[[int], list[Value]]) -> list[Value]:
        """The last step of a vector loop over as much of an axis as a call has: lanes behind that keep what they had."""
        if self.block.axes[var.axis].extent % int(var.count):
            raise Refusal("vector reduction of unknown length", f"{self.block.stage.name}.{var.axis} is not whole vectors")
        self.lanes_there = now
        result = write(int(var.count))
        self.lanes_there = None
        return result

    def _group(self, env: dict[str, LoopValue], state: list[Value], count: int) -> list[Value]:
        """One step of products of bytes in groups."""
        if self.fetches:
            self.fetch(env)
        assert self.groups is not None
        return self.groups.step(env, state, count)

    def _partial(self, env: dict[str, LoopValue], state: list[Value], count: int) -> list[Value]:
        cut = []
        for lanes in self.shape.chunks:
            assert lanes is not None
            active = max(0, min(lanes.active, count - lanes.start))
            cut.append(lanes._replace(active=active) if active else None)
        return self.step(env, state, tuple(cut))

    # -- one step --------------------------------------------------------------------------------------------------

    def step(self, env: dict[str, LoopValue], state: list[Value], parts: tuple[Lanes | None, ...]) -> list[Value]:
        """Every point's contribution at one step of the reduction."""
        if self.fetches:
            self.fetch(env)
        result = []
        shared: dict[tuple[int, ...], Value] = {}
        for key, old in zip(self.keys, state):
            lanes = parts[key[1]]
            if self.across and lanes is None:
                result.append(old)
                continue
            point, plain = self.tile.point(self.block, self.shape, env, key)
            if self.across and lanes is not None:
                plain = lanes if lanes.width > 1 else None
            result.append(self._combine(old, point, plain, key, shared))
            if self.behind is not None:
                self.behind(key)
        return result

    def fetch(self, env: LoopValues) -> None:
        """Fetches what belongs to this step of operands that stream; steps in a row that share a line do it once."""
        self._steps += 1
        for what in self.fetched:
            block, step = self._last_fetch.get(what.tensor, ("", 0))
            if block != self.f.basic_block or self._steps - step >= what.every(self.tile.target.line_bytes):
                emit(self.body, what, env)
                self._last_fetch[what.tensor] = self.f.basic_block, self._steps

    def _moves_with(self, e: Expr) -> tuple[list[int], bool]:
        """Which of a point's numbers the value of an expression depends on, and whether it does on its lanes."""
        terms = {name for axis in variables(e) for name in self.block.axes[axis].value.terms}
        unrolled = [v.name for v in self.block.tile if v.name != self.block.vector]
        return [n for n, name in enumerate(unrolled) if name in terms], self.block.vector in terms

    def _value(self, e: Expr, point: LoopValues, lanes: Lanes | None, key: Key, shared: dict[tuple[int, ...], Value]) -> Value:
        """An operand at a point: the same for all points of a step that differ only in what it does not depend on."""
        numbers, in_lanes = self._moves[id(e)]
        place = (id(e), key[1] if in_lanes else -1, *[key[0][n] for n in numbers])
        if place not in shared:
            shared[place] = self.body.value(e, self.block, point, lanes)
        return shared[place]

    def _combine(
        self,
        old: Value,
        point: LoopValues,
        lanes: Lanes | None,
        key: Key,
        shared: dict[tuple[int, ...], Value],
    ) -> Value:
        if self.factors:
            a = self._value(self.factors[0], point, lanes, key, shared)
            if _is_zero(a):
                return old
            b = self._value(self.factors[1], point, lanes, key, shared)
            if _is_zero(b):
                return old
            new = self.arith.fma(a, b, old)
        else:
            value = self._value(self.block.stage.body, point, lanes, key, shared)
            if value == const(self.start.value, self.start.dtype):
                return old
            new = self.arith.binary(_OPERATIONS[self.op], old, value)
        if self.across and self.lanes_there is not None:
            numbers = range(lanes.start, lanes.start + lanes.width) if lanes is not None else [int(point[str(self.block.vector)])]  # type: ignore[arg-type]
            there = self.arith.splat(self.lanes_there, len(numbers)) if lanes is not None else self.lanes_there
            each = f"<{', '.join(f'i64 {n}' for n in numbers)}>" if lanes is not None else str(numbers[0])
            mask = self.f.op(f"icmp slt {there.type} {each}, {there.text}", "bool", there.lanes)
            new = self.arith.select(mask, new, old)
        elif self.across and lanes is not None and lanes.active < lanes.width:
            on = [f"i1 {'true' if n < lanes.active else 'false'}" for n in range(lanes.width)]
            new = self.arith.select(Value(f"<{', '.join(on)}>", "bool", lanes.width), new, old)
        return new

    def _across(self, results: dict[Key, Value]) -> dict[Key, Value]:
        """One number per point out of its lanes."""
        op = _OPERATIONS[self.op]
        points = list(dict.fromkeys(k[0] for k in self.keys))
        vectors = []
        for numbers in points:
            values = [results[k] for k in self.keys if k[0] == numbers]
            while len(values) > 1:
                widest = max(v.lanes for v in values)
                same = [v for v in values if v.lanes == widest]
                others = [v for v in values if v.lanes != widest]
                if len(same) == 1:
                    same = [halved(self.arith, op, same[0])]
                else:
                    paired = [self.arith.binary(op, a, b) for a, b in zip(same[::2], same[1::2])]
                    same = paired + ([same[-1]] if len(same) % 2 else [])
                values = same + others
            vectors.append(values[0])
        return {(numbers, 0): total for numbers, total in zip(points, totals(self.arith, op, vectors))}


def _factors(body: Expr) -> tuple[Expr, ...]:
    """The factors of a product; nothing of anything else."""
    return (body.a, body.b) if isinstance(body, Binary) and body.op == "mul" else ()


def _is_zero(v: Value) -> bool:
    return not v.text.startswith("%") and v == const(0.0, v.dtype, v.lanes)
