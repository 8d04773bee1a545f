"""Padding in a reduction: conditions without which a step contributes nothing, tested as far outside as they are known.

A condition that is the same for the whole tile skips the loops inside. One that differs between points is left to them: it chooses
an address there. So whole loops are skipped, and tiles away from the border run without a test.
"""

from __future__ import annotations

from collections.abc import Callable

from tensorsmith.backends.cpu.codegen.addresses import Running
from tensorsmith.backends.cpu.codegen.body import BodyEmitter, affine_facts, form_key
from tensorsmith.backends.cpu.codegen.irtext import Function, Value
from tensorsmith.backends.cpu.codegen.points import LoopValue, LoopValues
from tensorsmith.backends.cpu.codegen.shape import Shape
from tensorsmith.lang.affine import Affine
from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.expr import Cast, Select, joined, same
from tensorsmith.lang.workload import Stage
from tensorsmith.program.grouping import factors
from tensorsmith.program.ir import Block
from tensorsmith.program.linear import Linear
from tensorsmith.program.positions import over_loops
from tensorsmith.space.sketch.rewrite import identity

Rest = Callable[[list[Value]], list[Value]]  # writes the loops inside, from the state before them to the one after


class Borders:
    """The conditions of one variant of a tile, and what is known of them where the code is being written."""

    def __init__(self, function: Function, body: BodyEmitter, block: Block, shape: Shape, in_order: bool) -> None:
        self.f, self.body, self.block, self.shape = function, body, block, shape
        self.of_axes = {form_key(over_loops(fact, block.axes)): fact for fact in skippable(block.stage)}
        facts = [over_loops(fact, block.axes) for fact in self.of_axes.values()]
        # the others always hold; but loads ahead of their use (`ahead.py`) are found again only if those are among the known
        self.facts = [fact for fact in facts if in_order or body.span(fact, {}, None)[0] < 0]

    def decide(self, depth: int, env: dict[str, LoopValue], state: list[Value], rest: Rest) -> list[Value]:
        """Tests conditions under which points contribute nothing (padding) as far outside as they are known.

        One that is the same for the whole tile skips the loops inside; one that differs between points is left to them: it chooses
        an address there. One that differs between the lanes of a vector costs more: it is tested for all at once, and only a tile
        on the border runs the loops with tests inside.
        """
        ready = []
        open_vars = {v.name for v in self.block.reduce[depth:]}
        for fact in self.facts:
            if form_key(fact) in self.body.known or open_vars & set(fact.terms):
                continue
            low, high = self.span(fact)
            running, constant, _ = self.body.linear(fact, {**env, **self.zeros(env)}, None)
            if running is None:
                continue  # decided point by point, now
            ready.append((fact, running, constant + low, constant + high))
        if not ready:
            return rest(state)
        skip = [(f, r, low) for f, r, low, high in ready if low == high]
        mixed = [(f, r, low) for f, r, low, high in ready if low != high]

        def holds(tests: list[tuple[Linear, Running, int]]) -> Value:
            total: Value | None = None
            for _, running, low in tests:
                one = self.f.op(f"icmp sge i64 {self.body.total(running).text}, {-low}", "bool")
                total = one if total is None else self.f.op(f"and {total}, {one.text}", "bool")
            assert total is not None
            return total

        def inside() -> list[Value]:
            with_all = {form_key(f) for f, _, _ in skip}
            if not mixed:
                return self.knowing(with_all, rest, state)
            if not any(self.block.vector in fact.terms for fact, _, _ in mixed):
                return self.knowing(with_all, lambda s: self._undecided(mixed, rest, s), state)
            return self.f.choose(
                holds(mixed),
                lambda: self.knowing(with_all | {form_key(f) for f, _, _ in mixed}, rest, state),
                lambda: self.knowing(with_all, lambda s: self._undecided(mixed, rest, s), state),
            )

        return self.f.choose(holds(skip), inside, None, state) if skip else inside()

    def _undecided(self, mixed: list[tuple[Linear, Running, int]], rest: Rest, state: list[Value]) -> list[Value]:
        """The loops inside with the tests left to the points."""
        keys = [form_key(f) for f, _, _ in mixed]
        kept = [f for f in self.facts if form_key(f) not in keys]
        before, self.facts = self.facts, kept
        result = rest(state)
        self.facts = before
        return result

    def knowing(self, keys: set[tuple[object, ...]], rest: Rest, state: list[Value]) -> list[Value]:
        added = keys - self.body.known
        self.body.known |= added
        result = rest(list(state))
        self.body.known -= added
        return result

    def zeros(self, env: LoopValues) -> dict[str, int]:
        return {v.name: 0 for v in self.block.tile if v.name not in env}

    def span(self, fact: Linear) -> tuple[int, int]:
        """The least and the most that the tile's own loops add to a linear form."""
        low = high = 0
        for var in self.block.tile:
            coefficient = int(fact.terms.get(var.name, 0))
            reach = coefficient * (max(1, self.shape.sizes[var.name]) - 1)
            low, high = low + min(0, reach), high + max(0, reach)
        return low, high

    def is_inside_somewhere(self, fact: Linear) -> bool:
        """Whether a fact can hold for all points of a tile at all steps. What is left of an axis lies at its end, and mostly on the
        border."""
        sizes = {v.axis: max(1, self.shape.sizes[v.name]) for v in self.block.tile}
        partial = {v.axis for v in self.block.tile if 0 < self.shape.sizes[v.name] < int(v.count)}
        form = self.of_axes[form_key(fact)]
        total = form.offset
        for name, coefficient in form.terms.items():
            extent = self.block.axes[name].extent
            if name not in {a.name for a in self.block.stage.axes}:
                total += min(0, coefficient * (extent - 1))
                continue
            size = min(extent, sizes.get(name, 1))
            starts = {extent - size} if name in partial else {0, extent - size}
            total += max(min(coefficient * start, coefficient * (start + size - 1)) for start in starts)
        return total >= 0

    def tiles_of_a_row(self) -> int:
        """How many tiles lie along the axis that has most of them."""
        return max((-(-self.block.axes[v.axis].extent // max(1, int(v.count))) for v in self.block.tile), default=1)


def skippable(stage: Stage) -> list[Affine]:
    """Affine facts (each >= 0) without which a step of the stage's reduction contributes nothing.

    They are the conditions of selects that give the reduction's identity otherwise, or, in a sum, a zero factor.
    """
    if stage.reduction is None:
        return []
    product = stage.reduction == "sum" and (dtype(stage.dtype).kind == "f" or factors(stage) is not None)
    neutral = identity(stage.reduction, stage.dtype)
    found: list[Affine] = []
    for e in joined(stage.body, "mul") if product else [stage.body]:
        if isinstance(e, Cast) and isinstance(e.a, Select) and factors(stage) is not None:
            e, zero = e.a, identity("sum", e.a.dtype)
        else:
            zero = neutral
        if isinstance(e, Select) and same(e.b, zero):
            found.extend(affine_facts(e.cond) or [])
    return found
