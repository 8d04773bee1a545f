"""Whether memory stays where it is when the tuner runs for long: catalogue workloads in turn, in one process, with a database.

    python benchmarks/soak.py --minutes 60

Prints a line a minute and the growth after the warm-up, and fails if that is beyond the bound. What may grow: each run is told
all earlier trials of its workload, a candidate with its features each, so a trial may cost `_TRIAL_BYTES`; and the allocator
keeps pages of what was freed, and SQLite its cache, so some megabytes more or less mean nothing (`_SLACK_BYTES`). What must not is
anything kept per run or per candidate that is built: an executable, a compiler's module, a worker's pipes. The smallest of those
takes some 100 KB, so a run of `_TRIALS` trials that leaks one is beyond the bound within the hour, and one that leaks an executable
per candidate within minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import tensorsmith as ts
from tensorsmith.ops import catalogue
from tensorsmith.records import Store
from tensorsmith.tune import Progress

WORKLOADS = ("GMM-1-b1", "DEP-1-b1", "NRM-1-b1", "C2D-4-b1", "TBS-1-b1", "ConvLayer-3-b1")

_TRIALS = 12  # of a workload, before it is the next one's turn
_SAMPLE_SECONDS = 2.0
_TRIAL_BYTES = 16 << 10
_SLACK_BYTES = 32 << 20
_MEGABYTE = 1 << 20
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Sample:
    """Resident bytes at some moment. `round`: how often every workload had its turn before."""

    seconds: float
    round: int
    trials: int
    tuner: int
    workers: int


class Sampler(threading.Thread):
    """Looks at the memory every few seconds until it is told to stop."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.samples: list[Sample] = []
        self.trials = self.round = 0
        self._start = time.monotonic()
        self._over = threading.Event()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._start

    def run(self) -> None:
        while not self._over.wait(_SAMPLE_SECONDS):
            workers = sum(map(resident, children()))
            self.samples.append(Sample(self.seconds, self.round, self.trials, resident(os.getpid()), workers))

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
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == os.getpid():
            found.append(int(path.parent.name))
    return found


def soak(minutes: float, database: Path, seed: int) -> list[Sample]:
    """Tunes the workloads in turn until the time is over; prints a line a minute."""
    sampler = Sampler()
    sampler.start()
    workloads = [catalogue.get(name).workload() for name in WORKLOADS]
    print(f"{'minute':>6}  {'trials':>7}  {'tuner MB':>9}  {'workers MB':>10}  records in the file")
    shown = 0
    while sampler.seconds < 60 * minutes:
        for workload in workloads:
            left = 60 * minutes - sampler.seconds
            if left <= 0:
                break
            before = sampler.trials

            def count(progress: Progress, before: int = before) -> None:
                sampler.trials = before + progress.trials

            ts.tune(workload, trials=_TRIALS, seconds=left, database=database, seed=seed, on_progress=count)
            while sampler.seconds >= 60 * (shown + 1):
                shown += 1
                print(line(shown, sampler.samples, database), flush=True)
        else:
            sampler.round += 1
    sampler.stop()
    return sampler.samples


def line(minute: int, samples: list[Sample], database: Path) -> str:
    """The peaks of a minute."""
    recent = [s for s in samples if 60 * (minute - 1) <= s.seconds < 60 * minute]
    tuner, workers = max(s.tuner for s in recent) / _MEGABYTE, max(s.workers for s in recent) / _MEGABYTE
    with Store.open(database, read_only=True) as store:
        records = sum(s.trials for s in store.workloads())
    return f"{minute:>6}  {recent[-1].trials:>7}  {tuner:>9.1f}  {workers:>10.1f}  {records}"


@dataclass(frozen=True)
class Growth:
    """How resident memory went after the warm-up, by a straight line through the samples. Bytes."""

    minutes: float
    trials: int
    tuner: float
    workers: float

    @property
    def bound(self) -> float:
        return _SLACK_BYTES + _TRIAL_BYTES * self.trials

    def __str__(self) -> str:
        rows = [
            f"{name:>7}: {grown / _MEGABYTE:+.1f} MB, {grown / _MEGABYTE / self.minutes:+.2f} MB a minute, "
            f"{grown / 1024 / self.trials:+.1f} KB a trial"
            for name, grown in (("tuner", self.tuner), ("workers", self.workers))
        ]
        allowed = f"allowed are {self.bound / _MEGABYTE:.0f} MB"
        head = f"growth after the warm-up, in {self.minutes:.1f} minutes and {self.trials} trials ({allowed}):"
        return "\n".join([head, *rows])


def growth(samples: list[Sample]) -> Growth | None:
    """The growth from the second round on (the first fills caches); None if there are not two whole rounds to compare."""
    after = [s for s in samples if s.round >= 1]
    if not after or after[-1].round < 3:
        return None
    times = np.array([s.seconds for s in after])
    span = times[-1] - times[0]
    tuner, workers = (float(np.polyfit(times, [getattr(s, who) for s in after], 1)[0] * span) for who in ("tuner", "workers"))
    return Growth(span / 60, after[-1].trials - after[0].trials, tuner, workers)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--db", type=Path, help="a record file to use; otherwise one that is gone in the end")
    parser.add_argument("--json", type=Path, help="file for all samples and the growth")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tensorsmith-soak-") as folder:
        samples = soak(options.minutes, options.db or Path(folder) / "soak.db", options.seed)
    found = growth(samples)
    if options.json:
        options.json.write_text(json.dumps({"samples": [vars(s) for s in samples], "growth": vars(found) if found else None}))
    if found is None:
        raise SystemExit(
            f"too short to tell: {samples[-1].round} rounds over the {len(WORKLOADS)} workloads, at least 3 are needed"
        )
    print(found)
    if max(found.tuner, found.workers) > found.bound:
        raise SystemExit("memory grows beyond the bound")


if __name__ == "__main__":
    main()
