"""What a benchmark hands out: a JSON file for programs and a table for people."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from harness import Comparison, geometric_mean

Row = dict[str, Any]
OURS = "tensorsmith"
DISTURBED = 0.2  # share of slots from which on a row is worth nothing


def row(comparison: Comparison, *, flops: float = 0, ours: str = OURS, **more: Any) -> Row:
    """One case's entry in the JSON file. What does not apply is left out, and so is every None in `more`."""
    peer = comparison.best_peer(ours)
    result: Row = {
        "ratio_to_best_peer": comparison.ratio(ours),
        "best_peer": peer,
        "peak_flops": comparison.peak or None,
        "disturbed": comparison.disturbed,
        "seconds": {name: timing.best for name, timing in comparison.timings.items()},
        "median_seconds": {name: timing.median for name, timing in comparison.timings.items()},
        **more,
    }
    if flops and comparison.peak:
        share = {n: flops / t.best / comparison.peak for n, t in comparison.timings.items()}
        result |= {"share_of_peak": share.get(ours), "peer_share_of_peak": share[peer] if peer else None}
    return {key: value for key, value in result.items() if value is not None}


@dataclass
class Report:
    """All rows of a run, in the order they came, by section. On a terminal each is shown as it comes."""

    console: Console = field(default_factory=lambda: console())
    sections: dict[str, dict[str, Row]] = field(default_factory=dict)

    def add(self, section: str, case: str, entry: Row) -> None:
        if any(case in rows for rows in self.sections.values()):
            raise ValueError(f"two results for the case {case!r}")
        self.sections.setdefault(section, {})[case] = entry
        if self.console.is_terminal:
            self.console.print(f"[dim]{section}: {case}: {_line(entry)}")

    def rows(self) -> dict[str, Row]:
        return {case: entry for rows in self.sections.values() for case, entry in rows.items()}

    @property
    def errors(self) -> int:
        return sum("error" in entry for entry in self.rows().values())

    def print(self, section: str) -> None:
        rows = self.sections.get(section, {})
        if any("seconds" in entry and isinstance(entry["seconds"], dict) for entry in rows.values()):
            self.console.print(comparison_table(section, rows))
            disturbed = sum(entry.get("disturbed", 0) > DISTURBED for entry in rows.values())
            if disturbed:
                self.console.print(f"[red]Other processes ran during {disturbed} of {len(rows)} cases: do not believe these.")
        else:
            self.console.print(plain_table(section, rows))

    def write(self, path: str | Path | None) -> None:
        if path is not None:
            write_json(path, self.rows())


def console() -> Console:
    """As wide as the terminal; into a file or pipe, wide enough for a row to be a line."""
    return Console() if Console().is_terminal else Console(width=140)


def write_json(path: str | Path, rows: Mapping[str, Row]) -> None:
    """`{case: {figure: value}}`; refuses NaN and infinity, which are not JSON."""
    Path(path).write_text(json.dumps(rows, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def comparison_table(title: str, rows: Mapping[str, Row]) -> Table:
    """Case, our time, the best peer and its time, ratio, shares of the peak; last the geometric means."""
    table = Table(title=title, title_justify="left")
    for heading in ("case", "ours", "best peer", "its time", "ratio", "of peak", "peer of peak", "disturbed"):
        table.add_column(heading, justify="left" if heading in ("case", "best peer") else "right")
    for case, entry in rows.items():
        seconds, peer = entry.get("seconds", {}), entry.get("best_peer")
        table.add_row(
            case,
            _time(seconds.get(OURS)) if "error" not in entry else "[red]error",
            peer or "",
            _time(seconds.get(peer)),
            _number(entry.get("ratio_to_best_peer"), "{:.3f}"),
            _number(entry.get("share_of_peak"), "{:.1%}"),
            _number(entry.get("peer_share_of_peak"), "{:.1%}"),
            _number(entry.get("disturbed"), "{:.0%}"),
        )
    table.add_section()
    table.add_row("geometric mean", "", "", "", *(_mean(rows, key) for key in _MEANS))
    for case, entry in rows.items():
        if "error" in entry:
            table.add_row(f"[red]{case}", entry["error"].splitlines()[0][:60])
    return table


_MEANS = ("ratio_to_best_peer", "share_of_peak", "peer_share_of_peak")


def plain_table(title: str, rows: Mapping[str, Row]) -> Table:
    """A column for every figure that occurs."""
    keys = list(dict.fromkeys(key for entry in rows.values() for key in entry))
    table = Table("case", *keys, title=title, title_justify="left")
    for case, entry in rows.items():
        cells = (_time(v) if isinstance(v := entry.get(key), float) else str("" if v is None else v) for key in keys)
        table.add_row(case, *cells)
    return table


def _mean(rows: Mapping[str, Row], key: str) -> str:
    values: Sequence[float] = [entry[key] for entry in rows.values() if key in entry]
    form = "{:.3f}" if key == "ratio_to_best_peer" else "{:.1%}"
    return f"{_number(geometric_mean(values), form)} ({len(values)} of {len(rows)})" if values else "none"


def _line(entry: Row) -> str:
    if "error" in entry:
        return f"error: {entry['error'].splitlines()[0]}"
    if "ratio_to_best_peer" in entry:
        return f"{entry['ratio_to_best_peer']:.3f} times {entry['best_peer']}"
    return ", ".join(f"{key} {value}" for key, value in entry.items() if not isinstance(value, dict))


def _number(value: float | None, form: str) -> str:
    return "" if value is None or math.isnan(value) else form.format(value)


def _time(seconds: float | None) -> str:
    if seconds is None:
        return ""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
