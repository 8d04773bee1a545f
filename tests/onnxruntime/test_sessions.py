"""Sessions with our provider give what our own executables give, for any sizes, from any thread, and leave nothing behind."""

from __future__ import annotations

import gc
import threading

import numpy as np
import onnxruntime as ort
import pytest
from tests.onnxruntime.networks import model, node, perceptron, random, session, theirs, with_a_gap

import tensorsmith as ts
import tensorsmith.onnxruntime as provided
from tensorsmith.errors import UserError
from tensorsmith.onnxruntime import provider
from tensorsmith.onnxruntime.provider import parts
from tensorsmith.runtime.variants.executable import OpenExecutable


@pytest.fixture(autouse=True)
def _nothing_from_before() -> None:
    gc.collect()
    assert parts() == []


def test_a_network_is_one_part_and_gives_what_our_own_call_gives() -> None:
    content, x = perceptron(), random(4, 24)
    ours = session(content)
    assert ours.get_providers()[0] == provided.NAME
    (y,) = ours.run(None, {"x": x})
    (part,) = parts()
    assert np.array_equal(y, ts.compile(ts.load(content))(x))
    assert np.allclose(y, theirs(content).run(None, {"x": x})[0], atol=1e-6)
    assert (part.names, part.outputs) == (("x",), ("y",))


def test_calls_need_no_python() -> None:
    ours = session(perceptron())
    (part,) = parts()
    for n in range(5):
        ours.run(None, {"x": random(4, 24)})
        assert part.calls == n + 1


def test_new_sizes_are_compiled_once_and_then_need_no_python() -> None:
    content = perceptron("batch")
    ours, reference = session(content), theirs(content)
    (part,) = parts()
    for n in (3, 1, 8, 0):
        x = random(n, 24)
        before = part.calls
        first, second = ours.run(None, {"x": x})[0], ours.run(None, {"x": x})[0]
        assert part.calls == before + 1
        assert np.array_equal(first, second) and np.allclose(first, reference.run(None, {"x": x})[0], atol=1e-6)


def test_sizes_that_were_let_go_are_compiled_again() -> None:
    content = perceptron("batch")
    ours = session(content)
    (part,) = parts()
    executable = part.executable
    assert isinstance(executable, OpenExecutable)
    executable.keep = 2
    wanted = {n: ts.compile(ts.load(content, shapes={"batch": n}))(random(n, 24)) for n in (1, 2, 3, 4)}
    for n in (1, 2, 1, 3, 1, 4, 1, 2, 3):
        assert np.array_equal(ours.run(None, {"x": random(n, 24)})[0], wanted[n])
        assert {v.key[0] for v in executable.variants} == {shapes[0][0] for shapes in part._variants}


def test_the_size_in_use_stays() -> None:
    ours = session(perceptron("batch"))
    (part,) = parts()
    executable = part.executable
    assert isinstance(executable, OpenExecutable)
    executable.keep = 2
    for n in (1, 2, 1, 3, 1, 4, 1):
        ours.run(None, {"x": random(n, 24)})
    assert part.calls == 3  # 1 was never compiled again


@pytest.mark.parametrize("batch", [4, "batch"])
def test_what_we_do_not_have_is_left_to_onnx_runtime(batch: int | str) -> None:
    content, x = with_a_gap(batch), random(4, 16)
    ours = session(content)
    assert sorted(part.outputs for part in parts()) == [("b", "c"), ("y",)]
    assert np.allclose(ours.run(None, {"x": x})[0], theirs(content).run(None, {"x": x})[0], atol=1e-5)


def test_sizes_that_data_decides_are_never_compiled_for() -> None:
    nodes = [node("NonZero", ["x"], ["places"]), node("Cast", ["places"], ["p"], to=1), node("Exp", ["p"], ["y"])]
    ours = session(model(nodes, {"x": [4, 4]}, ["y"]))
    assert parts() == []
    assert ours.run(None, {"x": np.eye(4, dtype=np.float32)})[0].shape == (2, 4)


def test_shapes_that_are_computed_from_shapes() -> None:
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "first"], ["n"]),
        node("Concat", ["n", "rest"], ["wanted"], axis=0),
        node("Reshape", ["x", "wanted"], ["flat"]),
        node("MatMul", ["flat", "w"], ["y"]),
    ]
    constants = {"first": np.array([0]), "rest": np.array([12]), "w": random(12, 5)}
    content = model(nodes, {"x": ["n", 3, 4]}, ["y"], constants)
    ours = session(content)
    assert [part.outputs for part in parts()] == [("y",)]
    x = random(5, 3, 4)
    assert np.allclose(ours.run(None, {"x": x})[0], theirs(content).run(None, {"x": x})[0], atol=1e-5)


def test_sessions_and_threads_at_once() -> None:
    content = perceptron("batch")
    sessions = [session(content) for _ in range(3)]
    wanted = {n: ts.compile(ts.load(content, shapes={"batch": n}))(random(n, 24)) for n in range(1, 6)}
    wrong: list[object] = []

    def work(own: ort.InferenceSession, start: int) -> None:
        for k in range(60):
            n = 1 + (start + k) % 5
            try:
                if not np.array_equal(own.run(None, {"x": random(n, 24)})[0], wanted[n]):
                    wrong.append(n)
            except Exception as problem:
                wrong.append(problem)

    threads = [threading.Thread(target=work, args=(sessions[n % 3], n)) for n in range(9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert sum(part.calls for part in parts()) > 9 * 60 / 2


def test_nothing_is_left_of_sessions() -> None:
    content = model([node("Relu", ["x"], ["a"]), node("Neg", ["a"], ["y"])], {"x": [2, 24]}, ["y"])

    def sessions(count: int) -> int:
        for _ in range(count):
            session(content).run(None, {"x": random(2, 24)})
        gc.collect()
        assert parts() == [] and provider._providers == {}
        return len(gc.get_objects())

    before = sessions(10)
    assert sessions(200) - before < 50  # not one a session


# -- errors ------------------------------------------------------------------------------------------------------------


def test_what_goes_wrong_in_a_call_is_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = session(perceptron("batch"))

    def fail(problem: BaseException) -> None:
        def variant(*_: object) -> None:
            raise problem

        monkeypatch.setattr(OpenExecutable, "variant", variant)

    for problem, said in (
        (UserError("no such size"), "no such size"),
        (KeyboardInterrupt(), "interrupted"),
        (RuntimeError("a bug"), "RuntimeError: a bug"),
    ):
        fail(problem)
        with pytest.raises(ort.capi.onnxruntime_pybind11_state.Fail, match=said):
            ours.run(None, {"x": random(2, 24)})
    monkeypatch.undo()
    assert ours.run(None, {"x": random(2, 24)})[0].shape == (2, 10)


def test_a_part_that_cannot_be_compiled_is_left_to_onnx_runtime(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(provider, "compile", fail)
    ours = session(perceptron())
    assert parts() == [] and "RuntimeError: a bug" in caplog.text
    assert ours.run(None, {"x": random(4, 24)})[0].shape == (4, 10)


def test_options_are_checked() -> None:
    for wrong, said in (
        ({"threads": 0}, "threads is 0"),
        ({"threads": "two"}, "threads is 'two'"),
        ({"effort": "all"}, "effort 'all'"),
        ({"database": "none.db"}, "there is no file"),
        ({"trust_compiled": 1}, "trust_compiled is 1"),
        ({"options": 3}, "options is 3"),
    ):
        with pytest.raises(UserError, match=said):
            provided.session_options(**wrong)  # type: ignore[arg-type]


def test_threads_are_those_that_were_asked_for() -> None:
    for threads in (1, 2):
        ours = session(perceptron(), threads=threads)
        (part,) = parts()
        assert part.executable.threads == threads  # type: ignore[union-attr]
        del ours, part


def test_options_of_ones_own_are_added_to() -> None:
    own = ort.SessionOptions()
    own.log_severity_level = 4
    assert provided.session_options(options=own) is own and own.intra_op_num_threads == 1


def test_ctrl_c_while_a_session_is_made_is_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(provider, "compile", interrupt)
    with pytest.raises(ort.capi.onnxruntime_pybind11_state.Fail, match="interrupted"):
        session(perceptron())
    monkeypatch.undo()
    assert session(perceptron()).run(None, {"x": random(4, 24)})[0].shape == (4, 10)
