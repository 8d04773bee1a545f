"""Executables, and what they are made of, in other processes and as copies: through the format of their files."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.show.things import TARGET, candidate, matmul, model, store, tensors

import tensorsmith as ts
from tensorsmith.errors import UserError
from tensorsmith.lang.expr import same
from tensorsmith.program.lower import lower
from tensorsmith.records.keys import candidate_key
from tensorsmith.runtime import file
from tensorsmith.runtime.device import device_of
from tensorsmith.runtime.executable import Executable
from tensorsmith.tuning.of_workload import WorkloadRun

RANDOM = np.random.default_rng(7)
A, B = (RANDOM.uniform(-1, 1, shape).astype(np.float32) for shape in ((16, 24), (24, 32)))
X = RANDOM.uniform(-1, 1, (4, 8)).astype(np.float32)


def again(thing: Any) -> Any:
    return pickle.loads(pickle.dumps(thing))


@pytest.fixture(scope="module")
def kernel() -> Executable:
    """A kernel whose constant is packed; not bound yet."""
    made = ts.compile(matmul())
    assert any(made.network.unbound.values())
    return made


@pytest.fixture(scope="module")
def network() -> Executable:
    return ts.compile(model())


def test_a_kernel_with_its_bound_constants(kernel: Executable) -> None:
    bound = kernel.bind(B=B)
    found = again(bound)
    assert type(found) is Executable and repr(found) == repr(bound) and found.inputs == bound.inputs
    np.testing.assert_array_equal(found(A), bound(A))
    np.testing.assert_array_equal(again(found)(A), bound(A))


def test_a_network(network: Executable) -> None:
    found = again(network)
    np.testing.assert_array_equal(found(X), network(X))
    assert found.memory == network.memory and found.network.steps == network.network.steps


def test_a_pickle_is_the_file_that_is_saved(network: Executable, tmp_path: Path) -> None:
    network.save(tmp_path / "net.tsm")
    assert file.as_bytes(network.network) == (tmp_path / "net.tsm").read_bytes()
    assert file.as_bytes(again(network).network) == (tmp_path / "net.tsm").read_bytes()


def test_a_pickle_that_is_damaged_is_refused(network: Executable) -> None:
    data = file.as_bytes(network.network)
    broken = bytearray(data)
    broken[-100] ^= 1
    for wrong, words in (
        (bytes(broken), "the pickled executable is damaged: its checksum is wrong"),
        (data[:-64], "the pickled executable is damaged or cut short"),
        (data[:50], "the pickled executable is cut short: it has 50 bytes"),
        (b"", "the pickled executable is no executable of Tensorsmith"),
        (b"text", "the pickled executable is no executable of Tensorsmith"),
    ):
        with pytest.raises(UserError, match=words):
            file.from_bytes(wrong)


@pytest.mark.parametrize("name", ["neoverse-n1", "znver4"])
def test_one_that_is_for_another_machine(name: str) -> None:
    target = ts.Target.named(name, cores=3)
    made = ts.compile(model(), target=target)
    found = again(made)
    assert found.network.target == target and repr(found) == repr(made)
    assert file.as_bytes(found.network) == file.as_bytes(made.network)
    assert repr(copy.deepcopy(found)) == repr(copy.copy(found)) == repr(made)


def test_one_that_cannot_run_here_says_so_when_it_is_called() -> None:
    targets = [ts.Target.named(name) for name in ("neoverse-n1", "znver4")]  # one of them is not this machine
    foreign = next(t for t in targets if device_of("cpu").why_not(t) is not None)
    with pytest.raises(UserError, match="was compiled for"):
        again(ts.compile(model(), target=foreign))(X)


def test_constants_that_are_not_bound_are_asked_for(kernel: Executable) -> None:
    with pytest.raises(UserError, match=r"B of C must be bound before it can be pickled: kernel.bind\(B=...\)"):
        pickle.dumps(kernel)
    for copied in (copy.copy(kernel), copy.deepcopy(kernel)):
        np.testing.assert_array_equal(copied.bind(B=B)(A), kernel.bind(B=B)(A))
        assert copied.program == kernel.program


def test_copies(kernel: Executable) -> None:
    bound = kernel.bind(B=B)
    wanted = bound(A)
    shallow, deep = copy.copy(bound), copy.deepcopy(bound)
    assert shallow is not bound and shallow.bound["B"] is bound.bound["B"]
    assert not np.shares_memory(deep.bound["B"], bound.bound["B"])
    deep.bound["B"][...] = 0.0
    np.testing.assert_array_equal(deep(A), np.zeros_like(wanted))
    for same_one in (bound, shallow):
        np.testing.assert_array_equal(same_one(A), wanted)
    assert copy.deepcopy({"kernel": bound, "again": bound})["kernel"](A).shape == wanted.shape


def test_an_executable_in_a_process_that_is_started_afresh(kernel: Executable, network: Executable) -> None:
    bound = kernel.bind(B=B)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        np.testing.assert_array_equal(pool.apply(bound, (A,)), bound(A))
        np.testing.assert_array_equal(pool.apply(network, (X,)), network(X))


# -- what executables are made of --------------------------------------------------------------------------------------------


def test_workloads() -> None:
    task = model().tasks()[0].workload
    for workload in (matmul(), task):
        found = again(workload)
        assert found == workload and found.key == workload.key and found.title == workload.title
    assert task.title == "matmul+relu f32[4, 8]"
    assert copy.deepcopy(task) == task


def test_expressions_are_the_same_nodes() -> None:
    body = matmul().stages[0].body
    for e in (body, ts.reduce_axis(4, name="r"), ts.cast("f64", ts.exp(body))):
        assert same(again(e), e) and same(copy.deepcopy(e), e)
    A, *_ = tensors()
    element = A[1, 2] * 2.0 + A[1, 2]
    (a, e) = again((A, element))
    assert e.key == element.key and e.operands[1].source is a


def test_sketches_candidates_and_programs() -> None:
    one = candidate()
    found = again(one)
    assert found == one and candidate_key(found) == candidate_key(one) and str(lower(found)) == str(lower(one))
    for sketch in ts.sketches(matmul(), target=TARGET):
        assert again(sketch) == sketch and again(sketch).choices == sketch.choices and copy.deepcopy(sketch) == sketch


def test_targets() -> None:
    for target in (TARGET, TARGET.with_facts(l2_bytes=12345)):
        assert again(target) == target == copy.deepcopy(target)


def test_models() -> None:
    whole = model()
    for found in (again(whole), copy.deepcopy(whole)):
        assert [t.workload for t in found.tasks()] == [t.workload for t in whole.tasks()]
        np.testing.assert_array_equal(found.evaluate([X])["y"], whole.evaluate([X])["y"])


def test_what_cannot_be_sent_says_what_to_do(network: Executable) -> None:
    with store() as opened, pytest.raises(UserError, match=r"open it again: Store.open\(':memory:'\)"):
        pickle.dumps(opened)
    with pytest.raises(UserError, match=r"use save\(\)"):
        pickle.dumps(network.prepare(X))
    with pytest.raises(UserError, match=r"a running tuning cannot be pickled or copied.*use save\(\)"):
        pickle.dumps(object.__new__(WorkloadRun))
