"""The paper's figures as data: what was measured, and the numbers that a picture or a table shows of it.

Bars (figures 6, 8, 9) are normalised as in the paper: in each case the fastest system is 1 and every other one its share of that
speed; over the cases of a group the geometric mean; and once more, so that the best of the group is 1. A system that lacks a case
of a group has no bar there, and a note says why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from curves import Curve, median, text
from resume import Outcome
from rows import geometric_mean


@dataclass(frozen=True)
class Timed:
    """One case: the seconds of every system that has some, and what there is to say of the others, or of its search."""

    name: str
    group: str
    seconds: Mapping[str, float] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Bars:
    """A figure of bars: groups of cases, a bar for each system."""

    title: str
    systems: tuple[str, ...]
    cases: tuple[Timed, ...]

    @property
    def groups(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(case.group for case in self.cases))

    def of(self, group: str) -> dict[str, float]:
        """The height of each system's bar."""
        return normalised([case.seconds for case in self.cases if case.group == group], self.systems)

    def to_json(self) -> dict[str, Any]:
        heights = {group: self.of(group) for group in self.groups}
        return {"kind": "bars", **asdict(self), "heights": heights}

    @staticmethod
    def from_json(form: Mapping[str, Any]) -> Bars:
        return Bars(form["title"], tuple(form["systems"]), tuple(Timed(**case) for case in form["cases"]))


def normalised(cases: Sequence[Mapping[str, float]], systems: Sequence[str]) -> dict[str, float]:
    """The speed of each system that has all cases, relative to the fastest."""
    there = [s for s in systems if cases and all(s in case for case in cases)]
    best = [min((seconds for s, seconds in case.items() if s in systems), default=0.0) for case in cases]
    speeds = {s: geometric_mean(least / case[s] for least, case in zip(best, cases)) for s in there}
    top = max(speeds.values(), default=1.0)
    return {s: speed / top for s, speed in speeds.items()}


# -- curves ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Line:
    """The best so far of one system: after so many trials and seconds, the time of the best program; medians of the seeds."""

    system: str
    trials: tuple[int, ...]
    seconds: tuple[float, ...]
    best: tuple[float, ...]
    note: str = ""

    @property
    def last(self) -> float | None:
        return self.best[-1] if self.best else None

    def at(self, trials: int) -> float | None:
        """The best after so many trials."""
        return next((best for n, best in zip(reversed(self.trials), reversed(self.best)) if n <= trials), None)


@dataclass(frozen=True)
class Curves:
    """A figure of curves: a panel for each workload or network. Speeds are relative to `reference` (seconds): the best of all in
    figure 7, AutoTVM's result in figure 10."""

    title: str
    what: str  # a speed of 1 is
    panels: Mapping[str, tuple[Line, ...]]
    reference: Mapping[str, float]

    def speeds(self, panel: str) -> dict[str, tuple[float, ...]]:
        """Of each line of a panel, relative to its reference."""
        return {line.system: tuple(self.reference[panel] / best for best in line.best) for line in self.panels[panel]}

    def to_json(self) -> dict[str, Any]:
        return {"kind": "curves", **asdict(self)}

    @staticmethod
    def from_json(form: Mapping[str, Any]) -> Curves:
        return Curves(
            form["title"],
            form["what"],
            {name: tuple(_line(line) for line in lines) for name, lines in form["panels"].items()},
            form["reference"],
        )


def _line(form: Mapping[str, Any]) -> Line:
    return Line(form["system"], tuple(form["trials"]), tuple(form["seconds"]), tuple(form["best"]), form["note"])


def of_curves(system: str, curves: Sequence[Curve]) -> Line:
    """The median over the seeds, as far as the shortest of them goes; from where on all of them have something."""
    length = min((len(c.best) for c in curves), default=0)
    notes = dict.fromkeys(c.note for c in curves if c.note)
    points = []
    for n in range(length):
        best, seconds = median([c.best[n] for c in curves]), median([c.spent[n] for c in curves])
        if best is not None and seconds is not None:
            points.append((n + 1, seconds, best))
    return _of_points(system, points, notes)


def of_leaders(system: str, curves: Sequence[Curve], again: Mapping[str, float], shown: Sequence[int]) -> Line:
    """The median over the seeds of what those programs take that lead after so many trials, by times that were taken `again`, side
    by side: the times of a search are of other minutes than another one's, and its best one is the luckiest of many."""
    points = []
    for n in shown:
        leaders = [c.leader(n) for c in curves]
        best = median([again.get(text(c)) if c is not None else None for c in leaders])
        if best is not None:
            points.append((n, median([c.spent[min(n, len(c.spent)) - 1] for c in curves if c.spent]) or 0.0, best))
    return _of_points(system, points, {})


def of_outcomes(system: str, outcomes: Sequence[Outcome]) -> Line:
    """The same of searches that told now and then: at every number of trials that some of them told."""
    numbers = sorted({n for outcome in outcomes for n, _, _ in outcome.points})
    notes = dict.fromkeys(o.note for o in outcomes if o.note)
    points = []
    for n in numbers:
        best = median([o.at(n) for o in outcomes])
        seconds = median([next((s for m, s, _ in reversed(o.points) if m <= n), None) for o in outcomes])
        if best is not None and seconds is not None:
            points.append((n, seconds, best))
    return _of_points(system, points, notes)


def _of_points(system: str, points: Sequence[tuple[int, float, float]], notes: Mapping[str, Any]) -> Line:
    trials, seconds, best = zip(*points) if points else ((), (), ())
    return Line(system, tuple(trials), tuple(seconds), tuple(best), "; ".join(notes))


def best_of_all(lines: Sequence[Line]) -> float:
    """The least time at the end of any line; 1 where no line has one."""
    return min((line.last for line in lines if line.last is not None), default=1.0)


# -- tables ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Grid:
    """A table; the paper's own numbers, if it has such, are rows of it."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def to_json(self) -> dict[str, Any]:
        return {"kind": "grid", **asdict(self)}

    @staticmethod
    def from_json(form: Mapping[str, Any]) -> Grid:
        return Grid(form["title"], tuple(form["columns"]), tuple(tuple(row) for row in form["rows"]))

    def markdown(self) -> str:
        lines = [self.columns, tuple("---" for _ in self.columns), *self.rows]
        return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


Figure = Bars | Curves | Grid
_KINDS: dict[str, Any] = {"bars": Bars, "curves": Curves, "grid": Grid}


def from_json(form: Mapping[str, Any]) -> Figure:
    """A figure as `to_json` wrote it."""
    found: Figure = _KINDS[form["kind"]].from_json(form)
    return found


@dataclass(frozen=True)
class Match:
    """What one system needed to be as good as AutoTVM in the end: trials and seconds, of both. None: it never was."""

    network: str
    system: str
    reference: tuple[int, float]  # trials and seconds until AutoTVM had its result
    own: tuple[int, float] | None

    @property
    def cells(self) -> tuple[str, ...]:
        trials, seconds = self.reference
        if self.own is None:
            return self.network, self.system, f"{seconds:,.0f}", "not reached", "-", f"{trials:,}", "not reached", "-"
        own_trials, own_seconds = self.own
        return (
            self.network, self.system,
            f"{seconds:,.0f}", f"{own_seconds:,.0f}", f"{seconds / max(own_seconds, 1e-9):.1f}x",
            f"{trials:,}", f"{own_trials:,}", f"{trials / max(own_trials, 1):.1f}x",
        )  # fmt: skip


def match(network: str, system: str, autotvm: Line, own: Line) -> Match | None:
    """None where AutoTVM has no result to be reached."""
    if autotvm.last is None:
        return None
    final = autotvm.last
    first = next((n, s) for n, s, best in zip(autotvm.trials, autotvm.seconds, autotvm.best) if best <= final)
    return Match(network, system, first, next(((n, s) for n, s, b in zip(own.trials, own.seconds, own.best) if b <= final), None))
