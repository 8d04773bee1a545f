"""Splitting a reduction over blocks (split-K): where results alone are too few for all multiprocessors.

C[i, j] = sum(A[i, k] * B[k, j], over k<n)
    ->    C.rf[i, j, k_f] = sum(A[i, k_f * m + k] * B[k_f * m + k, j], over k<m), in tiles
          C[i, j] = sum(C.rf[i, j, k_f], over k_f), a thread for each
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tensorsmith.backends.gpu.matrix import STEPS, matrix_product
from tensorsmith.backends.gpu.rules import nests
from tensorsmith.backends.gpu.target import GpuTarget
from tensorsmith.space.analysis import needs_tiling, reduces_constant
from tensorsmith.space.rules.base import Derived, State, Verdict
from tensorsmith.space.sketch.nest import Choice
from tensorsmith.space.sketch.rewrite import Rfactor
from tensorsmith.targets.target import Target


@dataclass(frozen=True)
class SplitSettings:
    """When, and into how many parts."""

    results: int = 2048  # of a block, about: a multiprocessor wants two such
    least: int = 256  # steps of a reduction that is worth it
    parts: tuple[int, ...] = (2, 4, 8, 16)
    long: int = 1 << 15  # steps of a reduction without reuse that is worth it
    long_parts: tuple[int, ...] = (32, 128, 512)


SETTINGS = SplitSettings()


class SplitReduction:
    """Applies to stages with reuse that have too few results, and to very long reductions; the rules after it are asked too."""

    name = "gpu_split"

    def condition(self, state: State, index: int, target: Target) -> Verdict:
        assert isinstance(target, GpuTarget)
        stage = state.stage(index)
        if not stage.reduction or reduces_constant(state.now, stage) or state.nest(stage.name):
            return Verdict.SKIP
        if state.has_cache_write(stage.name) or any(isinstance(r, Rfactor) for r in state.rewrites):
            return Verdict.SKIP
        tiles = needs_tiling(stage)
        few = math.prod(stage.shape) < (2 * SETTINGS.results if tiles else 1) * target.multiprocessors
        longest = max(a.extent for a in stage.reduce_axes)
        length = longest if tiles else math.prod(a.extent for a in stage.reduce_axes)
        enough = longest >= max(SETTINGS.parts) and length >= (SETTINGS.least if tiles else SETTINGS.long)
        return Verdict.APPLY if few and enough else Verdict.SKIP

    def apply(self, state: State, index: int, target: Target) -> Derived:
        assert isinstance(target, GpuTarget)
        stage = state.stage(index)
        axis = max(stage.reduce_axes, key=lambda a: a.extent)
        wanted = SETTINGS.parts if needs_tiling(stage) else SETTINGS.long_parts
        parts = [n for n in wanted if n <= axis.extent] or [axis.extent]
        if target.matrix_flops and matrix_product(stage) is not None:  # in parts that matrix instructions can compute, if there are
            parts = [n for n in parts if axis.extent % (n * STEPS) == 0] or parts
        rewrite = Rfactor(stage.name, axis.name, parts[0])
        new = state.rewritten(rewrite)
        final = new.now.stage(stage.name)
        done = new.with_nest(nests.plain(final), Choice(stage.name, "factor", tuple(map(str, parts))))
        return [(done, [s.name for s in done.now.stages].index(rewrite.partial))]
