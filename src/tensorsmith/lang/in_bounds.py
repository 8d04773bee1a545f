"""The proof that every load of a body is in bounds, from the extents of the axes and the conditions of the selects around it.

A node that is used again may stand under many conditions. It is looked at without the condition first, which is once for all of
its uses, and only if that does not do, with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tensorsmith.errors import UserError
from tensorsmith.lang.affine import Bounds
from tensorsmith.lang.expr import Expr, Load, Select, children

_MOST_STEPS = 100_000  # of a proof; no body that was written by hand comes near


class OutOfBounds(NamedTuple):
    """A load that may read past the end of a dimension: the values that its index there can take."""

    load: Load
    position: int
    low: int
    high: int


def out_of_bounds(body: Expr, bounds: Bounds, shapes: Mapping[str, tuple[int, ...]]) -> OutOfBounds | None:
    """The first load that cannot be proved in bounds; indices that are computed from data need no proof, they are clamped."""
    return _Proof(shapes).fails(body, bounds)


class _Proof:
    def __init__(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
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
                self.fails(e.cond, bounds)
                or self._branch(e.a, bounds, bounds.given(e.cond))
                or self._branch(e.b, bounds, bounds.otherwise(e.cond))
            )
        if isinstance(e, Load):
            for position, (index, extent) in enumerate(zip(e.indices, self.shapes[e.tensor])):
                found = bounds.range(index)
                if found is not None and (found[0] < 0 or found[1] >= extent):
                    return OutOfBounds(e, position, *found)
        return next((problem for c in children(e) if (problem := self.fails(c, bounds))), None)

    def _branch(self, e: Expr, before: Bounds, inside: Bounds) -> OutOfBounds | None:
        return self.fails(e, before) and self.fails(e, inside)
