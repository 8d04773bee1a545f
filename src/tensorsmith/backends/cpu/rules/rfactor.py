"""Rfactor: a long reduction with few results becomes partial results, in parallel or in lanes, and a short final reduction.

C[i] = sum(A[i, k], over k<n)    ->    C.rf[i, k_f] = sum(A[i, k_f * m + k], over k<m); C[i] = sum(C.rf[i, k_f], over k_f<n/m)
"""

from __future__ import annotations

import math

from tensorsmith.lang.workload import Stage
from tensorsmith.space.analysis import needs_tiling
from tensorsmith.space.rules.base import Derived, State, Verdict, levels, simple_nest
from tensorsmith.space.sketch.nest import Choice, Nest
from tensorsmith.space.sketch.rewrite import Rfactor
from tensorsmith.targets.target import Target

_INNERMOST = 64  # Ansor's limit of an innermost size


def wants_rfactor(stage: Stage, cores: int) -> bool:
    """Whether the stage's results are too few, and its reduction long enough, to share the reduction among threads."""
    if not stage.reduction:
        return False
    results = math.prod(stage.shape)
    length = math.prod(a.extent for a in stage.reduce_axes)
    if needs_tiling(stage):
        return not (results > length or results > 16 * cores)
    return length > 1 and length > cores


class AddRfactor:
    """Two variants: far-apart blocks (for threads) and neighbouring elements (for lanes)."""

    name = "rfactor"

    def __init__(self, few_results: bool = False) -> None:
        self.few_results = few_results  # only where the results alone do not keep the threads busy

    def condition(self, state: State, index: int, target: Target) -> Verdict:
        stage = state.stage(index)
        if state.has_cache_write(stage.name) or any(r.stage == stage.name and isinstance(r, Rfactor) for r in state.rewrites):
            return Verdict.SKIP
        if self.few_results and math.prod(stage.shape) >= 16 * target.cores:
            return Verdict.SKIP
        return Verdict.APPLY if wants_rfactor(stage, target.cores) else Verdict.SKIP

    def apply(self, state: State, index: int, target: Target) -> Derived:
        stage = state.stage(index)
        derived: Derived = []
        for inner in (False, True):
            # threads share the longest axis; lanes want the last one, whose elements are neighbours
            axis = stage.reduce_axes[-1] if inner else max(stage.reduce_axes, key=lambda a: a.extent)
            usual = _factors(axis.extent, target, inner)
            factors = usual if self.few_results else _divisors(axis.extent, target, inner)
            new = state.rewritten(Rfactor(stage.name, axis.name, usual[0], inner))
            partial = new.now.stage(f"{stage.name}.rf")
            final = new.now.stage(stage.name)
            choice = Choice(stage.name, "factor", tuple(map(str, factors)))
            done = new.with_nest(_partial_nest(partial, inner), choice)
            if done.nest(stage.name) is None:
                done = done.with_nest(simple_nest(final))
            derived.append((done, [s.name for s in done.now.stages].index(partial.name) - 1))
        return derived


def _partial_nest(partial: Stage, inner: bool) -> Nest:
    outer = levels(partial.axes, 0)
    reduce = levels(partial.reduce_axes, 0)
    vector = f"{(partial.axes if inner else partial.reduce_axes)[-1].name}.1"
    return Nest(partial.name, f"{outer} | {reduce} {vector}", vector=vector)


def _divisors(extent: int, target: Target, inner: bool) -> list[int]:
    """Ansor's numbers of partial results besides ours: the reduction is split by a divisor of 64 at most, either part of which is
    theirs."""
    lengths = [n for n in range(1, _INNERMOST + 1) if extent % n == 0]
    return sorted({*_factors(extent, target, inner), *(n if inner else extent // n for n in lengths)})


def _factors(extent: int, target: Target, inner: bool) -> list[int]:
    """Sensible numbers of partial results, ascending."""
    lanes = target.lanes()
    wanted = [lanes, 2 * lanes, 4 * lanes, 8 * lanes] if inner else [target.cores * n for n in (1, 2, 4, 8, 16)]
    return sorted({min(extent, n) for n in wanted})
