"""What belongs to each kernel of a sketch: the nest at the root, what is computed in its threads, what its threads do together."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tensorsmith.lang.dtypes import dtype
from tensorsmith.space.holes.kind import Array, Matrix
from tensorsmith.space.population.geometry import Measured
from tensorsmith.space.population.halving import Factor
from tensorsmith.space.population.population import Plan
from tensorsmith.space.sketch.loops import THREAD, VTHREAD, NestLoop
from tensorsmith.space.sketch.nest import Nest


@dataclass(frozen=True)
class Root:
    """A nest at the root whose loops are bound to blocks and threads."""

    nest: Nest
    private: tuple[Nest, ...]  # attached: each thread computes what it needs
    shared: tuple[Nest, ...]  # attached: all threads of a block together

    def loops(self, mark: str) -> list[NestLoop]:
        return [loop for loop in self.nest.loops.all if self.nest.loops.bindings.get(loop) == mark]

    def open_loops(self, mark: str) -> list[NestLoop]:
        """Those whose sizes are open."""
        return [loop for loop in self.loops(mark) if loop not in self.nest.loops.sizes]

    def given(self, mark: str) -> int:
        """How often those together run whose sizes are part of the structure."""
        return math.prod(self.nest.loops.sizes.get(loop, 1) for loop in self.loops(mark))

    @property
    def by_matrix(self) -> bool:
        """Whether matrix instructions compute what its threads compute."""
        return any("matrix" in nest.also for nest in self.private)


def roots(plan: Plan) -> list[Root]:
    """The kernels of a sketch whose blocks are drawn."""
    by_stage = plan.sketch.by_stage

    def root_of(nest: Nest) -> str:
        return nest.stage if nest.at is None else root_of(by_stage[nest.at.stage])

    found = []
    for nest in plan.sketch.nests:
        if nest.at is None and nest.loops.is_cooperative and "threads" not in nest.also:
            inside = [n for n in plan.sketch.nests if n is not nest and root_of(n) == nest.stage]
            private = tuple(n for n in inside if not n.loops.is_cooperative)
            found.append(Root(nest, private, tuple(n for n in inside if n.loops.is_cooperative)))
    return found


def factors(plan: Plan, nest: Nest, loops: list[NestLoop], found: Measured) -> list[Factor]:
    """How often loops run, with the columns that say so."""
    names = {loop: None if loop in nest.loops.sizes else plan.names.get(f"{nest.stage}.{loop}") for loop in loops}
    return [Factor(found.loop(nest.stage, loop), column) for loop, column in names.items()]


def threads_of(root: Root, found: Measured) -> Array:
    return _product([found.loop(root.nest.stage, loop) for loop in root.loops(THREAD)], found.rows)


def virtual_threads(root: Root, found: Measured) -> Array:
    return _product([found.loop(root.nest.stage, loop) for loop in root.loops(VTHREAD)], found.rows)


def shared_bytes(plan: Plan, root: Root, rows: Matrix, found: Measured) -> Array:
    """Of a block: tiles of operands, rows, and what threads reduce together."""
    total = np.zeros(found.rows)
    for nest in root.shared:
        stage = plan.geometry.stages[nest.stage]
        size = found.region_bytes(stage)
        if "pad" in nest.also:
            last = found.lengths[nest.stage][stage.axes[-1].name]
            size = size // last * (last + rows[:, plan.names[f"{nest.stage}.pad"]])
        assert nest.at is not None
        turns = plan.names.get(f"{nest.at.stage}.buffers")
        each = np.ceil(size / 16) * 16
        if turns is not None:  # places that are used in turn begin at multiples of sixteen elements
            aligned = 16 * dtype(stage.dtype).bytes
            each = np.where(rows[:, turns] == 2, 2 * np.ceil(size / aligned) * aligned, each)
        total += each
    for nest in (root.nest, *root.shared):
        if any(loop in nest.tile for loop, mark in nest.loops.bound if mark == THREAD):
            total += np.ceil(threads_of(root, found) * dtype(plan.geometry.stages[nest.stage].dtype).bytes / 16) * 16
    return total


def results_of(plan: Plan, root: Root, found: Measured) -> Array:
    """32-bit registers that a thread's results take."""
    total = np.zeros(found.rows)
    for nest in root.private:
        stage = plan.geometry.stages[nest.stage]
        total += found.region_bytes(stage) / 4
    if not root.private:
        total += _product(
            [found.loop(root.nest.stage, loop) for loop in root.nest.tile if loop not in root.nest.loops.bindings], found.rows
        )
    return total * virtual_threads(root, found)


def _product(values: list[Array], rows: int) -> Array:
    total = np.ones(rows)
    for value in values:
        total = total * value
    return total
