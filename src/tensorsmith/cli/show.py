"""Text and tables for people. Names may come from a stranger's file: they are shown without markup and control characters."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

_WIDE = 240  # columns of a table that does not go to a terminal


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], left: Sequence[str] = ()) -> None:
    """Prints a table; numbers stand at the right, the columns named in `left` at the left."""
    made = Table()
    for column in columns:
        made.add_column(column, justify="left" if column in left else "right")
    for row in rows:
        made.add_row(*(Text(plain(cell)) for cell in row))
    console().print(made)


def as_json(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Prints a list of objects, one a line, with the columns as their names."""
    lines = [json.dumps(dict(zip(columns, row, strict=True))) for row in rows]
    print("[" + ",\n ".join(lines) + "]", flush=True)


def console() -> Console:
    """As wide as the terminal; elsewhere so wide that nothing is cut or wrapped."""
    return Console(width=None if sys.stdout.isatty() else _WIDE, highlight=False)


def say(text: object) -> None:
    print(plain(text), flush=True)


def plain(value: object) -> str:
    """Text that can do nothing to a terminal."""
    return "".join(c if c.isprintable() or c == "\n" else " " if c.isspace() else "?" for c in str(value))


def time(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds * 1e6:,.1f} us" if seconds < 1e-3 else f"{seconds * 1e3:,.2f} ms"


def rate(flops: float, seconds: float | None) -> str:
    """In GFLOP/s."""
    return f"{flops / seconds / 1e9:,.1f}" if flops and seconds else "-"


def shape(sizes: Sequence[int]) -> str:
    return "x".join(map(str, sizes)) or "scalar"
