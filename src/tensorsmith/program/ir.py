"""Loop programs: what a candidate is lowered to, and what code and features are made from.

    program := Program(buffers, body: node*)
    node    := Loop(var, count, body: node*)               outer loops; `parallel` ones are fused with the loop inside
             | Block(stage, ..., before: node*)            a register tile, computed after the nodes attached to it

A block computes, for every point of its spatial tile loops, the stage's body combined over its reduction loops:

    for tile loops (unrolled, one in vector lanes):  result[point] = start
    for reduction loops: for tile loops:             result[point] = combine(result[point], body)
    for tile loops:                                  store

`start` is the reduction's identity, or what an earlier pass has stored if the stage has reduction loops outside of the block.

Axes. In a block, the value of the stage's axis `a` is `axes[a].origin + axes[a].local`, both linear in loop variables: `origin` is
where the needed region starts (0 at the root), `local` counts inside it. A point is computed only where
`local < length` and `origin + local < extent` for every axis: a tile need not divide its region, nor a region fit the tensor.

Bound loops. On a GPU the steps of some loops are not run one after the other: they are blocks, the threads of a block, threads that
one thread plays in turn, or the threads of all blocks. A nest whose loops the threads of a block share is *cooperative*: attached
inside their loops, it is computed once for all of them, and its buffer is "shared" and holds what any of them needs.

Extents, counts and coefficients are integers, or arrays with one entry per candidate.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tensorsmith.lang.workload import Stage, Workload
from tensorsmith.program.linear import Linear, Num
from tensorsmith.show.line import line, many, page, short_digest
from tensorsmith.show.table import text


@dataclass(frozen=True)
class AxisBinding:
    """How an axis of a stage follows from loop variables."""

    origin: Linear  # of loops outside of the nest
    local: Linear  # of the nest's own loops
    length: Num  # of the region the nest computes
    extent: int  # of the whole axis

    @functools.cached_property
    def value(self) -> Linear:
        return self.origin + self.local


@dataclass(frozen=True)
class LoopVar:
    """One loop: `stride` is how far its axis moves per step."""

    name: str
    stage: str
    axis: str
    count: Num
    stride: Num
    reduce: bool
    bound: str = ""  # what its steps are on a GPU: "block", "vthread", "thread", "grid"; nothing: run one after the other


@dataclass(frozen=True)
class PackedRead:
    """A tensor read in loop order: its packed array has one dimension per loop in `loops`, outermost first.

    Element (l0, l1, ...) holds the tensor's element at `indices`, each linear in the loops; 0 where that is outside of it.
    """

    tensor: str
    loops: tuple[LoopVar, ...]
    indices: tuple[Linear, ...]
    writers: tuple[str, ...] = ()  # for a copy made while the program runs: its own loops, as `loops`
    small: bool = False  # elements that are not small (`lang/small.py`), which count as 0 where they are read, are 0

    @property
    def shape(self) -> tuple[Num, ...]:
        return tuple(v.count for v in self.loops)


@dataclass(frozen=True)
class ProgramBuffer:
    """Storage. `origin` is, per dimension, the axis value that element 0 stands for (attached stages keep their region only)."""

    name: str
    dtype: str
    shape: tuple[Num, ...]
    kind: (
        str  # "input", "constant", "output", "scratch" (one for all), "local" (one per thread, made at its attach point), "shared"
    )
    origin: tuple[Linear, ...]
    packed: PackedRead | None = None
    buffers: Num = 1  # of "shared" ones: places that are used in turn


@dataclass(frozen=True)
class Block:
    """A register tile of a stage. `tile` are its spatial loops in order, `reduce` its reduction loops in order."""

    stage: Stage
    axes: Mapping[str, AxisBinding]
    tile: tuple[LoopVar, ...]
    reduce: tuple[LoopVar, ...]
    outer_reduce: tuple[LoopVar, ...]  # reduction loops around the block: at their first step the result starts afresh
    vector: str | None  # the loop that runs in lanes
    unroll: Num  # steps of the innermost reduction laid out in a row
    laid_out: frozenset[str]  # reduction loops written step by step
    before: tuple[Node, ...] = ()
    group: str | None = None  # the reduction loop, the last, of which a lane takes all steps at once: see `grouping`

    def loop(self, name: str) -> LoopVar:
        return next(v for v in self.tile + self.reduce if v.name == name)


@dataclass(frozen=True)
class Loop:
    """An outer loop. Leading `parallel` loops of a root nest are fused and shared among threads; `unrolled` ones are laid out."""

    var: LoopVar
    parallel: bool
    unrolled: bool
    binding: AxisBinding
    body: tuple[Node, ...]


Node = Loop | Block


@dataclass(frozen=True)
class Program:
    """A lowered candidate."""

    workload: Workload  # after the sketch's rewrites
    buffers: Mapping[str, ProgramBuffer]
    body: tuple[Node, ...]
    decisions: Mapping[str, Num] = field(default_factory=dict)  # by hole: what loops and blocks do not show; see `Nest.also`
    #: by stage and axis: the number of the count that says, in each call, how much of the axis there is; see `program/counts.py`
    counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def blocks(self) -> Iterator[Block]:
        """Every block, in the order they run."""
        for node in self.body:
            yield from blocks(node)

    def __str__(self) -> str:
        from tensorsmith.program.text import show

        return page(show(self))

    def __repr__(self) -> str:
        counts = f"{many(len(loop_vars(self)), 'loop')}, {many(len(list(self.blocks())), 'block')}"
        return line(self, f"of {self.workload.title}: {counts}", f" {short_digest(str(self))}")

    def _repr_html_(self) -> str:
        return text(str(self), title=f"program of {self.workload.title}")


def own_block(node: Node) -> Block:
    """The block of a nest itself, below its loops and what is attached in them."""
    while not isinstance(node, Block):
        node = node.body[-1]
    return node


def blocks(node: Node) -> Iterator[Block]:
    """Every block below a node, in the order they run."""
    if isinstance(node, Block):
        for inner in node.before:
            yield from blocks(inner)
        yield node
    else:
        for inner in node.body:
            yield from blocks(inner)


def loop_vars(program: Program) -> dict[str, LoopVar]:
    """Every loop of a program by its name, those of tiles too."""
    found: dict[str, LoopVar] = {}
    todo = list(program.body)
    while todo:
        node = todo.pop()
        if isinstance(node, Loop):
            found[node.var.name] = node.var
            todo += node.body
        else:
            found |= {v.name: v for v in node.tile + node.reduce}
            todo += node.before
    return found
