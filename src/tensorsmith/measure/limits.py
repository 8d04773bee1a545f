"""All numbers of the measurement, in one place."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """What a candidate may take, and how long it is timed. Seconds and bytes.

    Timeouts only have to end what would never end: they are generous, since a busy machine must not turn a good candidate into a
    failed one. What is merely slow is cut short by `cut_ratio` instead.
    """

    # Building: a multiple of the median build so far. A build takes 20-150 ms; register tiles far too large may take LLVM minutes.
    build_factor: float = 50.0
    build_floor: float = 5.0
    build_ceiling: float = 30.0  # also before the first build
    # One run: a multiple of the incumbent. Random schedules are up to some 100 times slower than good ones.
    run_factor: float = 500.0
    run_floor: float = 3.0
    run_ceiling: float = 30.0  # also without an incumbent; but at least 10 times the incumbent
    # A worker imports NumPy and LLVM in 0.4 s; on a loaded machine with a cold disk it is far more.
    start_seconds: float = 120.0
    start_attempts: int = 2
    # One that the system kills while it starts (it does so for want of memory), or has no room for, is tried again after a pause,
    # which doubles each time: half a minute in all, in which another program may be done.
    killed_attempts: int = 6
    killed_pause: float = 1.0
    # Address space a worker may add to what it has when ready, besides `memory_copies` times the workload's arrays.
    memory_bytes: int = 4 << 30
    memory_copies: int = 8
    # A worker is replaced after so many candidates, or when its resident memory has grown by that much.
    recycle_after: int = 2000
    recycle_bytes: int = 1 << 30
    # Executables a worker keeps between building and timing: more make phases longer and switches rarer, and use memory.
    held: int = 4
    held_bytes: int = 512 << 20  # of packed constants and outputs, per worker; at least one executable is held
    # Workloads that a worker is set up for at a time, and bytes of their inputs and outputs; at least one.
    benches: int = 16
    bench_bytes: int = 512 << 20
    # Timing: rounds of at least `round_seconds` (the clock and a switch to the kernel are then under 1 %), until both `rounds` and
    # `timing_seconds` are reached; slow kernels stop after `most_seconds`, with at least one round.
    round_seconds: float = 0.4e-3
    rounds: int = 5
    timing_seconds: float = 5e-3
    most_seconds: float = 0.06
    # After the first two rounds a candidate this many times slower than the incumbent is cut short.
    cut_ratio: float = 2.0

    def build_timeout(self, median: float | None) -> float:
        """Seconds a build may take; `median` of the builds so far."""
        if median is None:
            return self.build_ceiling
        return min(max(self.build_floor, self.build_factor * median), self.build_ceiling)

    def run_timeout(self, incumbent: float | None) -> float:
        """Seconds one run may take."""
        if incumbent is None:
            return self.run_ceiling
        return max(self.run_floor, min(self.run_ceiling, self.run_factor * incumbent), 10 * incumbent)

    def timing_timeout(self, incumbent: float | None) -> float:
        """Seconds a whole timing may take: a run that is too long, twice, and all rounds."""
        return 2 * self.run_timeout(incumbent) + 2 * self.most_seconds

    def cut_above(self, incumbent: float | None) -> float | None:
        return None if incumbent is None else self.cut_ratio * incumbent
