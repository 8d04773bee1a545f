"""How one stage is computed, and what of the structure is left open.

    Nest("C", "i.0 j.0 k.0 i.1 j.1 | k.1 i.2 j.2", vector="j.2", at="D:4")

Each axis is split into parts, `i.0` the outermost. Loops before the bar are *outer* loops; those behind it form the
*register tile*: its spatial loops are unrolled (the vector one in lanes), its reduction loops run inside with the results
held in registers. A stage may be attached inside another one's outer loops (`at="D:3"`: inside the first three), or
at the very register tile (the depth equal to the number of outer loops), where its values never leave the registers.
An outer or reduction loop written `w.0!` is laid out step by step, so that what depends on its value (padding) is decided
beforehand.
The size of a loop written `i.1=8` is part of the structure: nobody chooses it.
"""

from __future__ import annotations

from dataclasses import dataclass

from tensorsmith.errors import UserError
from tensorsmith.show.line import line, short_digest
from tensorsmith.space.sketch.loops import AttachPoint, Loops, NestLoop


@dataclass(frozen=True, init=False)
class Nest:
    """How one stage is computed. Loops and the attach point may be given as they are written."""

    stage: str
    loops: Loops
    vector: NestLoop | None  # the loop of the register tile that runs in lanes
    at: AttachPoint | None  # None is the root
    packed: tuple[str, ...]  # tensors read in the order of this nest's loops instead of their own
    follows: str | None  # a copy made for that nest: its loops are that nest's, and so are their sizes
    also: tuple[str, ...]  # kinds of numbers that are open here besides those that every nest has
    group: NestLoop | None  # the reduction loop of the tile of which a lane takes all steps, four bytes or two i16, at once

    def __init__(
        self,
        stage: str,
        loops: Loops | str,
        vector: NestLoop | str | None = None,
        at: AttachPoint | str | None = None,
        packed: tuple[str, ...] = (),
        follows: str | None = None,
        also: tuple[str, ...] = (),
        group: NestLoop | str | None = None,
    ) -> None:
        try:
            values = (
                stage,
                Loops.read(loops) if isinstance(loops, str) else loops,
                NestLoop.read(vector) if isinstance(vector, str) else vector,
                AttachPoint.read(at) if isinstance(at, str) else at,
                packed,
                follows,
                also,
                NestLoop.read(group) if isinstance(group, str) else group,
            )
        except UserError as problem:
            raise UserError(f"nest of {stage}: {problem}") from None
        for name, value in zip(self.__dataclass_fields__, values):
            object.__setattr__(self, name, value)

    @property
    def outer(self) -> tuple[NestLoop, ...]:
        return self.loops.outer

    @property
    def tile(self) -> tuple[NestLoop, ...]:
        return self.loops.tile

    @property
    def unrolled(self) -> frozenset[NestLoop]:
        """Loops whose steps are laid out one by one, whatever is inside."""
        return self.loops.unrolled

    @property
    def parts(self) -> dict[str, int]:
        """How many parts each axis is split into."""
        return self.loops.parts

    @property
    def group_size(self) -> int | None:
        """Steps of the group, where the structure says how many."""
        return self.loops.sizes.get(self.group) if self.group is not None else None

    @property
    def sized(self) -> tuple[NestLoop, ...]:
        """The loops whose sizes are open: all but the outermost part of each axis, which takes what is left."""
        if self.follows is not None:
            return ()
        return tuple(NestLoop(axis, p) for axis, n in self.parts.items() for p in range(1, n))

    def __repr__(self) -> str:
        return line(self, self, f" {short_digest(str(self))}")

    def __str__(self) -> str:
        extra = {
            "vector": self.vector,
            "at": self.at,
            "packed": " ".join(self.packed),
            "follows": self.follows,
            "also": " ".join(self.also),
            "group": self.group,
        }
        return f"{self.stage}: {self.loops}" + "".join(f" {word} {value}" for word, value in extra.items() if value)


@dataclass(frozen=True)
class Choice:
    """A hole that changes the structure, of one of the kinds in `space/holes/`; options as they appear in a nest or rewrite."""

    stage: str
    kind: str
    options: tuple[str, ...]
    members: tuple[str, ...] = ()  # other stages that it decides about

    @property
    def hole(self) -> str:
        return f"{self.stage}.{self.kind}"

    def __repr__(self) -> str:
        return line(self, f"{self.hole} in {' / '.join(self.options)}", f" {short_digest(repr((self.options, self.members)))}")
