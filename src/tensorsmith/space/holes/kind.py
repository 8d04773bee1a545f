"""What a kind of hole is.

A *number* is open in a nest: the size of a part of an axis, how many loops threads share. A *choice* changes the structure: it
has a list of options, written as they appear in a nest or rewrite, and its value is the number of the option. In a population each
hole is a column of a matrix, and everything here works on columns, never on one row after the other.

A new kind is a class in a file of its own, made known by `register_kind`. A number of a new kind is open in the nests whose rule
asks for it: `Nest("C", "i.0 j.0 | k.0", also=("prefetch",))` has the hole `C.prefetch`, and its value is in the lowered program's
`decisions`, for the code generator that knows it. A choice of a new kind is one that a rule adds, as in
`state.with_choice(Choice("C", "lanes", ("i.1", "j.1")))`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from tensorsmith.lang.workload import Stage
from tensorsmith.space.sketch.loops import NestLoop
from tensorsmith.space.sketch.nest import Choice, Nest
from tensorsmith.space.sketch.rewrite import Rewrite

if TYPE_CHECKING:
    from tensorsmith.space.population.geometry import Measured
    from tensorsmith.space.population.population import Plan
    from tensorsmith.space.sketch.sketch import Candidate, Sketch

Array = np.ndarray[Any, np.dtype[Any]]
Matrix = np.ndarray[Any, np.dtype[np.int32]]


@dataclass(frozen=True)
class Hole:
    """An open number of a nest."""

    name: str  # "C.i.1": the key of its decision
    kind: str
    stage: str
    loop: NestLoop | None = None  # whose size it is


@dataclass(frozen=True)
class Column:
    """A hole in the matrix of a population."""

    hole: str
    kind: str
    stage: str
    low: int
    high: int
    loop: NestLoop | None = None  # of a size
    vector: bool = False  # whether the size is that of the loop that runs in lanes
    idle: int = 1  # what it holds where a row's structure does not have the hole
    options: tuple[str, ...] = ()  # of a choice


@dataclass(frozen=True)
class Move:
    """One way of mutation: `apply(rows, here, rng)` changes the rows whose numbers are in `here`, each in one respect."""

    name: str
    weight: float  # how often, relative to the others
    apply: Callable[[Matrix, Array, np.random.Generator], None]


class Step(Protocol):
    """A loop that runs more than once, in the program that a row is looked for."""

    @property
    def count(self) -> int: ...

    @property
    def mark(self) -> str: ...


@dataclass
class Draft:
    """A structure while options are taken."""

    nests: dict[str, Nest]
    rewrites: list[Rewrite]
    inlined: list[str]  # stages to be inlined, where they still fit


class NumberKind(ABC):
    """A kind of open numbers."""

    name: ClassVar[str]
    least: ClassVar[int] = 1  # the smallest legal value
    logarithmic: ClassVar[bool] = False  # whether 1 and 2 are as far apart as 8 and 16
    weight: ClassVar[float] = 0.06  # of its mutation; all moves of the built-in kinds together have 1
    absent: ClassVar[int | None] = None  # the value that a nest without the hole has, if there is one
    in_loops: ClassVar[bool] = False  # whether loops that run more than once show the value: then programs are not told apart by it

    # -- in a sketch ---------------------------------------------------------------------------------------------------

    def holes(self, nest: Nest, stage: Stage) -> Sequence[Hole]:
        """The holes of this kind that a nest has."""
        return [Hole(f"{nest.stage}.{self.name}", self.name, nest.stage)] if self.name in nest.also else []

    @abstractmethod
    def column(self, plan: Plan, hole: Hole) -> Column:
        """The domain of a hole."""

    # -- first rows ----------------------------------------------------------------------------------------------------

    def sample_together(self, plan: Plan, rows: Matrix, rng: np.random.Generator, uniform: bool) -> None:
        """Fills all columns of this kind at once, before the lengths of regions are known; `uniform` as in the paper."""
        return

    def sample(self, plan: Plan, number: int, rows: Matrix, found: Measured, rng: np.random.Generator, uniform: bool) -> None:
        """Fills one column, when the sizes of tiles are there."""
        column = plan.columns[number]
        rows[:, number] = rng.integers(column.low, column.high + 1, len(rows))

    def start(self, plan: Plan, column: Column) -> int:
        """The value that a seed begins with."""
        return column.idle

    # -- evolution -----------------------------------------------------------------------------------------------------

    def moves(self, plan: Plan) -> list[Move]:
        """Mutations; one that draws a column anew by default."""
        columns = [n for n, c in enumerate(plan.columns) if c.kind == self.name and c.high > c.low]
        redraw = redrawing(columns, lambda n, count, rng: self.other_values(plan, plan.columns[n], count, rng))
        return [Move(self.name, self.weight, redraw)] if columns else []

    def other_values(self, plan: Plan, column: Column, count: int, rng: np.random.Generator) -> Array:
        """Values for a mutation."""
        return rng.integers(column.low, column.high + 1, count)

    def node(self, plan: Plan, column: Column) -> str:
        """The stage with which it is inherited in a crossover."""
        return column.stage

    # -- repair --------------------------------------------------------------------------------------------------------

    def comes_to(self, plan: Plan, number: int, rows: Matrix, found: Measured) -> Array:
        """What the values of a column come to: rows that stand for the same program are to be equal."""
        column = plan.columns[number]
        return np.where(found.inlined[column.stage], column.idle, rows[:, number])

    # -- from a similar workload ---------------------------------------------------------------------------------------

    def carry(self, plan: Plan, rows: Matrix, candidate: Candidate) -> None:
        """Changes two rows, which hold a candidate's decisions where the plan has such holes: as they were, and a second guess."""
        return

    def settle(self, plan: Plan, number: int, rows: Matrix, found: Measured, candidate: Candidate) -> None:
        """Changes one column of rows that were carried over and repaired."""
        return

    # -- where a candidate lies ----------------------------------------------------------------------------------------

    def marked(self, nest: Nest, value: int) -> Sequence[NestLoop]:
        """The loops that the value marks; programs are told apart by marks."""
        return ()

    def decided(self, hole: Hole, nest: Nest, steps: Mapping[NestLoop, Step], others: Mapping[str, int]) -> int:
        """The value that gives a nest its wanted steps, by loop; `others` has the numbers that do not show in loops."""
        return others.get(hole.name, self.least)


class ChoiceKind(ABC):
    """A kind of choices."""

    name: ClassVar[str]
    places: ClassVar[bool] = False  # whether it says where one stage is computed

    # -- in a sketch ---------------------------------------------------------------------------------------------------

    @abstractmethod
    def take(self, choice: Choice, option: str, draft: Draft) -> None:
        """Changes a structure to have an option."""

    @abstractmethod
    def option_of(self, choice: Choice, sketch: Sketch) -> str:
        """What a resolved sketch has in place of a choice, written as an option; of other extents it need not be one of them."""

    def removes(self, choice: Choice) -> bool:
        """Whether the stage may vanish."""
        return False

    # -- first rows ----------------------------------------------------------------------------------------------------

    def weights(self, plan: Plan, column: Column) -> Array:
        """How likely each option is, when the machine is kept in mind."""
        return np.ones(len(column.options))

    def variants(self, column: Column) -> int:
        """How many options seeds go through."""
        return 1

    def start(self, plan: Plan, column: Column, variant: int) -> int:
        """The option that a seed begins with."""
        return 0

    # -- evolution -----------------------------------------------------------------------------------------------------

    def node(self, plan: Plan, column: Column) -> str:
        """The stage with which it is inherited in a crossover."""
        return column.stage

    # -- from a similar workload, and where a candidate lies -----------------------------------------------------------

    def likeness(self, wanted: str, option: str) -> float:
        """How like two options are; minus infinity where there is nothing to compare."""
        return -math.inf

    def possible(self, choice: Choice, wanted: Sketch) -> list[int]:
        """The numbers of the options that may lead to a wanted structure, whose loops may be called otherwise."""
        return list(range(len(choice.options)))


def redrawing(
    columns: Sequence[int], values: Callable[[int, int, np.random.Generator], Array]
) -> Callable[[Matrix, Array, np.random.Generator], None]:
    """A move that gives each row another value in one of the columns: `values(column, count, rng)`."""

    def apply(rows: Matrix, here: Array, rng: np.random.Generator) -> None:
        for column, part in zip(columns, dealt(here, len(columns), rng)):
            rows[part, column] = values(column, len(part), rng)

    return apply


def dealt(rows: Array, count: int, rng: np.random.Generator) -> list[Array]:
    """Rows dealt at random to `count` hands."""
    hand = rng.integers(0, count, len(rows))
    return [rows[hand == n] for n in range(count)]
