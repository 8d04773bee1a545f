"""Models from graph to executable: passes, tasks, records, fallbacks."""

from __future__ import annotations

import builtins
import contextlib
import dataclasses
import gc
import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from tests.runtime.networks import graphs

import tensorsmith as ts
from tensorsmith import build as building
from tensorsmith.errors import InternalError, Refusal, UserError
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.garbage import uncollected
from tensorsmith.records.keys import IN_NETWORK, Timing
from tensorsmith.records.store import Store
from tensorsmith.search.trial import Status, Trial
from tensorsmith.space.plain import plain_candidate
from tensorsmith.targets.target import native

compiling = importlib.import_module("tensorsmith.compile")  # the name in the package is the function's
RANDOM = np.random.default_rng(5)


def random(*shape: int) -> np.ndarray:
    return RANDOM.uniform(-1, 1, shape).astype(np.float32)


def small() -> ts.Model:
    """Two equal blocks of convolution and ReLU, a residual, a dense layer on the flattened result."""
    b = Builder("small")
    x = b.input("x", (1, 6, 6, 8), "f32")
    geometry = {"stride": (1, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 1)}
    h = b.add("relu", [b.add("conv", [x, b.constant(random(3, 3, 8, 8))], **geometry)])
    h = b.add("relu", [b.add("conv", [h, b.constant(random(3, 3, 8, 8))], **geometry)])
    h = b.add("add", [h, x])
    flat = b.add("reshape", [h], shape=(1, 288))
    b.output("logits", b.add("matmul", [flat, b.constant(random(288, 10))]))
    b.output("features", h)
    return ts.Model.from_graph(b.graph())


MODEL = small()
X = random(1, 6, 6, 8)


def check(executable: Any) -> None:
    wanted = MODEL.evaluate([X])
    for name, array in executable.run({"x": X}).items():
        np.testing.assert_allclose(array, wanted[name], rtol=1e-4, atol=1e-4)


def test_compiled_without_a_database():
    check(ts.compile(MODEL))


def test_saved_and_loaded(tmp_path):
    ts.compile(MODEL, name="other").save(tmp_path / "small.tsm")
    loaded = ts.load_executable(tmp_path / "small.tsm")
    assert loaded.name == "other"
    check(loaded)


def test_what_a_model_says():
    assert [str(v) for v in MODEL.inputs] == ["f32[1, 6, 6, 8]"]
    assert [(v.name, v.shape) for v in MODEL.outputs] == [("logits", (1, 10)), ("features", (1, 6, 6, 8))]
    assert "small(x: f32[1, 6, 6, 8]) -> logits: f32[1, 10]" in str(MODEL) and "relu = relu(conv)" in str(MODEL)
    tasks = MODEL.tasks()
    assert sum(t.weight for t in tasks) == len(MODEL.partition.calls) >= 2
    with pytest.raises(UserError, match=r"small takes 1 input \(x\), 2 given"):
        MODEL.evaluate([X, X])
    with pytest.raises(UserError, match="input x is missing"):
        MODEL.evaluate({})


def with_records(path: Path, seconds: tuple[float, ...], cache: str = "warm") -> Path:
    """A database with a plain candidate for every task, timed so."""
    with Store.open(path) as store:
        for task in MODEL.tasks():
            trials = [Trial(plain_candidate(task.workload), Status.OK, s) for s in seconds]
            store.add(task.workload, native(), Timing(cache, native().cores), trials)
    return path


def test_the_best_records_are_used(tmp_path):
    executable = ts.compile(MODEL, database=with_records(tmp_path / "tune.db", (1e-3,)))
    assert {k.schedule for k in executable.network.kernels} == {"record"}
    check(executable)


def test_a_database_that_is_not_there_is_an_error_and_is_not_made(tmp_path):
    with pytest.raises(UserError, match=r"there is no record file .*missing\.db; tune first, or give another path"):
        ts.compile(MODEL, database=tmp_path / "missing.db")
    assert not (tmp_path / "missing.db").exists()
    check(ts.compile(MODEL))  # without one there is no question


def test_a_database_with_nothing_of_the_model_is_told(tmp_path):
    Store.open(tmp_path / "tune.db").close()
    with pytest.warns(UserWarning, match=r"tune\.db has no record of .* so the default schedule is used: there are no records yet"):
        check(ts.compile(MODEL, database=tmp_path / "tune.db"))


def test_records_of_another_machine_are_told(tmp_path):
    task = next(t for t in MODEL.tasks() if t.tunable)
    with Store.open(tmp_path / "tune.db") as store:
        other = dataclasses.replace(native(), vector_bytes=64 if native().vector_bytes != 64 else 32)
        trial = Trial(plain_candidate(task.workload), Status.OK, 1e-3)
        store.add(task.workload, other, Timing("warm", other.cores), [trial])
    with pytest.warns(UserWarning, match="no record that can be used of .*has no record for the target .*vector_bytes"):
        check(ts.compile(MODEL, database=tmp_path / "tune.db"))


def test_records_timed_with_cold_caches_are_used_where_there_are_no_others(tmp_path, recwarn):
    path = with_records(tmp_path / "tune.db", (1e-3,), cache="cold")
    executable = ts.compile(MODEL, database=path)
    assert {k.schedule for k in executable.network.kernels} == {"record"} and not recwarn.list


def test_a_network_whose_constants_exceed_the_cache_is_timed_with_constants_from_memory(tmp_path, monkeypatch):
    large, small = (dataclasses.replace(native(), l3_bytes=MODEL.constant_bytes + n) for n in (0, -1))
    assert compiling.usual_cache([MODEL], large) == "warm"
    assert compiling.usual_cache([MODEL], small) == "streamed"
    path = with_records(with_records(tmp_path / "tune.db", (1e-3,)), (2e-3,), cache="streamed")
    asked = []
    original = Store.top
    monkeypatch.setattr(Store, "top", lambda store, w, t, timing, k: asked.append(timing.cache) or original(store, w, t, timing, k))
    for cache in ("warm", "streamed"):
        monkeypatch.setattr(compiling, "usual_cache", lambda models, target, cache=cache: cache)
        asked.clear()
        ts.compile(MODEL, database=path)
        assert set(asked) == {IN_NETWORK, cache}  # what was timed in the network comes first, and there is nothing


def test_equal_tasks_are_built_once(monkeypatch):
    keys = []
    build = building.begin_kernel
    monkeypatch.setattr(building, "begin_kernel", lambda c, *more: (keys.append(c.sketch.workload.key), build(c, *more))[1])
    executable = ts.compile(MODEL)
    assert len(keys) == len(set(keys)) == len(executable.network.kernels)


@pytest.mark.parametrize("error", [Refusal("no"), InternalError("a bug"), KeyError("another"), RecursionError()])
def test_what_cannot_be_built_gives_way_to_the_next_best(tmp_path, monkeypatch, error):
    database = with_records(tmp_path / "tune.db", (1e-3,))
    build = building.begin_kernel

    def failing(candidate: Any, target: Any, name: Any, schedule: str, *more: Any) -> Any:
        if schedule in ("record", "default"):
            raise error
        return build(candidate, target, name, schedule, *more)

    monkeypatch.setattr(building, "begin_kernel", failing)
    plain = pytest.warns(UserWarning, match="so plain loops are used")
    with plain, pytest.warns(UserWarning, match="record 1 of .* cannot be built"):
        executable = ts.compile(MODEL, database=database)
    assert {k.schedule for k in executable.network.kernels} == {"plain"}
    check(executable)


@settings(max_examples=15, deadline=None)
@given(graph=graphs())
def test_random_models(graph):
    """Through passes, fusion and memory plan."""
    model = ts.Model.from_graph(graph)
    inputs = {"x": random(6, 6), "y": random(6, 6)}
    wanted = model.evaluate(inputs)
    for name, array in ts.compile(model).run(inputs).items():
        np.testing.assert_allclose(array, wanted[name], rtol=1e-4, atol=1e-4)


def test_without_the_onnx_package(monkeypatch):
    real = builtins.__import__

    def refusing(name: str, *more: Any) -> Any:
        if name == "onnx":
            raise ImportError(name)
        return real(name, *more)

    monkeypatch.setattr(builtins, "__import__", refusing)
    with pytest.raises(UserError, match=r"needs the onnx package: pip install '\.\[onnx\]' in a checkout"):
        ts.load("model.onnx")


def test_a_weight_is_packed_once_for_all_steps(monkeypatch) -> None:
    b = Builder("steps")
    x, w = b.input("x", (4, 32), "f32"), b.constant(np.eye(32, dtype=np.float32))
    for _ in range(5):
        x = b.add("matmul", [b.add("tanh", [x]), w])
    b.output("y", x)
    packed, store = [], building._store
    monkeypatch.setattr(building, "_store", lambda how, kind, array: (packed.append(how), store(how, kind, array))[1])
    network = ts.compile(ts.Model.from_graph(b.graph())).network
    assert 1 <= len(packed) == sum(bool(k.packers) for k in network.kernels) <= 2 < len(network.steps)


def test_the_collector_of_garbage_rests_and_is_as_it_was() -> None:
    for was_on in (True, False):
        (gc.enable if was_on else gc.disable)()
        try:
            with contextlib.suppress(KeyError), uncollected():
                assert not gc.isenabled()
                raise KeyError
            assert gc.isenabled() is was_on
        finally:
            gc.enable()
