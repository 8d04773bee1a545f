"""What a command answers: data first, then text and tables for people, or the data as JSON for programs.

A command finds out what it has to say as a dataclass, a dict or a list of those, and `answer` shows that in one of two ways. With
`--json` the standard output holds one JSON value and nothing else: whatever is printed on the way goes to the error stream.

Names may come from a stranger's file: they are shown without markup and control characters.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import io
import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from tensorsmith.cli.table import prose as prose  # parts of what a command shows
from tensorsmith.cli.table import table as table
from tensorsmith.show.line import page, plain

T = TypeVar("T")


def answer(data: T, as_json: bool, show: Callable[[T], None]) -> None:
    """Prints what a command found out: as JSON, or as `show` does it."""
    if as_json:
        print(to_json(data), flush=True)
    else:
        show(data)


@contextlib.contextmanager
def apart(as_json: bool) -> Iterator[None]:
    """While an answer in JSON is made, what is printed, by other libraries and from compiled code too, goes to the error stream."""
    if not as_json:
        yield
        return
    with contextlib.redirect_stdout(sys.stderr), _descriptor_apart():
        yield


@contextlib.contextmanager
def _descriptor_apart() -> Iterator[None]:
    """The same for whoever writes to the descriptor itself; nothing is done where the output is no file."""
    try:
        output, errors = sys.__stdout__.fileno(), sys.__stderr__.fileno()  # type: ignore[union-attr]
        kept = os.dup(output)
    except (AttributeError, OSError, ValueError, io.UnsupportedOperation):
        yield
        return
    try:
        sys.__stdout__.flush()  # type: ignore[union-attr]
        os.dup2(errors, output)
        yield
    finally:
        os.dup2(kept, output)
        os.close(kept)


def to_json(data: object) -> str:
    """JSON text. A list has one entry a line; a number that is not finite is null."""
    form = _form(data)
    if isinstance(form, list):
        return "[" + ",\n ".join(json.dumps(entry, allow_nan=False) for entry in form) + "]"
    return json.dumps(form, indent=1, allow_nan=False)


def _form(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _form(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(name): _form(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_form(entry) for entry in value]
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def markdown(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """The table as Markdown."""
    lines = [columns, ["---"] * len(columns), *([plain(cell).replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def say(text: object) -> None:
    print(page(text), flush=True)


def warn(text: object) -> None:
    """To the error stream, behind all that was said."""
    sys.stdout.flush()
    print(plain(text), file=sys.stderr, flush=True)


def time(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds * 1e6:,.1f} us" if seconds < 1e-3 else f"{seconds * 1e3:,.2f} ms"


def rate(flops: float, seconds: float | None) -> str:
    """In GFLOP/s."""
    return f"{flops / seconds / 1e9:,.1f}" if flops and seconds else "-"


def share(part: float | None) -> str:
    return "-" if part is None else f"{part:.1%}"


def shape(sizes: Sequence[int]) -> str:
    return "x".join(map(str, sizes)) or "scalar"
