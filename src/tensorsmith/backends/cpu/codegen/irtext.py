"""Writing LLVM IR as text: types, values, functions with loops and branches.

Loops and branches are written functionally: what changes inside is passed in and comes back as phi nodes, so
no value ever lives in a stack slot and no pass is needed to promote one.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tensorsmith.backends.cpu.codegen.scopes import Scopes
from tensorsmith.elements import TABLE
from tensorsmith.errors import Refusal
from tensorsmith.lang.dtypes import converted, dtype

#: LLVM's types. A bf16 is 16 bits here, of which `Arithmetic` makes an f32 and back: most machines have no arithmetic of it, and
#: LLVM would call functions that most processes lack
_SCALARS = {"f16": "half", "bf16": "i16", "f32": "float", "f64": "double", "bool": "i1"} | {
    name: f"i{facts.bytes * 8}" for name, facts in TABLE.items() if facts.kind in "iu"
}

BOUNDARY = "declare void @llvm.codeview.annotation(metadata)"  # what `Function.boundary` wants declared
_NEVER_THE_SAME = ("load ", "call ")  # memory may have changed
MAX_LINES = 60_000  # of one module: more is a candidate that unrolls without measure


class Value(NamedTuple):
    """An SSA value or constant: its text, element type (`ptr` for pointers) and lanes (0 for a scalar)."""

    text: str
    dtype: str
    lanes: int = 0

    @property
    def type(self) -> str:
        return type_text(self.dtype, self.lanes)

    def __str__(self) -> str:
        return f"{self.type} {self.text}"


@functools.cache
def type_text(name: str, lanes: int = 0) -> str:
    """`float`, `<8 x float>`"""
    scalar = _SCALARS.get(name, name)
    return f"<{lanes} x {scalar}>" if lanes else scalar


def storage_type(name: str, lanes: int = 0) -> str:
    """The type an element has in memory: a bool takes a byte."""
    return type_text("i8" if name == "bool" else name, lanes)


def number(value: float | int | bool, name: str) -> str:
    """A scalar constant as LLVM writes it."""
    return _number(struct.pack("<d", value) if isinstance(value, float) else value, name)


@functools.lru_cache(4096)
def _number(value: bytes | int | bool, name: str) -> str:
    """The same; a float by its bits, of which -0 has others than 0."""
    if isinstance(value, bytes):
        value = struct.unpack("<d", value)[0]
    kind = dtype(name).kind
    if kind == "f":
        rounded = converted(np.array(value, np.float64), name)
        if name == "bf16":
            return str(int(rounded.view(np.int16)))
        if name == "f16":
            return f"0xH{struct.unpack('<H', struct.pack('<e', float(rounded)))[0]:04X}"
        return f"0x{struct.unpack('<Q', struct.pack('<d', float(rounded)))[0]:016X}"
    if kind == "b":
        return "true" if value else "false"
    bits = dtype(name).bytes * 8
    wrapped = int(value) & ((1 << bits) - 1)
    return str(wrapped - (1 << bits) if wrapped >> (bits - 1) else wrapped)


def const(value: float | int | bool, name: str, lanes: int = 0) -> Value:
    """A constant, in every lane."""
    one = Value(number(value, name), name)
    return in_lanes(one, lanes) if lanes else one


def in_lanes(one: Value, lanes: int) -> Value:
    """A scalar constant in every lane."""
    return Value(f"splat ({one})", one.dtype, lanes)


def i64(value: int) -> Value:
    return Value(str(value), "i64")


@dataclass
class Function:
    """The body of one function as it is being written."""

    head: str
    lines: list[str] = field(default_factory=list)
    basic_block: str = "entry"
    entry: list[str] = field(default_factory=list)  # allocas
    _count: int = 0
    hoists: bool = False  # instructions that a loop does not change go in front of it
    scopes: Scopes = field(init=False)

    def __post_init__(self) -> None:
        self.scopes = Scopes(self.hoists)

    def name(self) -> str:
        self._count += 1
        return f"%t{self._count}"

    def line(self, text: str) -> None:
        self.lines.append(f"  {text}")
        if len(self.lines) > MAX_LINES:
            raise Refusal("code too large", f"more than {MAX_LINES} instructions")

    def op(self, text: str, name: str, lanes: int = 0) -> Value:
        """An instruction with a result: a new one, unless it would be the same as one that was passed."""
        if text.startswith(_NEVER_THE_SAME):
            result = self.name()
            self.scopes.add_load(result, text)
            self.line(f"{result} = {text}")
            return Value(result, name, lanes)
        known = self.scopes.known(text)
        if known is None:
            known = self.name()
            front = self.scopes.add(known, text)
            if front is None:
                self.line(f"{known} = {text}")
            else:
                front.append(f"  {known} = {text}")
        return Value(known, name, lanes)

    def barrier(self) -> None:
        """Keeps loads and stores on their side of it when LLVM schedules; costs nothing by itself."""
        self.line('call void asm sideeffect "", "~{memory}"()')
        self.scopes.memory_changed()

    def boundary(self) -> None:
        """Nothing at all moves past it when LLVM schedules. It is a label that nobody jumps to, and costs nothing by itself."""
        self.line('call void @llvm.codeview.annotation(metadata !{!"boundary"})')

    def label(self) -> str:
        self._count += 1
        return f"b{self._count}"

    def start(self, label: str) -> None:
        """A basic block that any other may jump to."""
        self.scopes.forget()
        self._start(label)

    def _start(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self.basic_block = label

    def jump(self, label: str) -> None:
        self.line(f"br label %{label}")

    def branch(self, cond: Value, yes: str, no: str) -> None:
        self.line(f"br i1 {cond.text}, label %{yes}, label %{no}")

    def phi(self, pairs: Sequence[tuple[Value, str]]) -> Value:
        first = pairs[0][0]
        if all(v.text == first.text for v, _ in pairs):
            return first
        choices = ", ".join(f"[ {v.text}, %{label} ]" for v, label in pairs)
        result = Value(self.name(), first.dtype, first.lanes)
        self.line(f"{result.text} = phi {first.type} {choices}")
        self.scopes.here(result.text)
        return result

    def loop(
        self,
        begin: Value,
        end: Value,
        step: int,
        state: Sequence[Value],
        body: Callable[[Value, list[Value]], list[Value]],
        *,
        runs: bool = False,
    ) -> list[Value]:
        """`for v in begin..end by step: state = body(v, state)`; gives the final state. `runs`: at least one step is taken."""
        before, header, after = self.basic_block, self.label(), self.label()
        some = None if runs else self.op(f"icmp slt i64 {begin.text}, {end.text}", "bool")
        in_front, front = len(self.lines), list[str]()
        if some is None:
            self.jump(header)
        else:
            self.branch(some, header, after)
        self.scopes.enter(front)
        self._start(header)
        position = len(self.lines)
        variable, following = Value(self.name(), "i64"), self.name()
        inside = [Value(self.name(), v.dtype, v.lanes) for v in state]
        for value in (variable, *inside):
            self.scopes.here(value.text)
        result = body(variable, inside)
        latch = self.basic_block
        self.line(f"{following} = add nuw nsw i64 {variable.text}, {step}")
        self.scopes.here(following)
        again = self.op(f"icmp slt i64 {following}, {end.text}", "bool")
        self.branch(again, header, after)
        phis = [f"  {variable.text} = phi i64 [ {begin.text}, %{before} ], [ {following}, %{latch} ]"]
        for old, inner, new in zip(state, inside, result):
            phis.append(f"  {inner.text} = phi {inner.type} [ {old.text}, %{before} ], [ {new.text}, %{latch} ]")
        self.lines[position:position] = phis
        self.lines[in_front:in_front] = front
        self.scopes.leave()
        self._start(after)
        for value in result:
            self.scopes.out(value.text)
        if runs:
            return result
        return [self.phi([(old, before), (new, latch)]) for old, new in zip(state, result)]

    def choose(
        self,
        cond: Value,
        yes: Callable[[], list[Value]],
        no: Callable[[], list[Value]] | None,
        otherwise: Sequence[Value] = (),
    ) -> list[Value]:
        """A two-way branch; without `no` the other way keeps `otherwise`. Where it is known which way it goes, that is written."""
        holds = self.scopes.holds(cond.text)
        if holds is not None:
            return yes() if holds else list(otherwise) if no is None else no()
        yes_label, no_label, after = self.label(), self.label(), self.label()
        before = self.basic_block
        self.branch(cond, yes_label, no_label if no else after)
        self.scopes.enter(condition=(cond.text, True))
        self._start(yes_label)
        first = yes()
        first_end = self.basic_block
        self.jump(after)
        self.scopes.leave()
        if no is None:
            second, second_end = list(otherwise), before
        else:
            self.scopes.enter(condition=(cond.text, False))
            self._start(no_label)
            second = no()
            second_end = self.basic_block
            self.jump(after)
            self.scopes.leave()
        self._start(after)
        return [self.phi([(a, first_end), (b, second_end)]) for a, b in zip(first, second)]

    def alloca(self, type_: str, count: int) -> Value:
        """Stack memory, made once at the function's start."""
        result = self.name()
        self.scopes.own_memory(result)
        self.entry.append(f"  {result} = alloca [{count} x {type_}], align 64")
        return Value(result, "ptr")

    def text(self) -> str:
        body = "\n".join([*self.entry, *self.lines])
        return f"{self.head} {{\nentry:\n{body}\n  ret void\n}}"
