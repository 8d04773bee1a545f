"""HTML for notebooks: simple tables, and texts such as loops. Colours are those of the page, light or dark.

Every text is escaped: names come from models and record files of strangers.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tensorsmith.show.line import page

_LINE = "rgba(128, 128, 128, 0.4)"  # grey on white, and on black
_CELL = f"padding: 0.15em 0.8em; border-bottom: 1px solid {_LINE}; background: none; color: inherit;"
_TABLE = "border-collapse: collapse; border: none; background: none; color: inherit; font-size: 90%; margin: 0.3em 0;"
_TEXT = "white-space: pre; overflow-x: auto; background: none; color: inherit; line-height: 1.3; margin: 0.3em 0;"

#: of a column's head: orders the rows by that column, the largest first, or the smallest if it is clicked again
_SORT = """
var head = this, body = head.closest('table').tBodies[0], n = head.cellIndex;
var down = head.dataset.down = head.dataset.down === '1' ? '0' : '1';
function value(row) { var c = row.cells[n]; return c.dataset.value === undefined ? c.textContent : Number(c.dataset.value); }
Array.from(body.rows).sort(function (a, b) {
  var x = value(a), y = value(b), order = x === y ? 0 : x > y ? -1 : 1;
  return down === '1' ? order : -order;
}).forEach(function (row) { body.appendChild(row); });
"""


@dataclass(frozen=True)
class Number:
    """A cell that reads as a text and is ordered by its value."""

    value: float
    text: str


Cell = str | int | Number


def table(
    columns: Sequence[str], rows: Iterable[Sequence[Cell]], *, title: str = "", note: str = "", sortable: bool = False
) -> str:
    """A table; texts stand at the left, numbers at the right. With `sortable`, a click on a column's head orders the rows by it."""
    cells = [list(row) for row in rows]
    right = [any(not isinstance(row[n], str) for row in cells) for n in range(len(columns))]
    heads = "".join(_head(name, at_right, sortable) for name, at_right in zip(columns, right))
    body = "".join(f"<tr>{''.join(_cell(cell, at_right) for cell, at_right in zip(row, right))}</tr>" for row in cells)
    made = f'<table style="{_TABLE}"><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>'
    return block(title, made, note)


def text(listing: str, *, title: str = "", note: str = "") -> str:
    """A text as it stands, such as loops."""
    return block(title, f'<pre style="{_TEXT}">{_safe(listing)}</pre>', note)


def block(title: str, body: str, note: str = "") -> str:
    """HTML, with a title above it and a note below."""
    above = f"<div><b>{_safe(title)}</b></div>" if title else ""
    below = f"<div>{_safe(note)}</div>" if note else ""
    return f"<div>{above}{body}{below}</div>"


def _safe(text: object) -> str:
    """A text as HTML shows it: no tag, and nothing that is not printed."""
    return html.escape(page(text))


def _head(name: str, at_right: bool, sortable: bool) -> str:
    style = _style(at_right)
    if not sortable:
        return f'<th style="{style}">{_safe(name)}</th>'
    keys = "if (event.key === 'Enter') this.click()"
    action = f'onclick="{html.escape(_SORT)}" onkeydown="{html.escape(keys)}" tabindex="0" title="order by this column"'
    return f'<th style="{style} cursor: pointer;" {action}>{_safe(name)}</th>'


def _style(at_right: bool) -> str:
    """Of a cell; a number stays in one piece."""
    return f"{_CELL} text-align: {'right; white-space: nowrap' if at_right else 'left'};"


def _cell(cell: Cell, at_right: bool) -> str:
    style = _style(at_right)
    if isinstance(cell, Number):
        return f'<td style="{style}" data-value="{cell.value!r}">{_safe(cell.text)}</td>'
    value = "" if isinstance(cell, str) else f' data-value="{cell}"'
    return f'<td style="{style}"{value}>{_safe(cell)}</td>'
