"""Where the time of a network goes: per step, and per kernel as a table for people."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path

from tensorsmith.show.line import line, many
from tensorsmith.show.table import Cell, Number, table
from tensorsmith.show.units import rate, time

_REPORT = "tensorsmith.report"  # imported by those who want a page: it needs more than what runs


@dataclass(frozen=True)
class StepTime:
    """Seconds of one step, the best of several runs."""

    kernel: int | None  # its number; None for a copy
    name: str
    result: str  # type and shape of what it gives
    seconds: float
    flops: int = 0
    schedule: str = ""
    bytes: int = 0  # of what it reads and writes, each once

    def __repr__(self) -> str:
        return line(self, titled(self.name, self.result), f": {time(self.seconds)}")


@dataclass(frozen=True)
class KernelTime:
    """Seconds of all steps that run one kernel; `share` is of the whole network's."""

    name: str
    result: str
    calls: int
    seconds: float
    share: float
    flops: int
    schedule: str
    bytes: int = 0

    @property
    def title(self) -> str:
        """Its name with what it gives: that of its task."""
        return titled(self.name, self.result)

    def __repr__(self) -> str:
        return line(self, self.title, f": {many(self.calls, 'call')}, {time(self.seconds)}, {self.share:.1%}")


def titled(name: str, result: str) -> str:
    """The name of a task has type and shape of what it gives in it; other kernels' have not."""
    return name if not result or name.endswith(result) else f"{name} {result}"


@dataclass(frozen=True)
class Profile:
    """`steps` in the order they run. Printed, it is a table of kernels, the costliest first."""

    name: str
    steps: tuple[StepTime, ...]

    @property
    def seconds(self) -> float:
        """Of all steps together."""
        return sum(step.seconds for step in self.steps)

    @property
    def kernels(self) -> list[KernelTime]:
        """The steps by kernel, the costliest first."""
        groups: dict[int | None, list[StepTime]] = {}
        for step in self.steps:
            groups.setdefault(step.kernel, []).append(step)
        total = self.seconds or 1.0
        rows = []
        for steps in groups.values():
            seconds, flops, one = sum(s.seconds for s in steps), sum(s.flops for s in steps), steps[0]
            moved = sum(s.bytes for s in steps)
            rows.append(KernelTime(one.name, one.result, len(steps), seconds, seconds / total, flops, one.schedule, moved))
        return sorted(rows, key=lambda row: -row.seconds)

    def report(self, path: str | Path) -> None:
        """Writes a page to look at: where the time goes, and how near each kernel is to what this machine can do.

        With the records of a tuning besides, `tensorsmith.report("tune.db", path, profile=...)`. Needs the extra `report`.
        """
        importlib.import_module(_REPORT).report(self, path)

    def __repr__(self) -> str:
        counts = f"{many(len(self.kernels), 'kernel')} in {many(len(self.steps), 'step')}"
        return line(self, self.name, f": {counts}, {time(self.seconds)}")

    def _repr_html_(self) -> str:
        columns = ("kernel", "calls", "time", "share", "GFLOP/s", "schedule")
        rows: list[list[Cell]] = [
            [
                k.title,
                k.calls,
                Number(k.seconds, f"{k.seconds * 1e6:,.2f} us"),
                Number(k.share, f"{k.share:.1%}"),
                Number(k.flops / k.seconds if k.seconds else 0.0, rate(k.flops, k.seconds)),
                k.schedule,
            ]
            for k in self.kernels
        ]
        note = f"{many(len(self.steps), 'step')}, {self.seconds * 1e6:,.2f} us"
        return table(columns, rows, title=self.name, note=note, sortable=True)

    def __str__(self) -> str:
        rows = [("kernel", "calls", "time", "share", "GFLOP/s", "schedule")]
        for k in self.kernels:
            rate = f"{k.flops / k.seconds / 1e9:.1f}" if k.flops and k.seconds else ""
            rows.append((k.title, str(k.calls), f"{k.seconds * 1e6:,.2f} us", f"{k.share:.1%}", rate, k.schedule))
        widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
        texts = (0, 5)  # columns that start at the left
        lines = ["  ".join(f"{x:{'<' if n in texts else '>'}{widths[n]}}" for n, x in enumerate(row)).rstrip() for row in rows]
        return "\n".join([*lines, f"{self.name}: {len(self.steps)} steps, {self.seconds * 1e6:,.2f} us"])
