"""Bound inference: how much of an attached stage its readers need where it is computed.

    C[i] = sum(P[i + k], over k<3), P attached inside the tiles of C, 8 long    ->    P needs 8 + 3 - 1 = 10 values

Written once, over whatever a length may be: a number, an array with an entry per row of a population, a text of holes, or a region
with its start. What is done with such values, an `Algebra`, is all that differs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

from tensorsmith.lang.affine import Affine, affine
from tensorsmith.lang.expr import Axis
from tensorsmith.lang.workload import Stage, Workload

T = TypeVar("T")


class Algebra(Protocol[T]):
    """Values for what axes run through inside one attach point."""

    def whole(self, stage: Stage, axis: Axis) -> T:
        """All of an axis."""

    def inside(self, stage: Stage, whole_tiles: bool) -> Mapping[str, T]:
        """By axis of the stage that the point belongs to: what it runs through there.

        `whole_tiles`: those who are attached deeper compute whole tiles, even where the last one is needed in part only.
        """

    def touched(self, stage: Stage, axis: Axis, index: Affine | None, seen: Mapping[str, T]) -> T:
        """What an index of a read touches of an axis of `stage`, while its reader's axes run through `seen`.

        `index` is None where it is not affine.
        """

    def together(self, stage: Stage, axis: Axis, parts: Sequence[T]) -> T:
        """What several reads touch, never more than there is."""

    def computed(self, stage: Stage, needed: dict[str, T]) -> dict[str, T]:
        """What a reader that is attached deeper runs through inside the point, if so much of it is needed there."""


Known = dict[tuple[str, bool], Mapping[str, T]]  # what readers run through inside a point, once they are known


def needed(workload: Workload, stage: Stage, owner: str, algebra: Algebra[T], known: Known[T] | None = None) -> dict[str, T]:
    """By axis: how much of a stage that is read its readers need inside an attach point in the loops of `owner`.

    Many ways may lead from a reader to the owner, so each reader is looked at once; `known` remembers more than one stage's.
    """
    known = {} if known is None else known

    def seen(reader: Stage, whole_tiles: bool) -> Mapping[str, T]:
        key = reader.name, whole_tiles
        if key not in known:
            if reader.name == owner:
                known[key] = algebra.inside(reader, whole_tiles)
            else:
                whole = {a.name: algebra.whole(reader, a) for a in reader.reduce_axes}
                known[key] = algebra.computed(reader, region(reader, True)) | whole
        return known[key]

    def region(of: Stage, whole_tiles: bool) -> dict[str, T]:
        parts: dict[str, list[T]] = {a.name: [] for a in of.axes}
        for reader in map(workload.stage, workload.consumers[of.name]):
            for read in reader.reads:
                if read.tensor == of.name:
                    for a, index in zip(of.axes, read.indices):
                        parts[a.name].append(algebra.touched(of, a, affine(index), seen(reader, whole_tiles)))
        return {a.name: algebra.together(of, a, parts[a.name]) for a in of.axes}

    return region(stage, False)
