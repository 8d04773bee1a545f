"""A backend that is a folder of its own, through the package as it is: compile, call, bind, save, load, measure, store, tune."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from tests.backends.interpreter import BACKEND, InterpreterTarget

import tensorsmith as ts
from tensorsmith.backends import register_backend
from tensorsmith.errors import UserError
from tensorsmith.graph.builder import Builder
from tensorsmith.lang.workload import Workload
from tensorsmith.measure import Measurer
from tensorsmith.records.keys import Timing
from tensorsmith.records.store import Store
from tensorsmith.space.plain import plain_candidate

HERE = InterpreterTarget()
RANDOM = np.random.default_rng(5)
X, W = RANDOM.uniform(-1, 1, (3, 5)).astype(np.float32), RANDOM.uniform(-1, 1, (5, 4)).astype(np.float32)


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    """The processes that measure find the backend's module as they would find an installed one."""
    root = Path(__file__).parents[2]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")]))


def matmul() -> Workload:
    a, b = ts.placeholder((3, 5), name="A"), ts.placeholder((5, 4), name="B", constant=True)
    k = ts.reduce_axis(5, name="k")
    return ts.workload([a, b, ts.compute((3, 4), lambda i, j: ts.sum(a[i, k] * b[k, j], axis=k), name="C")])


def test_targets_are_known_by_name():
    assert ts.targets()["interpreter"] == HERE == ts.Target.named("interpreter") == ts.Target.native("interpreter")
    assert ts.Target.named("interpreter", cores=2).key == "interpreter/c2"


def test_compile_call_and_bind():
    kernel = ts.compile(matmul(), target="interpreter")
    np.testing.assert_allclose(kernel(X, W), X @ W, rtol=1e-5)
    np.testing.assert_allclose(kernel.bind(B=W)(X), X @ W, rtol=1e-5)
    assert kernel.program == kernel.source("loops")
    with pytest.raises(UserError, match="code for interpreter has no text 'llvm'; there is loops"):
        _ = kernel.llvm_ir


def test_save_and_load(tmp_path):
    bound = ts.compile(matmul(), target=HERE).bind(B=W)
    bound.save(tmp_path / "kernel.tsm")
    loaded = ts.load_executable(tmp_path / "kernel.tsm")
    assert loaded.network.target == HERE and loaded.network.driver is None
    assert np.array_equal(loaded(X), bound(X))


def test_a_network(tmp_path):
    b = Builder("net")
    x = b.input("x", (3, 5), "f32")
    b.output("y", b.add("relu", [b.add("matmul", [x, b.constant(W, "w")])]))
    network = ts.compile(ts.Model.from_graph(b.graph()), target=HERE)
    network.save(tmp_path / "net.tsm")
    for one in (network, ts.load_executable(tmp_path / "net.tsm")):
        np.testing.assert_allclose(one(X), np.maximum(X @ W, 0), rtol=1e-5)
        assert len(one.profile(rounds=1).steps) == len(network.network.steps)


def test_elsewhere(tmp_path):
    kernel = ts.compile(matmul(), target="elsewhere").bind(B=W)
    with pytest.raises(UserError, match="C was compiled for elsewhere, this is the interpreter here"):
        kernel(X)
    kernel.save(tmp_path / "kernel.tsm")
    with pytest.raises(UserError, match=r"kernel\.tsm was compiled for elsewhere"):
        ts.load_executable(tmp_path / "kernel.tsm")
    with pytest.raises(UserError, match="programs for elsewhere cannot be measured here: what was compiled for elsewhere"):
        Measurer(matmul(), InterpreterTarget(here=False))


def test_measure_and_store(tmp_path):
    """In worker processes, which learn of the backend by themselves; and records are found again."""
    workload = matmul()
    with Measurer(workload, HERE, workers=1) as measurer:
        (trial,) = measurer.measure([plain_candidate(workload)])
    assert trial.ok and trial.seconds > 0, trial
    with Store.open(tmp_path / "tune.db") as store:
        store.add(workload, HERE, Timing("warm", 1), [trial])
        assert [r.target for r in store.top(workload, HERE, Timing("warm", 1), 3)] == [HERE]
    assert ts.compile(workload, database=tmp_path / "tune.db", target=HERE).network.kernels[0].schedule == "record"


def test_tune(tmp_path):
    """With our policy and its trees, on features of the backend's own; what was measured is found again."""
    path = tmp_path / "tune.db"
    kernel = ts.tune(matmul(), trials=20, target="interpreter", database=path, on_progress=lambda p: None)
    np.testing.assert_allclose(kernel(X, W), X @ W, rtol=1e-5)
    with Store.open(path) as store:
        records = store.history(matmul(), HERE, Timing("warm", 1))
    ran = [r for r in records if r.trial.ok]
    assert len(ran) >= 12 and len({r.key for r in ran}) >= 8
    assert ts.compile(matmul(), database=path, target=HERE)(X, W) == pytest.approx(X @ W, rel=1e-5)


def test_a_kind_is_registered_once():
    with pytest.raises(UserError, match="there is a backend for targets of kind 'interpreter' already"):
        register_backend(BACKEND)
