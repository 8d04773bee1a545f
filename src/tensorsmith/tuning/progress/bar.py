"""One line of a terminal: parts that are left out, the least important first, until the rest fits.

[####--------] 120/640  resnet 530 us -> 310 us, 1.71x  4m12s left  2 failed  8.0/s  conv+relu f32[1, 56, 56, 64]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_BETWEEN = "  "
_CELLS = 12  # of the bar between its brackets


@dataclass(frozen=True)
class Part:
    """A piece of the line. `rank`: those with a high one go first. One that may be `cut` is, down to a few letters."""

    text: str
    rank: int
    cut: bool = False


_LEAST = 10  # columns of a part that is cut


def bar(share: float) -> str:
    """`[####--------]`"""
    full = int(_CELLS * min(1.0, max(0.0, share)))
    return f"[{'#' * full}{'-' * (_CELLS - full)}]"


def fitted(parts: Sequence[Part], width: int) -> str:
    """The parts in their order, as many as `width` columns hold; never more columns than that."""
    left = [part for part in parts if part.text]
    while len(left) > 1 and _columns(left) > width:
        last = max(left, key=lambda part: part.rank)
        room = width - _columns([part for part in left if part is not last]) - len(_BETWEEN)
        if last.cut and room >= _LEAST:
            return _joined([Part(shortened(p.text, room), p.rank) if p is last else p for p in left])
        left.remove(last)
    return shortened(_joined(left), width)


def shortened(text: str, columns: int) -> str:
    """A text in so many columns at most; letters of some scripts take two."""
    from rich.cells import cell_len, set_cell_size  # by those who have a terminal

    if cell_len(text) <= columns:
        return text
    return set_cell_size(text, max(0, columns - 2)).rstrip() + ".." if columns > 2 else "." * max(0, columns)


def _joined(parts: Sequence[Part]) -> str:
    return _BETWEEN.join(part.text for part in parts)


def _columns(parts: Sequence[Part]) -> int:
    from rich.cells import cell_len  # as above

    return cell_len(_joined(parts))
