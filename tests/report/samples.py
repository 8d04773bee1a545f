"""Record files and data for the tests of reports. Times are given, nothing is measured."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from tests.records.samples import TARGET, TIMING, candidate, failure, matmul, trial

from tensorsmith.backends import backend_of
from tensorsmith.lang.workload import Workload
from tensorsmith.records import Record, Store, Timing
from tensorsmith.records import store as store_module
from tensorsmith.records.keys import IN_NETWORK
from tensorsmith.search.trial import Status, Trial

STEPS = Timing(IN_NETWORK, TIMING.threads)
SMALL, LARGE = matmul(32, 16), matmul(64, 64, name="D")


def record(workload: Workload, seconds: float | None, created: float, i: int = 4, run: str = "", at_least: bool = False) -> Record:
    """Of a candidate with tiles of `i` rows; without seconds, one that crashed."""
    found = failure(workload, i=i) if seconds is None else trial(workload, seconds, i, at_least=at_least)
    return Record(found, TARGET, TIMING, run, created, f"{created}-{i}")


def default(workload: Workload, seconds: float) -> Trial:
    return Trial(backend_of(TARGET).default_candidate(workload, TARGET), Status.OK, seconds)


Batch = tuple[float, Workload, Timing, list[Trial], str]


def fill(store: Store, batches: Iterable[Batch]) -> None:
    """Adds trials at given moments."""
    with pytest.MonkeyPatch.context() as patch:
        for moment, workload, timing, trials, run in batches:
            patch.setattr(store_module.time, "time", lambda moment=moment: moment)
            store.add(workload, TARGET, timing, trials, run=run)


def tuned(path: Path) -> Path:
    """A file of two tasks, tuned in turns: one with a final and times of its steps in a network, one without its default."""
    crashed = failure(SMALL, i=5)
    refused = [failure(SMALL, Status.REFUSED, f"{n} registers <b>", i=n) for n in (6, 7)]
    with Store.open(path) as store:
        fill(
            store,
            [
                (1000.0, SMALL, TIMING, [default(SMALL, 4e-3), trial(SMALL, 8e-3, 1), crashed], ""),
                (1010.0, LARGE, TIMING, [trial(LARGE, 9e-3, 1)], ""),
                (1020.0, SMALL, TIMING, [trial(SMALL, 2e-3, 2), *refused], ""),
                (9000.0, LARGE, TIMING, [trial(LARGE, 3e-3, 4), trial(LARGE, 5e-3, 2, at_least=True)], ""),
                (9010.0, SMALL, TIMING, [trial(SMALL, 1e-3, 4)], ""),
                (9020.0, SMALL, TIMING, [default(SMALL, 5e-3), trial(SMALL, 1.5e-3, 4)], "winner"),
                (9030.0, SMALL, STEPS, [default(SMALL, 6e-3)], "finalists"),
                (9031.0, SMALL, STEPS, [trial(SMALL, 2.5e-3, 4)], "winner"),
            ],
        )
    return path


__all__ = ["LARGE", "SMALL", "STEPS", "TARGET", "TIMING", "candidate", "default", "fill", "record", "tuned"]
