"""Constant tensors: what is chosen by a short axis is laid out completely (Winograd's transforms).

A small reduction against a constant matrix:

    U[e, n, p, c] = sum(tile[p, c, a, b] * G[a, e] * G[b, n], over a<6, b<6)
        ->    for p.0 c.0, then e, n, a and b laid out step by step: tile c.1, so that zeros and ones of G vanish

A choice between expressions, one dimension of a transform at a time; the first stage is computed on the tile of the second:

    R[u, s, p, c] = select(u == 0, x[p, 0, s, c] - x[p, 2, s, c], ...)
    U[u, v, p, c] = select(v == 0, R[u, 0, p, c] - R[u, 2, p, c], ...)
        ->    for p.0 c.0: tile u.0 v.0 c.1, with R, tile u.0 s.0 c.0, computed there
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tensorsmith.lang.expr import same
from tensorsmith.lang.workload import Stage, Workload
from tensorsmith.space.analysis import constant_axes, reduces_constant
from tensorsmith.space.rules.base import Derived, State, Verdict, levels, names, tiled
from tensorsmith.space.sketch.nest import Nest
from tensorsmith.space.transforms import is_transform, slices, transform_axes
from tensorsmith.targets.target import Target

_MAX_STEPS = 2048  # that are laid out: F(4 x 4, 3 x 3) has 6^4


class ConstantTensor:
    """Applies to reductions over a few elements against a tensor computed from indices alone, and to choices by an index."""

    name = "constant"

    def condition(self, state: State, index: int, target: Target) -> Verdict:
        stage = state.stage(index)
        if state.nest(stage.name) is not None:  # a copy that another rule has made
            return Verdict.SKIP
        chosen = reduces_constant(state.now, stage) or is_transform(state.now, stage)
        return Verdict.APPLY_AND_SKIP_REST if chosen else Verdict.SKIP

    def apply(self, state: State, index: int, target: Target) -> Derived:
        stage = state.stage(index)
        if not stage.reduction:
            readers = [n for r in state.now.consumers[stage.name] if (n := state.nest(r)) is not None]
            return [(state.with_nest(selecting_nest(state.now, stage, readers)), index - 1)]
        decided = constant_axes(state.now, stage)
        if math.prod(a.extent for a in stage.all_axes if a.name in decided) > _MAX_STEPS:
            decided = frozenset()
        outer = [a for a in stage.axes if a.name not in decided]
        laid_out = " ".join(f"{a.name}.0!" for a in stage.axes if a.name in decided)
        reduce = " ".join(f"{a.name}.0!" for a in stage.reduce_axes)
        last = [a for a in outer if tiled(a)][-1:]
        lanes = f"{last[0].name}.1" if last else ""
        nest = Nest(stage.name, names(levels(outer, 0), laid_out, "|", reduce, lanes), vector=lanes or None)
        return [(state.with_nest(nest), index - 1)]


def selecting_nest(workload: Workload, stage: Stage, readers: Sequence[Nest]) -> Nest:
    """The nest of a stage that chooses by an index: all short axes on the tile, at the tile of a reader of the same kind.

    The last of a chain of transforms has its loops ordered so that what comes before can be computed in slices.
    """
    short = transform_axes(workload, stage)
    outer = [a for a in stage.axes if a.name not in short]
    last = [a for a in outer if tiled(a)][-1:]
    on_tile = " ".join(f"{a.name}.0" for a in stage.axes if a.name in short)
    if len(readers) == 1 and last and readers[0].follows is None:
        reader = workload.stage(readers[0].stage)
        if is_transform(workload, reader) and same(
            [a for a in reader.axes if a.name not in transform_axes(workload, reader)], outer
        ):
            lanes = f"{last[0].name}.0"
            loops = names(levels([a for a in outer if a is not last[0]], 0), "|", on_tile, lanes)
            return Nest(stage.name, loops, vector=lanes, at=f"{reader.name}:{len(readers[0].outer)}")
    lanes = f"{last[0].name}.1" if last else ""
    cut = slices(workload, stage)
    around = {a.name for a in (*cut.lead, cut.axis)} if cut else set()
    loops = cut.loops(tuple(a for a in outer if a.name not in around)) if cut else levels(outer, 0)
    return Nest(stage.name, names(loops, "|", on_tile, lanes), vector=lanes or None)
