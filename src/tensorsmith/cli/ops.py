"""`tensorsmith ops`: the operators of ONNX and PyTorch that are supported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from tensorsmith.cli import show
from tensorsmith.cli.options import AsJson
from tensorsmith.cli.words import told
from tensorsmith.errors import UserError
from tensorsmith.frontends.operators import SYSTEMS, Operator, operators

_TITLES = {"onnx": "ONNX", "torch": "PyTorch (ATen)"}


def ops(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[WORD]...", help="Those with one of these in their names (conv); else all."),
    ] = None,
    system: Annotated[str | None, typer.Option(metavar="NAME", help="Of onnx or torch alone.", show_default="both")] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="As tables in Markdown.")] = False,
    json: AsJson = False,
) -> None:
    """Lists the operators that models may have: from which version of ONNX's operator set, in which overloads, of which types.

    Operators of a system that is not installed are left out, with a note.
    """
    if json and markdown:
        raise UserError("--json and --markdown: give one of the two")
    with show.apart(json):
        found = matching(_of([system] if system is not None else list(SYSTEMS), must=system is not None), words or ())
    if not found:
        raise UserError(f"no supported operator has {' or '.join(words or ())} in its name; `tensorsmith ops` lists all")
    show.answer(found, json, show_markdown if markdown else _show)


def matching(found: Sequence[Operator], words: Sequence[str]) -> list[Operator]:
    """Those with one of the words in their names, in letters of either size."""
    return [o for o in found if not words or any(word.lower() in o.operator.lower() for word in words)]


def _of(systems: Sequence[str], must: bool) -> list[Operator]:
    found = []
    for name in systems:
        try:
            found += operators(name)
        except UserError as problem:
            if must:
                raise
            show.warn(told(problem))
    return found


def table_of(system: str, found: Sequence[Operator]) -> tuple[tuple[str, ...], Sequence[tuple[str, ...]]]:
    """Columns and rows."""
    mine = [o for o in found if o.system == system]
    if system == "onnx":
        rows = [(o.operator, f"{o.since}{', by definition' if o.by_definition else ''}", " ".join(o.types)) for o in mine]
        return ("operator", "from opset", "types"), rows
    return ("operator", "overloads", "types"), [(o.operator, " ".join(o.overloads), " ".join(o.types)) for o in mine]


def _show(found: Sequence[Operator]) -> None:
    for system, title in _TITLES.items():
        columns, rows = table_of(system, found)
        if rows:
            show.say(f"{title}: {len(rows)} operator{'s' * (len(rows) != 1)}")
            show.table(columns, rows, columns)


def show_markdown(found: Sequence[Operator]) -> None:
    tables = [table_of(system, found) for system in _TITLES]
    show.say("\n\n".join(show.markdown(columns, rows) for columns, rows in tables if rows))
