"""Axes that always go together become one: the transpose of an image is that of a matrix.

    y[n, h, w, c] = x[n, c, h, w], n < 1    ->    y[hw, c] = x[c, hw]

Memory is the same, so that nobody else has to know. Rows are as long as can be, and what is left at their ends comes once, not in
every row of an image. Done where a stage turns a tensor over, which goes in squares; all else goes along rows anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tensorsmith.lang.expr import Axis, Const, Expr, Load, Var, loads, substitute, transform, variables
from tensorsmith.lang.workload import Stage, Workload


def merged(workload: Workload) -> Workload:
    """The workload with as few axes as can be, where it is one stage that turns a tensor over; inputs and outputs have the same
    elements in the same order, under other shapes."""
    if len(workload.stages) != 1 or workload.stages[0].reduction or 0 in workload.stages[0].shape:
        return workload
    (stage,) = workload.stages
    now = _without_ones(_Form(stage.axes, {b.name: b.shape for b in workload.inputs}, stage.body))
    if not now.turns_over:
        return workload
    while (pair := next(filter(now.go_together, zip(now.axes, now.axes[1:])), None)) is not None:
        now = now.with_one(*pair)
    inputs = tuple(replace(b, shape=now.shapes[b.name]) for b in workload.inputs)
    return replace(workload, inputs=inputs, stages=(Stage(stage.name, now.axes, now.body),))


@dataclass(frozen=True)
class _Form:
    """A stage, and the shapes of what it reads."""

    axes: tuple[Axis, ...]
    shapes: dict[str, tuple[int, ...]]
    body: Expr

    @property
    def turns_over(self) -> bool:
        """Whether a tensor is read along its last dimension where the last axis runs along another one."""
        if not self.axes:
            return False
        last = self.axes[-1].name
        return any(last in variables(x) and last not in variables(x.indices[-1]) for x in loads(self.body))

    def go_together(self, pair: tuple[Axis, Axis]) -> bool:
        """Whether two axes are, wherever either is used, the indices of two neighbouring dimensions, and run through all of the
        second one."""
        a, b = pair
        if {a.name, b.name} & _outside_of_loads(self.body):
            return False
        places: dict[str, set[int | None]] = {}
        for x in loads(self.body):
            used = [d for d, index in enumerate(x.indices) if {a.name, b.name} & variables(index)]
            places.setdefault(x.tensor, set()).add(used[0] if used else None)
            if used and (used != [used[0], used[0] + 1] or not _are(x.indices[used[0] : used[0] + 2], (a.name, b.name))):
                return False
            if used and self.shapes[x.tensor][used[1]] != b.extent:
                return False
        return all(len(found) == 1 for found in places.values())

    def with_one(self, a: Axis, b: Axis) -> _Form:
        """The same with one axis for two that go together."""
        one = Axis(f"{a.name}_{b.name}", a.extent * b.extent)
        place = next(n for n, axis in enumerate(self.axes) if axis is a)
        shapes = dict(self.shapes)
        for x in loads(self.body):
            if (d := _place(x, a.name)) is not None:
                old = self.shapes[x.tensor]
                shapes[x.tensor] = (*old[:d], old[d] * old[d + 1], *old[d + 2 :])

        def indices(x: Load) -> Sequence[Expr]:
            d = _place(x, a.name)
            return x.indices if d is None else (*x.indices[:d], Var(one.name), *x.indices[d + 2 :])

        return _Form((*self.axes[:place], one, *self.axes[place + 2 :]), shapes, _indexed(self.body, indices))


def _without_ones(form: _Form) -> _Form:
    """The same without dimensions of extent 1."""
    body = substitute(form.body, {a.name: Const(0, "i64") for a in form.axes if a.extent == 1})
    body = _indexed(body, lambda x: [index for index, n in zip(x.indices, form.shapes[x.tensor]) if n != 1])
    shapes = {name: tuple(n for n in shape if n != 1) for name, shape in form.shapes.items()}
    return _Form(tuple(a for a in form.axes if a.extent != 1), shapes, body)


def _indexed(e: Expr, indices: Callable[[Load], Sequence[Expr]]) -> Expr:
    """An expression with other indices in each load."""

    def change(x: Expr) -> Expr | None:
        return Load(x.tensor, tuple(_indexed(i, indices) for i in indices(x)), x.dtype) if isinstance(x, Load) else None

    return transform(e, change)


def _outside_of_loads(e: Expr) -> set[str]:
    """The axes whose values are used, not only what lies there."""
    found: set[str] = set()

    def look(x: Expr) -> Expr | None:
        if isinstance(x, Var):
            found.add(x.name)
        return x if isinstance(x, Load) else None

    transform(e, look)
    return found


def _are(indices: Sequence[Expr], names: tuple[str, str]) -> bool:
    return tuple(i.name if isinstance(i, Var) else None for i in indices) == names


def _place(x: Load, axis: str) -> int | None:
    """The dimension that an axis is the index of."""
    return next((d for d, index in enumerate(x.indices) if isinstance(index, Var) and index.name == axis), None)
