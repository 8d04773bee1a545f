"""Where the time of a measurer goes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Times:
    """Seconds. `wall` is what the caller waited; `build` and `check` are the workers' own, which run side by side.

    `run`: the exclusive timing, when all cores belong to one kernel. `idle`: seconds in which a worker waited for the others,
    or started, summed over the workers.
    """

    workers: int
    trials: int = 0
    wall: float = 0.0
    start: float = 0.0  # until the reference was made
    build: float = 0.0
    check: float = 0.0
    run: float = 0.0

    @property
    def idle(self) -> float:
        return max(0.0, self.workers * (self.wall - self.start - self.run) - self.build - self.check)

    @property
    def trials_per_second(self) -> float:
        """After the start."""
        return self.trials / max(1e-9, self.wall - self.start)

    def __str__(self) -> str:
        return (
            f"{self.trials} trials in {self.wall:.2f} s, {self.trials_per_second:.1f} a second, start {self.start:.2f} s: "
            f"build {self.build:.2f} s and check {self.check:.2f} s on {self.workers} workers, "
            f"run {self.run:.2f} s alone, idle {self.idle:.2f} s"
        )
