"""Addresses: linear forms of loop variables as a part computed when the code runs, shared between points, and a constant."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tensorsmith.backends.cpu.codegen.arith import Arithmetic
from tensorsmith.backends.cpu.codegen.irtext import Function, Value, i64, storage_type
from tensorsmith.backends.cpu.codegen.points import Lanes, LoopValue, LoopValues, Shifted
from tensorsmith.program.linear import Linear

#: what is added up of a linear form when the code runs: values, each times a number; in nesting order of the loops they come from
Running = tuple[tuple[Value, int], ...]

_ADDRESSES = ("linear", "pointer")  # the kinds of remembered values that no store changes
_LOADED = ("load", "loads")  # the kinds that come from memory


@dataclass(frozen=True)
class Storage:
    """Where a buffer lies: its pointer and the distance in elements between neighbours of each dimension."""

    pointer: Value
    dtype: str
    strides: tuple[int, ...]
    slack: bool  # reading up to a vector past the end is allowed (memory of our own)


class Addresses:
    """Positions of elements at points of tiles, in one function; remembers what it has computed in a basic block."""

    def __init__(self, function: Function, arithmetic: Arithmetic, storage: Mapping[str, Storage]) -> None:
        self.f = function
        self.arith = arithmetic
        self.storage = storage
        self._memo: dict[tuple[object, ...], Value] = {}
        self._memo_of = ""
        self._asked: dict[tuple[object, ...], Value] | None = None  # what was wanted from memory, where somebody wants to know it
        self._given: Iterator[Value] | None = None  # what was loaded before, in the order in which it is asked for

    def forget(self) -> None:
        """Drops values remembered for reuse; call where memory may have changed."""
        self._memo = {}

    def forget_loads(self) -> None:
        """Drops what was loaded, so that it is loaded again instead of staying in a register; addresses are kept."""
        self._memo = {key: value for key, value in self._memo.items() if key[0] in _ADDRESSES}

    def keep_loads(self, loaded: Mapping[tuple[object, ...], Value]) -> None:
        """Drops all that was loaded but this."""
        self.forget_loads()
        self._memo.update(loaded)

    def linear(self, form: Linear, env: LoopValues, lanes: Lanes | None) -> tuple[Running | None, int, int]:
        """(run-time part, constant part, step per lane) of a linear form."""
        terms = form.terms
        constant = int(form.offset)
        step = 0
        running: list[tuple[Value, int]] = []
        for name, bound in env.items():  # in nesting order: what is common to inner loops comes first
            if name not in terms:
                continue
            coefficient = int(terms[name])
            if isinstance(bound, int):
                constant += coefficient * bound
            elif isinstance(bound, Shifted):
                constant += coefficient * bound.by
                running.append((bound.value, coefficient))
            else:
                running.append((bound, coefficient))
        if lanes is not None and lanes.var in terms:
            step = int(terms[lanes.var])
            constant += step * lanes.start
        return tuple(running) or None, constant, step

    def total(self, running: Running) -> Value:
        """The run-time part of a linear form."""
        if self._memo_of == self.f.basic_block and (known := self._memo.get(("linear", running))) is not None:
            return known
        total: Value | None = None
        for n, (value, coefficient) in enumerate(running, 1):
            key = ("linear", running[:n])
            total = self.remember(key, lambda v=value, c=coefficient, t=total: self._add_term(t, v, c))
        assert total is not None
        return total

    def at(self, bound: LoopValue) -> Value | int:
        """A loop variable's value as a single one."""
        if not isinstance(bound, Shifted):
            return bound
        if not bound.by:
            return bound.value
        return self.remember(("linear", bound), lambda: self.f.op(f"add nuw nsw i64 {bound.value.text}, {bound.by}", "i64"))

    def _add_term(self, total: Value | None, value: Value, coefficient: int) -> Value:
        term = value if coefficient == 1 else self.f.op(f"mul nsw i64 {value.text}, {coefficient}", "i64")
        return term if total is None else self.f.op(f"add nsw i64 {total.text}, {term.text}", "i64")

    def remember(self, key: tuple[object, ...], make: Callable[..., Value]) -> Value:
        """A value computed once per basic block."""
        if self._memo_of != self.f.basic_block:
            self._memo, self._memo_of = {}, self.f.basic_block
        if key not in self._memo:
            if self._given is not None and key[0] in _LOADED:
                self._memo[key] = next(self._given)
            else:
                self._memo[key] = make()
        if self._asked is not None and key[0] in _LOADED:
            self._asked[key] = self._memo[key]
        return self._memo[key]

    def asking(self, asked: dict[tuple[object, ...], Value], write: Callable[[], None]) -> None:
        """Adds to `asked` what `write` gets from memory, or got before: each once, in the order of asking."""
        self._asked = asked
        write()
        self._asked = None

    def given(self, values: Sequence[Value], write: Callable[[], None]) -> None:
        """`write` loads nothing: it gets what `asking` found when the same was written for another step."""
        self.forget_loads()
        self._given = iter(values)
        write()
        assert next(self._given, None) is None
        self._given = None

    def integer(self, form: Linear, env: LoopValues, lanes: Lanes | None) -> Value:
        """A linear form as an i64, a vector if it differs between lanes."""
        running, constant, step = self.linear(form, env, lanes)
        total = i64(constant)
        if running is not None:
            total = self.total(running)
            total = self.f.op(f"add nsw i64 {total.text}, {constant}", "i64") if constant else total
        if not step or lanes is None:
            return total
        ramp = self.arith.iota("i64", lanes.width)
        if step != 1:
            items = ", ".join(f"i64 {n * step}" for n in range(lanes.width))
            ramp = Value(f"<{items}>", "i64", lanes.width)
        return self.f.op(f"add {ramp}, {self.arith.splat(total, lanes.width).text}", "i64", lanes.width)

    def pointer(self, tensor: str, running: Running | None, constant: int) -> Value:
        place = self.storage[tensor]
        element, base = storage_type(place.dtype), place.pointer
        if running is not None:
            base = self.remember(("pointer", base.text, running), lambda: self.moved(place.pointer, element, running))
        if not constant:
            return base
        return self.f.op(f"getelementptr {element}, ptr {base.text}, i64 {constant}", "ptr")

    def moved(self, pointer: Value, element: str, running: Running) -> Value:
        """A pointer so many elements on. Where instructions go in front of loops, it moves loop by loop: LLVM would take a sum
        apart by itself, inside the innermost loop, even what that does not change."""
        parts = [running]
        if self.f.hoists and len(running) > 1:
            parts = [tuple(part) for _, part in itertools.groupby(running, lambda term: self.f.scopes.level(term[0].text))]
        for part in parts:
            pointer = self.f.op(f"getelementptr {element}, {pointer}, i64 {self.total(part).text}", "ptr")
        return pointer
