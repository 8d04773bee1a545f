"""The innermost reduction loop of a tile with its loads ahead of their use, for machines that take instructions in their order.

Carried (see `backends/cpu/in_order.py`):               Gathered:

    operands of the first step                          loop, a round of steps in a row:
    loop, a round of steps in a row:                        for every group of steps:
        for every step:                                         their operands
            its multiply-adds, and between them                 their multiply-adds
            the operands of the next step
    the last round, which loads nothing beyond itself

LLVM's scheduler would undo both, so boundaries that nothing moves past lie where the order matters; and what is carried from round
to round are phi nodes. The factors of rows mostly lie side by side along the reduction: one load brings those of several steps, and
multiply-adds take them lane by lane. A factor's register is loaded again behind its last use, those of the operand in lanes are
there twice.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tensorsmith.backends.cpu.codegen.body import form_key
from tensorsmith.backends.cpu.codegen.irtext import BOUNDARY, Value, i64
from tensorsmith.backends.cpu.codegen.points import InARow, LoopValue, Shifted
from tensorsmith.backends.cpu.codegen.shape import Key
from tensorsmith.backends.cpu.in_order import gathers, group_of_steps
from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.expr import Binary, Expr, Select, loads, walk
from tensorsmith.program.ir import LoopVar
from tensorsmith.program.linear import Linear

if TYPE_CHECKING:
    from tensorsmith.backends.cpu.codegen.reduction import Reduction


class Ahead:
    """The whole rounds of one reduction loop; `sums` registers for each result take turns.

    A round is `in_a_row` steps of the loop, each of them all steps of the loops `inside`.
    """

    def __init__(
        self,
        reduction: Reduction,
        var: LoopVar,
        inside: list[LoopVar],
        env: dict[str, LoopValue],
        in_a_row: int,
        sums: int,
        rounds: int,
    ) -> None:
        self.reduction, self.var, self.inside, self.env, self.in_a_row, self.sums = reduction, var, inside, env, in_a_row, sums
        self.f, self.body, self.block = reduction.f, reduction.body, reduction.block
        target, body = reduction.tile.target, self.block.stage.body
        assert isinstance(body, Binary)
        self.each = math.prod(int(v.count) for v in inside)  # steps of those, in one of the loop
        self.count = in_a_row * self.each
        apart, distance = {}, 1
        for v in reversed([var, *inside] if in_a_row > 1 else inside):
            apart[v.name], distance = distance, distance * int(v.count)
        lanes = target.lanes(dtype(self.block.stage.dtype).lane_bytes)
        # LLVM spills parts of registers if they are carried from round to round
        self.gathered = gathers(target) or (rounds > 1 and self.count % lanes > 0)
        width = max(1 << n for n in range(lanes.bit_length()) if 1 << n <= self.count)
        self.in_lanes = [e for e in (body.a, body.b) if any(self.block.vector in form.terms for form in self._forms(e))]
        others = [form for e in (body.a, body.b) if not any(e is x for x in self.in_lanes) for form in self._forms(e)]
        self.steps = InARow(apart, width, self.count)
        if not all(self.steps.neighbours(form) for form in others):
            self.steps = InARow(apart, 1, self.count)
        vectors = len(reduction.shape.chunks)
        rows = sums * len(reduction.keys) // vectors
        self.group = group_of_steps(rows, vectors, self.steps.width, target, self.gathered)
        decided = [e for e in (body.a, body.b) if self._is_decided(e)]
        self.operands = sorted(decided, key=lambda e: not any(e is x for x in self.in_lanes))
        moving = [e for e in self.operands if all(self.var.name in form.terms for form in self._forms(e))]
        self.carried = [] if self.gathered else moving

    def _forms(self, e: Expr) -> list[Linear]:
        """Where the loads of an operand read."""
        return [form for x in loads(e) if (form := self.body.offset(x, self.block)[0]) is not None]

    def _is_decided(self, e: Expr) -> bool:
        """Whether all conditions of an operand are known here. One that chooses where it reads (padding) has an address of its own
        for every point, and no neighbours to be loaded with: it would take too many registers, and is loaded where it is used."""
        for part in walk(e):
            if isinstance(part, Select):
                facts = self.body.facts(part.cond, self.block)
                if facts is None or not all(key in self.body.known or self._is_number(fact) for fact, key in facts):
                    return False
        return True

    def _is_number(self, fact: Linear) -> bool:
        """Whether a linear form is known at every point, where the code is being written."""
        values: dict[str, LoopValue] = {**{v.name: 0 for v in self.block.tile if v.name != self.block.vector}, **self.env}
        return all(isinstance(values.get(name), int) for name in fact.terms)

    @property
    def possible(self) -> bool:
        """Whether there are registers for it (not if every point has vectors of its own), and all places are known beforehand."""
        own = {v.name for v in (self.var, *self.inside)}
        undecided = [fact for fact in self.reduction.facts if form_key(fact) not in self.body.known]
        if not self.group or len(self.in_lanes) > 1 or any(own & fact.terms.keys() for fact in undecided):
            return False
        found = [x for e in self.operands for x in loads(e)]
        return all(x.tensor not in self.body.registers and self.body.offset(x, self.block)[0] is not None for x in found)

    def rounds(self, main: int, state: list[Value]) -> list[Value]:
        """`main` steps of the loop."""
        self.reduction.arith.declarations.add(BOUNDARY)
        self.body.in_a_row = self.steps
        self.reduction.fetches = False  # the steps themselves: it is done with their loads
        last = main - self.in_a_row if self.carried else main
        width = len(state)
        start = self.f.op("add i64 0, 0", "i64")  # not a number, so that addresses are made up as they are in the loop
        first: dict[tuple[object, ...], Value] = {}
        self.body.asking(first, lambda: self._load(start, [0], self.carried))

        def one(bound: Value, now: list[Value]) -> list[Value]:
            return self._round(bound, now[:width], now[width:], more=True)

        now = [*state, *first.values()]
        if last:
            now = self.f.loop(i64(0), i64(last), self.in_a_row, now, one, runs=True)
        if self.carried:
            end = self.f.op(f"add i64 0, {last}", "i64")
            now = self._round(end, now[:width], now[width:], more=False)
        self.body.in_a_row = None
        self.reduction.fetches = True
        self.body.forget_loads()
        return now

    def _round(self, bound: Value, state: list[Value], ready: list[Value], more: bool) -> list[Value]:
        """One round, and if there are `more`, behind its state what is carried to the next. `ready` was carried to this one.

        What was loaded for earlier steps is dropped, even if a later one reads it again (a window that slides): it would take a
        register all the while.
        """
        now: dict[tuple[object, ...], Value] = {}
        self.body.given(ready, lambda: self.body.asking(now, lambda: self._load(bound, [0], self.carried)))
        chains = [state[n :: self.sums] for n in range(self.sums)]
        for n in range(0, self.count, self.group):
            if self.carried or n % self.steps.width == 0:
                self.body.keep_loads(now)
                if self.gathered or self.steps.width == 1:
                    self.f.barrier()  # or LLVM would find what it has loaded before
            steps = range(n, min(n + self.group, self.count))
            for step in steps:
                self.reduction.fetch(self._at(bound, step))
            self._load(bound, steps, self.operands)
            self.f.boundary()
            now = {}
            if self.carried and (more or n + 1 < self.count):
                self.reduction.behind = lambda key, step=n + 1, found=now: self._load_between(bound, step, key, found)
            for step in steps:
                chain = step // self.each % self.sums
                chains[chain] = self.reduction.step(self._at(bound, step), chains[chain], self.reduction.shape.chunks)
            self.reduction.behind = None
            if self.gathered:
                self.f.boundary()
        return [*(value for values in zip(*chains) for value in values), *now.values()]

    def _load(self, bound: Value, steps: Iterable[int], operands: list[Expr]) -> None:
        """Loads operands of steps that were not loaded before."""
        for step in steps:
            for key in self.reduction.keys:
                self._load_at(bound, step, key, operands)

    def _load_at(self, bound: Value, step: int, key: Key, operands: list[Expr]) -> None:
        """Loads operands of one point. What else is written for their sake is not used, and LLVM drops it.

        Factors of a row are loaded for its last point, behind which they are not used any more.
        """
        point, lanes = self.reduction.tile.point(self.block, self.reduction.shape, self._at(bound, step), key)
        for e in operands:
            if key[1] == len(self.reduction.shape.chunks) - 1 or any(e is x for x in self.in_lanes):
                self.body.value(e, self.block, point, lanes)

    def _load_between(self, bound: Value, step: int, key: Key, found: dict[tuple[object, ...], Value]) -> None:
        """Behind a point of one step: what the same point wants at the next."""
        before = len(self.f.lines)
        self.body.asking(found, lambda: self._load_at(bound, step, key, self.carried))
        if len(self.f.lines) > before:
            self.f.boundary()

    def _at(self, bound: Value, step: int) -> dict[str, LoopValue]:
        """The loops' values at a step of a round, or of the next round."""
        number, rest = divmod(step, self.each)
        values: dict[str, LoopValue] = {self.var.name: Shifted(bound, number)}
        for v in self.inside:
            values[v.name], rest = divmod(rest, self.steps.apart[v.name])
        return {**self.env, **values}


def loads_ahead(reduction: Reduction) -> bool:
    """Whether a reduction is one to write so: a sum of products, on a machine that takes its instructions in order."""
    body = reduction.block.stage.body
    if not reduction.tile.target.in_order or reduction.across or reduction.op != "sum":
        return False
    if not isinstance(body, Binary) or body.op != "mul" or body.dtype not in ("f32", "f64"):
        return False
    return all(x.dtype == body.dtype for x in loads(body))
