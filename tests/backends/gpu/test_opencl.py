"""Code for OpenCL, on the device that is here: PoCL, which comes with the packages of `.[dev]`, or a GPU."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tests.backends.gpu.drawn import OPENCL, QUICK, WORKLOADS, candidates, problems

import tensorsmith as ts
from tensorsmith.backends import backend_of
from tensorsmith.backends.gpu.launch import Launches
from tensorsmith.build import build
from tensorsmith.errors import UserError
from tensorsmith.graph.builder import Builder
from tensorsmith.lang.compare import random_inputs
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.lang.workload import Workload
from tensorsmith.measure import Measurer
from tensorsmith.records.keys import Timing
from tensorsmith.records.store import Store
from tensorsmith.testing import check_backend

RANDOM = np.random.default_rng(5)
X, W = RANDOM.uniform(-1, 1, (19, 33)).astype(np.float32), RANDOM.uniform(-1, 1, (33, 21)).astype(np.float32)


def matmul() -> Workload:
    a, b = ts.placeholder((19, 33), name="A"), ts.placeholder((33, 21), name="B", constant=True)
    k = ts.reduce_axis(33, name="k")
    return ts.workload([a, b, ts.compute((19, 21), lambda i, j: ts.sum(a[i, k] * b[k, j], axis=k), name="C")])


def check(name: str, count: int, seed: int) -> int:
    """Runs candidates; how many."""
    workload = WORKLOADS[name]
    inputs = random_inputs(workload, 0)
    want = evaluate(workload, inputs, precise=True)
    drawn = candidates(workload, count, seed)
    for candidate in drawn:
        assert problems(workload, want, build(candidate, OPENCL)(**inputs)) == [], candidate
    return len(drawn)


@pytest.mark.parametrize("name", QUICK)
def test_a_random_candidate_is_right(name: str) -> None:
    assert check(name, 1, 11) == 1


@pytest.mark.gpu
@pytest.mark.parametrize("name", WORKLOADS)
def test_random_candidates_are_right(name: str) -> None:
    """300 and more, over all workloads."""
    assert check(name, 12, 12) >= 1


@pytest.mark.parametrize("name", ["softmax-small", "C2D-small", "layer_norm-small", "add-small"])
def test_the_default_schedule_is_right(name: str) -> None:
    workload = WORKLOADS[name]
    inputs = random_inputs(workload, 0)
    kernel = ts.compile(workload, target="opencl")
    assert kernel.network.kernels[0].schedule == "default"
    assert problems(workload, evaluate(workload, inputs, precise=True), kernel(**inputs)) == []


def test_the_backend_keeps_its_promises() -> None:
    check_backend(backend_of(OPENCL), [OPENCL])


def test_compile_call_bind_and_sources() -> None:
    kernel = ts.compile(matmul(), target="opencl")
    np.testing.assert_allclose(kernel(X, W), X @ W, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(kernel.bind(B=W)(X), X @ W, rtol=1e-4, atol=1e-5)
    assert "__kernel" in kernel.source("opencl") and "__global__" in kernel.source("cuda")
    assert ".visible .entry" in kernel.source("ptx")
    with pytest.raises(UserError, match="code for opencl has no text 'asm'"):
        _ = kernel.assembly


def test_save_and_load(tmp_path) -> None:
    bound = ts.compile(matmul(), target="opencl").bind(B=W)
    bound.save(tmp_path / "kernel.tsm")
    loaded = ts.load_executable(tmp_path / "kernel.tsm")
    assert loaded.network.target == OPENCL and np.array_equal(loaded(X), bound(X))


def test_a_network(tmp_path) -> None:
    b = Builder("net")
    x = b.input("x", (19, 33), "f32")
    hidden = b.add("relu", [b.add("matmul", [x, b.constant(W, "w")])])
    b.output("y", b.add("softmax", [b.add("matmul", [hidden, b.constant(np.ascontiguousarray(W.T), "v")])], axis=-1))
    network = ts.compile(ts.Model.from_graph(b.graph()), target="opencl")
    host = ts.compile(ts.Model.from_graph(b.graph()))
    network.save(tmp_path / "net.tsm")
    for one in (network, ts.load_executable(tmp_path / "net.tsm")):
        np.testing.assert_allclose(one(X), host(X), rtol=1e-4, atol=1e-5)
        assert len(one.profile(rounds=1).steps) == len(network.network.steps)


def test_measure_and_store(tmp_path) -> None:
    """In worker processes; and records are found again."""
    workload = matmul()
    (candidate,) = candidates(workload, 1, 3)
    with Measurer(workload, OPENCL, workers=1) as measurer:
        (trial,) = measurer.measure([candidate])
    assert trial.ok and trial.seconds > 0, trial
    assert re.fullmatch(r"clock at most \d+ MHz", trial.note)  # all that OpenCL tells
    with Store.open(tmp_path / "tune.db") as store:
        store.add(workload, OPENCL, Timing("warm", OPENCL.cores), [trial])
    found = ts.compile(workload, database=tmp_path / "tune.db", target=OPENCL)
    assert found.network.kernels[0].schedule == "record"
    with Store.open(tmp_path / "tune.db", read_only=True) as store:
        assert store.best(workload, OPENCL, Timing("warm", OPENCL.cores)).trial.note == trial.note
    np.testing.assert_allclose(found(X, W), X @ W, rtol=1e-4, atol=1e-5)


def test_tune(tmp_path) -> None:
    kernel = ts.tune(matmul(), trials=6, target="opencl", database=tmp_path / "tune.db", on_progress=lambda p: None)
    np.testing.assert_allclose(kernel(X, W), X @ W, rtol=1e-4, atol=1e-5)
    with Store.open(tmp_path / "tune.db") as store:
        assert sum(r.trial.ok for r in store.history(matmul(), OPENCL, Timing("warm", OPENCL.cores))) >= 4


def test_elsewhere() -> None:
    kernel = ts.compile(matmul(), target="a100")
    assert ".target sm_80" in kernel.source("ptx")
    with pytest.raises(UserError, match="C was compiled for a100"):
        kernel(X, W)


def test_code_that_is_none_is_refused() -> None:
    with pytest.raises(UserError, match="malformed GPU code"):
        Launches.from_bytes(b"{}")
    made = Launches((), (10, 300), "text")
    assert Launches.from_bytes(made.to_bytes()) == made and made.scratch_offsets() == (0, 256, 768)
