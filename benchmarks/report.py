"""What a benchmark hands out: a JSON file for programs, tables and lines for people."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

import about
from rows import Row
from summary import line, summary
from tables import comparison_table, plain_table

RUN = "_run"  # what the run was, in the JSON file: no case


@dataclass
class Report:
    """All rows of a run, in the order they came, by section, and what the run was."""

    console: Console = field(default_factory=lambda: console())
    sections: dict[str, dict[str, Row]] = field(default_factory=dict)
    run: about.About = field(default_factory=about.about)

    def begin(self) -> None:
        """Says what the run is."""
        self.console.print(about.contest_text(self.run), markup=False, highlight=False, soft_wrap=True)

    def add(self, section: str, case: str, entry: Row, text: Callable[[Row], str] = line) -> None:
        """Another row, of which a line is shown at once."""
        if any(case in rows for rows in self.sections.values()) or case == RUN:
            raise ValueError(f"two results for the case {case!r}")
        self.sections.setdefault(section, {})[case] = entry
        self.console.print(f"{case}: {text(entry)}", markup=False, highlight=False, soft_wrap=True)

    def rows(self) -> dict[str, Row]:
        return {case: entry for rows in self.sections.values() for case, entry in rows.items()}

    @property
    def errors(self) -> int:
        return sum("error" in entry for entry in self.rows().values())

    def print(self, section: str) -> None:
        rows = self.sections.get(section, {})
        if any("seconds" in entry and isinstance(entry["seconds"], dict) for entry in rows.values()):
            self.console.print(comparison_table(section, rows))
            self.console.print("\n".join(summary(rows)), markup=False, highlight=False, soft_wrap=True)
        else:
            self.console.print(plain_table(section, rows))

    def write(self, path: str | Path | None) -> None:
        if path is not None:
            write_json(path, {RUN: self.run, **self.rows()})


def console() -> Console:
    """As wide as the terminal; into a file or pipe, wide enough for a row to be a line."""
    return Console() if Console().is_terminal else Console(width=200)


def write_json(path: str | Path, rows: Mapping[str, Row]) -> None:
    """`{case: {figure: value}}`; refuses NaN and infinity, which are not JSON."""
    Path(path).write_text(json.dumps(rows, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def read_json(path: str | Path) -> tuple[about.About, dict[str, Row]]:
    """What the run was, and its rows."""
    rows = json.loads(Path(path).read_text(encoding="utf-8"))
    return rows.pop(RUN, {}), rows
