"""The body of a stage at one point of a register tile: loads, conditions, arithmetic.

A point fixes every loop variable: outer ones to SSA values, unrolled ones to numbers, the vector one to some lanes. Addresses are
linear in loop variables, so each load is a base pointer, a part computed at run time and shared between points, and a constant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tensorsmith.backends.cpu.codegen.addresses import Addresses, Running, Storage
from tensorsmith.backends.cpu.codegen.arith import Arithmetic
from tensorsmith.backends.cpu.codegen.irtext import Function, Value, const, i64, storage_type, type_text
from tensorsmith.backends.cpu.codegen.points import InARow, Lanes, LoopValues, active_mask, blank, stored_type
from tensorsmith.backends.cpu.codegen.whole import as_float, as_integer, clamped, passed_through
from tensorsmith.lang.affine import Affine, Bounds, affine
from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.expr import Binary, Bitcast, Cast, Const, Expr, Load, Select, Unary, joined, loads, shared, variables
from tensorsmith.lang.in_bounds import simply_in_bounds
from tensorsmith.program.ir import Block, Program, loop_vars
from tensorsmith.program.linear import Linear
from tensorsmith.program.positions import in_elements, is_inside, over_loops, read_at, reshaped_at

FormKey = tuple[object, ...]

_MAX_FILLED = 4096  # elements of constant memory that stand in for what lies beyond an edge
_ANYWHERE = Value("anywhere", "bool")  # a mask: the value is wanted at all points, so each load has to see to its own bounds


class BodyEmitter(Addresses):
    """Evaluates expressions of one block at its points."""

    def __init__(
        self,
        function: Function,
        arithmetic: Arithmetic,
        program: Program,
        storage: Mapping[str, Storage],
        vector_bytes: int,  # of a register
        interleaved_bytes: int,  # of those, by one instruction
    ) -> None:
        super().__init__(function, arithmetic, storage)
        self.vector_bytes, self.interleaved_bytes = vector_bytes, interleaved_bytes
        self.program = program
        self.loops = loop_vars(program)
        self.registers: dict[str, dict[tuple[int, ...], Value]] = {}  # buffers that never reach memory
        self.known: set[FormKey] = set()  # conditions that hold here
        self.in_a_row: InARow | None = None  # steps of which several can be loaded at once
        # What depends on the expression alone is worked out once, not at every point; nodes stay alive, so `id` will do.
        self._forms: dict[tuple[int, int], Linear | None] = {}
        self._offsets: dict[tuple[int, int], tuple[Linear | None, bool]] = {}
        self._facts: dict[tuple[int, int], list[tuple[Linear, FormKey]] | None] = {}
        self._used_again: dict[int, frozenset[Expr]] = {}
        self._unguarded: dict[tuple[int, int], bool] = {}
        self._held: dict[tuple[int, int], list[Linear]] = {}
        self._apart: dict[tuple[int, int], tuple[Linear, Linear, int]] = {}
        self._loops: dict[tuple[int, int], tuple[str, ...] | None] = {}
        self._decided: dict[tuple[object, ...], bool] = {}
        # The values of nodes that are used again, and the masks they were computed under, at one point.
        self._point: tuple[Block, LoopValues, Lanes | None, str] | None = None
        self._known_values: dict[Expr, tuple[Value | None, Value]] = {}
        self._again: frozenset[Expr] = frozenset()  # nodes that are used again

    # -- expressions -----------------------------------------------------------------------------------------------

    def value(self, e: Expr, block: Block, env: LoopValues, lanes: Lanes | None) -> Value:
        """`e`, the body of a block or a part of it, at a point."""
        now = self._point
        if now is None or now[0] is not block or now[1] is not env or now[2:] != (lanes, self.f.basic_block):
            self._point, self._known_values = (block, env, lanes, self.f.basic_block), {}
            self._again = self.used_again(block)
        return self._value(e, block, env, lanes, None)

    def _value(self, e: Expr, block: Block, env: LoopValues, lanes: Lanes | None, mask: Value | None) -> Value:
        """Under a `mask` the loads that would fail where it is false do not touch memory there.

        What is used again is computed once, or at most twice: under the first mask that it is wanted under, and, if it is wanted
        under another one, at all points.
        """
        if isinstance(e, Const):
            return const(e.value, e.dtype)
        if e.dtype == "i64":
            form = self.form(e, block)
            if form is not None:
                return self.integer(form, env, lanes)
        if isinstance(e, Load):
            return self.load(e, block, env, lanes, mask)
        if e not in self._again:
            return self._operation(e, block, env, lanes, mask)
        if mask is not None and self.unguarded(e, block):
            mask = None
        if e in self._known_values:
            under, value = self._known_values[e]
            if under in (None, _ANYWHERE, mask):
                return value
            mask = _ANYWHERE
        value = self._operation(e, block, env, lanes, mask)
        self._known_values[e] = mask, value
        return value

    def _operation(self, e: Expr, block: Block, env: LoopValues, lanes: Lanes | None, mask: Value | None) -> Value:
        if isinstance(e, Binary):
            a = self._value(e.a, block, env, lanes, mask)
            b = self._value(e.b, block, env, lanes, mask)
            return self.arith.binary(e.op, a, b)
        if isinstance(e, Select):
            return self.select(e, block, env, lanes, mask)
        if isinstance(e, Cast):
            passed = passed_through(e)
            whole = passed or (clamped(e) if e.a not in self._again else None)
            if whole is not None:
                value = self._value(whole.value, block, env, lanes, mask)
                zero = None if whole.zero is None else self._value(whole.zero, block, env, lanes, mask)
                if passed is not None:
                    return as_float(self.arith, whole, value, zero)
                return self.arith.cast(e.dtype, as_integer(self.arith, whole, value, zero))
            return self.arith.cast(e.dtype, self._value(e.a, block, env, lanes, mask))
        if isinstance(e, Bitcast):
            return self.arith.bitcast(e.dtype, self._value(e.a, block, env, lanes, mask))
        assert isinstance(e, Unary)
        return self.arith.unary(e.op, self._value(e.a, block, env, lanes, mask))

    def used_again(self, block: Block) -> frozenset[Expr]:
        """The nodes of a block's body that are used more than once."""
        if id(block) not in self._used_again:
            self._used_again[id(block)] = frozenset(shared(block.stage.body))
        return self._used_again[id(block)]

    def unguarded(self, e: Expr, block: Block) -> bool:
        """Whether `e` can be computed anywhere: conditions outside of it protect none of its loads."""
        key = (id(block), id(e))
        if key not in self._unguarded:
            shapes = {name: b.shape for name, b in self.program.workload.buffers.items()}
            regions = any(self.offset(x, block)[0] is None and self._is_region(x.tensor) for x in loads(e))
            self._unguarded[key] = not regions and simply_in_bounds(e, block.stage.bounds(), shapes)
        return self._unguarded[key]

    def select(self, e: Select, block: Block, env: LoopValues, lanes: Lanes | None, mask: Value | None) -> Value:
        cond = self.condition(e.cond, block, env, lanes, mask)
        if cond is True:
            return self._value(e.a, block, env, lanes, mask)
        if cond is False:
            return self._value(e.b, block, env, lanes, mask)
        assert isinstance(cond, Value)
        if mask is _ANYWHERE:
            a, b = (self._value(branch, block, env, lanes, mask) for branch in (e.a, e.b))
            return self.arith.select(cond, a, b)
        inside = cond if mask is None else self.arith.binary("and", mask, cond)
        if inside.lanes and lanes is not None and lanes.active < lanes.width:
            inside = self.arith.binary("and", inside, active_mask(lanes))
        either = self._load_or(e, block, env, lanes, inside) if mask is None else None
        if either is not None:
            return either
        a = self._value(e.a, block, env, lanes, inside)
        outside = None
        if not isinstance(e.b, Const):
            opposite = self.arith.unary("not", cond)
            outside = opposite if mask is None else self.arith.binary("and", mask, opposite)
        b = self._value(e.b, block, env, lanes, outside)
        return self.arith.select(cond, a, b)

    def condition(self, e: Expr, block: Block, env: LoopValues, lanes: Lanes | None, mask: Value | None) -> Value | bool:
        """A condition: decided now where the loop variables in it are numbers or it is known to hold, else a value."""
        if isinstance(e, Const):
            return bool(e.value)
        loops = self._loops_of(e, block)
        if loops is None:
            return self._condition(e, block, env, lanes, mask)
        key: tuple[object, ...] = (id(block), id(e), *map(env.get, loops))
        if (known := self._decided.get(key)) is not None:
            return known
        found = self._condition(e, block, env, lanes, mask)
        if isinstance(found, bool) and all(type(env.get(name)) is int for name in loops):
            self._decided[key] = found  # not what was computed: that belongs to its basic block
        return found

    def _loops_of(self, e: Expr, block: Block) -> tuple[str, ...] | None:
        """The loops that an expression depends on; None if it depends on data, too."""
        key = (id(block), id(e))
        if key not in self._loops:
            axes = variables(e)
            data = any(True for _ in loads(e)) or not axes <= block.axes.keys()
            self._loops[key] = None if data else tuple({n: 0 for a in sorted(axes) for n in block.axes[a].value.terms})
        return self._loops[key]

    def _condition(self, e: Expr, block: Block, env: LoopValues, lanes: Lanes | None, mask: Value | None) -> Value | bool:
        if isinstance(e, Binary) and e.op in ("and", "or"):
            a = self.condition(e.a, block, env, lanes, mask)
            b = self.condition(e.b, block, env, lanes, mask)
            decisive = e.op == "or"
            for this, other in ((a, b), (b, a)):
                if isinstance(this, bool):
                    return decisive if this is decisive else other
            assert isinstance(a, Value) and isinstance(b, Value)
            return self.arith.binary(e.op, a, b)
        facts = self.facts(e, block)
        if facts is not None:
            result: Value | bool = True
            for fact, key in facts:
                one = True if key in self.known else self.fact(fact, env, lanes)
                if one is False:
                    return False
                if isinstance(one, Value):
                    result = one if result is True else self.arith.binary("and", result, one)  # type: ignore[arg-type]
            return result
        return self._value(e, block, env, lanes, mask)

    def fact(self, form: Linear, env: LoopValues, lanes: Lanes | None) -> Value | bool:
        """Whether a linear form is at least 0."""
        low, high = self.span(form, env, lanes)
        if low >= 0:
            return True
        if high < 0:
            return False
        running, constant, step = self.linear(form, env, lanes)
        if not step:
            assert running is not None
            return self.f.op(f"icmp sge i64 {self.total(running).text}, {-constant}", "bool")
        value = self.integer(form, env, lanes)
        return self.f.op(f"icmp sge {value}, {const(0, 'i64', value.lanes).text}", "bool", value.lanes)

    def span(self, form: Linear, env: LoopValues, lanes: Lanes | None) -> tuple[int, int]:
        """The least and the most that a linear form can be: a loop counts from 0 to its number of steps."""
        low = high = int(form.offset)
        for name, number in form.terms.items():
            coefficient, bound = int(number), env.get(name)
            first, last = 0, max(1, int(self.loops[name].count)) - 1
            if isinstance(bound, int):
                first = last = bound
            elif lanes is not None and name == lanes.var:
                first, last = lanes.start, lanes.start + lanes.active - 1
            low += min(coefficient * first, coefficient * last)
            high += max(coefficient * first, coefficient * last)
        return low, high

    # -- loads -----------------------------------------------------------------------------------------------------

    def load(self, e: Load, block: Block, env: LoopValues, lanes: Lanes | None, mask: Value | None) -> Value:
        held = self.registers.get(e.tensor)
        if held is not None:
            return held[self.held_at(e, block, env, lanes)]
        form, safe = self.offset(e, block)
        if form is None:
            return self._gather(e, block, env, lanes, mask)
        needs = None if safe else mask
        if needs is _ANYWHERE:
            inside = self._in_bounds(e, block, env, lanes)
            if inside is False:
                return const(0, e.dtype)
            needs = None if inside is True else inside
        running, constant, step = self.linear(form, env, lanes)
        if needs is None and not step and self.in_a_row is not None and self.in_a_row.neighbours(form):
            place, width = self.in_a_row.place(env)
            if width > 1:
                return self._one_of_several(e, running, constant, place, width)
        key = (
            "load",
            e.tensor,
            running,
            constant,
            step,
            lanes if step else None,
            needs and needs.text,
        )
        return self.remember(key, lambda: self._load(e, running, constant, step, lanes if step else None, needs))

    def _one_of_several(self, e: Load, running: Running | None, constant: int, place: int, width: int) -> Value:
        """What one step reads, out of a vector with what its neighbours read."""

        def several() -> Value:
            pointer = self.pointer(e.tensor, running, constant - place)
            return self.f.op(f"load {storage_type(e.dtype, width)}, {pointer}, align {_align(e.dtype)}", e.dtype, width)

        found = self.remember(("loads", e.tensor, running, constant - place), several)
        return self.remember(("element", found.text, place), lambda: self.arith.piece(found, place, 1))

    def _in_bounds(self, e: Load, block: Block, env: LoopValues, lanes: Lanes | None) -> Value | bool:
        """Whether a load at affine indices reads an element that is there."""
        result: Value | bool = True
        for index, extent in zip(e.indices, self.program.workload.buffers[e.tensor].shape):
            form = self.form(index, block)
            assert form is not None
            for fact in (form, Linear({}, extent - 1) - form):
                one = self.fact(fact, env, lanes)
                if one is False:
                    return False
                if isinstance(one, Value):
                    result = one if result is True else self.arith.binary("and", result, one)  # type: ignore[arg-type]
        return result

    def _load_or(self, e: Select, block: Block, env: LoopValues, lanes: Lanes | None, cond: Value) -> Value | None:
        """A load where the condition holds, else a constant, as one load: of the tensor, or of memory that holds the constant.
        None where it cannot be that.

        LLVM makes a branch of a choice between numbers, but none of a choice between addresses. The choice is made without the
        reduction loops that it does not depend on, so that it stays outside of them.
        """
        load, other = e.a, e.b
        if not isinstance(load, Load) or not isinstance(other, Const) or cond.lanes or load.tensor in self.registers:
            return None
        form, _ = self.offset(load, block)
        if form is None:
            return None
        if (id(block), id(e)) not in self._apart:
            inner, reach = self.apart(e, block)
            self._apart[id(block), id(e)] = form - inner, inner, reach
        outer, inner, reach = self._apart[id(block), id(e)]
        running, constant, step = self.linear(outer, env, lanes)
        moved, distance, _ = self.linear(inner, env, None)
        if step not in (0, 1) or (step and lanes and lanes.active < lanes.width and not self.storage[load.tensor].slack):
            return None
        width = lanes.width if lanes is not None and step else 0
        element, kind = storage_type(load.dtype), stored_type(load.dtype)
        filled = const(other.value, kind)

        def chosen() -> Value:
            count = reach + max(1, width)
            name = f'@"{count} x {filled}"'
            items = f"[{', '.join([str(filled)] * count)}]" if filled != const(0, kind) else "zeroinitializer"
            self.arith.declarations.add(f"{name} = private unnamed_addr constant [{count} x {element}] {items}")
            return self.f.op(f"select {cond}, {self.pointer(load.tensor, running, constant)}, ptr {name}", "ptr")

        def loaded() -> Value:
            pointer = self.remember((*key, "pointer"), chosen)
            if moved is not None:
                pointer = self.moved(pointer, element, moved)
            if distance:
                pointer = self.f.op(f"getelementptr {element}, {pointer}, i64 {distance}", "ptr")
            found = self.f.op(f"load {storage_type(load.dtype, width)}, {pointer}, align {_align(load.dtype)}", kind, width)
            return self.from_storage(found, load.dtype)

        key = ("pointer", load.tensor, running, constant, lanes if step else None, cond.text, filled.text, reach)
        return self.remember(("load", *key, moved, distance), loaded)

    def apart(self, e: Select, block: Block) -> tuple[Linear, int]:
        """Of a load or a constant: the part of the load's position that moves with reduction loops on which the choice does not
        depend, and the most that it can be. Nothing if there would have to be too much of the constant."""
        form = self.offset(e.a, block)[0] if isinstance(e.a, Load) else None
        facts = self.facts(e.cond, block)
        if form is None or facts is None:
            return Linear(), 0
        tested = {block.vector, block.group, *(name for fact, _ in facts for name in fact.terms)}
        inner = {v.name: int(form.terms[v.name]) for v in block.reduce if v.name in form.terms and v.name not in tested}
        reach = sum(coefficient * (int(block.loop(name).count) - 1) for name, coefficient in inner.items())
        if any(coefficient < 0 for coefficient in inner.values()) or reach > _MAX_FILLED:
            return Linear(), 0
        return Linear(inner), reach

    def offset(self, e: Load, block: Block) -> tuple[Linear | None, bool]:
        """(position in the buffer in elements, whether it is always in bounds); no position where it is not linear."""
        key = (id(block), id(e))
        if key not in self._offsets:
            self._offsets[key] = self._offset(e, block)
        return self._offsets[key]

    def form(self, e: Expr, block: Block) -> Linear | None:
        """An integer expression as a linear form of loop variables, or None."""
        key = (id(block), id(e))
        if key not in self._forms:
            found = affine(e)
            self._forms[key] = None if found is None else over_loops(found, block.axes)
        return self._forms[key]

    def facts(self, e: Expr, block: Block) -> list[tuple[Linear, FormKey]] | None:
        """A condition as linear forms that must all be at least 0, with their keys; None where it is not that."""
        key = (id(block), id(e))
        if key not in self._facts:
            found = affine_facts(e)
            forms = None if found is None else [over_loops(fact, block.axes) for fact in found]
            self._facts[key] = None if forms is None else [(form, form_key(form)) for form in forms]
        return self._facts[key]

    def _offset(self, e: Load, block: Block) -> tuple[Linear | None, bool]:
        buffer = self.program.buffers[e.tensor]
        strides = self.storage[e.tensor].strides
        forms = read_at(e, block, buffer)
        if buffer.packed is not None:
            return in_elements([f for f in forms if f is not None], strides), True
        shape = self.program.workload.buffers[e.tensor].shape
        safe = is_inside(e, block, shape)
        linear = [f for f in forms if f is not None]
        if len(linear) == len(forms):
            return in_elements(linear, strides), safe
        whole = not any(o.terms or o.offset for o in buffer.origin)
        return reshaped_at(e, block, shape) if whole else None, safe

    def _load(self, e: Load, running: Running | None, constant: int, step: int, lanes: Lanes | None, mask: Value | None) -> Value:
        name = e.dtype
        if lanes is None:
            pointer = self.pointer(e.tensor, running, constant)
            if mask is not None:
                # where the mask is off, read an element that is there; the value is not used
                pointer = self.f.op(f"select {_any(self, mask)}, {pointer}, {self.storage[e.tensor].pointer}", "ptr")
            return self.from_storage(
                self.f.op(f"load {storage_type(name)}, {pointer}, align {_align(name)}", stored_type(name)), name
            )
        if step == 1:
            return self._contiguous(e, running, constant, lanes, mask)
        result = blank(name, lanes)
        for n in range(lanes.active):
            pointer = self.pointer(e.tensor, running, constant + n * step)
            if mask is not None:
                on = self.arith.piece(mask, n, 1) if mask.lanes else mask
                pointer = self.f.op(f"select {on}, {pointer}, {self.storage[e.tensor].pointer}", "ptr")
            item = self.f.op(f"load {storage_type(name)}, {pointer}, align {_align(name)}", stored_type(name))
            result = self.f.op(f"insertelement {result}, {item}, i32 {n}", stored_type(name), lanes.width)
        return self.from_storage(result, name)

    def _contiguous(self, e: Load, running: Running | None, constant: int, lanes: Lanes, mask: Value | None) -> Value:
        def pointer(start: int) -> Value:
            return self.pointer(e.tensor, running, constant + start)

        return self._vector_at(e.dtype, lanes, pointer, self.storage[e.tensor], mask)

    def _vector_at(self, name: str, lanes: Lanes, pointer: Callable[[int], Value], place: Storage, mask: Value | None) -> Value:
        """Neighbours in memory; `pointer` says where one of them is."""
        short = lanes.active < lanes.width and not place.slack
        if not short and mask is None:
            stored = storage_type(name, lanes.width)
            loaded = self.f.op(f"load {stored}, {pointer(0)}, align {_align(name)}", stored_type(name), lanes.width)
            return self.from_storage(loaded, name)
        on = active_mask(lanes)
        if mask is not None:
            every = self.arith.splat(mask, lanes.width)
            on = self.arith.binary("and", every, on) if short else every
        # LLVM 22 reads a register without its mask when it splits a wider masked load, so none is wider than a register
        width = min(lanes.width, max(1, self.vector_bytes // dtype(name).bytes))
        parts = []
        for start in range(0, lanes.width, width):
            parts.append(self.masked_load(pointer(start), self.arith.piece(on, start, width), name))
        while len(parts) > 1:
            parts = [self.arith.joined(a, b) for a, b in zip(parts[::2], parts[1::2])]
        return self.from_storage(parts[0], name)

    def masked_load(self, pointer: Value, on: Value, name: str) -> Value:
        """The lanes that are on, and 0 in the others."""
        stored, kind = storage_type(name, on.lanes), stored_type(name)
        suffix = f"v{on.lanes}{'f' if dtype(kind).kind == 'f' and kind != 'bf16' else 'i'}{dtype(kind).bytes * 8}"
        self.arith.declarations.add(f"declare {stored} @llvm.masked.load.{suffix}.p0(ptr, i32, <{on.lanes} x i1>, {stored})")
        passed = const(0, kind, on.lanes)
        call = f"call {stored} @llvm.masked.load.{suffix}.p0({pointer}, i32 {_align(name)}, {on}, {passed})"
        return self.f.op(call, kind, on.lanes)

    def _gather(self, e: Load, block: Block, env: LoopValues, lanes: Lanes | None, mask: Value | None) -> Value:
        """A load at indices computed from data: each clamped to the tensor's edge, lane by lane."""
        neighbours = self._row_of_neighbours(e, block, env, lanes, mask)
        if neighbours is not None:
            return neighbours
        buffer, place = self.program.buffers[e.tensor], self.storage[e.tensor]
        bounds: Bounds = block.stage.bounds()
        total: Value = i64(0)
        for index, extent, stride, origin, length in zip(
            e.indices, self.program.workload.buffers[e.tensor].shape, place.strides, buffer.origin, buffer.shape
        ):
            value = self._value(index, block, env, lanes, mask)
            value = self._position(value, bounds.range(index), extent, origin, int(length), e.tensor, env, mask)
            total = self.arith.binary("add", total, self.arith.binary("mul", value, i64(stride)))
        if mask not in (None, _ANYWHERE) and any(o.terms or o.offset for o in buffer.origin):
            assert mask is not None
            # of a region, only what is asked for is there: where the mask is off, read its first element
            total = self.arith.select(mask if total.lanes else _any(self, mask), total, const(0, "i64", total.lanes))
        if not total.lanes:
            return self._at(place, total, e.dtype)
        assert lanes is not None
        result = blank(e.dtype, lanes)
        for n in range(lanes.active):
            item = self._at(place, self.arith.piece(total, n, 1), e.dtype, raw=True)
            result = self.f.op(f"insertelement {result}, {item}, i32 {n}", stored_type(e.dtype), total.lanes)
        return self.from_storage(result, e.dtype)

    def _row_of_neighbours(self, e: Load, block: Block, env: LoopValues, lanes: Lanes | None, mask: Value | None) -> Value | None:
        """What lanes along the last dimension read, at a place that is computed (half of a row's number, say) and the same for all
        of them: one vector. None where it is not that."""
        buffer, place, shape = self.program.buffers[e.tensor], self.storage[e.tensor], self.program.workload.buffers[e.tensor].shape
        if lanes is None or not shape or place.strides[-1] != 1:
            return None
        if buffer.origin[-1].terms or buffer.origin[-1].offset or int(buffer.shape[-1]) != shape[-1]:
            return None  # a part of the dimension alone is kept
        form, bounds = self.form(e.indices[-1], block), block.stage.bounds()
        running, first, step = (None, 0, 0) if form is None else self.linear(form, env, lanes)
        found = bounds.range(e.indices[-1]) if running is not None else (first, first + lanes.active - 1)  # these very lanes
        inside = found is not None and found[0] >= 0 and found[1] < shape[-1]
        if step != 1 or (not inside and mask in (None, _ANYWHERE)):
            return None
        total = i64(first) if running is None else self.arith.binary("add", self.total(running), i64(first))
        for index, extent, stride, origin, length in zip(e.indices[:-1], shape, place.strides, buffer.origin, buffer.shape):
            value = self._value(index, block, env, lanes, mask)
            if value.lanes:
                return None
            value = self._position(value, bounds.range(index), extent, origin, int(length), e.tensor, env, mask)
            total = self.arith.binary("add", total, self.arith.binary("mul", value, i64(stride)))
        pointer = self._element(place.pointer, total, e.dtype)
        there = inside and (mask in (None, _ANYWHERE) or not self._is_region(e.tensor))  # else only where it is asked for
        return self._vector_at(
            e.dtype, lanes, lambda start: self._element(pointer, i64(start), e.dtype), place, None if there else mask
        )

    def _position(
        self,
        value: Value,
        found: tuple[int, int] | None,
        extent: int,
        origin: Linear,
        length: int,
        tensor: str,
        env: LoopValues,
        mask: Value | None,
    ) -> Value:
        """An index, `found` to lie between two numbers, as a position in what is kept of a dimension: never beyond its edges."""
        if found is None or found[0] < 0 or found[1] >= extent:
            value = self._clamped(value, extent)
        if origin.terms or origin.offset:
            value = self.arith.binary("sub", value, self.integer(origin, env, None))
        return self._clamped(value, length) if mask is _ANYWHERE and self._is_region(tensor) else value

    def _clamped(self, value: Value, extent: int) -> Value:
        value = self.arith.extremum("max", value, const(0, "i64", value.lanes))
        return self.arith.extremum("min", value, const(extent - 1, "i64", value.lanes))

    def _is_region(self, tensor: str) -> bool:
        """Whether only a part of a tensor is kept, where it is asked for."""
        buffer = self.program.buffers[tensor]
        moved = any(o.terms or o.offset for o in buffer.origin)
        return moved or tuple(map(int, buffer.shape)) != self.program.workload.buffers[tensor].shape

    def _at(self, place: Storage, offset: Value, name: str, raw: bool = False) -> Value:
        pointer = self._element(place.pointer, offset, name)
        item = self.f.op(f"load {storage_type(name)}, {pointer}, align {_align(name)}", stored_type(name))
        return item if raw else self.from_storage(item, name)

    def _element(self, pointer: Value, offset: Value, name: str) -> Value:
        return self.f.op(f"getelementptr {storage_type(name)}, {pointer}, i64 {offset.text}", "ptr")

    def from_storage(self, v: Value, name: str) -> Value:
        """What was loaded as a value of its type: a bool is stored as a byte."""
        if name != "bool":
            return Value(v.text, name, v.lanes)
        return self.f.op(f"icmp ne {v}, {const(0, 'u8', v.lanes).text}", "bool", v.lanes)

    # -- values held in registers ----------------------------------------------------------------------------------

    def held_at(self, e: Load, block: Block, env: LoopValues, lanes: Lanes | None) -> tuple[int, ...]:
        """Where inside a register-held buffer a read falls, for its first lane; only numbers can be in it."""
        key = (id(block), id(e))
        if key not in self._held:
            forms = read_at(e, block, self.program.buffers[e.tensor])
            self._held[key] = [form for form in forms if form is not None]
            assert len(self._held[key]) == len(forms)
        position = []
        for form in self._held[key]:
            running, constant, _ = self.linear(form, env, lanes)
            assert running is None
            position.append(constant)
        return tuple(position)


def affine_facts(e: Expr) -> list[Affine] | None:
    """The condition as affine forms that must all be >= 0, or None."""
    facts: list[Affine] = []
    for part in joined(e, "and"):
        if not isinstance(part, Binary) or part.op not in ("lt", "le", "eq") or part.a.dtype != "i64":
            return None
        a, b = affine(part.a), affine(part.b)
        if a is None or b is None:
            return None
        difference = b + a.scaled(-1)
        if part.op == "lt":
            facts.append(difference + Affine({}, -1))
        else:
            facts += [difference] if part.op == "le" else [difference, difference.scaled(-1)]
    return facts


def form_key(form: Linear) -> FormKey:
    return (*sorted(form.terms.items()), form.offset)


def _align(name: str) -> int:
    return dtype(name).bytes


def _any(body: BodyEmitter, mask: Value) -> Value:
    """A scalar mask for a load that is the same in all lanes: on if any lane wants it."""
    if not mask.lanes:
        return mask
    bits = type_text("bool", mask.lanes)
    body.arith.declarations.add(f"declare i1 @llvm.vector.reduce.or.v{mask.lanes}i1({bits})")
    return body.f.op(f"call i1 @llvm.vector.reduce.or.v{mask.lanes}i1({mask})", "bool")
