"""Placement: where a stage without reuse is computed is left open.

    P[i, j] = ...; C reads P    ->    P.at in root / inline / C:1 / C:2 / ...

Stages that make up the rows of a later one (the maximum and the sum of a softmax) are placed together, by one hole:

    M[i] = max(X[i, k]); E[i, j] = exp(X[i, j] - M[i]); S[i] = sum(E[i, k]); D[i, j] = E[i, j] / S[i]
        ->    D.rows in 0 / 1: M, E and S at the root, or inside the loop over i
"""

from __future__ import annotations

from tensorsmith.lang.workload import Stage
from tensorsmith.space.analysis import common_outer_axes, is_movement, is_padding, needs_tiling
from tensorsmith.space.rules.base import Derived, State, Verdict, simple_nest
from tensorsmith.space.sketch.loops import AttachPoint, NestLoop
from tensorsmith.space.sketch.nest import Choice
from tensorsmith.targets.target import Target

_MAX_DEPTHS = 8  # of a nest that are offered as places


class LeavePlaceOpen:
    """Applies to every stage that no rule before it has taken."""

    name = "place"

    def condition(self, state: State, index: int, target: Target) -> Verdict:
        return Verdict.APPLY_AND_SKIP_REST

    def apply(self, state: State, index: int, target: Target) -> Derived:
        stage = state.stage(index)
        if state.nest(stage.name) is not None:
            return [(state, index - 1)]
        new = state.with_nest(simple_nest(stage, by_place=True))
        readers = state.now.consumers[stage.name]
        if not readers or stage.name in state.now.outputs:
            return [(new, index - 1)]
        joined = join_rows(new, stage)
        if joined is not None:
            return [(joined, index - 1)]
        return [(new.with_places(stage, ["root", *_inline(state, stage), *places(state, stage)]), index - 1)]


def join_rows(state: State, stage: Stage, whole: bool = False) -> State | None:
    """The state with the stage in the rows of a later one, if all its readers are there too; with `whole`, also where a row has one
    element."""
    now = state.now
    if is_padding(stage):  # has more places than the rows
        return None
    for root in state.nests:
        final = now.stage(root.stage)
        if root.at is not None or root.stage == stage.name or state.choice(root.stage, "at") or state.choice(root.stage, "loops"):
            continue
        if root.outer != tuple(NestLoop(a.name, 0) for a in final.axes):  # its loops must be just its axes
            continue
        choice = state.choice(root.stage, "rows")
        members = choice.members if choice else ()
        if not set(now.consumers[stage.name]) <= {root.stage, *members}:
            continue
        if final.reduction and needs_tiling(final):
            continue
        last = 0 if whole or len(final.axes) == 1 else 1
        common = min(common_outer_axes(now, stage.name, root.stage), len(final.axes) - last)
        if common < 1:
            continue
        depths = [d for d in (choice.options if choice else map(str, range(common + 1))) if int(d) <= common]
        return state.with_choice(Choice(root.stage, "rows", tuple(depths), (*members, stage.name)))
    return None


def _inline(state: State, stage: Stage) -> list[str]:
    """Whether computing the stage again in every reader is worth a try."""
    if stage.reduction:
        return []
    readers = [state.now.stage(r) for r in state.now.consumers[stage.name]]
    if is_padding(stage) or is_movement(stage) or not any(needs_tiling(r) and r.reduction for r in readers):
        return ["inline"]
    return []


def places(state: State, stage: Stage, most: int = _MAX_DEPTHS) -> list[str]:
    """Depths of the nest around the only reader, and of the reader's own nest, so many at most."""
    readers = state.now.consumers[stage.name]
    if len(readers) != 1:
        return []
    nest = state.nest(readers[0])
    if nest is None or state.choice(nest.stage, "at") or any(nest.stage in c.members for c in state.choices):
        return []
    found = [str(AttachPoint(nest.stage, d)) for d in range(1, len(nest.outer) + 1)]
    if nest.at is not None:
        found = [str(AttachPoint(nest.at.stage, d)) for d in range(1, nest.at.depth + 1)] + found
    return found[:most]
