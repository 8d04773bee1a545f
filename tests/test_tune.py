"""Tuning end to end, tiny: real workers, a real database file, a right answer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tensorsmith as ts
from tensorsmith.errors import UserError
from tensorsmith.records.keys import Timing
from tensorsmith.records.record import FINALS
from tensorsmith.records.store import Store
from tensorsmith.targets.target import native
from tensorsmith.tune import Progress

N = 16


def matmul() -> list:
    a = ts.placeholder((N, N), name="A")
    b = ts.placeholder((N, N), name="B")
    k = ts.reduce_axis(N, name="k")
    return [a, b, ts.compute((N, N), lambda i, j: ts.sum(a[i, k] * b[k, j], axis=k), name="C")]


def test_tune_stores_resumes_and_answers(tmp_path: Path) -> None:
    database = tmp_path / "tune.db"
    seen: list[int] = []
    kernel = ts.tune(matmul(), trials=4, database=database, on_progress=lambda p: seen.append(p.trials))
    rng = np.random.default_rng(0)
    a, b = (rng.random((N, N), np.float32) for _ in range(2))
    np.testing.assert_allclose(kernel(a, b), a @ b, rtol=1e-5)
    assert seen[-1] == 4

    ts.tune(matmul(), trials=3, database=database, on_progress=lambda p: None)
    with Store.open(database) as store:
        timing = Timing("warm", native().cores)
        history = [r for r in store.history(ts.workload(matmul()), native(), timing) if r.run not in FINALS]
        assert len(history) == 7
        assert len({r.key for r in history}) == 7  # nothing was measured twice

    again = ts.compile(matmul(), database=database)
    np.testing.assert_allclose(again(a, b), a @ b, rtol=1e-5)


def test_no_trials_gives_the_default() -> None:
    kernel = ts.tune(matmul(), trials=0)
    eye = np.eye(N, dtype=np.float32)
    np.testing.assert_array_equal(kernel(eye, eye), eye)


def test_nothing_to_compute_needs_no_search() -> None:
    a, b = ts.placeholder((5, 0), name="A"), ts.placeholder((0, 3), name="B")
    k = ts.reduce_axis(0, name="k")
    seen: list[int] = []
    c = ts.compute((5, 3), lambda i, j: ts.sum(a[i, k] * b[k, j], axis=k), name="C")
    kernel = ts.tune([a, b, c], trials=4, on_progress=lambda p: seen.append(p.trials))
    assert np.array_equal(kernel(np.zeros((5, 0), np.float32), np.zeros((0, 3), np.float32)), np.zeros((5, 3)))
    assert not any(seen)


def test_a_time_limit_ends_it() -> None:
    seen: list[Progress] = []
    ts.tune(matmul(), trials=10_000, seconds=0.0, on_progress=seen.append)
    assert not seen


def test_a_time_limit_in_the_middle_keeps_what_is_done() -> None:
    seen: list[Progress] = []
    kernel = ts.tune(matmul(), seconds=4.0, on_progress=seen.append)
    assert callable(kernel)
    assert all(p.wanted is None and p.seconds == 4.0 for p in seen)


def test_cold_times_are_kept_apart(tmp_path: Path) -> None:
    ts.tune(matmul(), trials=2, database=tmp_path / "tune.db", cache="cold", on_progress=lambda p: None)
    with Store.open(tmp_path / "tune.db") as store:
        (summary,) = store.workloads()
    assert summary.timing == Timing("cold", native().cores) and summary.trials >= 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"trials": -1}, "trials is -1"),
        ({"effort": "hard"}, "no effort 'hard'"),
        ({"seconds": -2}, "seconds is -2"),
        ({"cache": "hot"}, 'cache is "warm", "streamed" or "cold"'),
        ({"seconds": "10m"}, "seconds is '10m'"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": "x"}, "seed is 'x'"),
        ({"target": "avx2"}, "there is no target 'avx2'; `ts.targets\\(\\)` lists all"),
        ({"target": 2}, "target is 2; give a tensorsmith.Target"),
        ({"database": 5}, "database is 5"),
        ({"on_progress": 5}, "on_progress is 5"),
    ],
)
def test_wrong_arguments(options: dict, message: str) -> None:
    with pytest.raises(ts.UserError, match=message):
        ts.tune(matmul(), **options)


def test_too_large_for_memory():
    A = ts.placeholder((8,), name="A")
    B = ts.compute((1 << 45, 8), lambda i, j: A[j] + 1.0, name="B")
    lines: list[object] = []
    with pytest.raises(UserError, match=r"B f32\[35184372088832, 8\] .* needs 1,125,899,906,842,656 bytes \(1 PiB\)"):
        ts.tune([A, B], trials=2, on_progress=lines.append)
    assert not lines
