"""How much of each axis a call has, where a workload is compiled for the largest sizes of open dimensions.

A *bounded* workload has the extents of the largest sizes. A smaller call has its values in the same memory: element (b, l) of
[batch, length] lies where it lies in the largest one. An axis made of both, [batch * length], therefore has *digits*, outermost
first, each with its largest extent and a *count* of how much of it a call has. What is there of the axis ends at the last element
of the last row, and is all of what lies before only where nothing but the outermost digit is open.

A count is an affine form of the open sizes. `Counted.axes` finds those of every axis of a workload from those of its inputs: an
axis that is the index of a dimension has that dimension's. A reduction over an axis has to know its count; of other axes more may
be computed than there is, whose results nobody reads.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tensorsmith.errors import Refusal
from tensorsmith.lang.expr import Const, Expr, Var, loads, variables, walk
from tensorsmith.lang.workload import Stage, Workload

Form = tuple[int, ...]  # a number, then what each open size is multiplied by


@dataclass(frozen=True)
class Digit:
    """One dimension of those that an axis is made of."""

    largest: int
    count: Form

    @property
    def is_open(self) -> bool:
        return any(self.count[1:])


Digits = tuple[Digit, ...]  # of an axis, outermost first, without those of extent 1
UNKNOWN: Digits = (Digit(-1, (-1,)),)  # of an axis that is computed from an open one


def fixed(extent: int) -> Digits:
    """An axis of which every call has all."""
    return () if extent == 1 else (Digit(extent, (extent,)),)


def normal(digits: Sequence[Digit]) -> Digits:
    """The same axis with as few digits as can be."""
    found: list[Digit] = []
    for d in digits:
        if d.largest == 1 and not d.is_open:
            continue
        if not d.is_open:
            if found and not found[-1].is_open:
                found[-1] = Digit(found[-1].largest * d.largest, (found[-1].largest * d.largest,))
                continue
            d = Digit(d.largest, (d.largest,))
        found.append(d)
    return tuple(found)


def is_open(digits: Digits) -> bool:
    return any(d.is_open for d in digits)


def is_plain(digits: Digits) -> bool:
    """Whether what a call has of an axis is all that lies before some place."""
    return not any(d.is_open for d in digits[1:])


def extent(digits: Digits) -> int:
    return math.prod(d.largest for d in digits)


def end(digits: Digits) -> Form:
    """Where the last element that a call has ends."""
    width = max((len(d.count) for d in digits), default=1)
    total = [0] * width
    step = 1
    for d in reversed(digits):
        for n, c in enumerate(d.count):
            total[n] += step * c
        total[0] -= step
        step *= d.largest
    total[0] += 1
    return tuple(total)


def value(form: Form, sizes: Sequence[int]) -> int:
    """The number that a form is at some sizes."""
    return form[0] + sum(c * n for c, n in zip(form[1:], sizes))


def size(digits: Digits, sizes: Sequence[int]) -> int:
    """The extent that an axis has at some sizes."""
    return math.prod(value(d.count, sizes) for d in digits)


def regrouped(digits: Sequence[Digit], shape: Sequence[int]) -> tuple[Digits, ...] | None:
    """The digits of the axes of another shape of the same memory; None where an axis would begin inside of an open digit."""
    left = list(digits)
    found: list[Digits] = []
    for n in shape:
        mine: list[Digit] = []
        while n > 1:
            if not left:
                return None
            d = left.pop(0)
            if d.largest == 1 and not d.is_open:
                continue
            if n % d.largest == 0:
                mine.append(d)
                n //= d.largest
            elif not d.is_open and d.largest % n == 0:
                mine.append(Digit(n, (n,)))
                left.insert(0, Digit(d.largest // n, (d.largest // n,)))
                n = 1
            else:
                return None
        found.append(normal(mine))
    return tuple(found) if all(d.largest == 1 for d in left) else None


@dataclass(frozen=True)
class Counted:
    """What a call has of a workload's inputs, by dimension; `known`, by stage and axis: of axes that do not follow from those."""

    inputs: Mapping[str, tuple[Digits, ...]]
    known: Mapping[tuple[str, str], Digits] = field(default_factory=dict)

    def axes(self, workload: Workload) -> dict[tuple[str, str], Digits]:
        """Of every axis of the workload, which may be a rewritten form of the one that this is about; by stage and axis.

        Raises `Refusal` where a reduction would read what is not there.
        """
        dims = {b.name: self.inputs.get(b.name) or tuple(map(fixed, b.shape)) for b in workload.inputs}
        found: dict[tuple[str, str], Digits] = {}
        for stage in workload.stages:
            of_stage = _axes(stage, dims, workload, self.known)
            found |= {(stage.name, axis): digits for axis, digits in of_stage.items()}
            dims[stage.name] = tuple(of_stage[a.name] for a in stage.axes)
        return found


def _axes(
    stage: Stage, dims: Mapping[str, tuple[Digits, ...]], workload: Workload, known: Mapping[tuple[str, str], Digits]
) -> dict[str, Digits]:
    found: dict[str, set[Digits]] = {}
    computed: set[str] = set()  # axes in an index of an open dimension that is not the axis itself
    bounds = stage.bounds()
    for load in loads(stage.body):
        for index, digits, n in zip(load.indices, dims[load.tensor], workload.buffers[load.tensor].shape):
            if isinstance(index, Var) and stage.axis(index.name).extent == n:
                found.setdefault(index.name, set()).add(digits)
                continue
            if digits != UNKNOWN and not is_open(digits):
                continue
            if bounds.range(index) is None:
                raise Refusal("cannot count", f"{stage.name} looks up indices from data in an open dimension of {load.tensor}")
            if not isinstance(index, Const) and (digits == UNKNOWN or not is_plain(digits)):
                raise Refusal("cannot count", f"{stage.name} computes an index into several open dimensions of {load.tensor}")
            computed |= variables(index)
    made: dict[str, Digits] = {}
    for axis in stage.all_axes:
        told = set(found.get(axis.name, ()))
        mine = known.get((stage.name, axis.name))
        if len(told) > 1:
            raise Refusal("cannot count", f"{stage.name} reads axis {axis.name} of tensors with different counts")
        if told and told != {UNKNOWN}:
            made[axis.name] = told.pop()
        elif mine is not None and extent(mine) == axis.extent:
            made[axis.name] = mine
        elif told or axis.name in computed:
            made[axis.name] = UNKNOWN
        else:
            made[axis.name] = fixed(axis.extent)
    _check(stage, made, computed)
    return made


def _check(stage: Stage, made: Mapping[str, Digits], computed: set[str]) -> None:
    for axis in stage.reduce_axes:
        digits = made[axis.name]
        if digits == UNKNOWN or axis.name in computed or not is_plain(digits):
            raise Refusal("cannot count", f"{stage.name} reduces over {axis.name}, of which it is not known how much there is")
    special = {name for name, digits in made.items() if digits == UNKNOWN or not is_plain(digits)}
    special -= {name for name in special if made[name] == UNKNOWN}
    if special and _occurrences(stage.body, special) != _bare(stage.body, special):
        raise Refusal("cannot count", f"{stage.name} computes with the number of a row of several open dimensions")


def _occurrences(body: Expr, names: set[str]) -> int:
    """How many operands in an expression are one of these variables."""
    return sum(isinstance(x, Var) and x.name in names for e in walk(body) for x in e.operands)


def _bare(body: Expr, names: set[str]) -> int:
    """How many of them are indices of loads."""
    return sum(isinstance(x, Var) and x.name in names for load in loads(body) for x in load.indices)


class Table:
    """The counts that kernels of a network read, each once; made as the kernels are."""

    def __init__(self) -> None:
        self.forms: list[Form] = []

    def number(self, form: Form) -> int:
        """The place of a count in the table."""
        if form not in self.forms:
            self.forms.append(form)
        return self.forms.index(form)

    def of_axes(self, workload: Workload, counted: Counted) -> dict[str, dict[str, int]]:
        """By stage and axis, the place of the count of every axis whose count a kernel has to read."""
        found: dict[str, dict[str, int]] = {}
        for (stage, axis), digits in counted.axes(workload).items():
            if digits != UNKNOWN and is_open(digits):
                found.setdefault(stage, {})[axis] = self.number(end(digits))
        return found
