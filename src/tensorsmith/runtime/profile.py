"""Where the time of a network goes: per step, and per kernel as a table for people."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class StepTime:
    """Seconds of one step, the best of several runs."""

    kernel: int | None  # its number; None for a copy
    name: str
    result: str  # type and shape of what it gives
    seconds: float
    flops: int = 0
    schedule: str = ""


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
            rows.append(KernelTime(one.name, one.result, len(steps), seconds, seconds / total, flops, one.schedule))
        return sorted(rows, key=lambda row: -row.seconds)

    def __str__(self) -> str:
        rows = [("kernel", "result", "calls", "time", "share", "GFLOP/s", "schedule")]
        for k in self.kernels:
            rate = f"{k.flops / k.seconds / 1e9:.1f}" if k.flops and k.seconds else ""
            rows.append((k.name, k.result, str(k.calls), f"{k.seconds * 1e6:,.2f} us", f"{k.share:.1%}", rate, k.schedule))
        widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
        texts = (0, 1, 6)  # columns that start at the left
        lines = ["  ".join(f"{x:{'<' if n in texts else '>'}{widths[n]}}" for n, x in enumerate(row)).rstrip() for row in rows]
        return "\n".join([*lines, f"{self.name}: {len(self.steps)} steps, {self.seconds * 1e6:,.2f} us"])
