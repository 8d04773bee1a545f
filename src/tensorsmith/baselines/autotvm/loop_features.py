"""AutoTVM's features: what its trees know of a program's loops (spec: baselines.md, section 1.4).

    itervar   loop by loop: length, place, kind, arithmetic, and of every access its stride, how much it touches and how often
    curve     how touched, repeated and outer steps of each buffer grow together: alike for other shapes and operators
    knob      the values of the knobs themselves

They are worked out for many points of a template at once: a number of a loop is an array with an entry for each point.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tensorsmith.baselines.knobs import Point, Template
from tensorsmith.lang.affine import affine
from tensorsmith.lang.expr import Binary, Load, Var, walk
from tensorsmith.lang.workload import Stage
from tensorsmith.space.holes.kind import Array, Matrix
from tensorsmith.space.population.geometry import Measured
from tensorsmith.space.population.population import Plan
from tensorsmith.space.sketch.loops import NestLoop
from tensorsmith.space.sketch.nest import Nest
from tensorsmith.space.sketch.sketch import Sketch

FEATURES = ("itervar", "curve", "knob")

#: kinds of loops in AutoTVM's order; a CPU has the last ones but `vthread`
KINDS = (
    "blockIdx.x", "blockIdx.y", "blockIdx.z", "threadIdx.x", "threadIdx.y", "threadIdx.z",
    "unrolled", "vectorized", "parallel", "serial", "vthread",
)  # fmt: skip
SAMPLES = 20  # of a curve
_RELATIONS = (("count", "reuse"), ("reuse", "count"), ("count", "topdown"), ("topdown", "count"))


@dataclass(frozen=True, eq=False)
class Loop:
    """A loop of a program, for many points."""

    extent: Array
    kind: str = "serial"


@dataclass(frozen=True, eq=False)
class Access:
    """A load or store of a flat buffer: by loop, how far one step moves it."""

    buffer: str
    strides: Mapping[int, Array]


@dataclass(frozen=True, eq=False)
class Statement:
    """A statement in its loops, by their numbers, outermost first; the store comes first among its accesses."""

    loops: tuple[int, ...]
    accesses: tuple[Access, ...]
    adds: int = 0
    multiplies: int = 0
    divides: int = 0


@dataclass(eq=False)
class LoopProgram:
    """Loops in the order in which they begin, and the statements in them."""

    loops: list[Loop] = field(default_factory=list)
    statements: list[Statement] = field(default_factory=list)

    @property
    def points(self) -> int:
        return len(self.loops[0].extent) if self.loops else 0


@dataclass(frozen=True, eq=False)
class _Touch:
    """What an access does in a loop and those inside of it."""

    name: str  # the buffer and which of its accesses: `A_0`
    buffer: str
    stride: Array
    count: Array
    reuse: Array
    per_thread: tuple[Array, Array]


def itervar(program: LoopProgram) -> Array:
    """[points, features]: 18 numbers a loop, and six for every access inside of it."""
    columns: list[Array] = []
    touches = _touches(program)
    for number, loop in enumerate(program.loops):
        path = next(s.loops for s in program.statements if number in s.loops)
        level = path.index(number) + 1
        topdown = np.prod([program.loops[n].extent for n in path[:level]], axis=0)
        mine = touches[number]
        bottomup = np.max([t.count * t.reuse for t in mine], axis=0)
        inner = [s for s in program.statements if s.loops[-1] == number]
        columns += [_log(loop.extent), np.full(program.points, float(level)), _log(topdown), _log(bottomup)]
        columns += [np.full(program.points, float(loop.kind == kind)) for kind in KINDS]
        for amount in ("adds", "multiplies", "divides"):
            columns.append(_log(np.full(program.points, sum(getattr(s, amount) for s in inner))))
        for t in sorted(mine, key=lambda t: t.name):
            columns += [_log(x) for x in (t.stride, np.full(program.points, -1), t.count, t.reuse, *t.per_thread)]
    return np.stack(columns, axis=1) if columns else np.zeros((program.points, 0))


def curve(program: LoopProgram) -> Array:
    """[points, features]: 160 numbers for each buffer that the deepest loop touches."""
    touches = _touches(program)
    deepest = max((s.loops for s in program.statements), key=len)
    columns: list[Array] = []
    for buffer in sorted({t.buffer for t in touches[deepest[-1]]}):
        lists: dict[str, list[Array]] = {"count": [], "reuse": [], "topdown": []}
        topdown = np.ones(program.points)
        for number in deepest:
            topdown = topdown * program.loops[number].extent
            t = next(t for t in touches[number] if t.buffer == buffer)
            for word, value in (("count", t.count), ("reuse", t.reuse), ("topdown", topdown)):
                lists[word].append(np.log2(value))
        nothing = np.zeros(program.points)
        sorted_lists = {word: np.sort(np.stack([nothing, *values]), axis=0) for word, values in lists.items()}
        for of, to in _RELATIONS:
            columns += _sampled(sorted_lists[of], sorted_lists[to])
    return np.stack(columns, axis=1) if columns else np.zeros((program.points, 0))


def _sampled(xs: Array, ys: Array) -> list[Array]:
    """At x = 0, 1, ...: y of the last point that is not beyond x, and how far before x that is."""
    found: list[Array] = []
    lines = np.arange(xs.shape[1])
    for x in range(SAMPLES):
        last = (xs <= x).sum(axis=0) - 1
        found += [ys[last, lines], x - xs[last, lines]]
    return found


def _log(x: Array) -> Array:
    return np.where(x < 0, -np.log2(1 - np.minimum(x, 0)), np.log2(np.maximum(x, 0) + 1))


def _touches(program: LoopProgram) -> list[list[_Touch]]:
    """By loop: every access inside of it."""
    found: list[list[_Touch]] = [[] for _ in program.loops]
    occurrences: dict[str, int] = {}
    zero, one = np.zeros(program.points), np.ones(program.points)
    for statement in program.statements:
        loops = statement.loops
        shared = [n for n, number in enumerate(loops) if program.loops[number].kind == "parallel"]
        for access in statement.accesses:
            name = f"{access.buffer}_{occurrences.setdefault(access.buffer, 0)}"
            occurrences[access.buffer] += 1
            strides = [access.strides.get(number, zero) for number in loops]
            counts, reuses = [one] * (len(loops) + 1), [one] * (len(loops) + 1)
            for n in reversed(range(len(loops))):
                extent = program.loops[loops[n]].extent
                moves = strides[n] != 0
                counts[n] = counts[n + 1] * np.where(moves, extent, 1)
                reuses[n] = reuses[n + 1] * np.where(moves, 1, extent)
            inside = shared[-1] + 1 if shared else 0  # the first loop that one thread has to itself
            for n, number in enumerate(loops):
                own = (counts[n] / counts[inside], reuses[n] / reuses[inside]) if n in shared else (zero, zero)
                found[number].append(_Touch(name, access.buffer, strides[n], counts[n], reuses[n], own))
    return found


# -- of points of a template -----------------------------------------------------------------------------------------------


def features(template: Template, points: Sequence[Point], kind: str) -> Array:
    """[points, features], float32: of one kind, zeros behind those of a shorter structure."""
    if kind == "knob":
        values = [template.values(p) for p in points]
        return np.array([[x for knob in template.knobs for x in v[knob.name]] for v in values], np.float32).reshape(len(points), -1)
    rows = template.rows(points)
    work = itervar if kind == "itervar" else curve
    parts = [(group.rows, work(loop_program(template.plan, rows[group.rows]))) for group in template.plan.groups(rows)]
    width = max((p.shape[1] for _, p in parts), default=0)
    found = np.zeros((len(points), width), np.float32)
    for lines, part in parts:
        found[lines, : part.shape[1]] = part
    return found


def loop_program(plan: Plan, rows: Matrix) -> LoopProgram:
    """The loops of rows of one structure, those that run once too."""
    sketch, found = plan.resolve(rows[0]), plan.geometry.measure(rows)
    program = LoopProgram()
    for stage in sketch.rewritten.stages:
        nest = sketch.nest(stage.name)
        if nest.at is None:
            _add(program, plan, sketch, nest, found, rows, (), {})
    return program


def _add(
    program: LoopProgram,
    plan: Plan,
    sketch: Sketch,
    nest: Nest,
    found: Measured,
    rows: Matrix,
    around: tuple[int, ...],
    moving: Mapping[int, tuple[str, Array]],
) -> None:
    """A nest inside the loops `around` it; `moving`: by such a loop the axis of this stage that it moves, and how far."""
    stage = sketch.rewritten.stage(nest.stage)
    path, moved = list(around), dict(moving)
    for depth, loop in enumerate((*nest.outer, *nest.tile)):
        for inner in sketch.attached(nest.stage, depth) if 0 < depth <= len(nest.outer) else ():
            _inside(program, plan, sketch, nest, inner, found, rows, tuple(path), moved)
        program.loops.append(Loop(found.loop(nest.stage, loop).astype(float), _kind(plan, stage, nest, loop, depth, rows)))
        path.append(len(program.loops) - 1)
        moved[path[-1]] = loop.axis, _stride(found, nest, loop)
    if not nest.tile:
        for inner in sketch.attached(nest.stage, len(nest.outer)):
            _inside(program, plan, sketch, nest, inner, found, rows, tuple(path), moved)
    if not path:  # one element: as if a loop ran once
        program.loops.append(Loop(np.ones(len(rows))))
        path.append(len(program.loops) - 1)
    program.statements.append(_statement(sketch, stage, tuple(path), moved))


def _inside(
    program: LoopProgram,
    plan: Plan,
    sketch: Sketch,
    owner: Nest,
    inner: Nest,
    found: Measured,
    rows: Matrix,
    path: tuple[int, ...],
    moved: Mapping[int, tuple[str, Array]],
) -> None:
    """A nest that is attached here; its axes are the owner's, place by place."""
    of = sketch.rewritten.stage(owner.stage)
    to = {a.name: b.name for a, b in zip(of.axes, sketch.rewritten.stage(inner.stage).axes)}
    moving = {number: (to[axis], stride) for number, (axis, stride) in moved.items() if axis in to}
    _add(program, plan, sketch, inner, found, rows, path, moving)


def _kind(plan: Plan, stage: Stage, nest: Nest, loop: NestLoop, depth: int, rows: Matrix) -> str:
    if loop == nest.vector:
        return "vectorized"
    if loop in nest.unrolled or (loop in nest.tile and loop.axis in {a.name for a in stage.axes}):
        return "unrolled"
    column = plan.names.get(f"{nest.stage}.parallel")
    if column is not None and nest.at is None and depth < int(rows[:, column].max()):
        return "parallel"
    return "serial"


def _stride(found: Measured, nest: Nest, loop: NestLoop) -> Array:
    """How far one step of a loop goes along its axis."""
    stride = np.ones(found.rows)
    for count in found.counts[nest.stage][loop.axis][loop.part + 1 :]:
        stride = stride * count
    return stride


def _statement(sketch: Sketch, stage: Stage, path: tuple[int, ...], moved: Mapping[int, tuple[str, Array]]) -> Statement:
    buffers = sketch.rewritten.buffers
    store = Load(stage.name, tuple(Var(a.name) for a in stage.axes), stage.dtype)
    reads = [store, *([store] if stage.reduction else []), *stage.reads]
    accesses = []
    for read in reads:
        steps = _flat_steps(read, buffers[read.tensor].shape)
        strides = {number: stride * steps.get(axis, 0) for number, (axis, stride) in moved.items() if axis in steps}
        accesses.append(Access(read.tensor, strides))
    names = [e.op for e in walk(stage.body) if isinstance(e, Binary) and e.dtype.startswith("f")]
    return Statement(
        path,
        tuple(accesses),
        adds=sum(n in ("add", "sub") for n in names) + (stage.reduction == "sum"),
        multiplies=names.count("mul"),
        divides=sum(n in ("div", "mod") for n in names),
    )


def _flat_steps(read: Load, shape: Sequence[int]) -> dict[str, int]:
    """By axis: how far a step of it goes in the flat buffer."""
    found: dict[str, int] = {}
    size = 1
    for index, extent in reversed(list(zip(read.indices, shape))):
        form = affine(index)
        for name, factor in form.terms.items() if form is not None else ():
            found[name] = found.get(name, 0) + factor * size
        size *= extent
    return found
