"""Tuning for a machine that is not here: by estimates, which are called so, and which nobody stores."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest

import tensorsmith as ts
from tensorsmith.backends import backend_of
from tensorsmith.backends.gpu.cuda import driver as cuda
from tensorsmith.backends.gpu.cuda import ptxas
from tensorsmith.errors import UserError
from tensorsmith.graph.builder import Builder
from tensorsmith.measure.measurer import Measurer
from tensorsmith.tuning import estimated
from tensorsmith.tuning.estimated import EstimatedProgress, is_estimated


@pytest.fixture(autouse=True)
def no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the machine has: no CUDA, no assembler, and whoever measures has failed."""

    def missing(number: int = 0) -> None:
        raise UserError("no CUDA here: there is no libcuda.so.1; install NVIDIA's driver")

    def measured(*arguments: object, **options: object) -> None:
        raise AssertionError("something is measured")

    monkeypatch.setattr(cuda, "driver", missing)
    monkeypatch.setattr(ptxas, "knows", lambda architecture: False)
    monkeypatch.setattr(Measurer, "__init__", measured)


def product() -> list[object]:
    a, b = ts.placeholder((96, 64), name="A"), ts.placeholder((64, 128), name="B")
    k = ts.reduce_axis(64, name="k")
    return [a, b, ts.compute((96, 128), lambda i, j: ts.sum(a[i, k] * b[k, j], axis=k), name="C")]


def test_a_workload(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernel = ts.tune(product(), target="a100", trials=12, database=tmp_path / "tune.db")
    said = capsys.readouterr().out
    assert "a100 is not here: the search goes by estimated times, measures nothing and stores nothing" in said
    times = [line for line in said.splitlines() if re.search(r"\d (us|ms|ns)", line)]
    assert times and all("estimated" in line for line in times), said
    assert not (tmp_path / "tune.db").exists()
    assert kernel.network.kernels[0].schedule in ("estimated", "default") and ".target sm_80" in kernel.source("ptx")
    with pytest.raises(UserError, match="was compiled for a100, and no CUDA here"):
        kernel(np.zeros((96, 64), np.float32), np.zeros((64, 128), np.float32))


def test_what_is_chosen_is_the_best_of_what_was_seen() -> None:
    seen: list[EstimatedProgress] = []
    kernel = ts.tune(product(), target="a100", trials=24, on_progress=seen.append)
    assert [p.trials for p in seen][-1] == 24 and all(isinstance(p, EstimatedProgress) for p in seen)
    best = [p.estimated_seconds for p in seen if p.estimated_seconds is not None]
    assert best == sorted(best, reverse=True) and seen[-1].default_seconds is not None
    assert "estimated, not measured" in str(seen[-1]) and "(estimated)" in seen[-1].line(200)
    expected = "estimated" if best[-1] < seen[-1].default_seconds else "default"
    assert kernel.network.kernels[0].schedule == expected


def test_the_same_seed_gives_the_same_program() -> None:
    first, second = (ts.tune(product(), target="a100", trials=8, seed=3, on_progress=lambda p: None) for _ in range(2))
    assert first.source("kernels") == second.source("kernels")


def test_the_default_schedule_is_kept_where_nothing_is_better(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were everything estimated alike, a search would have found nothing, and one that is worse is not taken."""
    target = ts.Target.named("a100")
    backend = backend_of(target)
    first = iter([1e-6])  # the default schedule is asked about first
    slower = dataclasses.replace(backend, estimate=lambda candidate, target: next(first, 2e-6))
    monkeypatch.setattr(estimated, "backend_of", lambda target: slower)
    said: list[EstimatedProgress] = []
    kernel = ts.tune(product(), target=target, trials=4, on_progress=said.append)
    assert kernel.network.kernels[0].schedule == "default" and said[-1].estimated_seconds == 2e-6


def test_time_is_limited() -> None:
    assert ts.tune(product(), target="a100", seconds=0.0, on_progress=lambda p: None).network.kernels[0].schedule == "default"


def test_only_what_is_not_here_is_estimated() -> None:
    assert is_estimated(ts.Target.named("a100")) and is_estimated(ts.Target.named("mi300x"))
    assert not is_estimated(ts.Target.native()) and not is_estimated(ts.Target.named("neoverse-n1"))


def network() -> ts.Model:
    """Two dense layers of different sizes."""
    b = Builder("dense")
    h = b.input("x", (16, 32), "f32")
    for before, after in ((32, 48), (48, 64)):
        h = b.add("relu", [b.add("matmul", [h, b.constant(np.ones((before, after), np.float32))])])
    b.output("y", h)
    return ts.Model.from_graph(b.graph())


def test_a_network(capsys: pytest.CaptureFixture[str]) -> None:
    made = ts.tune(network(), target="a100", trials=12)
    said = capsys.readouterr().out
    assert said.count("nothing was measured") == 2 and {k.schedule for k in made.network.kernels} <= {"estimated", "default"}
    assert made.network.target.name == "a100" and len(made.network.kernels) >= 2
    several = ts.tune([network(), network()], target="a100", trials=4, on_progress=lambda p: None)
    assert len(several) == 2
