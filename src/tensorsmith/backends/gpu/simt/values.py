"""The expressions of kernels: values, addresses and conditions of a block of a loop program, over loop variables."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence

from tensorsmith.lang.affine import Bounds
from tensorsmith.lang.expr import Axis, Binary, Cast, Const, Expr, Load, Select, Var, transform
from tensorsmith.program.ir import AxisBinding, Block, LoopVar, Program, ProgramBuffer
from tensorsmith.program.linear import Linear
from tensorsmith.program.positions import read_at, stored_at

_ALIGNED = 16  # elements: of any size, more than one load takes


def number(value: int) -> Const:
    return Const(value, "i64")


class Values:
    """Expressions over the loops of one program. `copies` are loops of which each has elements of a private array of its own."""

    def __init__(self, program: Program, loops: Mapping[str, LoopVar], copies: Mapping[str, Sequence[LoopVar]]) -> None:
        self.program, self.copies = program, copies
        self.counts = {name: int(v.count) for name, v in loops.items()}
        self.bounds = Bounds({name: (0, max(0, n - 1)) for name, n in self.counts.items()})

    def linear(self, form: Linear) -> Expr:
        """A linear form of loop variables; a loop that runs once adds nothing."""
        total: Expr | None = None
        for name, coefficient in form.terms.items():
            if self.counts[name] > 1 and int(coefficient):
                term: Expr = Var(name) if int(coefficient) == 1 else Binary("mul", Var(name), number(int(coefficient)))
                total = term if total is None else Binary("add", total, term)
        if total is None:
            return number(int(form.offset))
        return Binary("add", total, number(int(form.offset))) if int(form.offset) else total

    def value(self, e: Expr, block: Block, known: Sequence[Expr] = ()) -> Expr:
        """An expression of a stage's axes at one point of its block, where conditions are `known` to hold."""
        axes = {name: self.linear(binding.value) for name, binding in block.axes.items()}

        def at(x: Expr) -> Expr | None:
            if isinstance(x, Load):
                return Load(x.tensor, (self.address(x, block, known),), x.dtype)
            return axes[x.name] if isinstance(x, Var) else None

        return folded(transform(e, at))

    # -- addresses -----------------------------------------------------------------------------------------------------

    def address(self, load: Load, block: Block, known: Sequence[Expr] = ()) -> Expr:
        """The place of a load in memory, in bounds even where the point is not one that is asked for."""
        bounds = functools.reduce(Bounds.given, known, self.bounds)
        buffer = self.program.buffers[load.tensor]
        shape = self.program.workload.buffers[load.tensor].shape
        forms = read_at(load, block, buffer)
        if buffer.packed is not None:
            return self.flat(load.tensor, [self.linear(f) for f in forms if f is not None], buffer)
        found = []
        for form, index, extent, room, start in zip(forms, load.indices, shape, buffer.shape, buffer.origin):
            if form is not None:
                place = self.linear(form)
            else:  # computed from data: an index beyond the edge means the edge
                place = clamped(self.value(index, block, known), extent, bounds)
                if start.terms or start.offset:
                    place = Binary("sub", place, self.linear(start))
            found.append(clamped(place, int(room), bounds))
        return self.flat(load.tensor, found, buffer)

    def stored(self, block: Block) -> Expr:
        """Where a block stores its result at a point."""
        buffer = self.program.buffers[block.stage.name]
        return self.flat(block.stage.name, [self.linear(f) for f in stored_at(block, buffer)], buffer)

    def flat(self, name: str, indices: Sequence[Expr], buffer: ProgramBuffer) -> Expr:
        """Positions along each dimension as one; copies for virtual threads lie behind each other."""
        dims = [int(n) for n in (buffer.packed.shape if buffer.packed else buffer.shape)]
        total: Expr | None = None
        stride = 1
        for index, extent in zip(reversed(indices), reversed(dims)):
            total, stride = plus(total, index, stride), stride * extent
        for v in reversed(self.copies.get(name, ())):
            if self.counts[v.name] > 1:
                total = plus(total, Var(v.name), stride)
            stride *= self.counts[v.name]
        return number(0) if total is None else total

    def elements(self, buffer: ProgramBuffer) -> int:
        """Of all that a buffer takes. Places that are used in turn begin where loads of several elements may."""
        each = self.elements_of_one(buffer)
        return each if int(buffer.buffers) == 1 else each * int(buffer.buffers)

    def elements_of_one(self, buffer: ProgramBuffer) -> int:
        dims = buffer.packed.shape if buffer.packed else buffer.shape
        each = math.prod([int(n) for n in dims] + [self.counts[v.name] for v in self.copies.get(buffer.name, ())])
        return each if int(buffer.buffers) == 1 else -(-each // _ALIGNED) * _ALIGNED

    # -- conditions ----------------------------------------------------------------------------------------------------

    def inside(self, block: Block, axes: Sequence[Axis], in_region: bool = False) -> list[Expr]:
        """The conditions under which a point of a block is one that is asked for, or at least one `in_region`; those that always
        hold are left out."""
        found: list[Expr] = []
        for a in axes:
            binding: AxisBinding = block.axes[a.name]
            partial = self._most(binding.local) >= int(binding.length)
            if partial:
                found.append(Binary("lt", self.linear(binding.local), number(int(binding.length))))
            if self._most(binding.value) >= binding.extent and not (in_region or (partial and _same(binding))):
                found.append(Binary("lt", self.linear(binding.value), number(binding.extent)))
        return list(dict.fromkeys(found))

    def _most(self, form: Linear) -> int:
        return int(form.offset) + sum(max(0, int(c) * (self.counts[n] - 1)) for n, c in form.terms.items())


def _same(binding: AxisBinding) -> bool:
    """Whether a nest computes all of an axis, so that being in its region is being in the tensor."""
    return not binding.origin.terms and not binding.origin.offset and int(binding.length) == binding.extent


def clamped(e: Expr, extent: int, bounds: Bounds) -> Expr:
    """An index that lies in a dimension, whatever it is."""
    within = bounds.range(e)
    if within is not None and within[0] >= 0 and within[1] < extent:
        return e
    e = e if e.dtype == "i64" else Cast("i64", e)
    low = e if within is not None and within[0] >= 0 else Binary("max", e, number(0))
    return low if within is not None and within[1] < extent else Binary("min", low, number(max(0, extent - 1)))


def plus(total: Expr | None, index: Expr, stride: int) -> Expr | None:
    """`total + index * stride`, without what adds nothing."""
    if isinstance(index, Const):
        if index.value == 0:
            return total
        index = number(int(index.value) * stride)
    elif stride != 1:
        index = Binary("mul", index, number(stride))
    return index if total is None else Binary("add", total, index)


def folded(e: Expr) -> Expr:
    """An expression without choices that are decided: axes that run once make conditions plain."""
    return transform(e, lambda x: _decided(x) if isinstance(x, Select) else None)


def _decided(e: Select) -> Expr | None:
    if isinstance(e.cond, Const):
        return folded(e.a if e.cond.value else e.b)
    return None


def conjunction(conditions: Sequence[Expr]) -> Expr:
    found = conditions[0]
    for c in conditions[1:]:
        found = Binary("and", found, c)
    return found
