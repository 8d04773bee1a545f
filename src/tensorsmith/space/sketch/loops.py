"""The loops of a nest, and where a nest is attached: read from their notation once, written only for people and records.

Loops.read("i.0 j.0! | k.0 j.1")      outer i.0 and j.0, the latter laid out step by step; register tile k.0 j.1
Loops.read("i.0@block i.1@thread |")  the steps of i.0 are blocks of a GPU, those of i.1 the threads of a block
Loops.read("i.0 | i.1=8")             i.1 has eight steps: its size is part of the structure
AttachPoint.read("D:3")               inside the first three outer loops of D
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
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


#: what the steps of a loop may be: blocks of threads; threads that one thread plays in turn; threads of a block; threads of all
#: blocks
BLOCK, VTHREAD, THREAD, GRID = BINDINGS = ("block", "vthread", "thread", "grid")


@dataclass(frozen=True)
class Loops:
    """The loops of a nest in order: outer ones, then those of the register tile."""

    outer: tuple[NestLoop, ...]
    tile: tuple[NestLoop, ...] = ()
    unrolled: frozenset[NestLoop] = frozenset()  # laid out step by step, whatever is inside
    bound: frozenset[tuple[NestLoop, str]] = frozenset()  # loops whose steps are one of `BINDINGS`
    fixed: frozenset[tuple[NestLoop, int]] = frozenset()  # sizes that are part of the structure
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

    @functools.cached_property
    def bindings(self) -> dict[NestLoop, str]:
        """What the steps of loops are, where they are not just run one after the other."""
        return dict(self.bound)

    @functools.cached_property
    def sizes(self) -> dict[NestLoop, int]:
        """The sizes of loops that are part of the structure."""
        return dict(self.fixed)

    @functools.cached_property
    def before_threads(self) -> int:
        """How many outer loops stand in front of those of threads."""
        of_threads = [n for n, loop in enumerate(self.outer) if self.bindings.get(loop) in (VTHREAD, THREAD)]
        return of_threads[0] if of_threads else len(self.outer)

    @property
    def is_cooperative(self) -> bool:
        """Whether the threads of a block share its loops."""
        return THREAD in self.bindings.values()

    def __str__(self) -> str:
        if self.text is not None:
            return self.text
        outer, tile = (written(loops, self.unrolled, self.bindings, self.sizes) for loops in (self.outer, self.tile))
        return f"{outer} | {tile}".strip()

    @staticmethod
    @functools.lru_cache(maxsize=1 << 14)
    def read(text: str) -> Loops:
        groups = text.split("|")
        if len(groups) > 2:
            raise UserError(f"{text!r} has more than one bar")
        outer, tile = (tuple(_read_loops(g)) for g in (*groups, "")[:2])
        words = [word.partition("=") for word in text.split()]
        laid_out = frozenset(NestLoop.read(word[:-1]) for word, _, _ in words if word.endswith("!"))
        marked = [word.partition("@") for word, _, _ in words if "@" in word]
        sizes = [(word, mark, size) for word, mark, size in words if mark]
        for loop, _, size in sizes:
            if not _is_number(size) or not int(size):
                raise UserError(f"the size of the loop {loop} is {size!r}; write a number, as in i.1=8")
        for loop, _, mark in marked:
            if mark not in BINDINGS:
                raise UserError(f"the loop {loop} is bound to {mark!r}; known are {', '.join(BINDINGS)}")
        bound = frozenset((NestLoop.read(loop), mark) for loop, _, mark in marked)
        fixed = frozenset((NestLoop.read(loop.removesuffix("!").partition("@")[0]), int(size)) for loop, _, size in sizes)
        return Loops(outer, tile, laid_out, bound, fixed, text)


def written(
    loops: Iterable[NestLoop],
    unrolled: frozenset[NestLoop] = frozenset(),
    bindings: Mapping[NestLoop, str] | None = None,
    sizes: Mapping[NestLoop, int] | None = None,
) -> str:
    """`i.0@block j.0! i.1=8`"""
    marks = {loop: f"@{word}" for loop, word in (bindings or {}).items()} | dict.fromkeys(unrolled, "!")
    ends = {loop: f"={size}" for loop, size in (sizes or {}).items()}
    return " ".join(f"{loop}{marks.get(loop, '')}{ends.get(loop, '')}" for loop in loops)


def _read_loops(text: str) -> list[NestLoop]:
    return [NestLoop.read(word.partition("=")[0].removesuffix("!").partition("@")[0]) for word in text.split()]


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
