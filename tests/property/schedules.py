"""Random candidates for any workload: rewrites, loop orders, tiles, vectors, attach points, packing."""

from __future__ import annotations

import math
from random import Random

from tensorsmith.lang.affine import affine
from tensorsmith.lang.expr import Var, walk
from tensorsmith.lang.workload import Stage, Workload
from tensorsmith.space.sketch.check import is_inside
from tensorsmith.space.sketch.loops import AttachPoint
from tensorsmith.space.sketch.nest import Nest
from tensorsmith.space.sketch.rewrite import CacheRead, CacheWrite, Inline, Rewrite, Rfactor, apply_rewrites
from tensorsmith.space.sketch.sketch import Candidate, Sketch

SIZES = (1, 1, 2, 2, 3, 4, 5, 7, 8, 16, 17, 40)
MAX_TILE = 64  # points of a register tile that are unrolled, its vector loop counted in full
MAX_BODY = 200  # nodes of a stage's body: inlining of inlining must not explode


def random_candidate(workload: Workload, rng: Random) -> Candidate:
    """A candidate that `Sketch.check` accepts."""
    rewrites = random_rewrites(workload, rng)
    rewritten = apply_rewrites(workload, rewrites)
    nests: list[Nest] = []
    decisions: dict[str, int] = {}
    for stage in reversed(rewritten.stages):
        nests.insert(0, _nest(workload, rewritten, rewrites, nests, stage, rng, decisions))
    sketch = Sketch(workload, tuple(nests), tuple(rewrites)).check()
    return Candidate(sketch, {h: decisions[h] for h in sketch.holes})


def random_decisions(sketch: Sketch, rng: Random) -> dict[str, int]:
    """Values for the holes of a sketch; the tiles may get too large to be compiled."""
    return {h: rng.randint(0, 2) if h.endswith(".parallel") else rng.choice(SIZES) for h in sketch.holes}


def random_rewrites(workload: Workload, rng: Random) -> list[Rewrite]:
    rewrites: list[Rewrite] = []
    for stage in workload.stages:
        chosen: list[Rewrite] = []
        if not stage.reduction and stage.name not in workload.outputs and rng.random() < 0.35:
            chosen = [Inline(stage.name)]
        elif stage.reduction and rng.random() < 0.3:
            axis = rng.choice(stage.reduce_axes)
            factor = rng.choice((1, 2, 3, 4, 5, 8, 16))
            chosen = [Rfactor(stage.name, axis.name, factor, rng.random() < 0.5)]
        elif rng.random() < 0.12:
            chosen = [CacheWrite(stage.name)]
        elif rng.random() < 0.25:
            chosen = _copy(apply_rewrites(workload, rewrites), stage.name, rng)
        if chosen:
            after = apply_rewrites(workload, rewrites + chosen)
            if all(sum(1 for _ in walk(s.body)) <= MAX_BODY for s in after.stages):
                rewrites += chosen
    return rewrites


def _copy(workload: Workload, name: str, rng: Random) -> list[Rewrite]:
    """A read through a copy, of some tensor that the stage reads once, at plain axes."""
    stage = workload.stage(name)
    tensors = [
        x.tensor
        for x in stage.reads
        if len({i.name for i in x.indices if isinstance(i, Var)}) == len(x.indices)
        and sum(y.tensor == x.tensor for y in stage.reads) == 1
        and f"{x.tensor}.pack" not in workload.buffers
    ]
    return [CacheRead(name, rng.choice(tensors))] if tensors else []


def _nest(
    workload: Workload,
    rewritten: Workload,
    rewrites: list[Rewrite],
    nests: list[Nest],
    stage: Stage,
    rng: Random,
    decisions: dict[str, int],
) -> Nest:
    if stage.name.endswith(".pack") and rng.random() < 0.8:
        follower = _follower(rewritten, nests, stage, rng, decisions)
        if follower is not None:
            return follower
    parts = {a.name: rng.choice((1, 1, 2, 2, 3, 4)) for a in stage.all_axes}
    loops = _interleaved(parts, rng)
    sizes = {f"{a}.{p}": rng.choice(SIZES) for a, n in parts.items() for p in range(1, n)}
    outer, tile = _bar(stage, loops, sizes, rng)
    vector = _vector(stage, parts, tile, rng)
    for loop, size in sizes.items():
        decisions[f"{stage.name}.{loop}"] = size
    spatial = {a.name for a in stage.axes}
    leading = 0
    while leading < len(outer) and outer[leading].rpartition(".")[0] in spatial:
        leading += 1
    decisions[f"{stage.name}.parallel"] = rng.randint(0, leading) if rng.random() < 0.6 else 0
    decisions[f"{stage.name}.unroll"] = rng.randint(1, 8)
    at = _attach(workload, rewritten, rewrites, nests, stage, rng)
    packed = tuple(b.name for b in rewritten.inputs if _packable(rewritten, stage, b.name) and rng.random() < 0.6)
    loops = _laid_out(stage, [*outer, "|", *tile], vector, sizes, rng)
    return Nest(stage.name, " ".join(loops), vector, at, packed)


def _laid_out(stage: Stage, loops: list[str], vector: str | None, sizes: dict[str, int], rng: Random) -> list[str]:
    """Some outer and reduction loops marked to be laid out step by step; few steps, for the code grows with them."""
    budget = 8
    marked = []
    bar = loops.index("|")
    reductions = {a.name for a in stage.reduce_axes}
    for n, loop in enumerate(loops):
        axis = loop.rpartition(".")[0]
        if loop == "|" or loop == vector or (n > bar and axis not in reductions) or rng.random() < 0.8:
            marked.append(loop)
            continue
        steps = min(stage.axis(axis).extent, sizes.get(loop, stage.axis(axis).extent))
        marked.append(f"{loop}!" if steps <= budget else loop)
        budget //= steps if steps <= budget else 1
    return marked


def _follower(rewritten: Workload, nests: list[Nest], stage: Stage, rng: Random, decisions: dict[str, int]) -> Nest | None:
    """The nest of a copy that is laid out as its reader's loops run: at the root, or inside the reader's outer loops."""
    (reader,) = rewritten.consumers[stage.name]
    nest = next(n for n in nests if n.stage == reader)
    if nest.at is not None:
        return None
    depth = rng.randint(1, len(nest.outer)) if nest.outer and rng.random() < 0.6 else 0
    running = [x for x in (*nest.outer, *nest.tile) if x not in nest.outer[:depth]]
    followed = {a.name: [x for x in running if x.axis == a.name] for a in stage.axes}
    if not all(followed.values()):
        return None
    sizes: dict[str, int] = {}
    for axis, loops in followed.items():
        extent = rewritten.stage(reader).axis(axis).extent
        for p, loop in enumerate(loops):
            sizes[f"{axis}.{p}"] = decisions.get(f"{reader}.{loop}", extent)
    outer, tile = _bar(stage, _interleaved({a: len(x) for a, x in followed.items()}, rng), sizes, rng)
    vector = _vector(stage, {a: len(x) for a, x in followed.items()}, tile, rng)
    decisions[f"{stage.name}.parallel"] = rng.randint(0, len(outer))
    at = f"{reader}:{depth}" if depth else None
    return Nest(stage.name, " ".join((*outer, "|", *tile)), vector, at, (), reader)


def _interleaved(parts: dict[str, int], rng: Random) -> list[str]:
    """All parts of all axes in a random order that keeps each axis' own."""
    queues = {a: [f"{a}.{p}" for p in range(n)] for a, n in parts.items()}
    loops: list[str] = []
    while queues:
        axis = rng.choice(list(queues))
        loops.append(queues[axis].pop(0))
        if not queues[axis]:
            del queues[axis]
    return loops


def _bar(stage: Stage, loops: list[str], sizes: dict[str, int], rng: Random) -> tuple[list[str], list[str]]:
    """Outer loops and register tile: at most one spatial loop of an axis in the tile, and not too many points."""
    extents = {a.name: a.extent for a in stage.axes}
    legal = []
    for position in range(len(loops) + 1):
        tile = [x for x in loops[position:] if x.rpartition(".")[0] in extents]
        axes = [x.rpartition(".")[0] for x in tile]
        points = math.prod(min(extents[a], sizes.get(x, extents[a])) for a, x in zip(axes, tile))
        if len(set(axes)) == len(axes) and points <= MAX_TILE:
            legal.append(position)
    position = legal[0] if rng.random() < 0.5 else rng.choice(legal)
    return loops[:position], loops[position:]


def _vector(stage: Stage, parts: dict[str, int], tile: list[str], rng: Random) -> str | None:
    spatial = {a.name for a in stage.axes}
    choices = [x for x in tile if x.rpartition(".")[0] in spatial]
    reductions = [x for x in tile if x.rpartition(".")[0] not in spatial]
    if reductions:
        axis, _, part = reductions[-1].rpartition(".")
        if int(part) == parts[axis] - 1:
            choices.append(reductions[-1])
    return rng.choice(choices) if choices and rng.random() < 0.85 else None


def _attach(
    workload: Workload, rewritten: Workload, rewrites: list[Rewrite], nests: list[Nest], stage: Stage, rng: Random
) -> AttachPoint | None:
    readers = rewritten.consumers[stage.name]
    if stage.name in rewritten.outputs or not readers or rng.random() < 0.3:
        return None
    sketch = Sketch(workload, tuple(nests), tuple(rewrites))
    points = [
        AttachPoint(n.stage, depth)
        for n in nests
        for depth in range(1 if n.outer else 0, len(n.outer) + 1)
        if all(is_inside(sketch, r, AttachPoint(n.stage, depth)) for r in readers)
    ]
    if not points:
        return None
    deepest = [p for p in points if p.depth == len(sketch.nest(p.stage).outer)]
    return rng.choice(deepest if deepest and rng.random() < 0.4 else points)


def _packable(workload: Workload, stage: Stage, name: str) -> bool:
    """Whether a tensor is a constant that only this stage reads, once, at affine indices."""
    reads = [(s, x) for s in workload.stages for x in s.reads if x.tensor == name]
    return (
        workload.buffers[name].constant
        and len(reads) == 1
        and reads[0][0] is stage
        and all(affine(i) is not None for i in reads[0][1].indices)
    )
