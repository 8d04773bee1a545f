"""Which loops run around every block, with numbers for the whole batch.

A block's loops, outermost first, are: the loops around it, its reduction loops, its unrolled tile loops, the loop of which a lane
takes all steps at once, and the loop in lanes. That is the order in which the generated code visits points. All numbers are
floats, or float64 arrays with an entry per candidate.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tensorsmith.backends.cpu.features.numbers import Integer, Num, magnitude, number, product
from tensorsmith.backends.cpu.features.operations import conditions
from tensorsmith.lang.workload import Stage, Workload
from tensorsmith.program.flags import Flag, both, flag, opposite, where
from tensorsmith.program.grouping import lane_bytes
from tensorsmith.program.ir import AxisBinding, Block, Loop, LoopVar, Node, Program, blocks, own_block
from tensorsmith.program.layout import Layout
from tensorsmith.program.positions import over_loops
from tensorsmith.program.registers import stays_in_registers


@dataclass(frozen=True)
class Level:
    """One loop around or in a block."""

    name: str
    stage: str
    axis: str
    kind: str  # "outer", "reduce", "tile", "group" or "lanes"
    reduce: bool  # over an axis of a reduction
    count: Num
    several: Flag  # more than one step: a loop of one step is as good as absent
    trips: Num  # average steps: the last pass over a region that the tiles do not divide is shorter
    length: Num  # of the region that the loop's nest computes, along its axis
    positions: Mapping[str, Flag]  # of its axis among those of its stage: "inner_spatial", ...
    parallel: Flag = False
    laid_out: Flag = False  # written step by step


@dataclass(frozen=True)
class Nested:
    """A block with its loops."""

    body: Stage  # what it computes
    levels: tuple[Level, ...]
    outer: int  # how many of the levels are around the block
    outside: Num  # how many of those belong to other stages: the block's buffer is made inside them
    root: Flag
    held: bool  # the results stay in registers until the reader, on whose tile they are computed, has used them
    exists: Num  # share of the region that is inside the tensor
    elements: Num  # that the result's buffer takes, gaps included
    unroll: Num  # steps of the innermost reduction laid out in a row
    again: Flag  # reduction loops of several steps run around the block: results are stored and read back
    masks: tuple[Mapping[str, Num], ...]  # for every affine condition of the body, how it changes with the loops
    lane_bytes: int  # of the elements that its vectors are counted in
    block: Block | None = None  # in the program; None where several structures are seen as one

    @functools.cached_property
    def stage(self) -> str:
        return self.body.name

    @functools.cached_property
    def around(self) -> tuple[Level, ...]:
        return self.levels[: self.outer]

    def of_kind(self, *kinds: str) -> list[Level]:
        return [x for x in self.levels if x.kind in kinds]

    @functools.cached_property
    def lanes(self) -> Level | None:
        return next((x for x in self.levels if x.kind == "lanes"), None)

    @functools.cached_property
    def group(self) -> Level | None:
        return next((x for x in self.levels if x.kind == "group"), None)

    @functools.cached_property
    def group_steps(self) -> int:
        """Steps that a lane takes at once, which the structure says; 0 where it takes one after the other."""
        return 0 if self.group is None else int(np.max(self.group.count))

    def shared(self, other: Nested) -> int:
        """How many loops run around both."""
        count = 0
        for a, b in zip(self.around, other.around):
            if a.name != b.name:
                break
            count += 1
        return count


def nested_blocks(
    program: Program,
    layouts: Mapping[str, Layout],
    decisions: Mapping[str, Integer] | None = None,
    only: frozenset[str] | None = None,
) -> list[Nested]:
    """Every block in the order they run, or all in the root nests of the stages given. `decisions` tells how many loops of a root
    nest are parallel for each candidate of a batch; without it, the flags of the loops hold for all."""
    found: list[Nested] = []
    for node in program.body:
        if only is not None and only.isdisjoint(b.stage.name for b in blocks(node)):
            continue
        degree = None if decisions is None else decisions.get(f"{own_block(node).stage.name}.parallel")
        _visit(program, layouts, node, (), degree, True, found, None)
    return found


def _visit(
    program: Program,
    layouts: Mapping[str, Layout],
    node: Node,
    around: tuple[Level, ...],
    degree: Integer | None,
    fused: bool,
    found: list[Nested],
    reader: Block | None,
) -> None:
    if isinstance(node, Loop):
        level = _outer_level(program.workload, node, len(around), degree, fused)
        fused = fused and len(node.body) == 1
        for inner in node.body:
            _visit(program, layouts, inner, (*around, level), degree, fused, found, None)
        return
    for inner in node.before:
        _visit(program, layouts, inner, around, degree, False, found, node)
    workload = program.workload
    own = [_level(workload, node, v, "reduce") for v in node.reduce if v.name not in (node.vector, node.group)]
    own += [_level(workload, node, v, "tile") for v in node.tile if v.name != node.vector]
    if node.group is not None:
        own.append(_level(workload, node, node.loop(node.group), "group"))
    if node.vector is not None:
        own.append(_level(workload, node, node.loop(node.vector), "lanes"))
    outside = sum(x.stage != node.stage.name for x in around)
    held = reader is not None and stays_in_registers(program.workload, node, reader)
    exists = _exists(node, {x.name: x for x in around})
    elements: Num = 0.0 if held else number(layouts[node.stage.name].elements)
    again = flag(product(number(v.count) for v in node.outer_reduce) > 1)
    masks = tuple({n: number(c) for n, c in over_loops(fact, node.axes).terms.items()} for fact in conditions(node.stage))
    root = program.buffers[node.stage.name].kind != "local"
    found.append(
        Nested(
            node.stage,
            (*around, *own),
            len(around),
            float(outside),
            root,
            held,
            exists,
            elements,
            number(node.unroll),
            again,
            masks,
            lane_bytes(workload, node.stage),
            node,
        )
    )


def _position(workload: Workload, var: LoopVar) -> str:
    """Where the axis of a loop stands among those of its stage, axes of extent 1 aside."""
    stage = workload.stage(var.stage)
    axes = [a.name for a in (stage.reduce_axes if var.reduce else stage.axes) if a.extent > 1]
    place = "middle"
    if var.axis not in axes[:-1]:  # the last one, or one of extent 1, of which no loop has several steps
        place = "inner"
    elif var.axis == axes[0]:
        place = "outer"
    return f"{place}_{'reduce' if var.reduce else 'spatial'}"


def _outer_level(workload: Workload, loop: Loop, depth: int, degree: Integer | None, fused: bool) -> Level:
    parallel: Flag = fused and loop.parallel
    if parallel and degree is not None:
        parallel = flag(degree > depth)
    laid_out = both(loop.unrolled, opposite(parallel))  # what threads share stays a loop
    return _bare_level(workload, loop.var, "outer", loop.binding, parallel, laid_out)


def _level(workload: Workload, block: Block, var: LoopVar, kind: str) -> Level:
    return _bare_level(workload, var, kind, block.axes[var.axis], False, var.name in block.laid_out)


def _bare_level(workload: Workload, var: LoopVar, kind: str, binding: AxisBinding, parallel: Flag, laid_out: Flag) -> Level:
    count = number(var.count)
    trips, length = _trips(var, binding, count), number(binding.length)
    position: dict[str, Flag] = {_position(workload, var): True}
    several = flag(count > 1)
    return Level(var.name, var.stage, var.axis, kind, var.reduce, count, several, trips, length, position, parallel, laid_out)


def _trips(var: LoopVar, binding: AxisBinding, count: Num) -> Num:
    """Average steps of a loop. Over all parts of an axis they multiply to its exact length: 100 in parts of 4, 4 and 8 runs
    4, 13/4 and 100/13 steps."""
    length, stride = number(binding.length), number(var.stride)
    if isinstance(length, float) and isinstance(stride, float) and isinstance(count, float):
        return float(-(-length // stride) / max(1.0, -(-length // (stride * count))))
    stride = np.maximum(1.0, stride)  # a loop of one step has none in some rows of a population
    return np.ceil(length / stride) / np.maximum(1.0, np.ceil(length / (stride * count)))


def _exists(block: Block, around: Mapping[str, Level]) -> Num:
    """The share of an attached block's regions that lies inside the tensor, where regions do not overlap."""
    share: Num = 1.0
    for axis in block.stage.axes:
        binding = block.axes[axis.name]
        step: Num = np.inf
        runs: Num = 1.0
        for name, coefficient in binding.origin.terms.items():
            level = around.get(name)
            if level is None:
                continue
            distance = magnitude(number(coefficient))
            moves = both(level.several, flag(distance > 0))
            step = np.minimum(step, where(moves, distance, np.inf))
            runs = runs * where(moves, level.trips, 1.0)
        length = number(binding.length)
        share = share * where(flag(step >= length), np.minimum(1.0, binding.extent / np.maximum(1.0, runs * length)), 1.0)
    return share


def batch_size(program: Program) -> int:
    """Candidates in a batch: the length of the arrays in a program, 1 where there are none."""
    sizes = {1}

    def see(value: Integer) -> None:
        if isinstance(value, np.ndarray) and value.ndim:
            sizes.add(len(value))

    def visit(node: Node) -> None:
        if isinstance(node, Loop):
            see(node.var.count)
            for inner in node.body:
                visit(inner)
            return
        see(node.unroll)
        for var in node.tile + node.reduce:
            see(var.count)
        for inner in node.before:
            visit(inner)

    for node in program.body:
        visit(node)
    return max(sizes)
