"""What the cases of a file of results say together, in figures that do not flatter: by best samples and by medians, with and
without the best row, without Winograd's convolution, small cases apart, and who is behind by how much.

A row of a case has `seconds` and `median_seconds` by competitor. Whoever is not called "tensorsmith ..." is a peer, and the best
of all peers counts, in each case and for each of the two. Ratios above 1: we are faster.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from figure_texts import times

OURS = "tensorsmith"
UNTUNED = f"{OURS} untuned"
SMALL_SECONDS = 20e-6  # below, what a call costs is most of what is seen

Row = Mapping[str, Any]


def is_peer(name: str) -> bool:
    return name.split()[0] != OURS


def best_peer(row: Row, key: str = "seconds") -> str | None:
    """The fastest peer, by best samples or by medians."""
    peers = {name: seconds for name, seconds in row.get(key, {}).items() if is_peer(name)}
    return min(peers, key=peers.__getitem__, default=None)


def name_of(row: Row, tuned: bool) -> str | None:
    """Under which name ours ran, tuned or not; None where it did not. Without a search all of ours is untuned."""
    there, searched = row.get("seconds", {}), bool(row.get("trials")) or UNTUNED in row.get("seconds", {})
    if tuned:
        return OURS if OURS in there and searched else None
    name = OURS if row.get("same_program") or not searched else UNTUNED
    return name if name in there else None


def ratio(row: Row, name: str | None, key: str = "seconds") -> float | None:
    """How many times as fast as the best peer."""
    peer = best_peer(row, key)
    if peer is None or name is None or name not in row.get(key, {}):
        return None
    return float(row[key][peer] / row[key][name])


def is_winograd(row: Row, tuned: bool) -> bool:
    return row.get("formulation" if tuned else "untuned_formulation", "direct") != "direct"


def is_small(row: Row) -> bool:
    """Whether anyone needs less than `SMALL_SECONDS`."""
    return min(row.get("seconds", {}).values(), default=1.0) < SMALL_SECONDS


@dataclass(frozen=True)
class Standing:
    """Of the cases in which ours and a peer ran; `failed` are the others."""

    ratios: dict[str, float]  # by best samples
    medians: dict[str, float]
    winograd: frozenset[str]
    small: frozenset[str]
    failed: tuple[str, ...]

    @property
    def behind(self) -> dict[str, float]:
        """The worst first."""
        return {case: r for case, r in sorted(self.ratios.items(), key=lambda item: item[1]) if r < 1}

    @property
    def ahead(self) -> int:
        return len(self.ratios) - len(self.behind)

    @property
    def best_row(self) -> str:
        return max(self.ratios, key=self.ratios.__getitem__)

    def mean(self, without: frozenset[str] = frozenset(), *, of: str = "ratios") -> float | None:
        """The geometric mean without some cases; None of nothing."""
        values = [r for case, r in getattr(self, of).items() if case not in without]
        return statistics.geometric_mean(values) if values else None

    @property
    def large(self) -> frozenset[str]:
        return frozenset(self.ratios) - self.small


def standing(cases: Mapping[str, Row], tuned: bool, name: str | None = None) -> Standing | None:
    """Of ours, tuned or not, or of what ran under another `name`; None where nothing of that kind ran."""
    who = {case: name or name_of(row, tuned) for case, row in cases.items()}
    ratios = {case: r for case, row in cases.items() if (r := ratio(row, who[case])) is not None}
    if not ratios:
        return None
    medians = {case: r for case in ratios if (r := ratio(cases[case], who[case], "median_seconds")) is not None}
    return Standing(
        ratios,
        medians,
        frozenset(case for case in ratios if is_winograd(cases[case], tuned)),
        frozenset(case for case in ratios if is_small(cases[case])),
        tuple(case for case in cases if case not in ratios),
    )


# -- as text ---------------------------------------------------------------------------------------------------------------

COLUMNS = (
    "", "geometric mean: best samples", "medians", "ahead", "without the best row", "without Winograd's rows", "under 20 us",
    "20 us and more", "behind",
)  # fmt: skip


def cells(what: str, found: Standing) -> tuple[str, ...]:
    """A line of the table with `COLUMNS`."""
    some = len(found.ratios)
    behind = f"{len(found.behind)}: {', '.join(f'{r:.3f}' for r in found.behind.values())}" if found.behind else "none"
    failed = f"; {len(found.failed)} failed" if found.failed else ""
    return (
        what,
        times(found.mean()),
        times(found.mean(of="medians")),
        f"{found.ahead} of {some} ({found.ahead / some:.0%})",
        times(found.mean(frozenset({found.best_row}))),
        times(found.mean(found.winograd)) + f" ({some - len(found.winograd)})" if found.winograd else "none",
        f"{times(found.mean(found.large))} ({len(found.small)})" if found.small else "none",
        f"{times(found.mean(found.small))} ({len(found.large)})" if found.large else "none",
        behind + failed,
    )


def named_behind(found: Standing) -> str:
    """Who is behind, with names."""
    listed = ", ".join(f"{case} {r:.3f}" for case, r in found.behind.items())
    failed = f" Failed: {', '.join(found.failed)}." if found.failed else ""
    return f"behind in {len(found.behind)} of {len(found.ratios)}{': ' + listed if listed else ''}.{failed}"
