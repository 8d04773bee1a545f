"""How often the loops of a replayed program run: bound inference on its stages, for all records of a template.

A stage at the root computes all of its axes. An attached one computes what its readers need inside the attach point: the loops
around it are fixed, those inside run. What the threads of a block fetch together is what any of them needs, so their loops count as
running. A loop that is split runs as often as its parts together, rounded up from inside.
"""

from __future__ import annotations

import numpy as np

from tensorsmith.lang.affine import affine
from tensorsmith.records.ansor.state import Array, Iterator, StageState, State, Unplaced

_THREADS = ("vthread", "threadIdx.x", "threadIdx.y", "threadIdx.z")


class Extents:
    """Works out and sets the extent of every loop."""

    def __init__(self, state: State, shared: frozenset[str] = frozenset()) -> None:
        self.state, self.shared = state, shared
        self.rows = len(state.numbers)
        self.regions = state.regions
        for stage in reversed(state.stages):  # readers first
            if stage.compute and not stage.inlined:
                self._set(stage)

    def _array(self, n: int) -> Array:
        return np.full(self.rows, n, np.int64)

    def _set(self, stage: StageState) -> None:
        definition = self.state.workload.stage(stage.name)
        region = {a.name: self._array(a.extent) for a in definition.all_axes}
        if stage.at is not None:
            fixed = self._around(stage.at, stage.name in self.shared)
            region |= self._needed(stage.name, stage.at[0], fixed)
        self.regions[stage.name] = region
        for loop in stage.own:
            _divide(loop, region[loop.axis])
        for loop in stage.loops:  # what is fused of parts, and the parts of what is fused
            _settle(loop)

    # -- regions -------------------------------------------------------------------------------------------------------

    def _around(self, at: tuple[StageState, Iterator], of_block: bool) -> set[Iterator]:
        """The loops that are fixed at an attach point, those of threads left out for what a block shares."""
        owner, last = at
        if last not in owner.loops:
            raise Unplaced("a stage computed at a loop that is no more")
        loops = owner.loops[: owner.loops.index(last) + 1]
        fixed = {leaf for loop in loops if not (of_block and loop.annotation in _THREADS) for leaf in loop.leaves()}
        return fixed | (self._around(owner.at, of_block) if owner.at is not None else set())

    def _needed(self, name: str, owner: StageState, fixed: set[Iterator]) -> dict[str, Array]:
        """How many values of each of its axes a stage has to compute, with some loops fixed."""
        workload, found = self.state.workload, dict[str, Array]()
        axes = workload.stage(name).axes
        for reader in workload.consumers[name]:
            seen = self._values(reader, owner, fixed)
            for read in workload.stage(reader).reads:
                if read.tensor != name:
                    continue
                for axis, index in zip(axes, read.indices):
                    form = affine(index)
                    length = self._array(axis.extent)
                    if form is not None:
                        length = 1 + sum((abs(c) * (seen[v] - 1) for v, c in form.terms.items()), self._array(0))
                    length = np.minimum(length, axis.extent)
                    found[axis.name] = np.maximum(found[axis.name], length) if axis.name in found else length
        return found

    def _values(self, name: str, owner: StageState, fixed: set[Iterator]) -> dict[str, Array]:
        """How many values the axes of a stage take while some loops are fixed."""
        stage = self.state.named(name)
        definition = self.state.workload.stage(name)
        if stage is not owner and stage.at is None:
            raise Unplaced("a stage computed where not all of its readers are")
        whole = dict(self.regions[name])
        if stage.at is not None:
            whole |= self._needed(name, owner if stage is not owner else stage.at[0], fixed)
        for loop in stage.own:
            count = _steps(loop, fixed)  # that the fixed loops take through the axis
            left = np.minimum(whole[loop.axis], _left(loop, fixed, whole[loop.axis]))
            whole[loop.axis] = np.where(count > 1, left, whole[loop.axis])
        return {a.name: whole[a.name] for a in definition.all_axes}


def _divide(loop: Iterator, extent: Array) -> None:
    """Sets the extents of a loop and of what it was split into."""
    loop.extent = extent
    left = extent
    for part in reversed(loop.parts):
        size = left if part.length is None else np.minimum(part.length, left)
        size = np.maximum(1, size)
        _divide(part, size)
        left = -(-left // size)


def _settle(loop: Iterator) -> None:
    """Sets the extents of fused loops, from inside, and of the parts of such."""
    root = loop
    while root.parent is not None:
        root = root.parent
    if root.fused and root.extent is None:
        total = np.ones(1, np.int64)
        for one in root.fused:
            _settle(one)
            if one.extent is None:
                raise Unplaced("loops fused before they were there")
            total = total * one.extent
        _divide(root, total)


def _left(loop: Iterator, fixed: set[Iterator], whole: Array) -> Array:
    """Values that a loop's axis takes while some of its parts are fixed: the parts inside run."""
    if loop in fixed:
        return np.ones_like(whole)
    if not loop.parts:
        return whole if loop.extent is None else loop.extent
    total = np.ones_like(whole)
    for part in loop.parts:
        total = total * _left(part, fixed, part.extent if part.extent is not None else whole)
    return total


def _steps(loop: Iterator, fixed: set[Iterator]) -> Array:
    """How many steps the fixed parts of a loop have."""
    if loop in fixed:
        return np.ones(1, np.int64) if loop.extent is None else loop.extent
    total = np.ones(1, np.int64)
    for part in loop.parts:
        total = total * _steps(part, fixed)
    return total
