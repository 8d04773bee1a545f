"""What a derivation rule is, and the state it works on.

A derivation goes through the stages from the last to the first. At each stage the rules are asked in order; every rule whose
condition holds is applied and gives new states, until one says that the rest shall be skipped. A state in which all stages are done
is a sketch.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from tensorsmith.lang.workload import Axis, Stage, Workload
from tensorsmith.space.analysis import chooses_by, lane_axis, transposing_axis
from tensorsmith.space.sketch.nest import Choice, Nest
from tensorsmith.space.sketch.rewrite import CacheWrite, Rewrite, apply_rewrites
from tensorsmith.space.sketch.sketch import Sketch
from tensorsmith.targets.target import Target


class Verdict(enum.Enum):
    """What a rule's condition says of a stage."""

    SKIP = 0  # does not apply
    APPLY = 1  # applies; the rules after it are asked too
    APPLY_AND_SKIP_REST = 2  # applies, and no other rule shall be asked


@dataclass(frozen=True)
class State:
    """A sketch in the making: rewrites so far, and nests and choices for the stages that are done."""

    workload: Workload
    rewrites: tuple[Rewrite, ...] = ()
    nests: tuple[Nest, ...] = ()
    choices: tuple[Choice, ...] = ()
    before: State | None = field(default=None, compare=False, repr=False)  # what this state was made of

    @functools.cached_property
    def now(self) -> Workload:
        """The workload after the rewrites so far."""
        if self.before is None:
            return apply_rewrites(self.workload, self.rewrites)
        return apply_rewrites(self.before.now, self.rewrites[len(self.before.rewrites) :])

    def stage(self, index: int) -> Stage:
        """A stage of the workload as it is now."""
        return self.now.stages[index]

    def rewritten(self, rewrite: Rewrite) -> State:
        """The state after one rewrite more."""
        return replace(self, before=self, rewrites=(*self.rewrites, rewrite))

    def with_nest(self, nest: Nest, *choices: Choice) -> State:
        """The state with a nest added, or put in place of the stage's old one."""
        others = tuple(n for n in self.nests if n.stage != nest.stage)
        return replace(self, before=self, nests=(*others, nest), choices=(*self.choices, *choices))

    def without_choices(self, stage: str) -> State:
        """The state with nothing left open of a stage."""
        return replace(self, before=self, choices=tuple(c for c in self.choices if c.stage != stage))

    def with_choice(self, choice: Choice) -> State:
        """The state with a choice added, or put in place of the old one for the same hole."""
        return replace(self, before=self, choices=(*(c for c in self.choices if c.hole != choice.hole), choice))

    def with_places(self, stage: Stage, options: Sequence[str]) -> State:
        """The state with the place of a stage left open, if there is more than one."""
        return self.with_choice(Choice(stage.name, "at", tuple(options))) if len(options) > 1 else self

    def choice(self, stage: str, kind: str) -> Choice | None:
        """The choice of a kind that a stage has, if any."""
        return next((c for c in self.choices if c.stage == stage and c.kind == kind), None)

    def nest(self, stage: str) -> Nest | None:
        """The nest of a stage, if it has one yet."""
        return next((n for n in self.nests if n.stage == stage), None)

    def has_cache_write(self, stage: str) -> bool:
        """Whether a stage is a cache that a rule has put before another."""
        return any(isinstance(r, CacheWrite) and r.cache == stage for r in self.rewrites)

    def sketch(self) -> Sketch:
        """The sketch of a state in which all stages are done, checked."""
        order = {s.name: n for n, s in enumerate(self.now.stages)}
        nests = tuple(sorted(self.nests, key=lambda n: order[n.stage]))
        return Sketch(self.workload, nests, self.rewrites, self.choices).check()


Derived = list[tuple[State, int]]  # states with the index of the stage to go on with


class Rule(Protocol):
    """A derivation rule. `index` is the stage's place in `state.now.stages`."""

    name: str

    def condition(self, state: State, index: int, target: Target) -> Verdict:
        """Whether it applies to the stage `state.stage(index)`, and whether the rules after it are asked too."""
        ...

    def apply(self, state: State, index: int, target: Target) -> Derived:
        """The states that it makes of this one, each with the index of the stage to go on with."""
        ...


def levels(axes: Sequence[Axis], part: int, laid_out: str = "") -> str:
    """`i.0 j.0`: one level of tiles, a loop for every axis; that of one axis may be laid out step by step, `j.0!`."""
    return " ".join(f"{a.name}.{part}{'!' if a.name == laid_out else ''}" for a in axes)


def names(*groups: str) -> str:
    """Groups of loops as one text."""
    return " ".join(g for g in groups if g)


def tiled(axis: Axis) -> bool:
    """Whether it makes sense to split an axis."""
    return axis.extent > 1


def simple_nest(stage: Stage, by_place: bool = False) -> Nest:
    """Loops in the order of the axes, one of them split for lanes: for stages that are not tiled. With `by_place`, the loop along
    the lanes is laid out where it decides what an element is."""
    along = lane_axis(stage)
    laid_out = along if by_place and along is not None and chooses_by(stage, along) else ""
    outer, reduce = levels(stage.axes, 0, laid_out), levels(stage.reduce_axes, 0)
    if along is None:
        return Nest(stage.name, f"{outer} | {reduce}")
    rows = transposing_axis(stage)
    return Nest(stage.name, names(outer, "|", reduce, f"{rows}.1" if rows else "", f"{along}.1"), vector=f"{along}.1")
