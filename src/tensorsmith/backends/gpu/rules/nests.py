"""The nests that rules for GPUs give to stages.

plain         i.0@grid j.0@grid | k.0                        one result for each thread, neighbours for neighbours
tiled         i.0@block j.0@block i.1@vthread j.1@vthread i.2@thread j.2@thread | i.3 j.3
product       k.0 k.1 i.0 j.0 | k.2 i.1 j.1                  attached inside the threads of a tiled nest: SSSRRSRS
by_matrix     i.0@block j.0@block i.1@vthread j.1@vthread i.2@thread j.2@thread i.3@vthread=2 i.4@thread=8 j.3@thread=4 | j.4=2
matrix_product     k.0 | k.1 k.2=16 i.0 j.0                  the same inside of it: a warp computes 16 x 8 at once
fetched       d0.0@thread d1.0@thread | d1.1                 an operand's tile, by all threads of the block together
row           i.0@block j.0 j.1@thread |                     a row for each block
"""

from __future__ import annotations

from tensorsmith.backends.gpu.matrix import COLUMN_LANES, HALVES, NEIGHBOURS, ROW_LANES, STEPS
from tensorsmith.lang.affine import affine
from tensorsmith.lang.workload import Axis, Stage, Workload
from tensorsmith.space.rules.base import levels, names, tiled
from tensorsmith.space.sketch.nest import Nest


def bound(loops: str, mark: str) -> str:
    """`i.0 j.0` as `i.0@block j.0@block`."""
    return " ".join(f"{loop}@{mark}" for loop in loops.split())


def plain(stage: Stage) -> Nest:
    """One result for each thread."""
    return Nest(stage.name, names(bound(levels(stage.axes, 0), "grid"), "|", levels(stage.reduce_axes, 0)), also=("threads",))


def tiled_nest(stage: Stage, whole: frozenset[str] = frozenset()) -> Nest:
    """Blocks, virtual threads, threads, and what each has to compute; the steps of `whole` axes are blocks of their own."""
    split = _split(stage, whole)
    levels_ = [
        bound(levels(stage.axes, 0), "block"),
        bound(levels(split, 1), "vthread"),
        bound(levels(split, 2), "thread"),
    ]
    return Nest(stage.name, names(*levels_, "|", levels(split, 3)))


def _split(stage: Stage, whole: frozenset[str]) -> list[Axis]:
    return [a for a in stage.axes if tiled(a) and a.name not in whole]


def inner_depth(stage: Stage, whole: frozenset[str] = frozenset()) -> int:
    """How many loops of a tiled nest are around what one thread computes."""
    return len(stage.axes) + 2 * len(_split(stage, whole))


def product(stage: Stage, reader: Stage, ahead: bool, whole: frozenset[str] = frozenset()) -> Nest:
    """What one thread computes of a stage with reuse: the last five levels of SSSRRSRS."""
    own = _split(stage, whole)
    reduce = [a for a in stage.reduce_axes if tiled(a)]
    outer = names(levels(stage.reduce_axes, 0), levels(reduce, 1), levels(stage.axes, 0))
    loops = names(outer, "|", levels(reduce, 2), levels(own, 1))
    return Nest(stage.name, loops, at=f"{reader.name}:{inner_depth(reader, whole)}", also=("buffers",) if ahead else ())


def by_matrix(stage: Stage, rows: str, columns: str) -> Nest:
    """A tile of 16 x 8 for each warp, its results with the lanes that matrix instructions give them to (`gpu/matrix.py`); warps,
    and tiles that a warp computes in turns, along both axes."""
    both = [a for a in stage.axes if a.name in (rows, columns)]
    warps = [bound(levels(stage.axes, 0), "block"), bound(levels(both, 1), "vthread"), bound(levels(both, 2), "thread")]
    lanes = f"{rows}.3@vthread={HALVES} {rows}.4@thread={ROW_LANES} {columns}.3@thread={COLUMN_LANES} | {columns}.4={NEIGHBOURS}"
    return Nest(stage.name, names(*warps, lanes))


def matrix_product(stage: Stage, reader: Nest, steps: str, ahead: bool) -> Nest:
    """What one lane computes: in each step of the innermost loop, its share of an instruction for each tile."""
    axis = stage.axis(steps)
    outer = levels(stage.reduce_axes, 0)
    loops = names(outer, "|", levels([axis], 1), f"{steps}.2={STEPS}", levels(stage.axes, 0))
    also = ("matrix", "buffers") if ahead else ("matrix",)
    return Nest(stage.name, loops, at=f"{reader.stage}:{len(reader.outer)}", also=also)


def fetched(copy: Stage, reader: Stage, padded: bool) -> Nest:
    """The tile of an operand, fetched at each step of the outermost reduction loops; several neighbours at once, and
    perhaps several such steps in a row: Ansor's vectors go on in the next row of the tile."""
    last = [a for a in copy.axes if tiled(a)][-1:]
    lanes = levels(last, 1)
    loops = names(bound(levels(copy.axes, 0), "thread"), "|", lanes)
    point = f"{reader.name}:{len(reader.reduce_axes)}"
    also = ("pad", "run") if padded and len(copy.axes) > 1 else ("run",)
    return Nest(copy.name, loops, vector=lanes or None, at=point, also=also)


def row(stage: Stage, depth: int) -> Nest:
    """A block for each step of the first loops; its threads share the last."""
    last, around = stage.axes[-1], levels(stage.axes[:depth], 0)
    return Nest(stage.name, names(bound(around, "block"), levels(stage.axes[depth:], 0), f"{last.name}.1@thread", "|"))


def fetchable(workload: Workload, stage: Stage) -> list[str]:
    """The tensors whose tiles can be fetched: read at places that move alike with the stage's axes, so that a tile is a box."""
    found: dict[str, list[list[dict[str, int]]]] = {}
    for x in stage.reads:
        forms = [affine(i) for i in x.indices]
        terms = [dict(f.terms) for f in forms if f is not None]
        found.setdefault(x.tensor, []).append(terms if len(terms) == len(forms) else [{"": 0}])
    alike = [name for name, forms in found.items() if all(f == forms[0] != [{"": 0}] for f in forms)]
    return [name for name in alike if workload.buffers[name].shape] if stage.reduce_axes else []
