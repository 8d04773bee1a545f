"""Models of ONNX files whose dimensions stay open: what may be said of them, and what cannot be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

import tensorsmith as ts
from tensorsmith.errors import UserError
from tensorsmith.graph.model import Model
from tensorsmith.graph.open_model import OpenModel


def model(inputs: str, body: str = "y = Relu(x)") -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> g ({inputs}) => (float[p, q] y) {{ {body} }}')


TWO = model("float[batch, 4] x, float[batch, n] z", "r = ReduceSum<keepdims = 1>(z) y = Add(x, r)")


def opened(proto: onnx.ModelProto, shapes: dict[str, Any], **options: Any) -> OpenModel:
    made = ts.load(proto, shapes=shapes, **options)
    assert isinstance(made, OpenModel)
    return made


@pytest.mark.parametrize(
    ("shapes", "inputs", "named"),
    [
        ({"batch": None, "n": 3}, "x: f32[batch, 4], z: f32[batch, 3]", ()),
        ({"batch": None, "n": None}, "x: f32[batch, 4], z: f32[batch, n]", ()),
        ({"batch": [1, 8], "n": 3}, "x: f32[batch, 4], z: f32[batch, 3]", ((1,), (8,))),
        ({"batch": (8,), "n": [2, 5]}, "x: f32[batch, 4], z: f32[batch, n]", ((8, 2), (8, 5))),
        ({"batch": [1, 8], "n": None}, "x: f32[batch, 4], z: f32[batch, n]", ()),
        ({"x": (None, 4), "z": (None, 7)}, "x: f32[batch, 4], z: f32[batch, 7]", ()),
        ({"x": ("batch", 4), "batch": [2], "n": 1}, "x: f32[batch, 4], z: f32[batch, 1]", ((2,),)),
        ({"batch": [np.int64(2)], "n": 1}, "x: f32[batch, 4], z: f32[batch, 1]", ((2,),)),
    ],
)
def test_what_stays_open(shapes: dict[str, Any], inputs: str, named: tuple[Any, ...]) -> None:
    made = opened(TWO, shapes)
    assert ", ".join(map(str, made.inputs)) == inputs
    assert made.named == named


def test_dimensions_without_a_name() -> None:
    proto = model("float[?, 4] x")
    proto.graph.input[0].type.tensor_type.shape.dim[0].Clear()
    assert str(opened(proto, {"x": (None, 4)}).inputs[0]) == "x: f32[x_0, 4]"
    made = opened(proto, {"x": ("rows", 4), "rows": [1, 2]})
    assert str(made.inputs[0]) == "x: f32[rows, 4]" and made.named == ((1,), (2,))


def test_fixed_shapes_give_a_fixed_model() -> None:
    assert isinstance(ts.load(TWO, shapes={"x": [2, 4], "n": 3}), Model)
    assert isinstance(ts.load(TWO, shapes={"batch": 2, "n": 3}), Model)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"batch": None}, r"these dimensions are open: input z \[batch, n\]: n. Bind them: shapes={\"n\": N}"),
        ({"batch": None, "n": 3, "rows": None}, "'rows' is not a dimension of the model; it has input x, input z, dimension batch"),
        ({"batch": None, "n": 3, "rows": [1]}, "'rows' is not a dimension of the model"),
        ({"batch": None, "n": 3, "rows": 1}, "'rows' is not a dimension of the model"),
        ({"x": None, "n": 3}, r"x is an input: give its shape, which may be open in part, shapes={\"x\": \(None, 4\)}"),
        ({"batch": [-2], "n": 3}, "batch is -2; an open dimension has sizes from 0 on"),
        ({"batch": [1.5], "n": 3}, "the size of batch is 1.5; give a whole number"),
        ({"batch": [], "n": 3}, "no size is named for batch"),
        ({"batch": None, "z": (8, 3)}, r"dimension batch is open and, in the shape \[8, 3\] given for input z, 8"),
        ({"x": (None, 5), "n": 3}, r"input x has the shape \[batch, 4\]; the shape given is \[open, 5\]"),
        ({"x": (None, None), "n": 3}, r"input x has the shape \[batch, 4\]; the shape given is \[open, open\]"),
        ({"x": ("rows", 4), "n": 3}, "dimension 0 of input x is called batch, not rows"),
        ({"x": (None, 4, 1), "n": 3}, "input x has 2 dimensions"),
    ],
)
def test_mistakes(shapes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message) as problem:
        ts.load(TWO, shapes=shapes)
    assert "\n" not in str(problem.value)


def test_unsupported_operators_are_named_when_the_model_is_loaded() -> None:
    with pytest.raises(UserError, match="StringNormalizer"):
        ts.load(model("float[n, 4] x", "y = StringNormalizer(x)"), shapes={"n": None})


def test_inputs_that_are_constants_have_their_sizes() -> None:
    made = opened(model("float[batch, 4] x, float[4] b", "y = Add(x, b)"), {"batch": None}, constants={"b": np.ones(4, np.float32)})
    assert [a.name for a in made.inputs] == ["x"]
    assert made.at(batch=2).evaluate([np.zeros((2, 4), np.float32)])["y"].tolist() == np.ones((2, 4)).tolist()
    with pytest.raises(UserError, match="dimension batch is open and, in the shape"):
        ts.load(TWO, shapes={"batch": None}, constants={"z": np.ones((3, 2), np.float32)})


def test_a_constant_has_no_open_dimension() -> None:
    two = model("float[n, 4] x, float[4] b", "y = Add(x, b)")
    with pytest.raises(UserError, match="dimension n is left open, but no input has it"):
        ts.load(two, shapes={"x": (None, 4)}, constants={"x": np.ones((2, 4), np.float32)})


def test_a_model_at_some_size_is_a_model() -> None:
    made = opened(TWO, {"batch": None, "n": 2})
    at = made.at(batch=3)
    assert at.name == "g[batch=3]" and at.inputs[0].shape == (3, 4)
    x, z = np.ones((3, 4), np.float32), np.ones((3, 2), np.float32)
    assert at.evaluate([x, z])["y"].tolist() == (x + 6).tolist()
    assert made.at(batch=3) is at  # the last ones are remembered


def test_all_sizes_share_the_weights_as_they_are_read_once(tmp_path: Path) -> None:
    w = np.arange(8, dtype=np.float32).reshape(4, 2)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ("batch", 4))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ("batch", 2))
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [x], [y], [numpy_helper.from_array(w, "w")])
    path = tmp_path / "m.onnx"
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9),
        path,
        save_as_external_data=True,
        location="weights",
        size_threshold=0,
    )
    made = opened(path, {"batch": None})  # type: ignore[arg-type]
    first = made.at(batch=1).source.constants["w"]
    (tmp_path / "weights").unlink()
    assert made.at(batch=2).source.constants["w"] is first
