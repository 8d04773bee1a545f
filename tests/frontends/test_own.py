"""Operators of one's own, in ONNX files: a definition is all that is needed, and what it leaves out is refused."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import tensorsmith as ts
from tensorsmith.errors import UserError
from tensorsmith.frontends import own, register
from tensorsmith.graph import operators

X = np.random.default_rng(0).uniform(-2, 2, (5, 12)).astype(np.float32)


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for table in (own._ONNX, own._TORCH):
        monkeypatch.setattr(own, "_ONNX" if table is own._ONNX else "_TORCH", dict(table))
    before = set(operators.table())
    yield
    for name in set(operators.table()) - before:
        operators._TABLE.pop(name)


def model(*nodes: onnx.NodeProto, inputs: dict[str, tuple[int, ...]] | None = None, out: str = "y") -> bytes:
    """A model of standard operators and those of com.example."""
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (inputs or {"x": X.shape}).items()]
    graph = helper.make_graph(list(nodes), "g", ends, [helper.make_tensor_value_info(out, TensorProto.FLOAT, None)])
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("com.example", 1)]
    return helper.make_model(graph, opset_imports=sets, ir_version=8).SerializeToString()


def node(kind: str, inputs: list[str], output: str = "y", domain: str = "com.example", **attributes: object) -> onnx.NodeProto:
    return helper.make_node(kind, inputs, [output], domain=domain, **attributes)


def swish(x: ts.lang.define.Tensor, *, beta: float = 1.0) -> ts.lang.define.Tensor:
    return ts.compute(x.shape, lambda *i: x[i] * ts.sigmoid(beta * x[i]), name="swish")


def normed(x: ts.lang.define.Tensor, scale: ts.lang.define.Tensor | None = None, *, power: int) -> ts.lang.define.Tensor:
    """Rows over their norm: two stages, a sum, a tensor that may be left out, an attribute that there must be."""
    k = ts.reduce_axis(x.shape[1], name="k")
    total = ts.compute((x.shape[0],), lambda i: ts.sum(ts.abs(x[i, k]) ** power, axis=k), name="total")
    root = ts.compute(x.shape, lambda i, j: x[i, j] / total[i] ** (1.0 / power), name="root")
    return root if scale is None else ts.compute(x.shape, lambda i, j: root[i, j] * scale[j], name="scaled")


def test_a_foreign_operator_amid_standard_ones() -> None:
    register(onnx="com.example::Swish", elementwise=True)(swish)
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0]),
        node("Swish", ["t"], "a", beta=2.0),
        helper.make_node("Relu", ["a"], ["b"]),
        node("Swish", ["b"], "c", beta=3.0),
        node("Swish", ["c"], "y"),
    ]
    loaded = ts.load(model(*nodes))

    def by(x: np.ndarray, beta: float) -> np.ndarray:
        return x / (1 + np.exp(-beta * x))

    want = by(by(np.maximum(by(X.T.astype(float), 2.0), 0), 3.0), 1.0)
    for given in (ts.compile(loaded)(X), loaded.evaluate([X])["y"]):
        np.testing.assert_allclose(given, want, rtol=1e-5, atol=1e-6)
    assert len(ts.compile(loaded).network.steps) == 1  # fused with its neighbours


@pytest.mark.parametrize("scaled", [False, True])
def test_several_stages_and_tensors_that_are_left_out(scaled: bool) -> None:
    register(onnx="com.example::Normed")(normed)
    inputs = {"x": X.shape, **({"s": (12,)} if scaled else {})}
    nodes = [node("Normed", [*inputs], "a", power=2), node("Normed", ["a"], "b", power=4), helper.make_node("Exp", ["b"], ["y"])]
    scale = np.linspace(1, 2, 12, dtype=np.float32)
    wide = X.astype(float)
    first = wide / np.sqrt((wide**2).sum(1, keepdims=True)) * (scale if scaled else 1)
    want = np.exp(first / (np.abs(first) ** 4).sum(1, keepdims=True) ** 0.25)
    got = ts.compile(ts.load(model(*nodes, inputs=inputs)))(X, *([scale] if scaled else []))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_data_say_where_to_read_and_several_results() -> None:
    @register(onnx="com.example::Both")
    def both(x, where, *, add=(0, 1)):
        index = ts.compute(where.shape, lambda i: ts.cast("i64", where[i]), name="index")
        picked = ts.compute(where.shape, lambda i: x[index[i]] + add[1], name="picked")
        return picked, ts.compute(x.shape, lambda i: x[i] * picked[0], name="times")

    nodes = [
        helper.make_node("Both", ["x", "w"], ["a", "b"], domain="com.example", add=[5, 7]),
        helper.make_node("Concat", ["a", "b"], ["y"], axis=0),
    ]
    x, where = X[0], np.array([3.0, 0.0, 11.0], np.float32)
    got = ts.compile(ts.load(model(*nodes, inputs={"x": (12,), "w": (3,)})))(x, where)
    np.testing.assert_allclose(got, np.concatenate([x[[3, 0, 11]] + 7, x * (x[3] + 7)]), rtol=1e-6)


def test_open_dimensions_and_any_number_of_tensors() -> None:
    @register(onnx="com.example::Total", elementwise=True)
    def total(*tensors):
        found = 0.0
        return ts.compute(tensors[0].shape, lambda *i: sum((t[i] for t in tensors), found), name="total")

    made = ts.compile(ts.load(model(node("Total", ["x", "x", "x"]), inputs={"x": ("n", 12)}), shapes={"n": None}))
    for n in (1, 3):
        np.testing.assert_allclose(made(X[:n]), 3 * X[:n], rtol=1e-6)


def test_the_last_definition_counts_and_loaded_models_keep_theirs() -> None:
    register(onnx="com.example::F", elementwise=True)(lambda x: ts.compute(x.shape, lambda *i: x[i] + 1.0))
    first = ts.load(model(node("F", ["x"])))
    register(onnx="com.example::F", elementwise=True)(lambda x: ts.compute(x.shape, lambda *i: x[i] + 2.0))
    assert np.allclose(ts.compile(ts.load(model(node("F", ["x"]))))(X), X + 2)
    assert np.allclose(ts.compile(first)(X), X + 1)


def test_a_definition_goes_before_a_function_of_the_file() -> None:
    register(onnx="com.example::F", elementwise=True)(lambda x: ts.compute(x.shape, lambda *i: x[i] + 1.0))
    proto = onnx.load_from_string(model(node("F", ["x"])))
    body = [helper.make_node("Neg", ["a"], ["b"])]
    proto.functions.append(helper.make_function("com.example", "F", ["a"], ["b"], body, [helper.make_opsetid("", 17)]))
    assert np.allclose(ts.compile(ts.load(proto))(X), X + 1)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([node("Swish", ["x"], gamma=1.0)], "attribute 'gamma' is not supported"),
        ([node("Swish", ["x", "x"])], "takes 1 tensor, not 2"),
        ([node("Normed", ["x"])], "needs the attribute 'power'"),
        ([node("Normed", ["", "x"], power=2)], "needs tensor 0, which is left out"),
        ([node("Unknown", ["x"])], r"com.example.Unknown .* or here by ts.frontends.register"),
        ([node("Fails", ["x"])], r"the definition of com.example::Fails fails on f32\[5, 12\]: ZeroDivisionError"),
        ([node("Number", ["x"])], "gives 3; it must give a tensor"),
        ([node("Turned", ["x"])], r"registered as elementwise, but stage T reads `x|registered as elementwise, but"),
        ([node("Summed", ["x"])], "registered as elementwise, but"),
        ([node("Shifted", ["x"])], "registered as elementwise, but stage T reads"),
    ],
)
def test_what_does_not_fit_is_refused(nodes: list[onnx.NodeProto], message: str) -> None:
    k = ts.reduce_axis(12, name="k")
    register(onnx="com.example::Swish", elementwise=True)(swish)
    register(onnx="com.example::Normed")(normed)
    register(onnx="com.example::Fails")(lambda x: 1 // 0)
    register(onnx="com.example::Number")(lambda x: 3)
    register(onnx="com.example::Turned", elementwise=True)(lambda x: ts.compute(x.shape[::-1], lambda i, j: x[j, i]))
    register(onnx="com.example::Summed", elementwise=True)(lambda x: ts.compute(x.shape, lambda i, j: ts.sum(x[i, k], axis=k)))
    register(onnx="com.example::Shifted", elementwise=True)(lambda x: ts.compute(x.shape, lambda i, j: x[i, 11 - j]))
    with pytest.raises(UserError, match=message):
        ts.load(model(*nodes))


def test_what_cannot_be_registered() -> None:
    with pytest.raises(UserError, match=r'write "domain::Name"'):
        register(onnx="Swish")
    with pytest.raises(UserError, match="register needs the operator"):
        register()
    with pytest.raises(UserError, match=r"positional parameter beta=1.0; its attributes come behind a \*"):
        register(onnx="a::B")(lambda x, beta=1.0: x)
    with pytest.raises(UserError, match=r"takes \*\*rest"):
        register(onnx="a::B")(lambda x, **rest: x)
    with pytest.raises(UserError, match="give a function of tensors"):
        register(onnx="a::B")(3)  # type: ignore[type-var]


def test_attributes_of_other_types_are_other_operators() -> None:
    """1, 1.0 and True are equal in Python, and mean different things to a definition."""
    seen = []
    register(onnx="com.example::F")(lambda x, *, n=0: (seen.append(type(n)), ts.compute(x.shape, lambda *i: x[i] + float(n)))[1])
    ts.load(model(node("F", ["x"], "a", n=1), node("F", ["a"], "b", n=1.0), helper.make_node("Add", ["a", "b"], ["y"])))
    assert {int, float} <= set(seen)
