"""The simple rules for GPUs: what costs little is computed where it is read, the rest by one thread for each result.

B[i] = A[i] + 1; C[i] = B[i] * 2      ->    C[i] = (A[i] + 1) * 2
P[i] = max(X[2 * i + k], over k<2)    ->    threads of all blocks share i
"""

from __future__ import annotations

import math

from tensorsmith.backends.gpu.rules import nests
from tensorsmith.lang.inline import fits
from tensorsmith.space.analysis import constant_axes, reduces_constant
from tensorsmith.space.rules.base import Derived, State, Verdict, levels, names
from tensorsmith.space.sketch.nest import Nest
from tensorsmith.space.sketch.rewrite import Inline
from tensorsmith.space.transforms import is_transform, transform_axes
from tensorsmith.targets.target import Target

_MAX_STEPS = 2048  # that are laid out


class InlineAlways:
    """Every stage without a reduction that is no output: a thread computes what it needs again."""

    name = "gpu_inline"

    def condition(self, state: State, index: int, target: Target) -> Verdict:
        stage = state.stage(index)
        if stage.reduction or stage.name in state.now.outputs or state.nest(stage.name) is not None:
            return Verdict.SKIP
        return Verdict.APPLY_AND_SKIP_REST if fits(state.now, stage.name) else Verdict.SKIP

    def apply(self, state: State, index: int, target: Target) -> Derived:
        return [(state.rewritten(Inline(state.stage(index).name)), index - 1)]


class SpecialPlace:
    """What only a stage of constant tensors reads (the tile of Winograd's input) is computed in that stage's registers."""

    name = "gpu_place"

    def condition(self, state: State, index: int, target: Target) -> Verdict:
        stage = state.stage(index)
        readers = state.now.consumers[stage.name]
        if stage.reduction or not stage.reads or stage.name in state.now.outputs or len(readers) != 1 or state.nest(stage.name):
            return Verdict.SKIP
        reader = state.nest(readers[0])
        chosen = reader is not None and reader.at is None and bool(reader.unrolled)  # as the rule for constant tensors left it
        return Verdict.APPLY_AND_SKIP_REST if chosen else Verdict.SKIP

    def apply(self, state: State, index: int, target: Target) -> Derived:
        stage = state.stage(index)
        reader = state.nest(state.now.consumers[stage.name][0])
        assert reader is not None
        depth = sum(mark == "grid" for mark in reader.loops.bindings.values())
        return [(state.with_nest(Nest(stage.name, levels(stage.axes, 0), at=f"{reader.stage}:{depth}")), index - 1)]


class ConstantTensorOnGpu:
    """Reductions of a few elements against constants, and choices by an index: all such steps are laid out."""

    name = "gpu_constant"

    def condition(self, state: State, index: int, target: Target) -> Verdict:
        stage = state.stage(index)
        if state.nest(stage.name) is not None:
            return Verdict.SKIP
        return Verdict.APPLY_AND_SKIP_REST if _is_constant(state, stage.name) else Verdict.SKIP

    def apply(self, state: State, index: int, target: Target) -> Derived:
        stage = state.stage(index)
        short = constant_axes(state.now, stage) if stage.reduction else transform_axes(state.now, stage)
        if math.prod(a.extent for a in stage.all_axes if a.name in short) > _MAX_STEPS:
            short = frozenset()
        outer = [a for a in stage.axes if a.name not in short]
        inner = " ".join(f"{a.name}.0!" for a in stage.axes if a.name in short)
        reduce = " ".join(f"{a.name}.0{'!' if a.name in short else ''}" for a in stage.reduce_axes)
        loops = names(nests.bound(levels(outer, 0), "grid"), inner, "|", reduce)
        return [(state.with_nest(Nest(stage.name, loops, also=("threads",) if outer else ())), index - 1)]


class OneThreadEach:
    """Always applies: a thread for each result, unless the stage has a nest."""

    name = "gpu_plain"

    def condition(self, state: State, index: int, target: Target) -> Verdict:
        return Verdict.APPLY

    def apply(self, state: State, index: int, target: Target) -> Derived:
        stage = state.stage(index)
        return [(state if state.nest(stage.name) else state.with_nest(nests.plain(stage)), index - 1)]


def _is_constant(state: State, name: str) -> bool:
    stage = state.now.stage(name)
    return reduces_constant(state.now, stage) or is_transform(state.now, stage)
