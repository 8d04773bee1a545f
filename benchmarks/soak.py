"""Whether memory stays where it is when the tuner runs for long: catalogue workloads in turn, in one process, with a database.

    python benchmarks/soak.py --minutes 60

Prints a line a minute with the peaks of resident memory. After each round over the workloads, when no run is going on, garbage is
collected and what is free is given back to the system, so that what remains is in use. The first two rounds fill the caches
(the cost model is first used when there are records); after that it fails if more is added than `_SLACK_BYTES` (noise; SQLite's and
NumPy's buffers) and `_TRIAL_BYTES` a trial (structures that the cost model has seen are remembered, a few for each trial, up to a
limit). A run that leaves its executable behind, or its policy with the features of its candidates, costs some 100 KB a run or far
more, and is beyond that bound within the hour.

The workers of a run end with it. What they hold, in peaks per round, is held against the same bound.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import json
import os
import tempfile
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

import about
import tensorsmith as ts
from report import RUN
from tensorsmith.ops import catalogue
from tensorsmith.records import Store
from tensorsmith.tune import Progress

WORKLOADS = ("GMM-1-b1", "DEP-1-b1", "NRM-1-b1", "C2D-4-b1", "TBS-1-b1", "ConvLayer-3-b1")

_TRIALS = 12  # of a workload, before it is the next one's turn
_SAMPLE_SECONDS = 2.0
_WARM_UP = 2  # rounds
_FEWEST_ROUNDS = 3  # after those
_SLACK_BYTES = 12 << 20
_TRIAL_BYTES = 16 << 10
_MEGABYTE = 1 << 20
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Sample:
    """Resident bytes while a run is going on."""

    seconds: float
    trials: int
    tuner: int
    workers: int


@dataclass(frozen=True)
class Round:
    """Every workload had a turn: bytes that the tuner still uses then, and the most that the workers had together."""

    seconds: float
    trials: int
    tuner: int
    workers: int


class Sampler(threading.Thread):
    """Looks at the memory every few seconds until it is told to stop."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.samples: list[Sample] = []
        self.trials = 0
        self._start = time.monotonic()
        self._over = threading.Event()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._start

    def run(self) -> None:
        while not self._over.wait(_SAMPLE_SECONDS):
            workers = sum(map(resident, children()))
            self.samples.append(Sample(self.seconds, self.trials, resident(os.getpid()), workers))

    def stop(self) -> None:
        self._over.set()
        self.join()


def resident(process: int) -> int:
    """Resident bytes of a process; 0 if it is gone."""
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * _PAGE
    except OSError:
        return 0


def children() -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(path.read_text().rpartition(")")[2].split()[1]) == os.getpid():
                found.append(int(path.parent.name))
    return found


def in_use() -> int:
    """Resident bytes of this process without garbage, and without what the allocator keeps for later."""
    gc.collect()
    with contextlib.suppress(AttributeError, OSError):  # glibc has it
        ctypes.CDLL(None).malloc_trim(0)
    return resident(os.getpid())


def soak(minutes: float, database: Path, seed: int) -> tuple[list[Sample], list[Round]]:
    """Tunes the workloads in turn until the time is over; prints a line a minute."""
    sampler = Sampler()
    sampler.start()
    workloads = [catalogue.get(name).workload() for name in WORKLOADS]
    rounds: list[Round] = []
    print(f"{'minute':>6}  {'trials':>7}  {'tuner MB':>9}  {'workers MB':>10}  records in the file")
    shown, begun = 0, 0.0
    for turn in range(1_000_000):
        left = 60 * minutes - sampler.seconds
        if left <= 0:
            break
        before = sampler.trials

        def count(progress: Progress, before: int = before) -> None:
            sampler.trials = before + progress.trials

        workload = workloads[turn % len(workloads)]
        ts.tune(workload, trials=_TRIALS, seconds=left, database=database, seed=seed, on_progress=count)
        while sampler.seconds >= 60 * (shown + 1):
            shown += 1
            print(line(shown, sampler.samples, database), flush=True)
        if (turn + 1) % len(workloads) == 0:
            workers = max((s.workers for s in sampler.samples if s.seconds >= begun), default=0)
            begun = sampler.seconds
            rounds.append(Round(begun, sampler.trials, in_use(), workers))
    sampler.stop()
    return sampler.samples, rounds


def line(minute: int, samples: list[Sample], database: Path) -> str:
    """The peaks of a minute."""
    recent = [s for s in samples if 60 * (minute - 1) <= s.seconds < 60 * minute] or samples[-1:]
    tuner, workers = max(s.tuner for s in recent) / _MEGABYTE, max(s.workers for s in recent) / _MEGABYTE
    with Store.open(database, read_only=True) as store:
        records = sum(s.trials for s in store.workloads())
    return f"{minute:>6}  {recent[-1].trials:>7}  {tuner:>9.1f}  {workers:>10.1f}  {records}"


@dataclass(frozen=True)
class Growth:
    """How memory went after the warm-up, by a straight line through the rounds. Bytes."""

    rounds: int
    minutes: float
    trials: int
    tuner: float
    workers: float

    @property
    def bound(self) -> float:
        return _SLACK_BYTES + _TRIAL_BYTES * self.trials

    def __str__(self) -> str:
        head = f"growth in {self.rounds} rounds after the warm-up, {self.minutes:.1f} minutes, {self.trials} trials"
        rows = [
            f"{name:>8}: {grown / _MEGABYTE:+.1f} MB, {grown / _MEGABYTE / self.minutes:+.2f} MB a minute, "
            f"{grown / 1024 / self.trials:+.1f} KB a trial"
            for name, grown in (("tuner", self.tuner), ("workers", self.workers))
        ]
        return "\n".join([f"{head}; at most {self.bound / _MEGABYTE:.0f} MB are allowed:", *rows])


def growth(rounds: list[Round]) -> Growth | None:
    """The growth since the end of the warm-up; None if there are too few rounds to tell."""
    rounds = rounds[_WARM_UP - 1 :]
    if len(rounds) <= _FEWEST_ROUNDS:
        return None
    times = np.array([r.seconds for r in rounds])
    span = float(times[-1] - times[0])
    tuner, workers = (float(np.polyfit(times, [getattr(r, who) for r in rounds], 1)[0]) * span for who in ("tuner", "workers"))
    return Growth(len(rounds) - 1, span / 60, rounds[-1].trials - rounds[0].trials, tuner, workers)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--db", type=Path, help="a record file to use; otherwise one that is gone in the end")
    parser.add_argument("--json", type=Path, help="file for all samples, rounds and the growth")
    options = parser.parse_args()
    this_run = about.about()
    print(about.text(this_run), flush=True)
    with tempfile.TemporaryDirectory(prefix="tensorsmith-soak-") as folder:
        samples, rounds = soak(options.minutes, options.db or Path(folder) / "soak.db", options.seed)
    found = growth(rounds)
    if options.json:
        data = {RUN: this_run, "samples": [asdict(s) for s in samples], "rounds": [asdict(r) for r in rounds]}
        options.json.write_text(json.dumps(data | {"growth": asdict(found) if found else None}))
    print("in use after each round, MB:", *(f"{r.tuner / _MEGABYTE:.1f}" for r in rounds))
    if found is None:
        raise SystemExit(f"too short to tell: {len(rounds)} rounds over the {len(WORKLOADS)} workloads; give more --minutes")
    print(found)
    if max(found.tuner, found.workers) > found.bound:
        raise SystemExit("memory grows beyond the bound")


if __name__ == "__main__":
    main()
