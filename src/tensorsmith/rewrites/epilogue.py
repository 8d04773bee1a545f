"""What follows a convolution element by element, computed where the convolution's tiles are.

Winograd's results come in tiles: blocks[n, ty, y, tx, z, co] is row ty * 4 + y, column tx * 4 + z. If the tiles cover the image
exactly, that is the image's own order in memory, and the readers of the convolution can be defined on tiles as well:

    conv[n, h, w, co] = blocks[n, h // 4, h % 4, w // 4, w % 4, co]; relu[n, h, w, co] = max(conv[n, h, w, co] + bias[co], 0)
        ->    relu_blocks[n, ty, y, tx, z, co] = max(blocks[n, ty, y, tx, z, co] + bias[co], 0)
              relu[n, h, w, co] = relu_blocks[n, h // 4, h % 4, w // 4, w % 4, co]          which is the same memory

so that the last stage costs nothing and the one before it can be computed on the registers that hold a tile. If tiles hang over the
edges, the last of the readers picks its elements from the tiles, and there is no stage between.
"""

from __future__ import annotations

from collections.abc import Mapping

from tensorsmith.lang.expr import Expr, Load, Var, same, substitute, transform, written_out
from tensorsmith.lang.workload import Stage, Workload, topological

_MOST_NODES = 400  # of the expression that all readers make together


def joined(workload: Workload, placed: str, blocks: str, tile: int) -> Workload:
    """The workload with the elementwise readers of `placed`, which only places tiles, made one stage without it, if that can be."""
    image, tiled = workload.stage(placed), workload.stage(blocks)
    readers = _readers(workload, placed)
    if not readers or workload.outputs != (readers[-1].name,):
        return workload
    last = readers[-1]
    covered = image.shape[-3] % tile == 0 and image.shape[-2] % tile == 0
    place: tuple[Expr, ...] = tuple(Var(a.name) for a in last.axes)
    here: Expr = substitute(image.body, {a.name: e for a, e in zip(image.axes, place)})
    if covered:
        *lead, ty, y, tx, z, co = indices = tuple(Var(a.name) for a in tiled.axes)
        place = (*lead, ty * tile + y, tx * tile + z, co)
        here = Load(blocks, indices, tiled.dtype)
    bodies: dict[str, Expr] = {placed: here}
    for stage in readers:
        bodies[stage.name] = _moved(stage.body, {a.name: e for a, e in zip(stage.axes, place)}, bodies)
        if written_out(bodies[stage.name]) > _MOST_NODES:
            return workload
    new = [Stage(last.name, last.axes, bodies[last.name])]
    if covered:
        *outer, h, w, channel = (Var(a.name) for a in last.axes)
        there = Load(f"{last.name}_blocks", (*outer, h // tile, h % tile, w // tile, w % tile, channel), last.dtype)
        new = [Stage(there.tensor, tiled.axes, bodies[last.name]), Stage(last.name, last.axes, there)]
    gone = {placed, *(s.name for s in readers)}
    stages = [s for s in workload.stages if s.name not in gone]
    return Workload(workload.inputs, topological([*stages, *new]), workload.outputs).check()


def _moved(body: Expr, values: Mapping[str, Expr], bodies: Mapping[str, Expr]) -> Expr:
    """A body with its axes replaced, and with what it reads of the stages before it put in."""

    def rewrite(e: Expr) -> Expr | None:
        if isinstance(e, Load) and e.tensor in bodies:
            return bodies[e.tensor]
        return values.get(e.name) if isinstance(e, Var) else None

    return transform(body, rewrite)


def _readers(workload: Workload, placed: str) -> list[Stage] | None:
    """All stages behind a stage, in order, if each works element by element at the same place on what it reads of them."""
    found: dict[str, Stage] = {}
    shape = workload.stage(placed).shape
    for stage in workload.stages:
        read = [x for x in stage.reads if x.tensor == placed or x.tensor in found]
        if not read:
            continue
        here = tuple(Var(a.name) for a in stage.axes)
        if stage.reduction or stage.shape != shape or not all(same(x.indices, here) for x in read):
            return None
        found[stage.name] = stage
    return list(found.values())
