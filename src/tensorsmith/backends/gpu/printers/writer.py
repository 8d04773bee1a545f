"""One kernel as LLVM's text.

Loops that are laid out are laid out here, so that every element of a private array has a constant place and becomes a register.
Arithmetic, and the polynomials for functions, are those of the code for CPUs, on single numbers.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from tensorsmith.backends.cpu.codegen.arith import Arithmetic, Fused
from tensorsmith.backends.cpu.codegen.irtext import Function, Value, const, storage_type
from tensorsmith.backends.gpu.printers.c import no_matrix
from tensorsmith.backends.gpu.printers.machines import Machine
from tensorsmith.backends.gpu.printers.names import array_name, entry
from tensorsmith.backends.gpu.printers.numbers import Numbers
from tensorsmith.backends.gpu.printers.places import Places, array_type, pointers
from tensorsmith.backends.gpu.simt.ir import (
    BLOCK,
    PRIVATE,
    SHARED,
    THREAD,
    Array,
    Barrier,
    For,
    If,
    Kernel,
    Let,
    Meet,
    Move,
    Multiply,
    Row,
    Statement,
    Store,
    Wait,
    walk,
)  # fmt: skip
from tensorsmith.lang.dtypes import dtype, is_float
from tensorsmith.lang.expr import Binary, Bitcast, Cast, Const, Expr, Load, Select, Unary, Var


class Writer:
    """Writes one kernel."""

    def __init__(self, kernel: Kernel, machine: Machine, helpers: dict[str, str], declarations: set[str]) -> None:
        self.kernel, self.machine = kernel, machine
        parameters = ", ".join(f"{machine.pointer} %{array_name(a.name)}" for a in kernel.arguments)
        attributes = machine.attributes.format(threads=kernel.block)
        self.f = Function(f"define {machine.kernel} void @{entry(kernel.name)}({parameters}) {attributes}".rstrip())
        self.arithmetic = Arithmetic(self.f, helpers, declarations, Fused())
        self.arrays = {a.name: a for a in kernel.arrays}
        self.pointers = pointers(kernel)
        shared = [a for a in kernel.arrays if a.scope == SHARED]
        self.shared = [f"{self.pointers[a.name]} = internal addrspace(3) global {array_type(a)} undef, align 16" for a in shared]
        self.numbers = Numbers(self.f, kernel.counts, machine.divide, self.value)
        self.loaded: list[dict[tuple[str, str], Value]] = [{}]  # what is known of memory, by array and place
        self.places = Places(self.pointers, self.numbers, machine.private_space)
        self.declarations = declarations

    def text(self) -> str:
        m, space = self.machine, self.machine.private_space
        for a in self.kernel.arrays:
            if a.scope == PRIVATE:
                where = f", addrspace({space})" if space else ""
                self.f.entry.append(f"  {self.pointers[a.name]} = alloca {array_type(a)}, align 16{where}")
        for variable, instruction in ((BLOCK, m.block), (THREAD, m.thread)):
            number = self.f.op(instruction, m.number_type)
            if m.number_type != "i32":
                number = self.f.op(f"trunc {number} to i32", "i32")
            self.numbers.variables[variable.name] = number
        self._body(self.kernel.body)
        return self.f.text()

    # -- statements ----------------------------------------------------------------------------------------------------

    def _body(self, body: Sequence[Statement]) -> None:
        for n, s in enumerate(body):
            if isinstance(s, Let):
                self.numbers.variables[s.name] = self.numbers.count(s.value)
            elif isinstance(s, For):
                self._for(s)
            elif isinstance(s, If):
                self._if(s)
            elif isinstance(s, Barrier):
                for line in self.machine.barrier:
                    self.f.line(line)
                self._forget({a.name for a in self.kernel.arrays if a.scope == SHARED})
            elif isinstance(s, Move):
                self._move(s)
            elif isinstance(s, Wait):
                for line in self.machine.wait:
                    self._called(line)
            elif isinstance(s, Meet):
                if self.machine.meet:
                    self._called(self.machine.meet)
            elif isinstance(s, Multiply):
                for one in itertools.takewhile(lambda x: isinstance(x, Multiply), body[n:]):
                    self._fragments(one)  # in front of all of them: LLVM joins no loads across these instructions
                self._multiply(s)
            else:
                self._store(self.arrays[s.array], s.index, self.value(s.value))

    def _store(self, array: Array, index: Expr, value: Value) -> None:
        if array.dtype == "bool":
            value = self.arithmetic.cast("u8", value)
        place, aligned = self.places.aligned(array, index)
        self.f.line(f"store {value}, {place}, align {aligned}")
        self._forget({array.name})

    def _called(self, call: str) -> None:
        """A call of a function that gives nothing; it is declared too."""
        self.declarations.add(declaration(call))
        self.f.line(call)

    def _for(self, s: For) -> None:
        if s.in_a_row >= s.count:
            for step in range(s.count):
                self.numbers.variables[s.name] = step
                self._body(s.body)
            return
        row = max(1, s.in_a_row)
        whole = s.count - s.count % row
        before, header, after = self.f.basic_block, self.f.label(), self.f.label()
        self._forget(_stored(s.body, self.kernel))
        self.f.jump(header)
        self.f.start(header)
        position = len(self.f.lines)
        variable, following = self.f.name(), self.f.name()
        self._enter()
        for n in range(row):
            number = Value(variable, "i32")
            self.numbers.variables[s.name] = number if n == 0 else self.numbers.added(number, n)
            self._body(s.body)
        self._leave()
        latch = self.f.basic_block
        self.f.line(f"{following} = add nuw nsw i32 {variable}, {row}")
        again = self.f.op(f"icmp slt i32 {following}, {whole}", "bool")
        self.f.branch(again, header, after)
        self.f.lines.insert(position, f"  {variable} = phi i32 [ 0, %{before} ], [ {following}, %{latch} ]")
        self.f.start(after)
        for step in range(whole, s.count):
            self.numbers.variables[s.name] = step
            self._body(s.body)

    def _if(self, s: If) -> None:
        holds = self.condition(s.condition)
        if isinstance(holds, bool):
            if holds:
                self._body(s.body)
            return
        inside, after = self.f.label(), self.f.label()
        self.f.branch(holds, inside, after)
        self.f.start(inside)
        self._enter()
        self._body(s.body)
        self._leave()
        self.f.jump(after)
        self.f.start(after)

    def _move(self, s: Move) -> None:
        to, source = self.arrays[s.array], self.arrays[s.source]
        size = dtype(to.dtype).bytes * s.width
        if s.apart and self.machine.copy_apart:
            places = {"to": self.places.place(to, s.index), "from_": self.places.place(source, s.start)}
            self._called(self.machine.copy_apart.format(bytes=size, **places))
            self._forget({s.array})
            return
        kind = f"<{s.width} x {storage_type(to.dtype)}>"
        moved = self.f.op(f"load {kind}, {self.places.place(source, s.start)}, align {size}", to.dtype, s.width)
        self.f.line(f"store {kind} {moved.text}, {self.places.place(to, s.index)}, align {size}")
        self._forget({s.array})

    def _multiply(self, s: Multiply) -> None:
        if not self.machine.matrix:
            raise no_matrix(self.kernel, self.machine.name)
        sums = [Load(s.array, (e,), "f32") for e in s.sums]
        pairs = self._fragments(s)
        given = ", ".join(map(str, [*pairs, *map(self.value, sums)]))
        kind = "{ " + ", ".join(["float"] * len(sums)) + " }"
        call = f"call {kind} @{self.machine.matrix}({given})"
        self.declarations.add(declaration(call))
        made = self.f.op(call, kind)
        for n, e in enumerate(s.sums):
            self._store(self.arrays[s.array], e, self.f.op(f"extractvalue {kind} {made.text}, {n}", "f32"))

    def _fragments(self, s: Statement) -> list[Value]:
        """What a lane gives of the operands, two values in a register."""
        assert isinstance(s, Multiply)
        found: list[Value] = []
        for named, row in ((s.left, s.left_row), (s.right, s.right_row)):
            if row is not None and self.machine.load_matrix:
                found += self._rows(row, len(named) // 2)
            else:
                values = [self.value(x) for x in named]
                found += [self._pair(*values[n : n + 2]) for n in range(0, len(values), 2)]
        return found

    def _rows(self, row: Row, pieces: int) -> list[Value]:
        """The same of an operand, dealt out of the rows that lanes name; once, as long as nobody may have stored there."""
        first, m = row.first, self.machine
        place = self.places.place(self.arrays[first.tensor], first.indices[0])
        keys = [(first.tensor, f"piece {n} of {place}") for n in range(pieces)]
        for known in self.loaded:
            if keys[0] in known:
                return [known[key] for key in keys]
        kind = "{ " + ", ".join(["i32"] * pieces) + " }"
        call = f"call {kind} @{m.load_matrix.format(pieces=pieces, across=m.across if row.across else '')}({place})"
        self.declarations.add(declaration(call))
        made = self.f.op(call, kind)
        for n, key in enumerate(keys):
            word = self.f.op(f"extractvalue {kind} {made.text}, {n}", "i32")
            self.loaded[-1][key] = self.f.op(f"bitcast {word} to <2 x half>", first.dtype, 2)
        return [self.loaded[-1][key] for key in keys]

    def _pair(self, first: Value, second: Value) -> Value:
        """Two values of 16 bits in one register."""
        one = self.f.op(f"insertelement <2 x half> poison, {first}, i32 0", first.dtype, 2)
        return self.f.op(f"insertelement {one}, {second}, i32 1", first.dtype, 2)

    # -- memory --------------------------------------------------------------------------------------------------------

    def _load(self, e: Load) -> Value:
        array = self.arrays[e.tensor]
        place, aligned = self.places.aligned(array, e.indices[0])
        key = (e.tensor, place)
        for known in self.loaded:
            if key in known:
                return known[key]
        kind = "u8" if array.dtype == "bool" else array.dtype
        value = self.f.op(f"load {storage_type(array.dtype)}, {place}, align {aligned}", kind)
        value = self.arithmetic.cast("bool", value) if array.dtype == "bool" else value
        self.loaded[-1][key] = value
        return value

    def _forget(self, arrays: set[str]) -> None:
        for known in self.loaded:
            for key in [k for k in known if k[0] in arrays]:
                del known[key]

    def _enter(self) -> None:
        self.loaded.append({})
        self.numbers.enter()

    def _leave(self) -> None:
        self.loaded.pop()
        self.numbers.leave()

    # -- values --------------------------------------------------------------------------------------------------------

    def condition(self, e: Expr) -> Value | bool:
        """A truth value; known where only constants are compared."""
        if isinstance(e, Const):
            return bool(e.value)
        if isinstance(e, Binary) and e.op in ("and", "or"):
            a = self.condition(e.a)
            if isinstance(a, bool):
                return self.condition(e.b) if a == (e.op == "and") else a
            b = self.condition(e.b)
            if isinstance(b, bool):
                return a if b == (e.op == "and") else b
            return self.arithmetic.binary(e.op, a, b)
        if isinstance(e, Binary) and self.numbers.counts(e.a) and self.numbers.counts(e.b) and e.op in ("lt", "le", "eq", "ne"):
            return self.numbers.compared(e)
        return self.value(e)

    def value(self, e: Expr) -> Value:
        """A value of the expression's own type."""
        if isinstance(e, Const):
            return const(e.value, e.dtype)
        if isinstance(e, Load):
            return self._load(e)
        if e.dtype == "i64" and self.numbers.counts(e):
            number = self.numbers.count(e)
            return const(number, "i64") if isinstance(number, int) else self.f.op(f"sext {number} to i64", "i64")
        if isinstance(e, Cast):
            return self.arithmetic.cast(e.dtype, self.value(e.a))
        if isinstance(e, Bitcast):
            return self.arithmetic.bitcast(e.dtype, self.value(e.a))
        if isinstance(e, Select):
            holds = self.condition(e.cond)
            if isinstance(holds, bool):
                return self.value(e.a if holds else e.b)
            return self.arithmetic.select(holds, self.value(e.a), self.value(e.b))
        if isinstance(e, Unary):
            return self.arithmetic.unary(e.op, self.value(e.a))
        assert isinstance(e, Binary), e
        if e.dtype == "bool" and (isinstance(e.a, Var) or e.op in ("and", "or") or self.numbers.counts(e.a)):
            holds = self.condition(e)
            return const(holds, "bool") if isinstance(holds, bool) else holds
        if e.op == "add" and is_float(e.dtype):
            for product, other in ((e.b, e.a), (e.a, e.b)):
                if isinstance(product, Binary) and product.op == "mul":
                    return self.arithmetic.fma(self.value(product.a), self.value(product.b), self.value(other))
        return self.arithmetic.binary(e.op, self.value(e.a), self.value(e.b))


def declaration(call: str) -> str:
    """`declare void @f(float)` for `call void @f(float %x)`."""
    head, _, given = call.removeprefix("call ").partition("(")
    depth, words = 0, [""]
    for c in given.rstrip(")"):
        depth += {"(": 1, "<": 1, ")": -1, ">": -1}.get(c, 0)
        if c == "," and not depth:
            words.append("")
        else:
            words[-1] += c
    return f"declare {head}({', '.join(w.strip().rpartition(' ')[0] for w in words)})"


def _stored(body: Sequence[Statement], kernel: Kernel) -> set[str]:
    """The arrays that others may have stored to when a loop's next round begins."""
    inside = list(walk(body))
    found = {s.array for s in inside if isinstance(s, (Store, Move, Multiply))}
    if any(isinstance(s, Barrier) for s in inside):
        found |= {a.name for a in kernel.arrays if a.scope == SHARED}
    return found
