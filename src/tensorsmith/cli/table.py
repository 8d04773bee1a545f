"""Tables as wide as the terminal: cells fold, headings wrap, and what can be spared is left out and named below.

Without a terminal, as in a pipe, and without COLUMNS in the environment, a table is as wide as its contents.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tensorsmith.show.line import plain

_WIDE = 240  # columns of a table that does not go to a terminal
_BORDER = 3  # columns that each column takes besides its text: a blank at either side, and a line
_LEAST_TEXT = 16  # columns that a cell of words keeps when it is folded: keys, of 16 digits, stay whole


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    left: Sequence[str] = (),
    spare: Sequence[str] = (),
    least: Mapping[str, int] | None = None,
) -> None:
    """Prints a table; numbers stand at the right, the columns named in `left` at the left, and those fold where room is short.

    `spare`: columns that are left out where even that is too wide, the first one first; a line below the table names them.
    `least`: to how few columns of text those of long texts may be folded.
    """
    texts = [[plain(cell) for cell in row] for row in rows]
    needs = [_least(name, [row[n] for row in texts], name in left, (least or {}).get(name)) for n, name in enumerate(columns)]
    made = console()
    kept = fitting(columns, needs, spare, made.width)
    natural = [max(cell_len(text) for text in (columns[n], *(row[n] for row in texts))) for n in kept]
    shown = Table()
    for n, width in zip(kept, folded(natural, [needs[n] for n in kept], made.width)):
        shown.add_column(columns[n], justify="left" if columns[n] in left else "right", width=width, overflow="fold")
    for row in texts:
        shown.add_row(*(Text(row[n], overflow="fold") for n in kept))
    made.print(shown)
    missing = [name for n, name in enumerate(columns) if n not in kept]
    if missing:
        prose(f"left out for want of room: {', '.join(missing)} (a wider terminal or --json shows all)")


def prose(text: object) -> None:
    """Prints a line of words, broken between words where the terminal ends."""
    made = console()
    if made.width < _WIDE:
        made.print(Text(plain(text)), soft_wrap=False)
    else:
        print(plain(text), flush=True)


def console() -> Console:
    """As wide as the terminal, or as COLUMNS says; elsewhere so wide that nothing is cut or wrapped."""
    said = os.environ.get("COLUMNS", "")
    return Console(width=None if sys.stdout.isatty() or said.isdigit() else _WIDE, highlight=False)


def fitting(columns: Sequence[str], needs: Sequence[int], spare: Sequence[str], width: int) -> list[int]:
    """The numbers of the columns that are shown: all but as many of the spare ones as must go. `needs`: the least widths."""
    kept = list(range(len(columns)))
    for name in (name for name in spare if name in columns):
        if _total([needs[n] for n in kept]) <= width:
            break
        kept.remove(columns.index(name))
    return kept


def folded(natural: Sequence[int], needs: Sequence[int], width: int) -> list[int]:
    """Widths of columns: the one that has most to give is narrowed first, down to what it needs."""
    widths = list(natural)
    while _total(widths) > width:
        room, n = max((has - needed, n) for n, (has, needed) in enumerate(zip(widths, needs)))
        if room <= 0:
            break
        widths[n] -= 1
    return widths


def _least(name: str, cells: Sequence[str], folds: bool, least: int | None) -> int:
    """Numbers stay whole, and so does every word of a heading."""
    widest = max(map(cell_len, cells), default=0)
    return max(*map(len, name.split()), 0, min(widest, least or _LEAST_TEXT) if folds else widest)


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + _BORDER * len(widths) + 1
