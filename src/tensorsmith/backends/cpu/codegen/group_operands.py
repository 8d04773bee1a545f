"""What the lanes of a group are given: the factors of all its steps, as they lie in memory or put together (`groups.py`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tensorsmith.backends.cpu.codegen.arith import Arithmetic
from tensorsmith.backends.cpu.codegen.irtext import Function, Value, const, type_text
from tensorsmith.backends.cpu.codegen.points import Lanes, LoopValue, LoopValues, active_mask
from tensorsmith.backends.cpu.codegen.prefetch import fetch_ahead
from tensorsmith.backends.cpu.codegen.shape import pieces
from tensorsmith.backends.cpu.instructions import kind
from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.expr import Binary, Cast, Const, Expr, Load, loads, variables
from tensorsmith.lang.small import small_load
from tensorsmith.program.grouping import factors
from tensorsmith.program.linear import Linear

if TYPE_CHECKING:
    from tensorsmith.backends.cpu.codegen.reduction import Reduction

LANE_BITS = 32  # of a sum, and of the factors that most instructions take for it


class GroupOperands:
    """The factors of one variant of a tile."""

    def __init__(self, reduction: Reduction) -> None:
        self.reduction, self.tile, self.body = reduction, reduction.tile, reduction.body
        self.block, self.target = reduction.block, reduction.tile.target
        self.f: Function = reduction.f
        self.arith: Arithmetic = reduction.arith
        both = factors(self.block.stage)
        assert both is not None and self.block.group is not None
        self.group = self.block.group
        self.steps = int(self.block.loop(self.group).count)  # that a lane takes
        self.bits = 8 * dtype(both[0].dtype).bytes  # of each factor
        self.lane = f"i{self.steps * self.bits}"  # what a lane takes, as one number
        self.whole: bool = self.steps * self.bits > LANE_BITS  # of two rows and two columns
        self.floats = dtype(self.block.stage.dtype).kind == "f"
        # the factor that is the same in all lanes first, if there is one
        given = sorted(both, key=self.in_lanes)
        self.kinds = kind(given[0]), kind(given[1])
        self.first, self.second = map(self._as_packed, given)
        self.apart: bool = not self.in_lanes(self.first) and self.in_lanes(self.second)
        self.streamed: frozenset[str] = frozenset()  # operands that come from memory, and are read once or twice
        self.made: dict[tuple[object, ...], Value] = {}  # what was made of operands in this step

    def _as_packed(self, e: Expr) -> Expr:
        """A factor that is small as it lies in memory, where packing has seen to that."""
        found = small_load(e)
        packed = None if found is None else self.tile.program.buffers[found.tensor].packed
        return e if found is None or packed is None or not packed.small else found

    def in_lanes(self, e: Expr) -> bool:
        forms = [self.body.offset(x, self.block)[0] for x in loads(e)]
        return any(form is None or self.block.vector in form.terms for form in forms)

    def once(self, key: tuple[object, ...], make: Callable[[], Value]) -> Value:
        """What is made of operands, once for all points of a step."""
        if key not in self.made:
            self.made[key] = make()
        return self.made[key]

    def without_rest(self, v: Value, count: int) -> Value:
        """Groups of so many factors that are there, with zeros in place of the others."""
        width = v.lanes // self.steps
        kept = const((1 << self.bits * count) - 1, self.lane, width)
        whole = self.f.op(f"bitcast {v} to {type_text(self.lane, width)}", self.lane, width)
        return self.factors_of(self.arith.binary("bitand", whole, kept))

    def operand(self, e: Expr, point: dict[str, LoopValue], lanes: Lanes | None, count: int, cut: bool = False) -> Value:
        """A group for every lane; where there are fewer steps, and this is the factor to be cut, zeros behind them."""
        width = lanes.width if lanes is not None else 0
        if lanes is None or not self.in_lanes(e):
            row = self.row(e, point, count)
            if not width:
                return row
            key = (row.text, "splat", width)
            if key not in self.made:
                every = self.arith.splat(self._number(row), width)
                self.made[key] = self.factors_of(every)
            return self.made[key]
        whole = self._side_by_side(e, point, lanes)
        if whole is None or cut:
            whole = self._one_by_one(e, point, lanes, count)
        return whole

    def _number(self, row: Value) -> Value:
        key = (row.text, "number")
        if key not in self.made:
            self.made[key] = self.f.op(f"bitcast {row} to {self.lane}", self.lane)
        return self.made[key]

    def factors_of(self, v: Value) -> Value:
        """Numbers of 32 bits, or 64, as the factors that they are made of."""
        count = 8 * dtype(v.dtype).bytes // self.bits * max(1, v.lanes)
        return self.f.op(f"bitcast {v} to <{count} x i{self.bits}>", self._kind, count)

    @property
    def _kind(self) -> str:
        """What vectors of factors are called, whether they have signs or not."""
        return "u8" if self.bits == 8 else "i16"

    def row(self, e: Expr, point: dict[str, LoopValue], count: int) -> Value:
        """The group of one row: the steps that are there, then zeros."""
        if count == self.steps:
            found = self.body.value(e, self.block, point, Lanes(self.group, 0, count, count))
            return found if found.lanes else self.arith.splat(found, count)
        total: Value | None = None
        for start, width in pieces(count):
            if width == 1:
                part = self.body.value(e, self.block, {**point, self.group: start}, None)
            else:
                part = self.body.value(e, self.block, point, Lanes(self.group, start, width, width))
                part = part if part.lanes else self.arith.splat(part, width)
                part = self.f.op(f"bitcast {part} to i{self.bits * width}", f"i{self.bits * width}")
            wide = part if part.type == self.lane else self.f.op(f"zext {part} to {self.lane}", self.lane)
            wide = self.f.op(f"shl {wide}, {self.bits * start}", self.lane) if start else wide
            total = wide if total is None else self.f.op(f"or {total}, {wide.text}", self.lane)
        assert total is not None
        return self.factors_of(total)

    def _side_by_side(self, e: Expr, point: LoopValues, lanes: Lanes) -> Value | None:
        """The groups of all lanes as they lie in memory, where that is lane by lane, or what is made of such bytes one by one
        (their lower halves, say); None where it is not."""
        found = self._bytes(e, point, lanes)
        return None if found is None or not found.lanes else Value(found.text, self._kind, found.lanes)

    def _bytes(self, e: Expr, point: LoopValues, lanes: Lanes) -> Value | None:
        """`_side_by_side`, by the type of the expression; one number where it is the same for all steps and lanes."""
        if isinstance(e, Const):
            return const(e.value, e.dtype)
        if not self._varies(e):
            return self.body.value(e, self.block, point, None)
        if isinstance(e, Load):
            found = self._loaded(e, point, lanes)
            return None if found is None else Value(found.text, e.dtype, found.lanes)
        if 8 * dtype(e.dtype).bytes != self.bits or dtype(e.dtype).kind == "f":
            return None
        if isinstance(e, Binary):
            a, b = self._bytes(e.a, point, lanes), self._bytes(e.b, point, lanes)
            return None if a is None or b is None else self.once((id(e), a, b), lambda: self.arith.binary(e.op, a, b))
        if isinstance(e, Cast) and dtype(e.a.dtype).bytes == dtype(e.dtype).bytes and dtype(e.a.dtype).kind in "iu":
            inside = self._bytes(e.a, point, lanes)
            return None if inside is None else Value(inside.text, e.dtype, inside.lanes)
        return None

    def _varies(self, e: Expr) -> bool:
        """Whether an expression is another one from step to step, or from lane to lane."""
        terms = {name for axis in variables(e) for name in self.block.axes[axis].value.terms}
        return self.group in terms or self.block.vector in terms

    def _loaded(self, e: Load, point: LoopValues, lanes: Lanes) -> Value | None:
        """The groups of all lanes as they lie in memory."""
        form = self.body.offset(e, self.block)[0]
        if form is None or form.terms.get(self.group) != 1 or form.terms.get(lanes.var) != self.steps:
            return None
        running, constant, _ = self.body.linear(_without(form, self.group), point, lanes)
        key = ("load", e.tensor, running, constant, lanes, "group")

        def load() -> Value:
            pointer = self.body.pointer(e.tensor, running, constant)
            if e.tensor in self.streamed and (e.tensor, running, constant) not in self.tile.fetched:
                self.tile.fetched.add((e.tensor, running, constant))
                fetch_ahead(self.body, pointer)
            if lanes.active == lanes.width or self.body.storage[e.tensor].slack:
                count = self.steps * lanes.width
                return self.f.op(f"load <{count} x i{self.bits}>, {pointer}, align {self.bits // 8}", self._kind, count)
            return self.factors_of(self.body.masked_load(pointer, active_mask(lanes), self.lane))

        return self.body.remember(key, load)

    def _one_by_one(self, e: Expr, point: dict[str, LoopValue], lanes: Lanes, count: int) -> Value:
        """The groups of all lanes, one step after the other."""
        total: Value | None = None
        for n in range(count):
            part = self.body.value(e, self.block, {**point, self.group: n}, lanes)
            part = self.arith.splat(part, lanes.width)
            wide = self.f.op(f"zext {part} to {type_text(self.lane, lanes.width)}", self.lane, lanes.width)
            if n:
                wide = self.f.op(f"shl {wide}, {const(self.bits * n, self.lane, lanes.width).text}", self.lane, lanes.width)
            total = wide if total is None else self.f.op(f"or {total}, {wide.text}", self.lane, lanes.width)
        assert total is not None
        return self.factors_of(total)


def _without(form: Linear, name: str) -> Linear:
    """The form where that variable is 0."""
    return Linear({n: c for n, c in form.terms.items() if n != name}, form.offset)
