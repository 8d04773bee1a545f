"""Tiles that do not fit: what is left at the end of an axis is another tile, and its code is written once more.

Sizes are integers, or arrays with one entry per candidate.
"""

from __future__ import annotations

from tensorsmith.program.flags import Flag, flag, where
from tensorsmith.program.linear import Number


def is_partial(length: Number, size: Number) -> Flag:
    """Whether the last tile of that size along an axis of that length has less to do than the others."""
    return flag(length % size != 0)


def variants(partial: Flag) -> Number:
    """How often a tile is written for an axis: for the whole tiles, and for a partial one."""
    return where(partial, 2, 1)
