"""Copies made for another nest: a copy's loops are those of the nest it follows that run inside the copy's attach point.

C: i.0 j.0 i.1 j.1 | k.0 i.2 j.2,  B.pack[k, j] follows C
    at the root   j.0 j.1 k.0 | j.2         all loops of C that run through B
    at C:2        j.0 k.0 | j.1             what is left inside i.0 and j.0
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from tensorsmith.lang.expr import Cast, Load, Var
from tensorsmith.lang.workload import Workload
from tensorsmith.space.sketch.loops import Loops, NestLoop, written
from tensorsmith.space.sketch.nest import Nest


class Running(NamedTuple):
    """A loop of some nest."""

    stage: str
    loop: NestLoop


def around(nests: Mapping[str, Nest], nest: Nest) -> list[Running]:
    """The loops of other nests around one, outermost first."""
    if nest.at is None:
        return []
    owner = nests[nest.at.stage]
    return [*around(nests, owner), *(Running(owner.stage, loop) for loop in owner.outer[: nest.at.depth])]


def running(nests: Mapping[str, Nest], copy: Nest) -> list[Running]:
    """The loops around and in the nest that a copy follows which run inside the copy's attach point, outermost first."""
    reader = nests[str(copy.follows)]
    every = [*around(nests, reader), *(Running(reader.stage, loop) for loop in reader.loops.all)]
    fixed = set(around(nests, copy))
    return [one for one in every if one not in fixed]


def followed(workload: Workload, nests: Mapping[str, Nest], copy: Nest) -> dict[str, list[Running]]:
    """By axis of a copy: the loops that run along it.

    The copy's axes are called as those of the nest it follows; the loops around that nest are of stages that run through their
    leading axes in step with it.
    """
    reader = nests[str(copy.follows)]
    # by stage: what the reader calls its axes
    names = {reader.stage: {a.name: a.name for a in workload.stage(reader.stage).all_axes}}
    inner = reader
    while inner.at is not None:
        owner, mine = workload.stage(inner.at.stage), names[inner.stage]
        pairs = zip(owner.axes, workload.stage(inner.stage).axes)
        names[owner.name] = {a.name: mine[b.name] for a, b in pairs if b.name in mine}
        inner = nests[owner.name]
    loops = running(nests, copy)
    return {a.name: [r for r in loops if names[r.stage].get(r.loop.axis) == a.name] for a in workload.stage(copy.stage).axes}


def follow(workload: Workload, nests: Mapping[str, Nest], copy: Nest) -> Nest:
    """A copy's nest with the loops of the nest it follows that run inside its attach point, rows of the original in order.

    Along the rows of what the copy itself reads the innermost loop runs, even if those are columns here (a transpose).
    """
    reader = nests[str(copy.follows)]
    counts = {axis: len(loops) for axis, loops in followed(workload, nests, copy).items()}
    # lanes run along what the reader's register tile holds of the copy: short, and neighbours there
    spatial = {a.name for a in workload.stage(reader.stage).axes}
    held = [a for a in counts if a in spatial and NestLoop(a, reader.parts[a] - 1) in reader.tile]
    lanes = reader.vector.axis if reader.vector is not None else ""
    free = [a for a in counts if counts[a]]  # an axis of one element may be fixed where the copy is made; perhaps all are
    along = lanes if lanes in held else (held or free or [""])[-1]
    vector = NestLoop(along, counts[along] - 1) if along else None
    body = workload.stage(copy.stage).body
    body = body.a if isinstance(body, Cast) else body  # which may be stored in another type
    row = body.indices[-1] if isinstance(body, Load) and body.indices else None
    order = sorted(counts, key=lambda a: isinstance(row, Var) and row.name == a and a != along)
    group = reader.group.axis if reader.group is not None and counts.get(reader.group.axis) else ""
    together = (NestLoop(group, counts[group] - 1),) if group and group != along else ()  # its steps lie side by side
    tile = (*together, *((vector,) if vector is not None else ()))
    outer = tuple(loop for a in order for n in range(counts[a]) if (loop := NestLoop(a, n)) not in tile)
    text = f"{written(outer)} | {written(tile)}".rstrip()
    return replace(copy, loops=Loops(outer, tile, text=text), vector=vector)
