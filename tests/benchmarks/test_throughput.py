"""Requests per second: every client is served, everyone computes the same; nothing depends on how fast."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np
import pytest
from tests.cli.models import write_dense

import throughput


def test_every_client_is_served_and_every_request_counted() -> None:
    counts, lock = [0, 0, 0], threading.Lock()

    def client(n: int):
        def call() -> np.ndarray:
            with lock:
                counts[n] += 1
            time.sleep(1e-4)
            return np.zeros(1)

        return call

    rate, times = throughput.served([client(n) for n in range(3)], 0.05)
    assert rate > 0 and len(times) == sum(counts) - 3 and min(counts) >= 2  # each calls once before the clock begins


def test_both_of_our_ways_have_a_row_for_each_number_of_clients(tmp_path: Path) -> None:
    inputs = {"x": np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)}
    with throughput.ours(str(write_dense(tmp_path / "dense.onnx", (4, 8))), inputs, 2) as made:
        found = throughput.contest(made, [1, 2], 0.01, 1)
    assert {(m.contestant, m.clients) for m in found} == {(n, c) for n in (throughput.OURS, throughput.OURS_CALLED) for c in (1, 2)}
    assert all(m.rate > 0 and m.median <= m.p99 for m in found)


def test_who_computes_something_else_is_named(tmp_path: Path) -> None:
    inputs = {"x": np.ones((4, 8), np.float32)}
    with throughput.ours(str(write_dense(tmp_path / "dense.onnx", (4, 8))), inputs, 1) as made:
        wrong = {**made, "another": lambda: lambda: made[throughput.OURS]()() + 100}
        with pytest.raises(SystemExit, match="another gives another answer"):
            throughput.contest(wrong, [1], 0.01, 1)
