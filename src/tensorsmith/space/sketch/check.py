"""Whether a structure makes sense."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorsmith.errors import Refusal, UserError
from tensorsmith.lang.workload import Stage
from tensorsmith.program.grouping import group_axis, group_steps
from tensorsmith.space.holes.registry import number_kind
from tensorsmith.space.sketch.loops import AttachPoint, NestLoop, written
from tensorsmith.space.sketch.nest import Nest

if TYPE_CHECKING:
    from tensorsmith.space.sketch.sketch import Sketch


class Misplaced(Refusal):
    """A stage is attached where not all of its readers can see it."""

    def __init__(self, stage: str, detail: str) -> None:
        super().__init__("reader outside", detail)
        self.stage = stage


def check_nest(sketch: Sketch, nest: Nest) -> None:
    where = f"nest of {nest.stage}"
    stage: Stage = sketch.rewritten.stage(nest.stage)
    names = {a.name for a in stage.all_axes}
    seen: dict[str, int] = {}
    for loop in nest.loops.all:
        if loop.axis not in names:
            raise UserError(f"{where}: the loop '{loop}' is of no axis of the stage, which has {sorted(names)}")
        if loop.part != seen.get(loop.axis, 0):
            raise UserError(f"{where}: the parts of axis {loop.axis} must come in order 0, 1, ...; got '{loop}'")
        seen[loop.axis] = loop.part + 1
    spatial = [loop.axis for loop in nest.tile if loop.axis in {a.name for a in stage.axes}]
    for axis in spatial:
        if spatial.count(axis) > 1:
            raise UserError(f"{where}: the register tile has more than one loop of axis {axis}; put the outer ones before the bar")
    missing = names - set(seen)
    if missing and nest.follows is None:  # a copy has no loop for an axis that is fixed where it is made
        raise UserError(f"{where}: no loop for the axes {sorted(missing)}")
    if nest.vector is not None and nest.vector not in nest.tile:
        raise UserError(f"{where}: the vector loop '{nest.vector}' must be one of the register tile's: {written(nest.tile)}")
    if nest.vector is not None and nest.vector.part != seen[nest.vector.axis] - 1:
        raise UserError(f"{where}: the vector loop '{nest.vector}' must be the last part of its axis")
    if nest.group is not None:
        _check_group(nest, stage)
    for tensor in nest.packed:
        if tensor not in {x.tensor for x in stage.reads}:
            raise UserError(f"{where}: {tensor!r} is to be packed, but the stage does not read it")
    for kind in nest.also:
        number_kind(kind)  # raises where there is none
    if nest.follows is not None:
        _check_followed(sketch, nest)
    if nest.at is None:
        return
    if nest.stage in sketch.rewritten.outputs:
        raise UserError(f"{where}: an output is computed at the root, not inside {nest.at.stage}")
    if nest.at.stage not in {n.stage for n in sketch.nests}:
        raise UserError(f"{where}: attached to the unknown stage {nest.at.stage!r}")
    loops = len(sketch.nest(nest.at.stage).outer)
    if not 0 < nest.at.depth <= loops and not (nest.at.depth == 0 == loops):
        raise UserError(f"{where}: attached at depth {nest.at.depth} of {nest.at.stage}, which has {loops} outer loops")
    for reader in sketch.rewritten.consumers[nest.stage]:
        if not is_inside(sketch, reader, nest.at):
            raise Misplaced(nest.stage, f"{nest.stage} is attached at {nest.at} but read by {reader}")


def _check_group(nest: Nest, stage: Stage) -> None:
    """A group is the last loop of the reduction axis of products of small numbers, and the last reduction loop of the tile."""
    where, axis = f"nest of {nest.stage}", group_axis(stage)
    if axis is None:
        raise UserError(f"{where}: it has the group '{nest.group}', but it sums up no products of small numbers")
    reduced = {a.name for a in stage.reduce_axes}
    wanted = NestLoop(axis.name, nest.parts[axis.name] - 1)
    if nest.group != wanted or not wanted.part or nest.vector == wanted:
        raise UserError(f"{where}: the group '{nest.group}' must be the last of several parts of axis {axis.name}, not in lanes")
    lane = group_steps(stage)
    if group_steps(stage, nest.group_size) not in (lane, 2 * lane):
        raise UserError(f"{where}: the group '{nest.group}' has {nest.group_size} steps; {lane} are possible, or {2 * lane}")
    if [loop for loop in nest.tile if loop.axis in reduced][-1:] != [wanted]:
        raise UserError(f"{where}: the group '{nest.group}' must be the register tile's last reduction loop: {written(nest.tile)}")


def _check_followed(sketch: Sketch, copy: Nest) -> None:
    """A copy runs in the loops of a stage that reads it, and of the one that is inside of."""
    where = f"nest of {copy.stage}"
    nests = {n.stage: n for n in sketch.nests}
    if copy.follows not in sketch.rewritten.consumers[copy.stage] or nests[copy.follows].follows is not None:
        raise UserError(f"{where}: it follows {copy.follows!r}, which is no stage with loops of its own that reads it")
    point = nests[copy.follows].at
    if point is not None and point.stage in nests:
        around = {loop.axis for loop in nests[point.stage].outer[: point.depth]}
        count = len(sketch.rewritten.stage(copy.follows).axes)
        if not around <= {a.name for a in sketch.rewritten.stage(point.stage).axes[:count]}:
            raise UserError(f"{where}: the loops around {copy.follows}, which it follows, are not of axes that both have")


def is_inside(sketch: Sketch, stage: str, point: AttachPoint) -> bool:
    """Whether a stage runs inside an attach point."""
    current: AttachPoint | None = AttachPoint(stage, len(sketch.nest(stage).outer))
    for _ in sketch.nests:  # no longer than that, even if stages are attached to each other in a circle
        if current is None:
            break
        if current.stage == point.stage:
            return current.depth >= point.depth
        current = sketch.nest(current.stage).at
    return False
