"""Streams: every request gets its own answer, or its own error, whoever serves it and together with whom."""

from __future__ import annotations

import threading
from concurrent.futures import wait
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper
from tests.cli.models import write_dense

import tensorsmith as ts
from tensorsmith.errors import UserError
from tensorsmith.runtime.executable import Executable
from tensorsmith.runtime.pool import shared
from tensorsmith.runtime.stream import Stream
from tensorsmith.runtime.variants.executable import OpenExecutable

RANDOM = np.random.default_rng(5)


def rows(count: int, width: int = 8) -> np.ndarray:
    return RANDOM.uniform(-1, 1, (count, width)).astype(np.float32)


@pytest.fixture
def closed(tmp_path: Path) -> Executable:
    return ts.compile(ts.load(write_dense(tmp_path / "dense.onnx", (4, 8))), threads=1)


@pytest.fixture
def sized(tmp_path: Path) -> OpenExecutable:
    return ts.compile(ts.load(write_dense(tmp_path / "dense.onnx", ("batch", 8)), shapes={"batch": [1, 2, 5]}), threads=1)


def test_every_request_gets_its_own_answer(closed: Executable) -> None:
    inputs = [rows(4) for _ in range(40)]
    with closed.stream(3) as stream:
        futures = [stream.submit(x) for x in inputs[:20]] + [stream.submit(x=x) for x in inputs[20:]]
        for x, future in zip(inputs, futures):
            assert all(np.array_equal(a, b) for a, b in zip(future.result(60), closed(x)))
        for given, x in zip(stream.map(inputs), inputs):
            assert np.array_equal(given[0], closed(x)[0])


def test_workers_run_side_by_side_with_one_thread_each() -> None:
    """Each waits for the other: with one at a time neither would end."""
    meeting, threads = threading.Barrier(2, timeout=60), []

    def call(x: int) -> int:
        meeting.wait()
        threads.append(shared().threads)
        return x + 1

    with Stream("f", call, 2) as stream:
        assert list(stream.map([1, 2])) == [2, 3]
    assert threads == [1, 1]


def test_errors_and_cancelled_requests_are_the_requests_own(closed: Executable) -> None:
    begun, go = threading.Event(), threading.Event()

    def call(x: object) -> object:
        begun.set()
        go.wait(60)
        return closed(x)

    with Stream("f", call, 1) as stream:
        right, wrong, cancelled, last = (stream.submit(x) for x in (rows(4), rows(3), rows(4), rows(4)))
        assert begun.wait(60) and cancelled.cancel()
        go.set()
        wait([right, wrong, last], 60)
    assert right.exception() is None and last.exception() is None and cancelled.cancelled()
    with pytest.raises(UserError, match="must have shape"):
        wrong.result()


def test_closing_serves_what_was_submitted(closed: Executable) -> None:
    stream = closed.stream(2)
    futures = [stream.submit(rows(4)) for _ in range(10)]
    stream.close()
    assert all(f.done() for f in futures) and not any(t.is_alive() for t in stream._threads)
    with pytest.raises(UserError, match="is closed"):
        stream.submit(rows(4))
    stream.close()


@pytest.mark.parametrize("workers", [0, -1, 1.5, "two"])
def test_wrong_numbers_of_workers(closed: Executable, workers: object) -> None:
    with pytest.raises(UserError, match="give a whole number, at least 1"):
        closed.stream(workers)  # type: ignore[arg-type]


@pytest.mark.parametrize("workers", [1, 3])
def test_requests_that_wait_share_calls(sized: OpenExecutable, workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = sized.stream(workers, wait=0.05)
    sizes: list[int] = []
    together = stream._together

    def noted(requests: list[list[np.ndarray]]) -> list[np.ndarray]:
        sizes.append(sum(len(arrays[0]) for arrays in requests))
        return together(requests)

    monkeypatch.setattr(stream, "_together", noted)
    inputs = [rows(n) for n in (1, 2, 1, 5, 3, 1, 1, 2, 4, 1) * 3]
    with stream:
        futures = [stream.submit(x) for x in inputs]
        for x, future in zip(inputs, futures):
            for given, alone in zip(future.result(60), sized(x)):
                assert given.shape == alone.shape
                np.testing.assert_allclose(given, alone, rtol=1e-5, atol=1e-5)
    assert sum(sizes) == sum(map(len, inputs)) and max(sizes) <= 5


def test_a_full_batch_does_not_wait(sized: OpenExecutable) -> None:
    with sized.stream(1, wait=59.0) as stream:
        futures = [stream.submit(rows(n)) for n in (2, 3, 5)]
        assert [len(f.result(30)[0]) for f in futures] == [2, 3, 5]


def test_closing_serves_what_no_longer_fits(sized: OpenExecutable) -> None:
    """The request that ends a batch is taken and not served with it: it must not be lost behind the end."""
    for _ in range(20):
        stream = sized.stream(2, wait=0.2)
        futures = [stream.submit(rows(n)) for n in (3, 4, 5, 4)]
        stream.close()
        assert all(f.done() and f.exception() is None for f in futures)


def test_nothing_is_compiled_for_a_request(sized: OpenExecutable) -> None:
    before = {v.key for v in sized.variants}
    with sized.stream(1) as stream:
        assert len(stream.submit(rows(3)).result(60)[0]) == 3
        with pytest.raises(UserError, match="takes 1 to 5"):
            stream.submit(rows(6))
        with pytest.raises(UserError, match="must have shape"):
            stream.submit(rows(2, 7))
    assert {v.key for v in sized.variants} == before


def open_model(operator: str, **attributes: object) -> OpenExecutable:
    axis = helper.make_tensor("axis", TensorProto.INT64, [], [0])
    node = helper.make_node(operator, ["x", "axis"] if operator == "CumSum" else ["x"], ["y"], **attributes)
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["batch", 4]) for n in "xy"]
    graph = helper.make_graph([node], "g", ends[:1], ends[1:], [axis] if operator == "CumSum" else [])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return ts.compile(ts.load(made, shapes={"batch": [1, 4]}))


@pytest.mark.parametrize("reverse", [0, 1])
def test_rows_that_depend_on_each_other_are_refused(reverse: int) -> None:
    with pytest.raises(UserError, match="computes a row of other rows"):
        open_model("CumSum", reverse=reverse).stream(1)


def test_a_softmax_over_the_batch_is_refused() -> None:
    with pytest.raises(UserError, match="computes a row of other rows"):
        open_model("Softmax", axis=0).stream(1)


def test_outputs_without_rows_are_refused() -> None:
    with pytest.raises(UserError, match="do not have a row for each row"):
        open_model("Transpose", perm=[1, 0]).stream(1)
