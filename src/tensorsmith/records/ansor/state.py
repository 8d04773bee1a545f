"""The loops of a program while its steps are replayed: stages, iterators and where stages are attached, for many records at once.

Extents are arrays with an entry for each record of a template; everything else is the same for all of them. An iterator knows what
it was made of, so that the loops of the final state can be told in terms of the computation's axes:

    i -> SP [8, 4] -> i.0, i.1, i.2        Part(i, 0), ...        i.0 j.0 -> FU -> i.0@j.0        Fused(i.0, j.0)

The computation changes with steps that add stages; our rewrites of the same kind are applied to it, so that a stage of the state is
always one of `workload` or an input.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tensorsmith.errors import Refusal, UserError
from tensorsmith.lang.workload import Stage, Workload
from tensorsmith.records.ansor.steps import ANNOTATIONS, Template
from tensorsmith.space.sketch.rewrite import CacheWrite, Fetch, Inline, Rewrite, Rfactor

Array = np.ndarray[Any, np.dtype[np.int64]]


class Unplaced(Exception):
    """Why the programs of a template are no candidates of ours: `args[0]`, in words that are the same for all of them."""


class Unfitting(Unplaced):
    """Steps that cannot be applied to the computation."""


@dataclass(eq=False)
class Iterator:
    """A loop. What it was made of: an axis, a part of another iterator, or iterators that are fused."""

    reduce: bool
    axis: str = ""
    parent: Iterator | None = None  # that it is a part of
    place: int = 0  # among the parts, 0 the outermost
    length: Array | None = None  # of a part: as it was written; None: what is left
    fused: tuple[Iterator, ...] = ()
    parts: tuple[Iterator, ...] = ()  # that it was split into
    annotation: str = ""
    extent: Array | None = None  # worked out at the end

    def leaves(self) -> tuple[Iterator, ...]:
        """The loops that it stands for, outermost first, none of them fused."""
        return tuple(leaf for one in self.fused for leaf in one.leaves()) if self.fused else (self,)


@dataclass(eq=False)
class StageState:
    """A stage of the program."""

    name: str  # of a stage or an input of the workload
    loops: list[Iterator]
    own: tuple[Iterator, ...]  # one for each axis, as they were in the beginning
    compute: bool = True
    inlined: bool = False
    at: tuple[StageState, Iterator] | None = None
    pragma: Array | None = None
    splits: list[tuple[int, Iterator]] = field(default_factory=list)  # step numbers of SPs of its axes


class State:
    """A computation and the steps done to it."""

    def __init__(self, workload: Workload, numbers: Array) -> None:
        self.workload = workload
        self.numbers = numbers  # a row for each record
        self.rewrites: list[Rewrite] = []
        self.stages = [self._stage(name) for name in order(workload)]
        self.lengths: dict[int, tuple[Array, ...]] = {}  # of SP steps
        self.regions: dict[str, dict[str, Array]] = {}  # by stage: how many values of its axes it computes, once that is known

    # -- stages --------------------------------------------------------------------------------------------------------

    def _stage(self, name: str) -> StageState:
        if not self.workload.is_stage(name):
            return StageState(name, [], (), compute=False)
        return _fresh(self.workload.stage(name))

    def named(self, name: str) -> StageState:
        return next(s for s in self.stages if s.name == name)

    @property
    def computed(self) -> list[StageState]:
        """The stages that have loops."""
        return [s for s in self.stages if s.compute and not s.inlined]

    # -- steps ---------------------------------------------------------------------------------------------------------

    def replay(self, template: Template) -> State:
        for number, step in enumerate(template.steps):
            kind, at, *rest = step
            if at >= len(self.stages):
                raise Unfitting("a step of a stage that the computation does not have")
            getattr(self, f"_{kind.lower()}")(number, self.stages[at], *rest)
        return self

    def _iterator(self, stage: StageState, at: int) -> Iterator:
        if not stage.compute or stage.inlined or at >= len(stage.loops):
            raise Unfitting("a step of a loop that the stage does not have")
        return stage.loops[at]

    def _sp(self, number: int, stage: StageState, at: int, first: int, count: int, inner: int, fixed: tuple[int, ...]) -> None:
        loop = self._iterator(stage, at)
        lengths = tuple(self.numbers[:, first + n] for n in range(count))
        if not inner:
            raise Unplaced("a split that counts from outside")
        written = self.numbers[:, first + count]
        if loop.axis and loop in stage.own and stage.at is None:
            stage_ = self.workload.stage(stage.name)
            if ((written != 0) & (written != stage_.axis(loop.axis).extent)).any():
                raise Unfitting("a split of an extent that the computation does not have")
        self.lengths[number] = lengths
        self._split(stage, at, lengths)
        if loop in stage.own:
            stage.splits.append((number, loop))

    def _fsp(self, number: int, stage: StageState, at: int, source: int, count: int) -> None:
        self._iterator(stage, at)
        lengths = self.lengths.get(source)
        if lengths is None or not 0 < count <= len(lengths):
            raise Unfitting("a split that follows none")
        kept = lengths[: count - 1]
        rest = np.prod(np.stack(lengths[count - 1 :]), axis=0)
        self._split(stage, at, (*kept, rest))

    def _ffsp(self, number: int, stage: StageState, at: int, sources: tuple[int, ...], level: int, factor: int) -> None:
        self._iterator(stage, at)
        found = [self.lengths.get(s) for s in sources]
        if not found or any(x is None or level >= len(x) for x in found):
            raise Unfitting("a split that follows none")
        if not factor:
            raise Unplaced("a split that counts from outside")
        self._split(stage, at, (np.prod(np.stack([x[level] for x in found if x is not None]), axis=0),))

    def _split(self, stage: StageState, at: int, lengths: tuple[Array, ...]) -> None:
        loop = self._iterator(stage, at)
        sizes: tuple[Array | None, ...] = (None, *lengths)
        loop.parts = tuple(Iterator(loop.reduce, parent=loop, place=n, length=size) for n, size in enumerate(sizes))
        stage.loops[at : at + 1] = loop.parts
        self._moved(stage, {loop: loop.parts[-1]})

    def _fu(self, number: int, stage: StageState, at: tuple[int, ...]) -> None:
        if not at or list(at) != list(range(at[0], at[0] + len(at))):
            raise Unfitting("loops fused that are no neighbours")
        loops = tuple(self._iterator(stage, n) for n in at)
        if len(loops) == 1:
            return
        fused = Iterator(any(x.reduce for x in loops), fused=loops)
        stage.loops[at[0] : at[-1] + 1] = [fused]
        self._moved(stage, dict.fromkeys(loops, fused))

    def _moved(self, stage: StageState, instead: dict[Iterator, Iterator]) -> None:
        """Stages attached at loops that are no more."""
        for other in self.stages:
            if other.at is not None and other.at[0] is stage and other.at[1] in instead:
                other.at = (stage, instead[other.at[1]])

    def _re(self, number: int, stage: StageState, order: tuple[int, ...]) -> None:
        if sorted(order) != list(range(len(stage.loops))):
            raise Unfitting("an order that does not have every loop once")
        stage.loops = [stage.loops[n] for n in order]

    def _an(self, number: int, stage: StageState, at: int, kind: int) -> None:
        self._iterator(stage, at).annotation = ANNOTATIONS[kind]

    def _pr(self, number: int, stage: StageState, at: int, first: int | None) -> None:
        self._iterator(stage, at)
        if first is None:
            raise Unplaced("a pragma other than auto_unroll_max_step")
        stage.pragma = self.numbers[:, first]

    def _ca(self, number: int, stage: StageState, target: int, at: int) -> None:
        if target >= len(self.stages) or not stage.compute or self.stages[target] is stage:
            raise Unfitting("a stage that is computed at none")
        place = self.stages[target]
        stage.at, stage.inlined = (place, self._iterator(place, at)), False

    def _cr(self, number: int, stage: StageState) -> None:
        stage.at, stage.inlined = None, False

    def _ci(self, number: int, stage: StageState) -> None:
        if not stage.compute or any(s.at is not None and s.at[0] is stage for s in self.stages):
            raise Unfitting("a stage inlined that others are computed at")
        if stage.name in self.workload.outputs:
            raise Unfitting("an output inlined")
        self._rewrite(Inline(stage.name))
        stage.inlined, stage.at = True, None

    def _rewrite(self, rewrite: Rewrite) -> None:
        try:
            self.workload = rewrite.apply(self.workload)
        except (UserError, Refusal) as problem:
            raise Unplaced(f"a stage that {rewrite.name} does not do") from problem
        self.rewrites.append(rewrite)

    def _chr(self, number: int, stage: StageState, scope: str, readers: tuple[int, ...]) -> None:
        if scope != "shared":
            raise Unplaced(f"a copy of what is read in {scope} memory")
        if len(readers) != 1 or readers[0] >= len(self.stages):
            raise Unplaced("a copy that several stages read")
        fetch = Fetch(self.stages[readers[0]].name, stage.name)
        self._rewrite(fetch)
        self.stages.insert(self.stages.index(stage) + 1, _fresh(self.workload.stage(fetch.copy)))

    def _chw(self, number: int, stage: StageState, scope: str) -> None:
        if scope != "local":
            raise Unplaced(f"results in {scope} memory")
        if stage.at is not None or any(loop not in stage.own for loop in stage.loops):
            raise Unplaced("a cache of a stage that has loops already")
        rewrite = CacheWrite(stage.name)
        self._rewrite(rewrite)
        at = self.stages.index(stage)
        self.stages[at : at + 1] = [_fresh(self.workload.stage(rewrite.cache)), _fresh(self.workload.stage(stage.name))]

    def _rf(self, number: int, stage: StageState, at: int, place: int) -> None:
        """The reduction's parts: the outer one factored is contiguous blocks, the inner one neighbouring elements."""
        loop = self._iterator(stage, at)
        whole = loop.parent
        if whole is None or not whole.axis or not whole.reduce or len(whole.parts) != 2:
            raise Unplaced(
                "an rfactor of several axes at once" if whole is not None and whole.fused else "an rfactor of no split axis"
            )
        extent = self.workload.stage(stage.name).axis(whole.axis).extent
        inner = int(np.asarray(whole.parts[1].length).flat[0])
        if extent % inner:
            raise Unplaced("an rfactor of parts of different lengths")
        factor = extent // inner if loop.place == 0 else inner
        rewrite = Rfactor(stage.name, whole.axis, factor, loop.place == 1)
        self._rewrite(rewrite)
        partial, final = (_fresh(self.workload.stage(n)) for n in (rewrite.partial, stage.name))
        final.at, final.pragma = stage.at, None
        loops = {x.axis: x for x in partial.own}
        spatial = [x for x in partial.loops if not x.reduce]
        factored = loops[f"{whole.axis}_f"]
        spatial.remove(factored)
        spatial.insert(min(place, len(spatial)), factored)
        partial.loops = [*spatial, *(x for x in partial.loops if x.reduce)]
        index = self.stages.index(stage)
        self.stages[index : index + 1] = [partial, final]

    def _sa(self, number: int, stage: StageState, at: int, factor: int, offset: int) -> None:
        raise Unplaced("storage that is aligned")

    def _pf(self, number: int, stage: StageState, *rest: object) -> None:
        raise Unplaced("prefetching")


def _fresh(stage: Stage) -> StageState:
    reduce = {a.name for a in stage.reduce_axes}
    own = tuple(Iterator(a.name in reduce, axis=a.name) for a in stage.all_axes)
    return StageState(stage.name, list(own), own)


def order(workload: Workload) -> list[str]:
    """Tensors as TVM numbers them: what is read before who reads it, in the order of the reads."""
    found: dict[str, None] = {}

    def visit(name: str) -> None:
        if name in found:
            return
        if workload.is_stage(name):
            for read in workload.stage(name).reads:
                visit(read.tensor)
        found[name] = None

    for name in workload.outputs:
        visit(name)
    return list(found)
