"""The loops of a nest, and where a nest is attached: read from their notation once, written only for people and records.

Loops.read("i.0 j.0! | k.0 j.1")      outer i.0 and j.0, the latter laid out step by step; register tile k.0 j.1
AttachPoint.read("D:3")               inside the first three outer loops of D
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from tensorsmith.errors import UserError


class NestLoop(NamedTuple):
    """A loop of a nest: a part of an axis, 0 the outermost. Written `i.0`."""

    axis: str
    part: int

    def __str__(self) -> str:
        return f"{self.axis}.{self.part}"

    @staticmethod
    def read(text: str) -> NestLoop:
        axis, _, part = text.rpartition(".")
        if not axis or not _is_number(part) or part != str(int(part)):
            raise UserError(f"{text!r} is no loop; write AXIS.PART, as in i.0")
        return NestLoop(axis, int(part))


class AttachPoint(NamedTuple):
    """A place inside the first `depth` outer loops of a stage's nest. Written `D:3`.

    The depth of all outer loops is the register tile itself.
    """

    stage: str
    depth: int

    def __str__(self) -> str:
        return f"{self.stage}:{self.depth}"

    @staticmethod
    def read(text: str) -> AttachPoint:
        stage, _, depth = text.rpartition(":")
        if not _is_number(depth):
            raise UserError(f"attached at {text!r}; write STAGE:DEPTH, as in D:3")
        return AttachPoint(stage, int(depth))


@dataclass(frozen=True)
class Loops:
    """The loops of a nest in order: outer ones, then those of the register tile."""

    outer: tuple[NestLoop, ...]
    tile: tuple[NestLoop, ...] = ()
    unrolled: frozenset[NestLoop] = frozenset()  # laid out step by step, whatever is inside
    text: str | None = field(default=None, compare=False, repr=False)  # as it was written: records are found by it

    @functools.cached_property
    def all(self) -> tuple[NestLoop, ...]:
        return self.outer + self.tile

    @functools.cached_property
    def parts(self) -> dict[str, int]:
        """How many parts each axis is split into."""
        found: dict[str, int] = {}
        for loop in self.all:
            found[loop.axis] = found.get(loop.axis, 0) + 1
        return found

    def __str__(self) -> str:
        if self.text is not None:
            return self.text
        return f"{written(self.outer, self.unrolled)} | {written(self.tile, self.unrolled)}".strip()

    @staticmethod
    @functools.lru_cache(maxsize=1 << 14)
    def read(text: str) -> Loops:
        groups = text.split("|")
        if len(groups) > 2:
            raise UserError(f"{text!r} has more than one bar")
        outer, tile = (tuple(_read_loops(g)) for g in (*groups, "")[:2])
        laid_out = frozenset(NestLoop.read(word[:-1]) for word in text.split() if word.endswith("!"))
        return Loops(outer, tile, laid_out, text)


def written(loops: Iterable[NestLoop], unrolled: frozenset[NestLoop] = frozenset()) -> str:
    """`i.0 j.0!`"""
    return " ".join(f"{loop}!" if loop in unrolled else str(loop) for loop in loops)


def _read_loops(text: str) -> list[NestLoop]:
    return [NestLoop.read(word.removesuffix("!")) for word in text.split()]


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
