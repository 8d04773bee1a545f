"""Register tiles: our tiling of a stage with reuse, with its elementwise reader fused wherever it has one.

    C[i, j] = sum(A[i, k] * B[k, j], over k); D[i, j] = relu(C[i, j])

* held:   for i.0 j.0 i.1 j.1: tile: C over all of k, in registers; D from them
* split:  for i.0 j.0: { for k.0 i j: tile k.1 i j: C in a buffer }; D from it
          (without D: for i.0 j.0 k.0 i.1 j.1: tile k.1 i.2 j.2, results in memory between the steps of k.0)
* across: as held, with lanes along the last reduction axis that fills them instead of the last axis of the result, where the
          operands are neighbours along it, or the result is narrower than a vector

In sums of products of small integers a lane of the first two takes several steps at once (`program/grouping.py`), where the machine
has instructions for that; bytes are stored as i16 for it (`widen`) where it has them for nothing smaller.

Each also with the operands that are not constant copied in loop order (`cache_read`), where they are read often. The order of the
loops in a level is a choice, and so is laying out the loops that padding depends on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from tensorsmith.backends.cpu.products import group_size, groups_pay, widens
from tensorsmith.backends.cpu.slicing import may_be_whole
from tensorsmith.backends.cpu.target import CpuTarget
from tensorsmith.backends.cpu.window_tile import is_window, row_of_window
from tensorsmith.errors import Refusal
from tensorsmith.lang.affine import affine
from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.expr import Select, Var, variables, walk
from tensorsmith.lang.workload import Axis, Stage, Workload
from tensorsmith.program.grouping import group_axis, lane_bytes
from tensorsmith.space.analysis import is_padding, needs_tiling, reduces_constant
from tensorsmith.space.rules.base import Derived, State, Verdict, levels, names, simple_nest, tiled
from tensorsmith.space.rules.fusion import fusible_reader
from tensorsmith.space.sketch.copies import follow
from tensorsmith.space.sketch.loops import AttachPoint
from tensorsmith.space.sketch.nest import Choice, Nest
from tensorsmith.space.sketch.rewrite import CacheRead, Inline, Widen
from tensorsmith.space.transforms import slices
from tensorsmith.targets.target import Target

_SPLIT_EXTENT = 16  # reduction axes at least this long are split
_LAID_OUT_EXTENT = 13  # kernel axes up to this length can be laid out
_REUSE = 8  # reads per element from which on a copy in loop order is offered


class RegisterTile:
    """Applies to every reduction with reuse."""

    name = "register_tile"

    def condition(self, state: State, index: int, target: Target) -> Verdict:
        stage = state.stage(index)
        if not stage.reduction or not needs_tiling(stage) or reduces_constant(state.now, stage):
            return Verdict.SKIP
        return Verdict.SKIP if state.nest(stage.name) else Verdict.APPLY_AND_SKIP_REST

    def apply(self, state: State, index: int, target: Target) -> Derived:
        name = state.stage(index).name
        derived: Derived = []
        for start, widened, structures in _starts(state, name, cast(CpuTarget, target)):
            for copies in _copy_sets(start.now, start.now.stage(name)):
                for structure in structures:
                    done = _derive(start, name, structure, copies, widened, target)
                    if done is not None:
                        done = done if copies else _with_slices(done, name, cast(CpuTarget, target))
                        where = [s.name for s in done.now.stages].index(name)
                        derived.append((done, where - 1 - len({*copies, *widened})))
        return derived


def _starts(state: State, name: str, target: CpuTarget) -> list[tuple[State, tuple[str, ...], tuple[str, ...]]]:
    """States to begin with, the copies of bytes as i16 in each, and the structures that are derived of it."""
    every = ("held", "split", "across")
    rewrite = Widen(name)
    try:
        wide = state.rewritten(rewrite) if widens(target, state.now.stage(name)) else state
        wide.now  # noqa: B018  raises where bytes cannot be stored otherwise
    except Refusal:
        wide = state
    return [(state, (), every)] if wide is state else [(wide, rewrite.copies(state.now), every[:2]), (state, (), every[2:])]


def _copy_sets(workload: Workload, stage: Stage) -> Iterator[tuple[str, ...]]:
    """Which operands to copy in loop order: none; the one that runs in lanes; both."""
    yield ()
    lane = stage.axes[-1].name if stage.axes else ""
    copied: list[str] = []
    for x in sorted(stage.reads, key=lambda x: lane not in variables(x)):
        unused = [a.extent for a in stage.axes if a.name not in variables(x)]
        plain = all(isinstance(i, Var) for i in x.indices)
        single = not any(tiled(stage.axis(n)) for n in variables(x))  # just one element: no order to copy it in
        if workload.buffers[x.tensor].constant or not plain or single or max(unused, default=1) < _REUSE:
            continue
        copied.append(x.tensor)
        yield tuple(copied)


@dataclass(frozen=True)
class _Order:
    """The outer loops: two levels of tiles, a loop for every axis."""

    first: tuple[Axis, ...]
    second: tuple[Axis, ...]

    @property
    def depth(self) -> int:
        return len(self.first) + len(self.second)

    def loops(self, laid_out: str = "") -> str:
        """As they are written; the tiles of an axis may be laid out in the second level."""
        return names(levels(self.first, 0), levels(self.second, 1, laid_out))


@dataclass(frozen=True)
class _Tile:
    """The loops of a stage and of the owner of its outer tiles (its reader, or itself)."""

    stage: Stage
    owner: Stage
    padded: tuple[str, str] | None  # (axis, kernel axis) that padding depends on
    sliding: str | None  # the kernel axis along which neighbouring results of a large window read the same values
    lanes: int  # elements of a vector
    group: Axis | None  # of which a lane takes several steps at once
    group_size: int | None  # how many, where that is part of the structure

    def reduce(self, axes: Sequence[Axis], level: int, laid_out: str = "") -> str:
        """Reduction loops of one level; behind them the group, where its axis is one of them."""
        others = [a for a in axes if a is not self.group]
        grouped = levels([self.group], level) if self.group is not None and len(others) < len(axes) else ""
        size = f"={self.group_size}" if self.group_size is not None else ""
        return names(levels(others, level, laid_out), grouped, f"{self.group_loop(level)}{size}" if grouped else "")

    def group_loop(self, level: int) -> str:
        return "" if self.group is None else f"{self.group.name}.{level + 1}"

    @property
    def fused(self) -> bool:
        return self.owner.name != self.stage.name

    def outer_orders(self) -> list[_Order]:
        """Two levels of tiles; the axis that runs in lanes last, or first, in each, or before the rows in the first."""
        own = [a for a in self.owner.axes if tiled(a)]
        trivial = [a for a in self.owner.axes if not tiled(a)]
        first = [own, own[-1:] + own[:-1]]
        if len(own) > 2:
            first.append([*own[:-2], own[-1], own[-2]])
        second = [own, own[-1:] + own[:-1]]
        return list(dict.fromkeys(_Order((*trivial, *a), tuple(b)) for a in first for b in second))


def _derive(
    state: State, name: str, structure: str, copies: tuple[str, ...], widened: tuple[str, ...], target: Target
) -> State | None:
    for tensor in copies:
        try:
            state = state.rewritten(CacheRead(name, tensor))
            state = state.rewritten(Inline(tensor)) if tensor in widened else state  # one copy is enough
            state.now  # noqa: B018  raises where the operand cannot be copied
        except Refusal:
            return None
    stage = state.now.stage(name)
    reader = fusible_reader(state, name)
    if reader is not None and lane_bytes(state.now, state.now.stage(reader)) != dtype(stage.dtype).lane_bytes:
        reader = None
    owner = state.now.stage(reader) if reader else stage
    lanes = target.lanes(dtype(stage.dtype).lane_bytes)
    group = group_axis(stage) if groups_pay(cast(CpuTarget, target), stage) else None
    size = group_size(cast(CpuTarget, target), stage) if group is not None else None
    tile = _Tile(stage, owner, _padding_axes(state.now, stage), _sliding(state.now, stage, target), lanes, group, size)
    build = {"held": _held, "split": _split, "across": _across}[structure]
    new = build(state.without_choices(owner.name), tile)
    if new is None:
        return None
    for tensor in copies:
        new = _with_copy(new, tile, f"{tensor}.pack")
    for tensor in widened:
        new = new if tensor in copies else new.with_nest(simple_nest(new.now.stage(tensor)))
    return new


def _held(state: State, tile: _Tile) -> State | None:
    own = [a for a in tile.owner.axes if tiled(a)]
    if not own:
        return None
    stage, vector = tile.stage, f"{own[-1].name}.2"
    reduce, group = tile.reduce(stage.reduce_axes, 0), tile.group_loop(0) or None
    tap = tile.padded[1] if tile.padded is not None else tile.sliding
    laid_out = tile.reduce(stage.reduce_axes, 0, tap) if tap is not None else ""
    window = " ".join(f"{a.name}.0!" for a in stage.reduce_axes) if is_window(stage, _last(stage).name) and group is None else ""
    packed = _packed(state.now, stage)
    if tile.fused:
        spatial = levels(stage.axes, 0)
        tails = [names("|", loops, spatial) for loops in (reduce, laid_out, window) if loops]
        point = AttachPoint(tile.owner.name, tile.outer_orders()[0].depth)
        held = Nest(stage.name, tails[0], vector=f"{_last(stage).name}.0", at=point, packed=packed, group=group)
        state, group = state.with_nest(held), None
        if len(tails) > 1:
            state = state.with_choice(Choice(stage.name, "loops", tuple(tails)))
        options = [names(o.loops(), "|", levels(own, 2)) for o in tile.outer_orders()]
        if tile.padded is not None:
            renamed = dict(zip((a.name for a in stage.axes), (a.name for a in tile.owner.axes)))
            options += [names(o.loops(renamed[tile.padded[0]]), "|", levels(own, 2)) for o in tile.outer_orders()]
        packed = ()
    else:
        options = [names(o.loops(), "|", reduce, levels(own, 2)) for o in tile.outer_orders()]
        if tile.padded is not None:
            options += [names(o.loops(tile.padded[0]), "|", laid_out, levels(own, 2)) for o in tile.outer_orders()]
        for loops in (window, laid_out if tile.sliding == tap else ""):
            if loops:
                options.append(names(tile.outer_orders()[0].loops(), "|", loops, levels(own, 2)))
    return _with_orders(state, Nest(tile.owner.name, options[0], vector=vector, packed=packed, group=group), options)


def _split(state: State, tile: _Tile) -> State | None:
    stage = tile.stage
    own = [a for a in tile.owner.axes if tiled(a)]
    long = [a for a in stage.reduce_axes if a.extent >= _SPLIT_EXTENT]
    short = [a for a in stage.reduce_axes if a.extent < _SPLIT_EXTENT]
    if not own or not long:
        return None
    packed = _packed(state.now, stage)
    inner_reduce, group = names(levels(short, 0), tile.reduce(long, 1)), tile.group_loop(1) or None
    if any(a is tile.group for a in short):
        inner_reduce, group = names(levels(long, 1), tile.reduce(short, 0)), tile.group_loop(0)
    if tile.fused:
        trivial = [a for a in tile.owner.axes if not tiled(a)]
        heads = dict.fromkeys(names(levels(trivial, 0), levels(o, 0)) for o in (own, own[-1:] + own[:-1]))
        options = [names(h, levels(own, 1), "|", f"{own[-1].name}.2") for h in heads]
        mine = [a for a in stage.axes if tiled(a)]
        fixed = [a for a in stage.axes if not tiled(a)]
        nest = Nest(
            stage.name,
            names(levels(fixed, 0), levels(long, 0), levels(mine, 0), "|", inner_reduce, levels(mine, 1)),
            vector=f"{mine[-1].name}.1",
            at=AttachPoint(tile.owner.name, len(tile.owner.axes)),
            packed=packed,
            group=group,
        )
        state = state.with_nest(nest)
        return _with_orders(state, Nest(tile.owner.name, options[0], vector=f"{own[-1].name}.2"), options)
    tail = names("|", inner_reduce, levels(own, 2))
    options = [names(levels(o.first, 0), levels(long, 0), levels(o.second, 1), tail) for o in tile.outer_orders()]
    return _with_orders(state, Nest(stage.name, options[0], vector=f"{own[-1].name}.2", packed=packed, group=group), options)


def _across(state: State, tile: _Tile) -> State | None:
    stage = tile.stage
    last = next((a for a in reversed(stage.reduce_axes) if a.extent >= tile.lanes), stage.reduce_axes[-1])
    own = [a for a in tile.owner.axes if tiled(a)]
    if last.extent < 4 or not own:
        return None
    narrow = stage.axes[-1].extent < tile.lanes  # lanes along the results would be mostly empty, whatever the operands' layout
    if not narrow and not _neighbours(state.now, stage, last.name):
        return None
    packed = _packed(state.now, stage)
    reduce = names(levels(stage.reduce_axes, 0), f"{last.name}.1")
    if tile.fused:
        point = AttachPoint(tile.owner.name, tile.outer_orders()[0].depth)
        state = state.with_nest(
            Nest(
                stage.name,
                names("|", levels(stage.axes, 0), reduce),
                vector=f"{last.name}.1",
                at=point,
                packed=packed,
            )
        )
        options = [names(o.loops(), "|", levels(own, 2)) for o in tile.outer_orders()]
        return _with_orders(state, Nest(tile.owner.name, options[0]), options)
    options = [names(o.loops(), "|", levels(own, 2), reduce) for o in tile.outer_orders()]
    return _with_orders(state, Nest(stage.name, options[0], vector=f"{last.name}.1", packed=packed), options)


def _with_orders(state: State, nest: Nest, options: list[str]) -> State:
    state = state.with_nest(nest)
    if len(options) == 1:
        return state
    return state.with_choice(Choice(nest.stage, "loops", tuple(dict.fromkeys(options))))


def _with_copy(state: State, tile: _Tile, name: str) -> State:
    """A copy of an operand: all of it at the root; inside the first level of tiles the part that one of those needs; or inside the
    first loop of that level what is needed there, once for all the tiles it has inside."""
    nests = {n.stage: n for n in state.nests}
    copy = follow(state.now, nests, Nest(name, "", follows=tile.stage.name))
    outer = nests[tile.owner.name].outer
    first = sum(1 for loop in outer if loop.part == 0)
    once = sum(1 for a in tile.owner.axes if not tiled(a))  # their loops are the outermost, and run once
    depths = dict.fromkeys((first, min(once + 1, first))) if 0 < first < len(outer) else ()
    state = state.with_nest(copy)
    points = [str(AttachPoint(tile.owner.name, d)) for d in depths]
    return state.with_choice(Choice(name, "at", ("root", *points))) if points else state


def _with_slices(state: State, name: str, target: CpuTarget) -> State:
    """The product between two transforms, and the one before it: whole, where that can be worth it, or slice by slice."""
    for nest in state.nests:
        cut = slices(state.now, state.now.stage(nest.stage)) if nest.at is None else None
        if cut is not None and cut.product == name:
            whole = ("0",) if may_be_whole(state.now, cut, target) else ()
            return state.with_choice(Choice(nest.stage, "rows", (*whole, str(cut.depth)), cut.members))
    return state


def _last(stage: Stage) -> Axis:
    return [a for a in stage.axes if tiled(a)][-1]


def _packed(workload: Workload, stage: Stage) -> tuple[str, ...]:
    """Constants worth laying out in loop order: read once, at affine indices, moving with the reduction; no vectors."""
    found = []
    for x in stage.reads:
        every = [y for s in workload.stages for y in s.reads if y.tensor == x.tensor]
        moving = {a.name for a in stage.reduce_axes} & variables(x)
        known = workload.buffers[x.tensor].constant and len(x.indices) > 1 and all(affine(i) is not None for i in x.indices)
        if known and len(every) == 1 and moving:
            found.append(x.tensor)
    return tuple(found)


def _neighbours(workload: Workload, stage: Stage, axis: str) -> bool:
    """Whether operands lie, or can be laid, so that neighbours along an axis are neighbours in memory."""
    for x in stage.reads:
        if axis not in variables(x) or workload.buffers[x.tensor].constant:
            continue
        form = affine(x.indices[-1]) if x.indices else None
        if form is None or form.terms.get(axis) != 1:
            return False
    return True


def _sliding(workload: Workload, stage: Stage, target: Target) -> str | None:
    rows = [a for a in reversed(stage.axes) if tiled(a)]
    found = (row_of_window(workload, stage, _last(stage).name, a, cast(CpuTarget, target)) for a in rows)
    return next((one[1] for one in found if one is not None), None)


def _padding_axes(workload: Workload, stage: Stage) -> tuple[str, str] | None:
    """The last axis of the result whose taps can fall on padding, and the kernel axis that decides."""
    for x in stage.reads:
        if not workload.is_stage(x.tensor) or not is_padding(workload.stage(x.tensor)):
            continue
        padding = workload.stage(x.tensor)
        decide = {v for e in walk(padding.body) if isinstance(e, Select) for v in variables(e.cond)}
        for axis, index in reversed(list(zip(padding.axes, x.indices))):
            used = variables(index) if axis.name in decide else set()
            mine = [a.name for a in stage.axes if a.name in used and tiled(a)]
            kernel = [a.name for a in stage.reduce_axes if a.name in used and 1 < a.extent <= _LAID_OUT_EXTENT]
            if mine and kernel:
                return mine[0], kernel[0]
    return None
