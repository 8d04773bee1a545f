"""The importer itself: shapes, constants, names, scopes, types, and what it says of files it cannot read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser
from onnx.reference import ReferenceEvaluator

import tensorsmith as ts
from tensorsmith.errors import UserError
from tensorsmith.frontends.onnx import NeedsConstant, UnsupportedOperators, load_onnx
from tensorsmith.graph.evaluate import evaluate
from tensorsmith.lang.dtypes import canonical, dtype


def model(text: str, opset: int = 17, imports: str = "", functions: str = "") -> onnx.ModelProto:
    """A model written in ONNX's text form: `g (float[2] x) => (float[2] y) { y = Relu(x) }`."""
    return parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}{imports}]> {text} {functions}')


def agree(proto: onnx.ModelProto, **inputs: np.ndarray) -> None:
    """The imported graph gives what ONNX's reference gives."""
    graph = load_onnx(proto, {name: a.shape for name, a in inputs.items()})
    got = list(evaluate(graph, inputs).values())
    want = ReferenceEvaluator(proto).run(None, inputs)
    assert len(got) == len(want)
    for mine, theirs in zip(got, want):
        theirs = np.asarray(theirs)
        assert (mine.shape, mine.dtype) == (theirs.shape, theirs.dtype)
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)


X = np.arange(6, dtype="f4").reshape(2, 3) - 2


# names


@pytest.mark.parametrize(("graph", "name"), [("main_graph", "classifier"), ("torch_jit", "classifier"), ("resnet", "resnet")])
def test_a_graph_that_every_exporter_calls_so_has_the_name_of_its_file(tmp_path: Path, graph: str, name: str) -> None:
    proto = model(f"{graph} (float[n] x) => (float[n] y) {{ y = Relu(x) }}")
    onnx.save(proto, tmp_path / "classifier.onnx")
    assert ts.load(tmp_path / "classifier.onnx", shapes={"n": 4}).name == name
    assert ts.load(str(tmp_path / "classifier.onnx"), shapes={"n": None}).name == name
    assert ts.load(proto, shapes={"n": 4}).name == graph  # which has no file


# shapes


def test_dimensions_are_bound_by_name_and_by_shape() -> None:
    proto = model("g (float[batch, n] x, float[n, 4] w) => (float[batch, 4] y) { y = MatMul(x, w) }")
    by_name = load_onnx(proto, {"batch": 2, "n": 3})
    by_shape = load_onnx(proto, {"x": (2, 3)})  # n of the other input follows
    assert [v.shape for v in by_name.inputs] == [v.shape for v in by_shape.inputs] == [(2, 3), (3, 4)]


def test_every_open_dimension_is_named_with_what_binds_it() -> None:
    proto = model("g (float[batch, 3, h] x, float[?, 4] z, float[batch] v) => (float[batch] y) { y = Identity(v) }")
    with pytest.raises(UserError) as error:
        load_onnx(proto)
    text = str(error.value)
    for part in (
        "input x [batch, 3, h]: batch, h",
        "input z [?, 4]: 1 without a name",
        'shapes={"batch": N, "h": N, "z": (N, 4)}',
    ):
        assert part in text


def test_minus_one_is_an_open_dimension() -> None:
    proto = model("g (float[2, 3] x) => (float[2, 3] y) { y = Relu(x) }")
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -1
    with pytest.raises(UserError, match=r'input x \[\?, 3\].*shapes=\{"x": \(N, 3\)\}'):
        load_onnx(proto)
    assert load_onnx(proto, {"x": (5, 3)}).inputs[0].shape == (5, 3)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"x": (2, 4)}, r"input x has the shape \[batch, 3\]"),
        ({"x": (2,)}, "2 dimensions"),
        ({"x": (2, 3), "batch": 4}, "dimension batch is 4 and"),
        ({"q": (1,)}, "'q' is not an input of the model; it has input x, dimension batch"),
        ({"q": 1}, "'q' is not a dimension"),
        ({"batch": -1}, "size -1"),
    ],
)
def test_shapes_that_do_not_fit(shapes: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        load_onnx(model("g (float[batch, 3] x) => (float[batch, 3] y) { y = Relu(x) }"), shapes)


def test_a_question_mark_is_no_name_of_a_dimension() -> None:
    proto = model("g (float[a, b] x) => (float[a, b] y) { y = Relu(x) }")
    for d in proto.graph.input[0].type.tensor_type.shape.dim:
        d.dim_param = "?"
    with pytest.raises(UserError, match=r"input x \[\?, \?\]: 2 without a name"):
        load_onnx(proto)
    agree(proto, x=X)


def test_a_size_of_zero_gives_way_to_the_shape_given() -> None:
    proto = model("g (float[0, 3] x) => (float[0, 3] y) { y = Relu(x) }")
    assert load_onnx(proto).inputs[0].shape == (0, 3)
    assert load_onnx(proto, {"x": (2, 3)}).inputs[0].shape == (2, 3)


def test_an_input_without_a_shape_must_get_one() -> None:
    proto = model("g (float[1] x) => (float[1] y) { y = Relu(x) }")
    proto.graph.input[0].type.tensor_type.ClearField("shape")
    with pytest.raises(UserError, match=r'no shape.*shapes=\{"x": \(N, \.\.\.\)\}'):
        load_onnx(proto)
    agree(proto, x=X)


def test_rank_0_and_empty_inputs() -> None:
    agree(model("g (float x) => (float y) { y = Neg(x) }"), x=np.array(2, "f4"))
    agree(model("g (float[0, 3] x) => (float[0, 3] y) { y = Neg(x) }"), x=np.zeros((0, 3), "f4"))


# constants and folding


def test_weights_in_constant_nodes() -> None:
    proto = model("g (float[2, 3] x) => (float[2, 3] y) { w = Constant<value = float[3] {1.0, 2.0, 3.0}>() y = Mul(x, w) }")
    agree(proto, x=X)
    (constant,) = load_onnx(proto).constants.values()
    np.testing.assert_array_equal(constant, [1, 2, 3])


def test_initializers_repeated_as_inputs() -> None:
    proto = model("g (float[2, 3] x, float[3] w) => (float[2, 3] y) { y = Mul(x, w) }")
    proto.graph.initializer.append(numpy_helper.from_array(np.array([1, 2, 3], "f4"), "w"))
    graph = load_onnx(proto)
    assert [v.name for v in graph.inputs] == ["x"]
    np.testing.assert_array_equal(evaluate(graph, {"x": X})["y"], X * [1, 2, 3])


def test_shape_arithmetic_folds_away() -> None:
    """What exporters write for x.reshape(batch, -1)."""
    proto = model(
        """g (float[batch, 3, 4] x) => (float[?, ?] y) {
            s = Shape(x)
            zero = Constant<value_int = 0>()
            n = Gather(s, zero)
            axis = Constant<value_ints = [0]>()
            n1 = Unsqueeze(n, axis)
            rest = Constant<value_ints = [-1]>()
            shape = Concat<axis = 0>(n1, rest)
            y = Reshape(x, shape)
        }"""
    )
    graph = load_onnx(proto, {"batch": 2})
    assert [n.operator for n in graph.nodes] == ["reshape"]
    assert not graph.constants
    assert graph.values[graph.outputs[0][1]].shape == (2, 12)


def test_a_value_that_must_be_known_names_the_inputs_behind_it() -> None:
    proto = model("g (float[2, 3] x, int64[2] shape) => (float[?, ?] y) { s = Neg(shape) y = Reshape(x, s) }")
    with pytest.raises(NeedsConstant, match="Reshape y: the shape") as error:
        load_onnx(proto)
    assert error.value.sources == ("shape",)
    graph = load_onnx(proto, constants={"shape": np.array([-3, -2])})
    assert [v.name for v in graph.inputs] == ["x"]
    assert evaluate(graph, {"x": X})["y"].shape == (3, 2)


def test_constants_must_be_inputs_of_the_right_type() -> None:
    proto = model("g (float[2] x) => (float[2] y) { y = Relu(x) }")
    with pytest.raises(UserError, match="no such input"):
        load_onnx(proto, constants={"q": np.zeros(1)})
    with pytest.raises(UserError, match="input x is f32; the constant given for it is f64"):
        load_onnx(proto, constants={"x": np.zeros(2)})


# names and scopes


def test_the_same_output_twice_and_an_input_as_output() -> None:
    proto = model("g (float[2, 3] x) => (float[2, 3] y) { y = Relu(x) }")
    proto.graph.output.extend([proto.graph.output[0], proto.graph.input[0]])
    results = evaluate(load_onnx(proto), {"x": X})
    assert list(results) == ["y", "y_1", "x"]
    np.testing.assert_array_equal(results["y"], results["y_1"])
    np.testing.assert_array_equal(results["x"], X)


def test_a_constant_as_output() -> None:
    agree(model("g (float[2, 3] x) => (int64[2] y) { y = Shape(x) }"), x=X)


def test_optional_outputs_left_out() -> None:
    agree(
        model("g (float[2, 3] x) => (float[2, 3] y) { k = Constant<value_ints = [2]>() y, unused = TopK(x, k) }"),
        x=X[:, ::-1].copy(),
    )


def test_operator_sets_that_no_node_uses_do_no_harm() -> None:
    agree(model("g (float[2, 3] x) => (float[2, 3] y) { y = Relu(x) }", imports=', "ai.onnx.ml" : 3, "elsewhere" : 7'), x=X)


def test_ai_onnx_is_the_standard_set() -> None:
    proto = model("g (float[2, 3] x) => (float[2, 3] y) { y = Relu(x) }")
    proto.graph.node[0].domain = "ai.onnx"
    np.testing.assert_array_equal(evaluate(load_onnx(proto), {"x": X})["y"], np.maximum(X, 0))


def test_unsupported_operators_are_all_named_at_once() -> None:
    text = "g (float[2] x) => (float[2] y) { a = Det(x) b = Relu(a) c = Det(b) d = other.Blur(c) y = MaxUnpool(d, d) }"
    with pytest.raises(UnsupportedOperators) as error:
        load_onnx(model(text, imports=', "other" : 2'))
    assert error.value.counts == {"Det (opset 17)": 2, "other.Blur (opset 2)": 1, "MaxUnpool (opset 17)": 1}
    assert "Det (opset 17) x2, MaxUnpool (opset 17) x1, other.Blur (opset 2) x1" in str(error.value)


def test_a_value_that_nobody_gives() -> None:
    with pytest.raises(UserError, match="Relu y reads 'z', which neither an input nor a node before it gives"):
        load_onnx(model("g (float[2] x) => (float[2] y) { y = Relu(z) }"))


def test_an_operator_set_that_is_not_imported() -> None:
    with pytest.raises(UserError, match="Blur of the operator set other, but does not import"):
        load_onnx(model("g (float[2] x) => (float[2] y) { y = other.Blur(x) }"))


# branches and functions


def branch(name: str, *nodes: onnx.NodeProto, result: str = "r") -> onnx.GraphProto:
    return helper.make_graph(list(nodes), name, [], [helper.make_tensor_value_info(result, TensorProto.FLOAT, None)])


def nested_if(known: bool) -> onnx.ModelProto:
    """If with an If in a branch; the branches read values from around them."""
    inner = helper.make_node(
        "If",
        ["small"],
        ["r"],
        then_branch=branch("inner_then", helper.make_node("Abs", ["x"], ["r"])),
        else_branch=branch("inner_else", helper.make_node("Neg", ["doubled"], ["r"])),
    )
    outer = helper.make_node(
        "If",
        ["flag"],
        ["y"],
        then_branch=branch("then", helper.make_node("Add", ["x", "x"], ["doubled"]), inner),
        else_branch=branch("else", helper.make_node("Relu", ["x"], ["r"])),
    )
    bools = [helper.make_tensor_value_info(n, TensorProto.BOOL, []) for n in ("flag", "small")]
    graph = helper.make_graph(
        [outer],
        "branches",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3]), *([] if known else bools)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])],
        [numpy_helper.from_array(np.array(v), n) for n, v in (("flag", True), ("small", False))] if known else [],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def test_a_branch_known_to_be_taken_is_built_alone() -> None:
    graph = load_onnx(nested_if(known=True))
    assert [n.operator for n in graph.nodes] == ["add", "negative"]
    np.testing.assert_array_equal(evaluate(graph, {"x": X})["y"], -2 * X)


@pytest.mark.parametrize("flag", [True, False])
@pytest.mark.parametrize("small", [True, False])
def test_branches_on_a_computed_condition(flag: bool, small: bool) -> None:
    agree(nested_if(known=False), x=X, flag=np.array(flag), small=np.array(small))


def test_branches_of_different_shapes_need_a_known_condition() -> None:
    node = helper.make_node(
        "If",
        ["flag"],
        ["y"],
        then_branch=branch("then", helper.make_node("Relu", ["x"], ["r"])),
        else_branch=branch("else", helper.make_node("Flatten", ["x"], ["r"], axis=0)),
    )
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3]),
        helper.make_tensor_value_info("flag", TensorProto.BOOL, []),
    ]
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    with pytest.raises(NeedsConstant) as error:
        load_onnx(proto)
    assert error.value.sources == ("flag",)
    assert load_onnx(proto, constants={"flag": np.array(False)}).values["reshape"].shape == (1, 6)


def test_functions_of_the_model() -> None:
    proto = model(
        "g (float[2, 3] x) => (float[2, 3] y) { a = here.Leaky <slope = 0.25> (x)  y = here.Both (a) }",
        imports=', "here" : 1',
        functions="""
        <domain: "here", opset_import: ["" : 17]> Leaky <slope> (v) => (r) { r = LeakyRelu<alpha: float = @slope>(v) }
        <domain: "here", opset_import: ["" : 17, "here" : 1]> Both (v) => (r) { t = here.Leaky <slope = 2.0> (v)  r = Add(t, v) }
        """,
    )
    once = np.where(X < 0, X * 0.25, X)
    np.testing.assert_allclose(evaluate(load_onnx(proto), {"x": X})["y"], np.where(once < 0, once * 2, once) + once)


def test_a_function_that_calls_itself() -> None:
    proto = model(
        "g (float[2] x) => (float[2] y) { y = here.Loop(x) }",
        imports=', "here" : 1',
        functions='<domain: "here", opset_import: ["here" : 1]> Loop (v) => (r) { r = here.Loop(v) }',
    )
    with pytest.raises(UserError, match="does one call itself"):
        load_onnx(proto)


def test_operators_that_onnx_defines_by_others() -> None:
    agree(
        model("g (float[2, 3, 4, 4] x) => (float[2, 3, 4, 4] y) { y = MeanVarianceNormalization(x) }"),
        x=np.random.rand(2, 3, 4, 4).astype("f4"),
    )


# types


@pytest.mark.parametrize("kind", ["int16", "uint16", "uint32", "uint64"])
def test_integers_of_any_size(kind: str) -> None:
    """Sums as wide as the type; a cast wraps around, and so do they."""
    number = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    nodes = [helper.make_node("Cast", ["x"], ["c"], to=number), helper.make_node("Add", ["c", "c"], ["y"])]
    x = np.array([-5, 0, 7, 70000], np.int64) if kind != "uint64" else np.array([0, 7, 70000], np.int64)
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.INT64, x.shape)],
        [helper.make_tensor_value_info("y", number, x.shape)],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    got = evaluate(load_onnx(proto), {"x": x})["y"]
    assert got.dtype == kind
    assert np.array_equal(got, x.astype(kind) + x.astype(kind))


@pytest.mark.parametrize("kind", ["int16", "uint16", "uint32", "uint64", "bfloat16", "float16"])
def test_inputs_and_outputs_of_any_type(kind: str) -> None:
    number = helper.np_dtype_to_tensor_dtype(dtype(canonical(kind)).numpy)
    ends = [helper.make_tensor_value_info(name, number, (2, 5)) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Mul", ["x", "x"], ["y"])], "g", ends[:1], ends[1:])
    x = np.arange(10).reshape(2, 5).astype(dtype(canonical(kind)).numpy)
    made = ts.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())
    got = ts.compile(made)(x)
    assert got.dtype == x.dtype
    np.testing.assert_array_equal(got, x * x)


def test_strings_and_sequences_are_refused() -> None:
    with pytest.raises(UserError, match="input x has the element type STRING"):
        load_onnx(model("g (string[2] x) => (string[2] y) { y = Identity(x) }"))
    with pytest.raises(UserError, match="input x is a sequence"):
        load_onnx(model("g (seq(float[2]) x) => (seq(float[2]) y) { y = Identity(x) }"))
    constant = helper.make_node("Constant", [], ["y"], value=helper.make_tensor("t", TensorProto.STRING, [1], [b"a"]))
    graph = helper.make_graph([constant], "g", [], [helper.make_tensor_value_info("y", TensorProto.STRING, [1])])
    with pytest.raises(UserError, match="STRING"):
        load_onnx(helper.make_model(graph))


# files


def saved(folder: Path, **entries: str) -> Path:
    """A model whose weights are in w.bin beside it, with some of the entries that say where changed."""
    proto = model("g (float[2, 3] x) => (float[2, 3] y) { y = Mul(x, w) }")
    tensor = numpy_helper.from_array(np.array([1, 2, 3], "f4"), "w")
    (folder / "w.bin").write_bytes(b"\0" * 8 + tensor.raw_data)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": "w.bin", "offset": "8", "length": "12", **entries}.items():
        tensor.external_data.add(key=key, value=value)
    proto.graph.initializer.append(tensor)
    path = folder / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


def test_weights_beside_the_model(tmp_path: Path) -> None:
    np.testing.assert_array_equal(evaluate(load_onnx(saved(tmp_path)), {"x": X})["y"], X * [1, 2, 3])
    with pytest.raises(UserError, match="load the model by its path"):
        load_onnx(saved(tmp_path).read_bytes())


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"location": "../w.bin"}, "leads out of the model's folder"),
        ({"location": "inside/../../w.bin"}, "leads out of the model's folder"),
        ({"location": "/etc/hostname"}, "relative to the model"),
        ({"location": "link.bin"}, "leads out of the model's folder"),
        ({"location": "other.bin"}, "does not exist"),
        ({"location": ""}, "relative to the model"),
        ({"offset": "12"}, "takes 12 bytes"),
        ({"offset": "-4"}, "takes 12 bytes"),
        ({"length": "8"}, "takes 12 bytes"),
        ({"length": "many"}, "many"),
    ],
)
def test_weights_that_are_not_where_the_model_says(tmp_path: Path, entries: dict[str, str], message: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "w.bin").write_bytes(b"\0" * 20)
    (folder / "link.bin").symlink_to(tmp_path / "w.bin")
    with pytest.raises(UserError, match=message):
        load_onnx(saved(folder, **entries))


def test_files_that_are_not_there_or_no_models(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot read .*none\.onnx"):
        load_onnx(tmp_path / "none.onnx")
    with pytest.raises(UserError, match="cannot read"):
        load_onnx(tmp_path)
    with pytest.raises(UserError, match="not int"):
        load_onnx(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("dims", [[3], [-1], [1 << 40], [1 << 33, 1 << 33], []])
def test_initializers_of_the_wrong_size(dims: list[int]) -> None:
    proto = model("g (float[2] x) => (float[2] y) { y = Add(x, w) }")
    tensor = numpy_helper.from_array(np.array([1, 2], "f4"), "w")
    tensor.dims[:] = dims
    proto.graph.initializer.append(tensor)
    with pytest.raises(UserError, match="initializer"):
        load_onnx(proto)


def test_errors_name_the_node() -> None:
    text = "g (float[2, 3] x, float[4] z) => (float[2, 3] y) { y = Add(x, z) }"
    with pytest.raises(UserError, match=r"Add y.*\[2, 3\], \[4\]"):
        load_onnx(model(text))


# names that are defined twice


def test_a_name_that_is_defined_twice_is_refused() -> None:
    two_nodes = model("g (float[2] x) => (float[2] y) { y = Relu(x) y = Neg(x) }")
    with pytest.raises(UserError, match="'y' is defined twice, by an output of Relu and by an output of Neg"):
        load_onnx(two_nodes)
    with pytest.raises(UserError, match="'x' is defined twice, by an input and by an output of Relu"):
        load_onnx(model("g (float[2] x) => (float[2] x) { x = Relu(x) }"))
    doubled = model("g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }")
    doubled.graph.initializer.append(doubled.graph.initializer[0])
    with pytest.raises(UserError, match="'w' is defined twice, by an initializer and by an initializer"):
        load_onnx(doubled)
    inputs = model("g (float[2] x) => (float[2] y) { y = Relu(x) }")
    inputs.graph.input.append(inputs.graph.input[0])
    with pytest.raises(UserError, match="'x' is defined twice, by an input and by an input"):
        load_onnx(inputs)


def test_functions_operator_sets_and_attributes_that_are_there_twice_are_refused() -> None:
    source = model("g (float[2] x) => (float[2] y) { y = Elu<alpha = 2.0>(x) }")
    source.graph.node[0].attribute.append(source.graph.node[0].attribute[0])
    with pytest.raises(UserError, match="the attribute 'alpha' is given twice"):
        load_onnx(source)
    source = model("g (float[2] x) => (float[2] y) { y = Relu(x) }")
    source.opset_import.add(domain="ai.onnx", version=9)
    with pytest.raises(UserError, match=r"ai\.onnx is imported in the versions 17 and 9"):
        load_onnx(source)
    source = model("g (float[2] x) => (float[2] y) { y = Relu(x) }")
    for _ in range(2):
        source.functions.append(onnx.helper.make_function("own", "f", ["a"], ["b"], [], [onnx.helper.make_opsetid("", 17)]))
    with pytest.raises(UserError, match=r"two functions called own\.f"):
        load_onnx(source)


def test_attributes_that_a_function_does_not_have_are_refused() -> None:
    source = model('g (float[2, 3] x, int64[2] t) => (float y) { y = SoftmaxCrossEntropyLoss<reductoin = "sum">(x, t) }')
    with pytest.raises(UserError, match="SoftmaxCrossEntropyLoss has no attribute 'reductoin'"):
        load_onnx(source)


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_attributes_reach_the_operators_of_a_body(reduction: str) -> None:
    """The loss is defined by another loss, which takes the attributes of the first and is itself defined by a body."""
    text = f'y = SoftmaxCrossEntropyLoss<reduction = "{reduction}", ignore_index = 1>(x, t, w)'
    source = model(f"g (float[3, 2] x, int64[3] t, float[2] w) => (float y) {{ {text} }}")
    source.graph.output[0].type.tensor_type.ClearField("shape")
    x, t, w = np.array([[1, 2], [3, 0], [0, 1]], "f4"), np.array([0, 1, 0]), np.array([2, 3], "f4")
    agree(source, x=x, t=t, w=w)
