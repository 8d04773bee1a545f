"""Blocks that a GPU takes: the limits of Ansor's verifier, and some of ours, satisfied by every row.

threads of a block     at most the target's; at least a warp, if there is so much to compute
virtual threads        at most a quarter of a warp, but for matrix instructions, whose tiles they are
shared memory          at most the target's for a block
results of a thread    at most half of its registers, of which there are fewer in large blocks: the other half is for the rest
code                   a bounded number of statements laid out
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tensorsmith.backends.gpu.simt.blocks import MOST_BYTES, WIDTHS
from tensorsmith.backends.gpu.tactics.roots import Root, factors, results_of, roots, shared_bytes, threads_of, virtual_threads
from tensorsmith.backends.gpu.target import GpuTarget
from tensorsmith.lang.dtypes import dtype
from tensorsmith.space.holes.kind import Array, Matrix
from tensorsmith.space.holes.unroll import copies
from tensorsmith.space.population.geometry import Measured
from tensorsmith.space.population.halving import ROUNDS, Factor, halve_largest
from tensorsmith.space.population.population import Plan
from tensorsmith.space.sketch.loops import THREAD, VTHREAD, NestLoop
from tensorsmith.space.sketch.nest import Nest


@dataclass(frozen=True)
class Limits:
    """What a row may ask for, besides the target's own limits."""

    statements: int = 2048  # of a kernel's innermost code: a second to compile
    rounds: int = 3 * ROUNDS  # of halving, for all limits together


LIMITS = Limits()


def shrink(plan: Plan, rows: Matrix, target: GpuTarget, limits: Limits = LIMITS) -> None:
    """Makes rows fit, halving what is largest until they do; gives blocks enough threads, and makes them fit with those."""
    _vectors(plan, rows)
    _threads_of_all(plan, rows, target)
    kernels = roots(plan)
    if kernels:
        _fit(plan, kernels, rows, target, limits)
        for root in kernels:
            _fill(plan, root, rows, target)
        _fit(plan, kernels, rows, target, limits)


def _fit(plan: Plan, kernels: list[Root], rows: Matrix, target: GpuTarget, limits: Limits) -> None:
    todo = np.arange(len(rows))
    for _ in range(limits.rounds):
        part = rows[todo]
        found = plan.geometry.measure(part)
        changed = np.zeros(len(part), bool)
        for root in kernels:
            changed |= _halved(plan, root, part, found, target, limits, changed)
        if not changed.any():
            break
        rows[todo] = part
        todo = todo[changed]


def _vectors(plan: Plan, rows: Matrix) -> None:
    """Elements that a thread fetches at once: one, two, four or eight, as far as machines can."""
    for nest in plan.sketch.nests:
        if nest.vector is not None and nest.loops.is_cooperative and nest.at is not None:
            column = plan.names.get(f"{nest.stage}.{nest.vector}")
            if column is not None:
                given = rows[:, column]
                size = dtype(plan.geometry.stages[nest.stage].dtype).bytes
                widths = [w for w in WIDTHS if w * size <= MOST_BYTES]
                rows[:, column] = np.select([given >= w for w in widths], widths, 1)


def _threads_of_all(plan: Plan, rows: Matrix, target: GpuTarget) -> None:
    for n, c in enumerate(plan.columns):
        if c.kind == "threads":
            rows[:, n] = np.minimum(rows[:, n], target.threads)


def _halved(plan: Plan, root: Root, part: Matrix, found: Measured, target: GpuTarget, limits: Limits, done: Array) -> Array:
    """One step towards the limits, in the rows that are beyond one and were not changed yet; which rows it changed."""
    threads = factors(plan, root.nest, root.loops(THREAD), found)
    virtual = factors(plan, root.nest, root.loops(VTHREAD), found)
    tile = [loop for loop in root.nest.tile if loop not in root.nest.loops.bindings]
    own = factors(plan, root.nest, tile, found)
    changed = halve_largest(part, _sized(threads), (threads_of(root, found) > target.threads) & ~done)
    most_virtual = max(1, target.warp // 4)
    if not root.by_matrix:
        changed |= halve_largest(part, _sized(virtual), (virtual_threads(root, found) > most_virtual) & ~done & ~changed)
    results = results_of(plan, root, found)
    most = (target.registers_of(threads_of(root, found)) + root.by_matrix) // 2
    many = (results > most) & ~done & ~changed
    halved = halve_largest(part, _sized(own), many)
    changed |= halved | halve_largest(part, _sized(virtual), many & ~halved)
    rows_of = [f for nest in root.private for f in _steps(plan, nest, found)]
    large = (shared_bytes(plan, root, part, found) > target.shared_bytes) & ~done & ~changed
    halved = halve_largest(part, _sized(rows_of), large)
    changed |= halved
    fewer = halve_largest(part, _sized([*own, *virtual]), large & ~changed)
    changed |= fewer
    changed |= halve_largest(part, _sized(threads), large & ~changed & (threads_of(root, found) > target.warp))
    for nest in root.private:
        steps = copies(plan, nest, part, found)
        long = (results * steps > limits.statements) & ~done & ~changed
        unroll = plan.names.get(f"{nest.stage}.unroll")
        if unroll is not None:
            changed |= halve_largest(part, [Factor(steps, unroll)], long)
    return changed


def _steps(plan: Plan, nest: Nest, found: Measured) -> list[Factor]:
    """The inner parts of a nest's reduction loops: what is fetched at a time."""
    reduce = {a.name for a in plan.geometry.stages[nest.stage].reduce_axes}
    return factors(plan, nest, [loop for loop in nest.loops.all if loop.axis in reduce and loop.part], found)


def _sized(given: list[Factor]) -> list[Factor]:
    return [f for f in given if f.column is not None]


def _fill(plan: Plan, root: Root, rows: Matrix, target: GpuTarget) -> None:
    """Gives blocks of less than a warp more threads: from the other blocks along an axis, else from what a thread has of it."""
    loops = root.loops(THREAD)
    stage = plan.geometry.stages[root.nest.stage]
    wanted = min(target.warp, math.prod(stage.axis(loop.axis).extent for loop in loops))
    if not loops:
        return
    columns = [plan.names[f"{root.nest.stage}.{loop}"] for loop in loops]
    for _ in range(ROUNDS):
        found = plan.geometry.measure(rows)
        few = threads_of(root, found) < wanted
        if not few.any():
            return
        counts = [found.counts[root.nest.stage][loop.axis] for loop in loops]
        outer = np.stack([_product(c[: loop.part]) for c, loop in zip(counts, loops)])  # steps that are not threads, by axis
        inner = np.stack([_product(c[loop.part + 1 :]) for c, loop in zip(counts, loops)])
        by_blocks = few & (outer.max(axis=0) > 1)
        by_tiles = few & ~by_blocks & (inner.max(axis=0) > 1)
        if not (by_blocks | by_tiles).any():
            return
        for n, (loop, column) in enumerate(zip(loops, columns)):
            now = found.loop(root.nest.stage, loop)
            here = by_blocks & (outer.argmax(axis=0) == n)
            rows[here, column] = 2 * now[here]
            here = by_tiles & (inner.argmax(axis=0) == n)
            rows[here, column] = 2 * now[here]
            inside = plan.names.get(f"{root.nest.stage}.{NestLoop(loop.axis, loop.part + 1)}")
            if inside is not None:
                rows[here, inside] = np.maximum(1, (rows[here, inside] + 1) // 2)


def _product(values: list[Array]) -> Array:
    total = np.ones(len(values[0])) if values else np.ones(1)
    for v in values:
        total = total * v
    return total
