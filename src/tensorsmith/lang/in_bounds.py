"""The proof that every load of a body is in bounds, from the extents of the axes and the conditions of the selects around it.

A node that is used again may stand under many conditions, and each way to it under others. So the simple proof is tried first: it
takes one condition around each load into account, wherever that is, and looks at every node once. Few bodies need more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tensorsmith.errors import UserError
from tensorsmith.lang.affine import Bounds
from tensorsmith.lang.expr import Expr, Load, Select, loads, operands_first

_MOST_STEPS = 100_000  # of a proof that is not simple; no body that was written by hand comes near

Shapes = Mapping[str, tuple[int, ...]]


class OutOfBounds(NamedTuple):
    """A load that may read past the end of a dimension: the values that its index there can take."""

    load: Load
    position: int
    low: int
    high: int


def out_of_bounds(body: Expr, bounds: Bounds, shapes: Shapes) -> OutOfBounds | None:
    """The first load that cannot be proved in bounds; indices that are computed from data need no proof, they are clamped."""
    return None if simply_in_bounds(body, bounds, shapes) else _Proof(shapes).fails(body, bounds)


def simply_in_bounds(e: Expr, bounds: Bounds, shapes: Shapes) -> bool:
    """Whether each load of `e` is in bounds by itself, or by one condition inside of `e`."""
    proved: set[Expr] = set()

    def plainly(x: Expr, given: Bounds) -> bool:
        return all(_past_the_end(load, given, shapes) is None for load in loads(x))

    for x in operands_first(e):
        if isinstance(x, Select):
            holds = (
                x.cond in proved
                and (x.a in proved or plainly(x.a, bounds.given(x.cond)))
                and (x.b in proved or plainly(x.b, bounds.otherwise(x.cond)))
            )
        else:
            here = not isinstance(x, Load) or _past_the_end(x, bounds, shapes) is None
            holds = here and all(c in proved for c in x.operands)
        if holds:
            proved.add(x)
    return e in proved


def _past_the_end(e: Load, bounds: Bounds, shapes: Shapes) -> OutOfBounds | None:
    for position, (index, extent) in enumerate(zip(e.indices, shapes[e.tensor])):
        found = bounds.range(index)
        if found is not None and (found[0] < 0 or found[1] >= extent):
            return OutOfBounds(e, position, *found)
    return None


class _Proof:
    """Takes all conditions around a load into account: once for each way to it, where these differ."""

    def __init__(self, shapes: Shapes) -> None:
        self.shapes = shapes
        self.found: dict[tuple[Expr, int], OutOfBounds | None] = {}
        self.bounds: list[Bounds] = []  # kept, so that no other takes the place of one in memory

    def fails(self, e: Expr, bounds: Bounds) -> OutOfBounds | None:
        key = (e, id(bounds))
        if key not in self.found:
            if len(self.found) > _MOST_STEPS:
                raise UserError(f"`{e}` is read under too many conditions to prove it in bounds; guard the loads themselves")
            self.bounds.append(bounds)
            self.found[key] = self._look(e, bounds)
        return self.found[key]

    def _look(self, e: Expr, bounds: Bounds) -> OutOfBounds | None:
        if isinstance(e, Select):
            return (
                self.fails(e.cond, bounds) or self._branch(e.a, bounds.given(e.cond)) or self._branch(e.b, bounds.otherwise(e.cond))
            )
        if isinstance(e, Load) and (problem := _past_the_end(e, bounds, self.shapes)):
            return problem
        return next((found for c in e.operands if (found := self.fails(c, bounds))), None)

    def _branch(self, e: Expr, bounds: Bounds) -> OutOfBounds | None:
        return None if simply_in_bounds(e, bounds, self.shapes) else self.fails(e, bounds)
