"""Whole numbers of any type, what `shapes` takes, and dimensions of size 0."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, parser
from tests.frontends.onnx_nodes import by_onnxruntime, random
from typer.testing import CliRunner

import tensorsmith as ts
from tensorsmith.cli import app
from tensorsmith.errors import UserError, whole_number
from tensorsmith.ops.conv import conv2d
from tensorsmith.tuning.budget import Budget


def parsed(nodes: str, output: str = "float[n] y", inputs: str = "float[batch, 4] x") -> ModelProto:
    return parser.parse_model(f'<ir_version: 8, opset_import: ["" : 13]> g ({inputs}) => ({output}) {{ {nodes} }}')


RELU = parsed("y = Relu(x)")


@pytest.mark.parametrize(
    "shapes", [{"batch": np.int64(2)}, {"batch": np.array(2)}, {"x": (np.int32(2), 4)}, {"x": np.array([2, 4])}]
)
def test_whole_numbers_of_any_type(shapes: Any) -> None:
    assert ts.load(RELU, shapes=shapes).inputs[0].shape == (2, 4)


def test_whole_numbers_of_any_type_elsewhere() -> None:
    opened = ts.load(RELU, shapes={"batch": [np.int64(1), np.uint8(2)]})
    assert opened.named == ((1,), (2,))
    assert opened.at(batch=np.int16(3)).inputs[0].shape == (3, 4)
    assert ts.placeholder(np.int64(5)).shape == (5,)
    a = ts.placeholder((1, 8, 8, 4), name="a")
    w = ts.placeholder((3, 3, 4, 4), name="w")
    assert conv2d(a, w, stride=np.int64(2), padding=np.int64(1)).shape == (1, 4, 4, 4)
    assert Budget.of(None, np.int64(3), None, np.int32(2)) == Budget(3, None, 2)
    assert ts.compile(opened, keep=np.int64(2)).keep == 2
    assert [whole_number(n) for n in (True, 1.0, "1", None, np.array([1]), np.True_)] == [None] * 6


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (
            (1, 4),
            'shapes=(1, 4): it takes shapes by the names of inputs, and sizes .*, shapes={"x": (1, 4)}',
        ),
        (5, 'shapes=5: it takes shapes by the names of inputs, .*"dimension": 8}'),
        ({"batch": 1.0}, "the size of batch is 1.0; give a whole number"),
        ({"batch": True}, "the size of batch is True; give a whole number"),
        ({"x": (1.5, 4)}, "a size of input x is 1.5; give a whole number, None or a name"),
    ],
)
def test_what_shapes_takes(shapes: Any, message: str) -> None:
    with pytest.raises(UserError) as problem:
        ts.load(RELU, shapes=shapes)
    text = str(problem.value)
    assert "malformed" not in text
    first, _, last = message.partition(".*")
    assert text == message if not last else text.startswith(first) and text.endswith(last)


EMPTY = {
    "elementwise": "y = Relu(x)",
    "sum of all": "y = ReduceSum<keepdims = 0>(x)",
    "sum": "a = Constant<value_ints = [0]>() y = ReduceSum(x, a)",
    "product": "y = ReduceProd<axes = [0]>(x)",
    "softmax": "y = Softmax(x)",
    "products of nothing": "w = Transpose(x) y = MatMul(w, x)",
    "concatenation": "y = Concat<axis = 0>(x, x)",
    "flattening": "s = Constant<value_ints = [0, 2, -1]>() z = Reshape(x, s) y = Flatten(z)",
    "largest of rows": "y = ReduceMax<axes = [1]>(x)",
}


@pytest.mark.parametrize("name", EMPTY)
def test_open_dimensions_may_be_empty(name: str) -> None:
    proto, x = parsed(EMPTY[name]), np.zeros((0, 4), "f4")
    exe = ts.compile(ts.load(proto, shapes={"batch": None}))
    (want,) = by_onnxruntime(proto, {"x": x}) if name != "flattening" else [np.zeros((0, 4), "f4")]
    got = exe(x)
    assert got.shape == want.shape and got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(ts.compile(ts.load(proto, shapes={"batch": 0}))(x), want)
    assert exe(random(3, 4)).dtype == want.dtype  # other sizes go on as before


def test_images_and_sequences_may_be_none() -> None:
    proto = parsed("y = Conv<pads = [1, 1, 1, 1]>(x, w)", inputs="float[batch, 3, 5, 5] x, float[2, 3, 3, 3] w")
    exe = ts.compile(ts.load(proto, shapes={"batch": None}))
    assert exe(np.zeros((0, 3, 5, 5), "f4"), random(2, 3, 3, 3)).shape == (0, 2, 5, 5)


def test_what_nothing_has_is_said() -> None:
    exe = ts.compile(ts.load(parsed("y = ArgMax<axis = 0>(x)", "int64[n] y"), shapes={"batch": None}))
    with pytest.raises(UserError, match=r"ArgMax y: .*dimension 0 of .* is empty"):
        exe(np.zeros((0, 4), "f4"))
    with pytest.raises(UserError, match="batch is -1; an open dimension has sizes from 0 on"):
        ts.load(RELU, shapes={"batch": None}).at(batch=-1)


@pytest.mark.parametrize("path", ["m.onnx", Path("m.onnx")])
def test_paths_are_to_be_loaded_first(path: Any) -> None:
    for call in (
        ts.compile,
        lambda p: ts.compile(p, weights="bf16"),
        lambda p: ts.tune(p, trials=1),
        lambda p: ts.tune([p], trials=1),
    ):
        with pytest.raises(UserError) as problem:
            call(path)
        assert str(problem.value) == "'m.onnx' is a path, not a model: load it first, as in ts.compile(ts.load('m.onnx'))"


def test_the_only_input_needs_no_name(tmp_path: Path) -> None:
    onnx.save(RELU, tmp_path / "m.onnx")
    onnx.save(parsed("y = Add(x, z)", inputs="float[2, 4] x, float[2, 4] z"), tmp_path / "two.onnx")
    np.save(tmp_path / "x.npy", random(2, 4))

    def run(model: str, *more: str) -> Any:
        return CliRunner().invoke(app, ["run", str(tmp_path / model), "--input", str(tmp_path / "x.npy"), *more])

    for more in (["--shape", "batch=2"], ["--shape", "batch=?"]):
        assert run("m.onnx", *more, "--output", str(tmp_path / "y.npy")).exit_code == 0
        np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), np.maximum(random(2, 4), 0))
    problem = run("two.onnx").exception
    assert "write NAME=FILE.npy" in str(problem) and str(problem).endswith("; the inputs are x, z")
