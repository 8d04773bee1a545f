"""The shape of one variant of a register tile: how many steps its loops take, and how its lanes are cut into vectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tensorsmith.backends.cpu.codegen.points import Lanes

Key = tuple[tuple[int, ...], int]  # (values of the unrolled loops, number of the chunk of lanes)


@dataclass(frozen=True)
class Shape:
    """One variant of a tile: how many steps each of its loops takes."""

    sizes: Mapping[str, int]  # by loop variable
    chunks: tuple[Lanes | None, ...]  # of the vector loop; (None,) without one


def chunks(var: str, count: int, lanes: int) -> tuple[Lanes, ...]:
    """`count` steps of a loop in vectors of `lanes`; the last may be narrower, or have idle lanes."""
    found = [Lanes(var, start, lanes, lanes) for start in range(0, count - lanes + 1, lanes)]
    rest = count % lanes
    if rest:
        width = 1 << (rest - 1).bit_length()
        found.append(Lanes(var, count - rest, width, rest))
    return tuple(found)


def pieces(active: int) -> list[tuple[int, int]]:
    """(start, width) of power-of-two stores that cover the active lanes."""
    pieces, start = [], 0
    while start < active:
        width = 1 << ((active - start).bit_length() - 1)
        pieces.append((start, width))
        start += width
    return pieces
