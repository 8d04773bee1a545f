"""Locks: the same programs whatever the defaults and records say later, and a check that sees what differs."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from tests.cli.models import write_dense

import tensorsmith as ts
from tensorsmith import locking
from tensorsmith.backends import backend_of, space_of
from tensorsmith.errors import UserError
from tensorsmith.lang.workload import Workload
from tensorsmith.records.keys import Timing, candidate_key
from tensorsmith.records.store import Store
from tensorsmith.rewrites.formulations import as_written
from tensorsmith.search.policies.random import RandomPolicy
from tensorsmith.search.trial import Status, Trial
from tensorsmith.space.plain import plain_candidate
from tensorsmith.targets.target import native


@pytest.fixture
def model(tmp_path: Path) -> ts.Model:
    return ts.load(write_dense(tmp_path / "dense.onnx", (4, 8)))


@pytest.fixture
def file(tmp_path: Path, model: ts.Model) -> Path:
    path = tmp_path / "dense.lock"
    locking.lock(ts.compile(model, threads=1)).write(path)
    return path


def programs(executable: object) -> list[str]:
    return [candidate_key(locking.found_of(k)[0]) for k in executable.network.kernels]  # type: ignore[attr-defined]


def test_the_programs_stay_when_defaults_change(model: ts.Model, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = ts.compile(model, threads=1)
    backend = backend_of(native())
    other = dataclasses.replace(backend, default_candidate=lambda workload, target: plain_candidate(workload))
    monkeypatch.setattr("tensorsmith.build.backend_of", lambda target: other)
    assert programs(ts.compile(model, threads=1)) != programs(before)
    locked = ts.compile(model, lock=file)
    assert programs(locked) == programs(before)
    assert [k.code.digest for k in locked.network.kernels] == [k.code.digest for k in before.network.kernels]
    assert locked.network.threads == 1
    x = before.random_inputs()
    assert all(np.array_equal(a, b) for a, b in zip(locked(*x), before(*x)))
    found = locking.check(locked, locking.read(file), allowed=1e9)
    assert found.passed and all(k.found == locking.SAME for k in found.kernels) and all(o.same for o in found.outputs)


def test_programs_of_records_are_locked(tmp_path: Path) -> None:
    A, B = (ts.placeholder((24, 24), name=name) for name in "AB")
    k = ts.reduce_axis(24, name="k")
    C = ts.compute((24, 24), lambda i, j: ts.sum(A[i, k] * B[k, j], axis=k), name="C")
    workload, target = ts.workload([A, B, C]), native()
    candidates = RandomPolicy(space_of(workload, target)).ask(3)
    with Store.open(tmp_path / "tune.db") as store:
        store.add(
            workload, target, Timing("warm", target.cores), [Trial(c, Status.OK, 1e-6 * n) for n, c in enumerate(candidates, 1)]
        )
    made = ts.compile(workload, database=tmp_path / "tune.db")
    locking.lock(made).write(tmp_path / "c.lock")

    X, Y = (ts.placeholder((24, 24), name=name) for name in "XY")  # the same computation, in other names
    r = ts.reduce_axis(24, name="r")
    Z = ts.compute((24, 24), lambda a, b: ts.sum(X[a, r] * Y[r, b], axis=r), name="Z")
    again = ts.compile([X, Y, Z], lock=tmp_path / "c.lock")
    assert again.network.kernels[0].schedule == "record"
    assert again.network.kernels[0].code.digest == made.network.kernels[0].code.digest


def test_what_differs_is_seen(model: ts.Model, file: Path) -> None:
    held = locking.read(file)
    made = ts.compile(model, lock=file)
    kernels = tuple(dataclasses.replace(k, program="0" * 16) for k in held.kernels)
    found = locking.check(made, dataclasses.replace(held, kernels=kernels), 1e9, timing=False)
    assert found.different and not found.passed and {k.found for k in found.kernels} == {locking.OTHER_PROGRAM}
    kernels = tuple(dataclasses.replace(k, code="0" * 8) for k in held.kernels)
    found = locking.check(made, dataclasses.replace(held, kernels=kernels), 1e9, timing=False)
    assert found.passed and {k.found for k in found.kernels} == {locking.OTHER_CODE}
    first = held.outputs[0]
    off = dataclasses.replace(first, digest="0", samples=(first.samples[0] + first.largest, *first.samples[1:]))
    found = locking.check(made, dataclasses.replace(held, outputs=(off,)), 1e9, timing=False)
    assert found.different and found.outputs[0].difference == pytest.approx(1.0)
    found = locking.check(made, dataclasses.replace(held, inputs="0"), 1e9, timing=False)
    assert found.different and found.outputs[0].difference is None
    found = locking.check(made, dataclasses.replace(held, seconds=1e-12), 1.25)
    assert found.slower and not found.different and found.now is not None and found.now > 1e-12
    found = locking.check(made, dataclasses.replace(held, versions={"numpy": "0.1"}), 1e9, timing=False)
    assert found.versions["numpy"] == ("0.1", np.__version__) and found.passed


def test_another_model_another_target_and_open_sizes_are_refused(tmp_path: Path, model: ts.Model, file: Path) -> None:
    with pytest.raises(UserError, match=r"has no program of .*the model, its shapes or the way"):
        ts.compile(ts.load(write_dense(tmp_path / "other.onnx", (5, 8))), lock=file)
    with pytest.raises(UserError, match=r"is for .*, this is .*neoverse-n1"):
        ts.compile(model, lock=file, target="neoverse-n1")
    with pytest.raises(UserError, match="database has no meaning with it"):
        ts.compile(model, lock=file, database="tune.db")
    open_model = ts.load(write_dense(tmp_path / "open.onnx", ("batch", 8)), shapes={"batch": [1]})
    with pytest.raises(UserError, match="has open dimensions, a lock is of fixed sizes"):
        ts.compile(open_model, lock=file)
    with pytest.raises(UserError, match="has open dimensions"):
        locking.lock(ts.compile(open_model))
    ts.compile(model).save(tmp_path / "m.tsm")
    with pytest.raises(UserError, match="came from a file"):
        locking.lock(ts.load_executable(tmp_path / "m.tsm"))


def _without(data: dict[str, object]) -> None:
    del data["kernels"]


def _decision(data: dict[str, list[dict[str, dict[str, dict[str, object]]]]]) -> None:
    for kernel in data["kernels"]:
        decisions = kernel["candidate"]["decisions"]
        decisions.update(dict.fromkeys(decisions, -3))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_without, "is damaged"),
        (lambda data: data.update(format=7), "no lock that this version reads"),
        (lambda data: data.update(seconds="1"), "is no finite number"),
        (lambda data: data.update(target={"kind": "cpu"}), "is damaged"),
        (_decision, "is not valid here|cannot be built"),
        (lambda data: [k.update(formulation="magic") for k in data["kernels"]], "'magic', which this version does not know"),
    ],
)
def test_files_are_data(model: ts.Model, file: Path, change: object, message: str) -> None:
    data = json.loads(file.read_text())
    change(data)  # type: ignore[operator]
    file.write_text(json.dumps(data))
    with pytest.raises(UserError, match=message):
        ts.compile(model, lock=file)


def test_files_that_are_none(model: ts.Model, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        ts.compile(model, lock=tmp_path / "nowhere.lock")
    (tmp_path / "bad.lock").write_text("{")
    with pytest.raises(UserError, match="it is not JSON"):
        ts.compile(model, lock=tmp_path / "bad.lock")


def test_a_candidate_of_another_definition_is_refused(model: ts.Model, file: Path) -> None:
    data = json.loads(file.read_text())
    A = ts.placeholder((4, 8), name="A")
    other: Workload = ts.workload([A, ts.compute((4, 8), lambda i, j: A[i, j] + 1.0, name="B")])
    for kernel in data["kernels"]:
        kernel["workload"] = as_written(other).workload.to_json()
    file.write_text(json.dumps(data))
    with pytest.raises(UserError, match="is of another definition"):
        ts.compile(model, lock=file)
