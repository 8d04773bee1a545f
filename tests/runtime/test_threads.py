"""`threads=`: how many threads an executable is compiled for and runs on, and that it stays so in files and pickles."""

from __future__ import annotations

import copy
import os
import pickle
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest
from tests.cli.models import write_dense

import tensorsmith as ts
from tensorsmith.errors import UserError
from tensorsmith.records import Store
from tensorsmith.runtime import call, pool
from tensorsmith.runtime.call import plain_calls
from tensorsmith.runtime.pool import with_threads
from tensorsmith.targets import host
from tensorsmith.targets.target import native, on_threads

pytestmark = pytest.mark.filterwarnings("ignore:.*they will take turns")
SIZE = 64


def definition() -> list[ts.Tensor]:
    a, b = ts.placeholder((SIZE, SIZE), name="A"), ts.placeholder((SIZE, SIZE), name="B", constant=True)
    k = ts.reduce_axis(SIZE, name="k")
    return [a, b, ts.compute((SIZE, SIZE), lambda i, j: ts.sum(a[i, k] * b[k, j], axis=k), name="C")]


A, B = (np.random.default_rng(n).standard_normal((SIZE, SIZE), np.float32) for n in range(2))


def pools_of(executable: ts.Executable, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of threads of the pools that a call which goes the long way has used."""
    used = []
    found = pool.shared

    def shared(own: int | None = None) -> pool.Pool:
        made = found(own)
        used.append(made.threads)
        return made

    with monkeypatch.context() as patched:
        patched.setattr("tensorsmith.runtime.running.shared", shared)
        executable(np.asfortranarray(A))  # has to be copied first, so the call is no plain one
    return used


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_same_result_on_any_number_of_threads(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = ts.compile(definition(), threads=threads).bind(B=B)
    assert kernel.threads == threads and kernel.network.target.cores == threads
    for _ in range(3):
        np.testing.assert_allclose(kernel(A), A @ B, rtol=1e-4, atol=1e-4)
    assert pools_of(kernel, monkeypatch) == [threads]
    assert kernel.prepare(A).threads == threads
    assert kernel.prepare(A, threads=2).threads == 2  # what a call asks for wins


def test_plain_calls_find_the_pool_of_their_executable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled code looks for a pool under what the Python thread wants; nothing wanted, it finds the executable's own."""
    kernels = {n: ts.compile(definition(), threads=n).bind(B=B) for n in (1, 3)}
    usual = ts.compile(definition()).bind(B=B)
    for kernel in (*kernels.values(), usual):
        kernel(A)  # makes pool and frame
        before = plain_calls(kernel._call_plainly)
        kernel(A)
        assert plain_calls(kernel._call_plainly) == before + 1
    for n, kernel in kernels.items():
        with with_threads(n):
            assert pool.addresses(n)[None] == pool.shared().handle == pool.addresses(None)[n]
        words = kernel._call_plainly.__self__  # type: ignore[attr-defined]
        assert words[call.TABLE["PYTHON"]] == call._python(n).ctypes.data
        assert call._python(n)[call.PYTHON["addresses"]] == id(pool.addresses(n))
    assert pool.addresses(None)[None] == pool.shared().handle
    assert len({pool.addresses(n)[None] for n in (1, 3)}) == 2


def test_a_pool_that_is_made_later_is_found_by_everyone() -> None:
    mine = pool.addresses(7)
    assert None not in mine
    with with_threads(5):
        five = pool.shared()
    assert mine[5] == five.handle and None not in mine
    assert pool.shared(7).handle == mine[None] == mine[7]
    with with_threads(5):
        assert pool.shared(7) is five  # who asks for a number gets it, whatever the executable's own is


def test_several_executables_at_once() -> None:
    kernels = [ts.compile(definition(), threads=n).bind(B=B) for n in (1, 2, 3)]
    wrong: list[str] = []

    def call_often(kernel: ts.Executable) -> None:
        for _ in range(20):
            if not np.allclose(kernel(A), A @ B, rtol=1e-4, atol=1e-4):
                wrong.append(f"{kernel.threads} threads")

    callers = [threading.Thread(target=call_often, args=(kernel,)) for kernel in kernels]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert wrong == []


def test_files_and_pickles_remember(tmp_path: Path) -> None:
    kernel = ts.compile(definition(), threads=3).bind(B=B)
    kernel.save(tmp_path / "three.tsm")
    again = ts.load_executable(tmp_path / "three.tsm")
    other = ts.load_executable(tmp_path / "three.tsm", threads=1)
    assert (again.threads, other.threads) == (3, 1)
    assert pickle.loads(pickle.dumps(kernel)).threads == copy.deepcopy(kernel).threads == copy.copy(kernel).threads == 3
    assert pickle.loads(pickle.dumps(other)).threads == 1
    for one in (again, other):
        np.testing.assert_array_equal(one(A), kernel(A))
    ts.compile(definition()).bind(B=B).save(tmp_path / "usual.tsm")
    assert ts.load_executable(tmp_path / "usual.tsm").network.threads is None


def test_a_file_that_was_written_before_there_was_a_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tensorsmith.runtime import file

    form = file._network_form
    monkeypatch.setattr(file, "_network_form", lambda *given: {k: v for k, v in form(*given).items() if k != "threads"})
    ts.compile(definition(), threads=2).bind(B=B).save(tmp_path / "old.tsm")
    assert ts.load_executable(tmp_path / "old.tsm").network.threads is None
    monkeypatch.setattr(file, "_network_form", lambda *given: {**form(*given), "threads": 0})
    ts.compile(definition()).bind(B=B).save(tmp_path / "wrong.tsm")
    with pytest.raises(UserError, match=r"wrong.tsm is damaged: threads is 0"):
        ts.load_executable(tmp_path / "wrong.tsm")


def test_models_and_open_dimensions(tmp_path: Path) -> None:
    path = write_dense(tmp_path / "mlp.onnx", ("batch", 8))
    fixed = ts.compile(ts.load(path, shapes={"batch": 3}), threads=1)
    assert fixed.threads == 1 and fixed.network.target.cores == 1
    varying = ts.compile(ts.load(path, shapes={"batch": [2]}), threads=1, ranges=False)
    x = np.ones((5, 8), np.float32)
    np.testing.assert_allclose(varying(x)[0], ts.compile(ts.load(path, shapes={"batch": 5}))(x)[0], rtol=1e-4, atol=1e-5)
    assert {v.executable.threads for v in varying.variants} == {1} and len(varying.variants) == 2
    varying.save(tmp_path / "mlp.tsm")
    assert {v.executable.threads for v in ts.load_executable(tmp_path / "mlp.tsm").variants} == {1}
    assert {v.executable.threads for v in ts.load_executable(tmp_path / "mlp.tsm", threads=2).variants} == {2}
    assert {v.executable.threads for v in pickle.loads(pickle.dumps(varying)).variants} == {1}


def test_indices_are_checked_on_as_many_threads() -> None:
    a, index = ts.placeholder((8,), name="A"), ts.placeholder((4,), "i32", name="index")
    kernel = ts.compile([a, index, ts.compute((4,), lambda i: a[index[i]], name="B")], threads=1, check_indices=True)
    assert kernel.threads == 1 and kernel._furthest.threads == 1  # type: ignore[attr-defined]


def test_records_of_other_numbers_are_not_mixed(tmp_path: Path) -> None:
    database = tmp_path / "tune.db"
    kernel = ts.tune(definition(), trials=2, database=database, threads=1, on_progress=lambda _: None)
    assert kernel.threads == 1
    with Store.open(database, read_only=True) as store:
        assert {(s.target.cores, s.timing.threads) for s in store.workloads()} == {(1, 1)}
    assert ts.compile(definition(), database=database, threads=1).network.kernels[0].schedule == "record"
    with pytest.warns(UserWarning, match="has no record"):
        other = ts.compile(definition(), database=database, threads=2)
    assert other.network.kernels[0].schedule == "default"


def test_a_network_is_tuned_for_its_threads(tmp_path: Path) -> None:
    database = tmp_path / "tune.db"
    model = ts.load(write_dense(tmp_path / "mlp.onnx", ("batch", 8)), shapes={"batch": 3})
    tuned = ts.tune(model, trials=3, database=database, threads=1, on_progress=lambda _: None)
    assert tuned.threads == 1
    with Store.open(database, read_only=True) as store:
        assert {s.timing.threads for s in store.workloads()} == {1}


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "2", True, 5000])
def test_what_is_no_number_of_threads(wrong: object, tmp_path: Path) -> None:
    kernel = ts.compile(definition()).bind(B=B)
    kernel.save(tmp_path / "kernel.tsm")
    for ask in (
        lambda: ts.compile(definition(), threads=wrong),  # type: ignore[call-overload]
        lambda: ts.tune(definition(), trials=1, threads=wrong),  # type: ignore[call-overload]
        lambda: ts.load_executable(tmp_path / "kernel.tsm", threads=wrong),  # type: ignore[arg-type]
    ):
        with pytest.raises(UserError, match=r"threads is .*; give a whole number, 1 to 4096"):
            ask()


def test_a_gpu_has_no_threads_to_choose() -> None:
    with pytest.raises(UserError, match=r"threads is for CPUs; on .* there are none to choose"):
        ts.compile(definition(), target="a100", threads=2)


def test_more_threads_than_cores_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "allowed_cores", lambda: 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        host.check_threads(2)
        host.check_threads(3, here=False)  # for another machine
        with pytest.raises(UserWarning, match="3 threads on the 2 cores that this process may use: they will take turns"):
            host.check_threads(3)
    assert on_threads(ts.Target.named("znver4"), 64).cores == 64


def test_the_environment_is_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(host.THREADS, "1")
    assert host.thread_count() == 1
    assert host.allowed_cores() == max(1, host.allowed_cores()) and on_threads(native(), 2).cores == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_makes_pools_of_its_own() -> None:
    kernel = ts.compile(definition(), threads=2).bind(B=B)
    kernel(A)
    child = os.fork()
    if child == 0:
        right = None not in pool.addresses(2) and np.allclose(kernel(A), A @ B, rtol=1e-4, atol=1e-4)
        os._exit(0 if right and pool.addresses(2)[None] == pool.shared(2).handle else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
