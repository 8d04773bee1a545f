"""Rows as tables for people."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from rich.table import Table

from rows import ALONE, OURS, Row, figures, geometric_mean, still_disturbed

MARK = "!"  # of a case that stayed disturbed


def comparison_table(title: str, rows: Mapping[str, Row]) -> Table:
    """A line per case with the columns of `_COLUMNS`, without those that nobody has a figure for; last the geometric means."""
    cells = {heading: [cell(entry) for entry in rows.values()] for heading, cell in _COLUMNS.items()}
    shown = [heading for heading, column in cells.items() if any(column)]
    table = Table(title=title, title_justify="left")
    table.add_column("case", no_wrap=True)
    for heading in shown:
        table.add_column(heading, justify="left" if heading in _LEFT else "right", no_wrap=heading in _LEFT)
    for n, case in enumerate(rows):
        table.add_row(case, *(cells[heading][n] for heading in shown))
    table.add_section()
    table.add_row("geometric mean", *(_mean(rows, heading) for heading in shown))
    for case, entry in rows.items():
        if "error" in entry:
            table.add_row(f"[red]{case}", entry["error"].splitlines()[0][:60])
    return table


def _seconds(entry: Row, name: str | None) -> str:
    return time_text(entry.get("seconds", {}).get(name))


def _ours(entry: Row) -> str:
    return "[red]error" if "error" in entry else _seconds(entry, OURS)


def quartiles_text(entry: Row) -> str:
    return "-".join(f"{ratio:.2f}" for ratio in entry.get("ratio_quartiles", ()))


def untuned_text(entry: Row) -> str:
    return "default" if entry.get("same_program") else number(entry.get("untuned_ratio_to_best_peer"), "{:.3f}")


def _to_untuned(entry: Row) -> str:
    return "" if entry.get("same_program") else number(entry.get("tuned_to_untuned"), "{:.3f}")


def disturbed_text(entry: Row) -> str:
    again = f" ({retaken} retaken)" if (retaken := entry.get("retaken")) else ""
    return number(entry.get("disturbed"), "{:.0%}") + again + (f" {MARK}" if still_disturbed(entry) else "")


_COLUMNS: dict[str, Callable[[Row], str]] = {
    "ours": _ours,
    "best peer": lambda entry: entry.get("best_peer", ""),
    "its time": lambda entry: _seconds(entry, entry.get("best_peer")),
    "ratio": lambda entry: number(entry.get("ratio_to_best_peer"), "{:.3f}"),
    "medians": lambda entry: number(entry.get("median_ratio_to_best_peer"), "{:.3f}"),
    "quartiles": quartiles_text,
    "untuned": untuned_text,
    "to untuned": _to_untuned,
    "code alone": lambda entry: _seconds(entry, ALONE),
    "of peak": lambda entry: number(entry.get("share_of_peak"), "{:.1%}"),
    "formulation": lambda entry: entry.get("formulation", ""),
    "peer of peak": lambda entry: number(entry.get("peer_share_of_peak"), "{:.1%}"),
    "disturbed": disturbed_text,
}
_LEFT = ("best peer", "formulation", "disturbed")
_MEANS = {
    "ratio": ("ratio_to_best_peer", "{:.3f}"),
    "medians": ("median_ratio_to_best_peer", "{:.3f}"),
    "untuned": ("untuned_ratio_to_best_peer", "{:.3f}"),
    "to untuned": ("tuned_to_untuned", "{:.3f}"),
}  # shares of the peak have none here: those of different formulations are no shares of the same work


def _mean(rows: Mapping[str, Row], heading: str) -> str:
    if heading not in _MEANS:
        return ""
    key, form = _MEANS[heading]
    values = figures(rows, key).values()
    missing = "" if len(values) == len(rows) else f" ({len(values)} of {len(rows)})"
    return number(geometric_mean(values), form) + missing


#: of the columns above, those that the docs show, shorter: (heading, cell)
_PAGE: dict[str, Callable[[Row], str]] = {
    "ratio": lambda entry: number(entry.get("ratio_to_best_peer"), "{:.2f}"),
    "medians": lambda entry: number(entry.get("median_ratio_to_best_peer"), "{:.2f}"),
    "quartiles": quartiles_text,
    "best peer": _COLUMNS["best peer"],
    "untuned": lambda entry: "default" if entry.get("same_program") else number(entry.get("untuned_ratio_to_best_peer"), "{:.2f}"),
    "to untuned": lambda entry: "" if entry.get("same_program") else number(entry.get("tuned_to_untuned"), "{:.2f}"),
    "of peak": lambda entry: (
        number(entry.get("share_of_peak"), "{:.0%}")
        + (f" ({form})" if (form := entry.get("formulation", "direct")) not in ("", "direct") else "")
    ),
    "s of search": lambda entry: number(entry.get("seconds_searching"), "{:.0f}"),
}


def page_table(rows: Mapping[str, Row]) -> str:
    """The rows as a table of a Markdown page, without the columns that nobody has a figure for."""
    columns = {heading: [cell(entry) for entry in rows.values()] for heading, cell in _PAGE.items()}
    shown = {heading: column for heading, column in columns.items() if any(column)}
    cases = [f"{case} {MARK}" if still_disturbed(entry) else case for case, entry in rows.items()]
    lines = [["case", *shown], ["---"] * (1 + len(shown)), *map(list, zip(cases, *shown.values()))]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def plain_table(title: str, rows: Mapping[str, Row]) -> Table:
    """A column for every figure that occurs."""
    keys = list(dict.fromkeys(key for entry in rows.values() for key in entry))
    table = Table("case", *keys, title=title, title_justify="left")
    for case, entry in rows.items():
        cells = (time_text(v) if isinstance(v := entry.get(key), float) else str("" if v is None else v) for key in keys)
        table.add_row(case, *cells)
    return table


def number(value: float | None, form: str) -> str:
    return "" if value is None or math.isnan(value) else form.format(value)


def time_text(seconds: float | None) -> str:
    if seconds is None:
        return ""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
