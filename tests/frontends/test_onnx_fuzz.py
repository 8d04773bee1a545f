"""Damaged files: an error that says so, never a crash, a hang, or another exception."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from tensorsmith.errors import UserError
from tensorsmith.frontends.onnx import load_onnx


def small_model() -> bytes:
    """A few operators of each family, with weights, shape arithmetic, a branch and a function in it."""
    generator = np.random.default_rng(3)
    weights = {
        "w": generator.normal(size=(4, 3, 3, 3)).astype("f4"),
        "b": generator.normal(size=4).astype("f4"),
        "m": generator.normal(size=(4, 5)).astype("f4"),
        "tail": np.array([-1], np.int64),
        "first": np.array(0, np.int64),
        "yes": np.array(True),
    }
    value = helper.make_tensor_value_info("branch", TensorProto.FLOAT, None)
    branches = {
        name: helper.make_graph([helper.make_node(kind, ["flat"], ["branch"])], name, [], [value])
        for name, kind in (("then_branch", "Relu"), ("else_branch", "Neg"))
    }
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], name="conv", pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("MaxPool", ["c"], ["p"], kernel_shape=[2, 2]),
        helper.make_node("GlobalAveragePool", ["p"], ["g"]),
        helper.make_node("Shape", ["g"], ["s"]),
        helper.make_node("Gather", ["s", "first"], ["n"], axis=0),
        helper.make_node("Unsqueeze", ["n", "axes"], ["n1"]),
        helper.make_node("Concat", ["n1", "tail"], ["shape"], axis=0),
        helper.make_node("Reshape", ["g", "shape"], ["flat"]),
        helper.make_node("If", ["yes"], ["taken"], **branches),
        helper.make_node("Twice", ["taken"], ["twice"], domain="here"),
        helper.make_node("Gemm", ["twice", "m"], ["z"], alpha=0.5),
        helper.make_node("Softmax", ["z"], ["y"], axis=-1),
    ]
    weights["axes"] = np.array([0], np.int64)
    twice = helper.make_function(
        "here", "Twice", ["a"], ["o"], [helper.make_node("Add", ["a", "a"], ["o"])], [helper.make_opsetid("", 17)]
    )
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 5])],
        [numpy_helper.from_array(a, name) for name, a in weights.items()],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("here", 1)]
    return bytes(helper.make_model(graph, opset_imports=imports, functions=[twice]).SerializeToString())


def attempt(data: bytes) -> bool:
    """Whether it was refused; anything but a graph or a `UserError` fails the test."""
    try:
        load_onnx(data)
    except UserError as problem:
        assert str(problem)
        return True
    return False


def test_the_model_itself_loads() -> None:
    assert not attempt(small_model())


def test_truncated_files() -> None:
    whole = small_model()
    refused = [attempt(whole[:n]) for n in range(0, len(whole), 7)]
    assert sum(refused) > 0.9 * len(refused)


@pytest.mark.parametrize("seed", range(4))
def test_flipped_bits(seed: int) -> None:
    whole, generator = small_model(), np.random.default_rng(seed)
    refused = 0
    for _ in range(150):
        damaged = bytearray(whole)
        for at in generator.integers(0, len(whole), generator.integers(1, 4)):
            damaged[at] ^= 1 << int(generator.integers(8))
        refused += attempt(bytes(damaged))
    assert refused > 0


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
def test_many_damaged_files(seed: int) -> None:
    whole, generator = small_model(), np.random.default_rng(1000 + seed)
    for _ in range(500):
        damaged = bytearray(whole)
        for at in generator.integers(0, len(whole), generator.integers(1, 9)):
            damaged[at] = int(generator.integers(256))
        attempt(bytes(damaged))


@pytest.mark.parametrize("data", [b"", b"\x00", b"not a model", b"PK\x03\x04" + b"\x00" * 100, bytes(range(256)) * 4, b"\x3a\x00"])
def test_what_is_no_model_at_all(data: bytes) -> None:
    assert attempt(data)
