"""AutoTVM's schedules for x86 as templates with knobs (spec: baselines.md, sections 1.3 and 7.1).

    conv            2-D and 3-D convolutions: blocks of channels in and out, steps along the last axis, a kernel loop laid out
    conv_1x1        the same for kernels of one tap: steps along the last two axes
    depthwise       a filter for each channel
    dense_pack      a matrix product on two levels of tiles; dense_nopack: lanes along the reduction. Both are tuned
    batch_matmul    a product for each matrix, lanes along the reduction
    two_level       whatever else has reuse: each axis but the first split in two, the reduction inside (the Ansor authors' own)
    fixed           nothing to tune

In AutoTVM layouts are blocked, NCHW[x]c. Here tensors are channels-last already, so the block of channels in is only a split of its
loop, and points that differ in it alone may be the same program; constants are packed in the order of the loops, as AutoTVM's are.
`tile_inner` of dense_pack orders instructions that are laid out anyway, and changes nothing here. Other stages are computed on
their own, with nothing open; an elementwise reader shares the outer loops, as in AutoTVM.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tensorsmith.baselines.knobs import Knob, Template, Value, splits
from tensorsmith.lang.affine import affine
from tensorsmith.lang.expr import variables
from tensorsmith.lang.workload import Axis, Stage, Workload
from tensorsmith.space.analysis import needs_tiling, reduces_constant
from tensorsmith.space.population.population import Space
from tensorsmith.space.rules.base import Derived, Rule, State, Verdict
from tensorsmith.space.rules.fusion import fusible_reader
from tensorsmith.space.rules.inline import AlwaysInline
from tensorsmith.space.rules.root import AtTheRoot
from tensorsmith.space.sketch.nest import Choice, Nest
from tensorsmith.targets.target import Target


@dataclass(frozen=True)
class Limits:
    """The largest inner part of a split (section 1.3)."""

    width: int = 64  # tile_ow of 2-D convolutions
    width_3d: int = 8
    inner: int = 16  # tile_inner of dense_pack


LIMITS = Limits()


@dataclass(frozen=True)
class Schedule:
    """The nest of a stage with reuse: `{x}` in `loops` stands for an axis. Knobs say what their values are sizes of."""

    name: str
    outer: tuple[str, ...]  # loops that the reader, if there is one, has too
    tile: tuple[str, ...]  # one text for each option of the loops
    vector: str
    shared: int  # outer loops that threads share; a reader has this stage inside of them
    knobs: tuple[Knob, ...]
    sizes: Mapping[str, tuple[str, int]]  # by loop: the knob, and which number of its value
    order: str | None = None  # the knob that chooses the tile's text
    steps: tuple[str, int] | None = None  # the knob that says how many steps of the reduction are laid out in a row
    packs: bool = True  # whether constants are laid out in the order of the loops


def templates_of(space: Space) -> list[Template]:
    """The templates of a workload."""
    workload = space.workload
    heavy = [s for s in workload.stages if s.reduction and needs_tiling(s) and not reduces_constant(workload, s)]
    if not heavy:
        return [Template("fixed", _space(space, (AlwaysInline(), AtTheRoot())), (), lambda values: {})]
    stage = max(heavy, key=lambda s: math.prod(a.extent for a in s.all_axes))
    return [_template(space, stage.name, schedule) for schedule in schedules(stage)]


def _template(space: Space, stage: str, schedule: Schedule) -> Template:
    rule = _Scheduled(stage, schedule)
    own = _space(space, (AlwaysInline(), rule, AtTheRoot()))
    return Template(schedule.name, own, schedule.knobs, _holes(own.plans[0].sketch.nests, stage, schedule))


def _space(space: Space, rules: tuple[Rule, ...]) -> Space:
    return Space(space.workload, space.target, rules, space.tactics)


def _holes(nests: tuple[Nest, ...], stage: str, schedule: Schedule) -> Callable[[Mapping[str, Value]], Mapping[str, int]]:
    """From values of knobs to decisions, of the stage and of the reader that has it inside."""
    nest = next(n for n in nests if n.stage == stage)
    owner = stage if nest.at is None else nest.at.stage
    renamed = {} if owner == stage else _same_places(nests, stage, owner)

    def holes(values: Mapping[str, Value]) -> dict[str, int]:
        found = {f"{owner}.parallel": schedule.shared}
        for loop, (knob, place) in schedule.sizes.items():
            found[f"{stage}.{loop}"] = values[knob][place]
            axis, _, part = loop.rpartition(".")
            if axis in renamed:
                found[f"{owner}.{renamed[axis]}.{part}"] = values[knob][place]
        if schedule.order is not None:
            found[f"{stage}.loops"] = values[schedule.order][0]
        if schedule.steps is not None:
            found[f"{stage}.unroll"] = values[schedule.steps[0]][schedule.steps[1]]
        return found

    return holes


def _same_places(nests: tuple[Nest, ...], stage: str, owner: str) -> dict[str, str]:
    """The owner's axes by those of the stage, loop by loop: the outer loops of both are the same."""
    mine, theirs = (next(n for n in nests if n.stage == name).outer for name in (stage, owner))
    return {a.axis: b.axis for a, b in zip(mine, theirs)}


class _Scheduled:
    """The rule that gives one stage its schedule, with the elementwise reader around it."""

    name = "template"

    def __init__(self, stage: str, schedule: Schedule) -> None:
        self.stage, self.schedule = stage, schedule

    def condition(self, state: State, index: int, target: Target) -> Verdict:
        return Verdict.APPLY_AND_SKIP_REST if state.stage(index).name == self.stage else Verdict.SKIP

    def apply(self, state: State, index: int, target: Target) -> Derived:
        s, stage = self.schedule, state.stage(index)
        reader = fusible_reader(state, stage.name)
        if reader is not None:
            state = state.with_nest(self._around(stage, state.now.stage(reader)))
        options = tuple(f"{' '.join(s.outer)} | {tile}" for tile in s.tile)
        nest = Nest(stage.name, options[0], vector=s.vector, packed=_packed(state.now, stage) if s.packs else ())
        if reader is not None:
            nest = replace(nest, at=Nest(stage.name, "", at=f"{reader}:{s.shared}").at)
        state = state.with_nest(nest)
        if len(options) > 1:
            state = state.with_choice(Choice(stage.name, "loops", options))
        return [(state, index - 1)]

    def _around(self, stage: Stage, reader: Stage) -> Nest:
        """The reader's nest: the outer loops, then what is inside of them on its own tile."""
        axis = {a.name: b.name for a, b in zip(stage.axes, reader.axes)}
        outer = [f"{axis[name]}.{part}" for name, _, part in (loop.rpartition(".") for loop in self.schedule.outer)]
        parts = [loop.rpartition(".")[0] for loop in self.schedule.outer]
        inner = [name for loop in self.schedule.tile[0].split() if (name := loop.rpartition(".")[0]) in axis]
        tile = [f"{axis[name]}.{parts.count(name)}" for name in dict.fromkeys(inner)]
        return Nest(reader.name, f"{' '.join(outer)} | {' '.join(tile)}", vector=tile[-1] if tile else None)


def _packed(workload: Workload, stage: Stage) -> tuple[str, ...]:
    """Constants that only this stage reads, once, at indices that move with its reduction."""
    found = []
    reduced = {a.name for a in stage.reduce_axes}
    for x in stage.reads:
        every = [y for s in workload.stages for y in s.reads if y.tensor == x.tensor]
        plain = all(affine(i) is not None for i in x.indices)
        if workload.buffers[x.tensor].constant and len(every) == 1 and plain and reduced & variables(x):
            found.append(x.tensor)
    return tuple(found)


# -- what a stage is -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Convolution:
    """Axes of a stage by what they are."""

    batch: Axis
    places: tuple[Axis, ...]  # along which windows move
    taps: tuple[Axis, ...]  # of the window, in the same order
    channel: Axis  # of the result
    inputs: tuple[Axis, ...]  # channels that are added up; none: a filter for each channel


def convolution(stage: Stage) -> Convolution | None:
    """The axes of a convolution without groups or dilation, of any number of dimensions; None if the stage is none."""
    if len(stage.reads) != 2 or stage.reduction != "sum":
        return None
    spatial, reduce = {a.name for a in stage.axes}, {a.name for a in stage.reduce_axes}
    windows: dict[str, str] = {}
    for data, kernel in (stage.reads, stage.reads[::-1]):
        for index in data.indices:
            form = affine(index)
            if form is None:
                return None
            places, taps = [v for v in form.terms if v in spatial], [v for v in form.terms if v in reduce]
            if len(places) == len(taps) == 1 and places[0] not in variables(kernel):
                if form.terms[taps[0]] != 1:
                    return None  # dilated
                windows[places[0]] = taps[0]
        if windows:
            break
    else:
        return None
    rest = [a for a in stage.axes if a.name not in windows]
    inputs = tuple(a for a in stage.reduce_axes if a.name not in windows.values())
    channels = [a for a in rest if a.name in variables(kernel)]
    batch = [a for a in rest if a.name not in variables(kernel)]
    if len(batch) != 1 or len(channels) != 1 or len(inputs) > 1 or (channels[0].name in variables(data)) == bool(inputs):
        return None
    places_in_order = tuple(a for a in stage.axes if a.name in windows)
    return Convolution(batch[0], places_in_order, tuple(stage.axis(windows[a.name]) for a in places_in_order), channels[0], inputs)


def schedules(stage: Stage) -> list[Schedule]:
    """The schedules of a stage with reuse, those that are tuned beside each other."""
    found = convolution(stage)
    if found is not None and found.channel.extent > 1 and len(found.places) in (2, 3):
        if not found.inputs:
            return [_depthwise(found)] if len(found.places) == 2 else [_two_level(stage)]
        one = all(a.extent == 1 for a in found.taps) and len(found.places) == 2
        return [_conv_1x1(found) if one else _conv(found)]
    plain = all(affine(i) is not None for x in stage.reads for i in x.indices)
    if plain and len(stage.reduce_axes) == 1 and stage.reduction == "sum" and stage.axes and stage.axes[-1].extent > 1:
        if len(stage.axes) == 2:
            return [_dense_pack(stage), _dense_nopack(stage)]
        if len(stage.axes) == 3:
            return [_batch_matmul(stage)]
    return [_two_level(stage)]


# -- schedules -------------------------------------------------------------------------------------------------------------


def _conv(c: Convolution) -> Schedule:
    n, co, ci = c.batch.name, c.channel.name, c.inputs[0].name
    *around, last = (a.name for a in c.places)
    *taps, kw = (a.name for a in c.taps)
    most = LIMITS.width if len(c.places) == 2 else LIMITS.width_3d
    head = " ".join([f"{ci}.0", *(f"{t}.0" for t in taps)])
    return Schedule(
        "conv",
        outer=(f"{n}.0", f"{co}.0", *(f"{a}.0" for a in around), f"{last}.0"),
        tile=(f"{head} {kw}.0 {ci}.1 {last}.1 {co}.1", f"{head} {ci}.1 {kw}.0! {last}.1 {co}.1"),
        vector=f"{co}.1",
        shared=2 + len(around),
        knobs=(
            Knob("tile_ic", splits(c.inputs[0].extent, 2)),
            Knob("tile_oc", splits(c.channel.extent, 2)),
            Knob("tile_ow", splits(c.places[-1].extent, 2, "verbose", most)),
            Knob("unroll_kw", ((0,), (1,))),
        ),
        sizes={f"{ci}.1": ("tile_ic", 1), f"{co}.1": ("tile_oc", 1), f"{last}.1": ("tile_ow", 1)},
        order="unroll_kw",
    )


def _conv_1x1(c: Convolution) -> Schedule:
    n, co, ci = c.batch.name, c.channel.name, c.inputs[0].name
    h, w = (a.name for a in c.places)
    taps = " ".join(f"{a.name}.0" for a in c.taps)
    return Schedule(
        "conv_1x1",
        outer=(f"{n}.0", f"{co}.0", f"{h}.0", f"{w}.0"),
        tile=(f"{taps} {ci}.0 {ci}.1 {h}.1 {w}.1 {co}.1",),
        vector=f"{co}.1",
        shared=3,
        knobs=(
            Knob("tile_ic", splits(c.inputs[0].extent, 2)),
            Knob("tile_oc", splits(c.channel.extent, 2)),
            Knob("tile_ow", splits(c.places[-1].extent, 2, "verbose", LIMITS.width)),
            Knob("tile_oh", ((1,), (2,)) if c.places[0].extent > 1 else ((1,),)),
        ),
        sizes={f"{ci}.1": ("tile_ic", 1), f"{co}.1": ("tile_oc", 1), f"{w}.1": ("tile_ow", 1), f"{h}.1": ("tile_oh", 0)},
    )


def _depthwise(c: Convolution) -> Schedule:
    """Threads share blocks of channels and rows; images are inside, not outside as in AutoTVM: a region is started once."""
    n, ch = c.batch.name, c.channel.name
    h, w = (a.name for a in c.places)
    kh, kw = (a.name for a in c.taps)
    return Schedule(
        "depthwise",
        outer=(f"{ch}.0", f"{h}.0", f"{n}.0", f"{w}.0"),
        tile=(f"{kh}.0 {kw}.0 {w}.1 {ch}.1", f"{kh}.0 {kw}.0! {w}.1 {ch}.1"),
        vector=f"{ch}.1",
        shared=2,
        knobs=(
            Knob("tile_ic", splits(c.channel.extent, 2)),
            Knob("tile_oc", splits(c.channel.extent, 2)),
            Knob("tile_ow", splits(c.places[-1].extent, 2, "factors", LIMITS.width)),
            Knob("unroll_kw", ((0,), (1,))),
        ),
        sizes={f"{ch}.1": ("tile_oc", 1), f"{w}.1": ("tile_ow", 1)},
        order="unroll_kw",
    )


def _dense_pack(stage: Stage) -> Schedule:
    y, x, k = (a.name for a in stage.all_axes)
    rows, columns, depth = (a.extent for a in stage.all_axes)
    return Schedule(
        "dense_pack",
        outer=(f"{x}.0", f"{y}.0", f"{y}.1", f"{x}.1"),
        tile=(f"{k}.0 {k}.1 {y}.2 {x}.2",),
        vector=f"{x}.2",
        shared=2,
        knobs=(
            Knob("tile_y", splits(rows, 3)),
            Knob("tile_x", splits(columns, 3)),
            Knob("tile_k", splits(depth, 2)),
            Knob("tile_inner", splits(rows, 2, "factors", LIMITS.inner)),
        ),
        sizes={
            f"{y}.1": ("tile_y", 1),
            f"{y}.2": ("tile_y", 2),
            f"{x}.1": ("tile_x", 1),
            f"{x}.2": ("tile_x", 2),
            f"{k}.1": ("tile_k", 1),
        },
        steps=("tile_k", 1),
    )


def _across(name: str, stage: Stage) -> Schedule:
    """Lanes along the inner part of the reduction; a tile of rows and columns."""
    *batch, y, x = (a.name for a in stage.axes)
    k = stage.reduce_axes[0].name
    outer = (*(f"{b}.0" for b in batch), f"{y}.0", f"{x}.0")
    return Schedule(
        name,
        outer=outer,
        tile=(f"{k}.0 {y}.1 {x}.1 {k}.1",),
        vector=f"{k}.1",
        shared=len(outer),
        knobs=tuple(Knob(f"tile_{word}", splits(stage.axis(axis).extent, 2)) for word, axis in zip(("y", "x", "k"), (y, x, k))),
        sizes={f"{y}.1": ("tile_y", 1), f"{x}.1": ("tile_x", 1), f"{k}.1": ("tile_k", 1)},
        packs=False,
    )


def _dense_nopack(stage: Stage) -> Schedule:
    return _across("dense_nopack", stage)


def _batch_matmul(stage: Stage) -> Schedule:
    return _across("batch_matmul", stage)


def _two_level(stage: Stage) -> Schedule:
    split = [a for a in (stage.axes[1:] if len(stage.axes) > 1 else stage.axes) if a.extent > 1] or list(stage.axes[-1:])
    outer = tuple(f"{a.name}.0" for a in stage.axes)
    reduce = [f"{a.name}.0" for a in stage.reduce_axes]
    return Schedule(
        "two_level",
        outer=outer,
        tile=(" ".join([*reduce, *(f"{a.name}.1" for a in split)]),),
        vector=f"{split[-1].name}.1",
        shared=len(outer),
        knobs=tuple(Knob(f"tile_{a.name}", splits(a.extent, 2)) for a in split),
        sizes={f"{a.name}.1": (f"tile_{a.name}", 1) for a in split},
    )
