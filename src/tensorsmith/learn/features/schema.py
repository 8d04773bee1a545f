"""What every column of a feature matrix means. Each backend has a schema of its own: the documentation, and versioned."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Feature:
    """One column. Units: `ratio` is in [0, 1] and `flag` 0 or 1, `logs` a sum of logarithms, all as they are; anything else holds
    log2(x + 1)."""

    name: str
    unit: str
    definition: str
    group: str

    @property
    def scaled(self) -> bool:
        return self.unit not in ("ratio", "flag", "logs")


@dataclass(frozen=True)
class Schema:
    """The columns in order. What was learned under one schema says nothing under another of another version."""

    name: str  # of whose features these are
    version: int  # another one whenever a column is added, removed, moved or redefined
    features: tuple[Feature, ...]

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(f.name for f in self.features)

    @functools.cached_property
    def index(self) -> Mapping[str, int]:
        """The column of each name."""
        return {name: n for n, name in enumerate(self.names)}

    def __len__(self) -> int:
        return len(self.features)

    def markdown(self) -> str:
        """The schema as a Markdown table, for the documentation."""
        lines = [
            f"Version {self.version}, {len(self)} features per statement. "
            "Units other than `ratio` and `flag` are scaled: log2(x + 1).",
            "",
            "| index | name | unit | group | definition |",
            "| --- | --- | --- | --- | --- |",
        ]
        for n, f in enumerate(self.features):
            lines.append(f"| {n} | `{f.name}` | {f.unit} | {f.group} | {f.definition} |")
        return "\n".join(lines) + "\n"
