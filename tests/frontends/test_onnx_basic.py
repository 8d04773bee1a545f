"""Handlers of the simpler operators, in the versions of the operator set that real files use, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, parser
from tests.frontends.onnx_nodes import by_reference, check, kinds, model_of, random

from tensorsmith.errors import UserError
from tensorsmith.frontends.onnx import NeedsConstant, load_onnx
from tensorsmith.graph.evaluate import evaluate

X = random(2, 3, 4)
I64 = np.int64


def ints(*numbers: int) -> np.ndarray:
    return np.array(numbers, I64)


#: operator, version, inputs, attributes; every input but the first is an initializer
CASES: list[tuple[str, int, list[Any], dict[str, Any]]] = [
    ("Unsqueeze", 11, [X], {"axes": [0, -1]}),
    ("Unsqueeze", 13, [X, ints(0, -1)], {}),
    ("Squeeze", 11, [random(1, 3, 1)], {"axes": [-1]}),
    ("Squeeze", 13, [random(1, 3, 1), ints(0)], {}),
    ("Squeeze", 13, [random(1, 3, 1)], {}),
    ("Split", 11, [X], {"axis": 2, "split": [1, 3], "outputs": 2}),
    ("Split", 11, [X], {"axis": -1, "outputs": 2}),
    ("Split", 13, [X, ints(1, 3)], {"axis": 2, "outputs": 2}),
    ("Split", 18, [X], {"axis": 1, "num_outputs": 2, "outputs": 2}),
    ("ReduceSum", 11, [X], {"axes": [1], "keepdims": 0}),
    ("ReduceSum", 13, [X, ints(-1)], {}),
    ("ReduceSum", 13, [X], {"noop_with_empty_axes": 1}),
    ("ReduceMean", 17, [X], {"axes": [1, 2]}),
    ("ReduceMean", 18, [X, ints(1, 2)], {"keepdims": 0}),
    ("ReduceMax", 13, [X], {}),
    ("ReduceMin", 18, [X, ints(0)], {}),
    ("ReduceProd", 13, [X], {"axes": [2]}),
    ("ReduceL1", 13, [X], {"axes": [2]}),
    ("ReduceL2", 18, [X, ints(2)], {}),
    ("ReduceLogSum", 13, [np.abs(X)], {"axes": [2]}),
    ("ReduceLogSumExp", 13, [X], {"axes": [2]}),
    ("ReduceSumSquare", 13, [X], {"axes": [2]}),
    ("Slice", 9, [X], {"starts": [0, 1], "ends": [9, -1], "axes": [1, 2]}),
    ("Slice", 13, [X, ints(-1, 0), ints(-99, 9), ints(2, 1), ints(-2, 2)], {}),
    ("Slice", 13, [X, ints(1), ints(2)], {}),
    ("Slice", 13, [X, ints(3), ints(1), ints(2)], {}),  # nothing is left
    ("Pad", 10, [X], {"pads": [0, 1, 0, 0, 0, 2], "mode": "constant", "value": 1.5}),
    ("Pad", 13, [X, ints(0, 1, 0, 0, 0, 2), np.array(1.5, "f4")], {}),
    ("Pad", 13, [X, ints(0, 1, 2, 0, 1, 3)], {"mode": "reflect"}),
    ("Pad", 18, [X, ints(1, 2), None, ints(-1)], {"mode": "edge"}),
    ("Pad", 18, [X, ints(0, 0), None, ints(-1)], {"mode": "edge"}),
    ("Clip", 9, [X], {"min": -0.5, "max": 0.5}),
    ("Clip", 13, [X, np.array(-0.5, "f4")], {}),
    ("Clip", 13, [X, None, np.array(0.5, "f4")], {}),
    ("Clip", 13, [X], {}),
    ("Upsample", 9, [random(1, 2, 3, 3), np.array([1, 1, 2, 2], "f4")], {"mode": "nearest"}),
    ("Gather", 13, [X, ints(1, -1, 0)], {"axis": 1}),
    ("Gather", 13, [X, np.array(-1)], {"axis": 2}),
    ("Gather", 13, [X, ints(0, 2)], {"axis": 1}),
    ("Gather", 13, [X, np.array([[0, 1], [1, 0]])], {"axis": 0}),
    ("GatherElements", 13, [X, np.array([[[1, 0, -1, 2]]])], {"axis": 1}),
    ("GatherND", 13, [X, np.array([[0, 1], [1, -1]])], {}),
    ("ScatterND", 13, [X, np.array([[0, 1], [1, -1]]), random(2, 4, seed=1)], {}),
    ("ScatterND", 16, [X, np.array([[0], [0]]), random(2, 3, 4, seed=1)], {"reduction": "add"}),
    ("ScatterElements", 13, [X, np.array([[[1, 0, -1, 2]]]), random(1, 1, 4, seed=1)], {"axis": 1}),
    ("OneHot", 11, [ints(0, 2, -1), np.array(3), np.array([0, 1], "f4")], {"axis": 0}),
    ("TopK", 11, [X, ints(2)], {"axis": 1, "largest": 0, "outputs": 2}),
    ("CumSum", 14, [X, np.array(1)], {"reverse": 1, "exclusive": 1}),
    ("ArgMax", 13, [X], {"axis": -1, "keepdims": 0}),
    ("ArgMin", 13, [X], {"axis": 1, "select_last_index": 1}),
    ("Hardmax", 11, [X], {"axis": 1}),
    ("Hardmax", 13, [X], {"axis": 1}),
    ("ScatterND", 13, [X, np.array([[0], [1], [0]]), random(3, 3, 4, seed=1)], {}),  # the last counts
    ("Tile", 13, [X, ints(1, 2, 3)], {}),
    ("Expand", 13, [random(3, 1), ints(2, 1, 4)], {}),
    ("Reshape", 13, [X, ints(0, -1)], {}),
    ("Flatten", 13, [X], {"axis": -1}),
    ("Flatten", 13, [X], {"axis": 0}),
    ("Transpose", 13, [X], {}),
    ("Transpose", 13, [X], {"perm": [2, 0, 1]}),
    ("DepthToSpace", 13, [random(1, 8, 2, 3)], {"blocksize": 2, "mode": "DCR"}),
    ("DepthToSpace", 13, [random(1, 8, 2, 3)], {"blocksize": 2, "mode": "CRD"}),
    ("SpaceToDepth", 13, [random(1, 2, 4, 6)], {"blocksize": 2}),
    ("Trilu", 14, [X, np.array(1)], {"upper": 0}),
    ("Concat", 13, [X, random(2, 1, 4), random(2, 5, 4)], {"axis": -2}),
    ("Where", 16, [X > 0, X, random(1)], {}),
    ("Pow", 13, [X, np.array(2, "f4")], {}),
    ("Pow", 13, [np.abs(X), np.array(-0.5, "f4")], {}),
    ("Pow", 15, [np.abs(X), np.array(2.7, "f4")], {}),
    ("Mod", 13, [X, random(4, seed=3)], {"fmod": 1}),
    ("Mod", 13, [np.arange(-6, 6), np.array(4)], {}),
    ("Div", 14, [np.arange(-6, 6), np.array(4)], {}),
    ("PRelu", 9, [X, random(3, 1)], {}),
    ("Selu", 6, [X], {}),
    ("Celu", 12, [X], {"alpha": 0.7}),
    ("Elu", 6, [X], {"alpha": 0.7}),
    ("HardSigmoid", 6, [X], {}),
    ("HardSwish", 14, [X * 5], {}),
    ("ThresholdedRelu", 10, [X], {"alpha": 0.3}),
    ("Shrink", 9, [X], {"bias": 0.1, "lambd": 0.3}),
    ("Softplus", 1, [X * 30], {}),
    ("Sign", 13, [np.round(X)], {}),
    ("Round", 11, [np.array([0.5, 1.5, -2.5, 2.4], "f4")], {}),
    ("IsInf", 10, [np.array([1, np.inf, -np.inf], "f4")], {"detect_negative": 0}),
    ("Mean", 13, [X, random(3, 1), random(1)], {}),
    ("Sum", 13, [X], {}),
    ("Max", 13, [np.arange(4), np.array(2)], {}),
    ("Dropout", 11, [X], {}),
    ("Einsum", 12, [X, random(2, 4, 5)], {"equation": "bij, bjk -> bik"}),
    ("Einsum", 12, [X, random(2, 4, 5)], {"equation": "...ij,...jk->...ik"}),
    ("Einsum", 12, [X, random(4, 5), random(5)], {"equation": "bij,jk,k->bi"}),
    ("Einsum", 12, [random(3, 4)], {"equation": "ij->ji"}),
    ("Einsum", 12, [random(3, 4), random(4, 5)], {"equation": "ij,jk"}),
    ("ReverseSequence", 10, [random(4, 3), ints(1, 4, 2)], {}),
    ("EyeLike", 9, [random(3, 4)], {"k": 1, "dtype": TensorProto.INT64}),
    ("Compress", 11, [X, np.array([True, False, True])], {"axis": 1}),
    ("Cast", 13, [X * 5], {"to": TensorProto.INT32}),
    ("CastLike", 15, [X * 5, ints(1)], {}),
]


@pytest.mark.parametrize("case", CASES, ids=[f"{kind}-{version}-{n}" for n, (kind, version, _, _) in enumerate(CASES)])
def test_operators(case: tuple[str, int, list[Any], dict[str, Any]]) -> None:
    kind, version, arrays, attributes = case
    check(kind, arrays, opset=version, constants=tuple(range(1, len(arrays))), **attributes)


@pytest.mark.parametrize("kind", ["GatherElements", "GatherND", "Gather"])
def test_computed_indices(kind: str) -> None:
    indices = {"GatherElements": np.array([[[1, 0, -1, 2]]]), "GatherND": np.array([[0, 1], [1, -1]]), "Gather": np.array([1, -2])}[
        kind
    ]
    check(kind, [X, indices], opset=13, compiled=True, **({"axis": 1} if kind != "GatherND" else {}))


def test_computed_scatters() -> None:
    check("ScatterND", [X, np.array([[0, 1], [1, 2]]), random(2, 4, seed=1)], opset=13, compiled=True)
    check("ScatterElements", [X, np.array([[[1, 0, 2, 2]]]), random(1, 1, 4, seed=1)], opset=13, compiled=True, axis=1)


@pytest.mark.parametrize(
    ("kind", "version", "arrays", "attributes"),
    [
        ("DFT", 17, [random(2, 12, 3, 1)], {"axis": 1}),
        ("DFT", 17, [random(2, 3, 12, 1)], {"axis": 2, "onesided": 1}),
        ("DFT", 20, [random(2, 12, 2), np.array(16), np.array(-2)], {}),  # padded with zeros
        ("DFT", 20, [random(2, 12, 2), np.array(7), np.array(1)], {}),  # cut
        ("DFT", 20, [random(2, 12, 2)], {"inverse": 1}),
        ("STFT", 17, [random(2, 40, 1), np.array(6), np.hanning(16).astype("f4"), np.array(16)], {}),
        ("STFT", 17, [random(2, 40, 1), np.array(5), None, np.array(11)], {"onesided": 0}),
    ],
)
def test_fourier_transforms(kind: str, version: int, arrays: list[Any], attributes: dict[str, Any]) -> None:
    constants = tuple(range(1, len(arrays)))
    check(kind, arrays, peer=by_reference, opset=version, constants=constants, rtol=1e-4, atol=1e-5, **attributes)


# what the graph looks like


def test_gathers_of_evenly_spaced_elements_are_slices() -> None:
    def operators(indices: np.ndarray) -> list[str]:
        return kinds(load_onnx(model_of("Gather", [X, indices], constants=(1,), opset=13, axis=1)[0]))

    assert operators(np.array(1)) == ["slice", "reshape"]
    assert operators(ints(0, 2)) == operators(ints(2, 1)) == ["slice"]
    assert operators(ints(0, 1, 2)) == []  # all of it
    assert operators(ints(0, 0)) == operators(ints(0, 2, 1)) == ["gather"]


def test_what_does_nothing_is_not_there() -> None:
    text = """g (float[2, 3] x) => (float[2, 3] y) {
        shape = Constant<value_ints = [2, 3]>()
        a = Reshape(x, shape)  b = Transpose<perm = [0, 1]>(a)  c = Identity(b)  d = Expand(c, shape)  e = Concat<axis = 0>(d)
        low = Constant<value_float = -3.4028234663852886e38>()  f = Clip(e, low)
        pads = Constant<value_ints = [0, 0, 0, 0]>()  h = Pad(f, pads)  i = Dropout(h)  y = Cast<to = 1>(i)
    }"""
    graph = load_onnx(parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}'))
    assert kinds(graph) == []


def test_known_scatters_look_for_nothing() -> None:
    model, _ = model_of("ScatterND", [X, np.array([[0, 1]]), random(1, 4)], constants=(1,), opset=13)
    assert kinds(load_onnx(model)) == ["overlay"]


def test_powers_are_written_out() -> None:
    for exponent, want in (
        (2, ["square"]),
        (3, ["square", "multiply"]),
        (0.5, ["sqrt"]),
        (-0.5, ["sqrt", "reciprocal"]),
        (2.5, ["power"]),
    ):
        model, _ = model_of("Pow", [X, np.array(exponent, "f4")], constants=(1,), opset=13)
        assert kinds(load_onnx(model)) == want


# patterns that exporters write


def chain(text: str, x: np.ndarray) -> None:
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> g (float[2, 3, 4] x) => (float[2, 3, 4] y) {{ {text} }}')
    (want,) = by_reference(model, {"x": x})
    np.testing.assert_allclose(evaluate(load_onnx(model), {"x": x})["y"], want, rtol=1e-5, atol=1e-6)


def test_hard_swish_gelu_and_layer_norm_as_chains() -> None:
    chain(
        """three = Constant<value_float = 3.0>()  zero = Constant<value_float = 0.0>()  six = Constant<value_float = 6.0>()
        a = Add(x, three)  c = Clip(a, zero, six)  m = Mul(x, c)  y = Div(m, six)""",
        X * 5,
    )
    chain(
        """root = Constant<value_float = 1.4142135>()  one = Constant<value_float = 1.0>()  half = Constant<value_float = 0.5>()
        a = Div(x, root)  e = Erf(a)  p = Add(e, one)  m = Mul(x, p)  y = Mul(m, half)""",
        X * 3,
    )
    chain(
        """two = Constant<value_float = 2.0>()  eps = Constant<value_float = 0.00001>()
        mean = ReduceMean<axes = [-1]>(x)  d = Sub(x, mean)  s = Pow(d, two)  v = ReduceMean<axes = [-1]>(s)
        w = Add(v, eps)  r = Sqrt(w)  y = Div(d, r)""",
        X,
    )
    chain("s = Sigmoid(x)  y = Mul(x, s)", X)


# constants


def test_constants_of_all_forms() -> None:
    text = """g () => (float a, float[2] b, int64 c, int64[3] d, float[2, 2] e, int32[2] f) {
        a = Constant<value_float = 1.5>()  b = Constant<value_floats = [1.0, 2.0]>()  c = Constant<value_int = 7>()
        d = Constant<value_ints = [1, 2, 3]>()  shape = Constant<value_ints = [2, 2]>()  e = ConstantOfShape(shape)
        f = Constant<value = int32[2] {4, 5}>()
    }"""
    results = evaluate(load_onnx(parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}')), {})
    want = [np.float32(1.5), np.array([1, 2], "f4"), I64(7), ints(1, 2, 3), np.zeros((2, 2), "f4"), np.array([4, 5], np.int32)]
    for got, right in zip(results.values(), want):
        assert got.dtype == right.dtype
        np.testing.assert_array_equal(got, right)


def test_range_shape_size_and_nonzero() -> None:
    check("Range", [np.array(10.0, "f4"), np.array(0, "f4"), np.array(-3, "f4")], constants=(0, 1, 2), opset=11)
    check("Range", [np.array(5), np.array(5), np.array(1)], constants=(0, 1, 2), opset=11)
    check("Shape", [X], opset=15, start=-2)
    check("Size", [X], opset=13)
    check("NonZero", [np.array([[1, 0], [2, 3]], "f4")], constants=(0,), opset=13)
    with pytest.raises(NeedsConstant, match="NonZero node: the size of its result depends on the data"):
        load_onnx(model_of("NonZero", [X], opset=13)[0])


@pytest.mark.parametrize(
    ("kind", "arrays", "attributes"),
    [
        ("RandomNormalLike", [X], {}),
        ("RandomUniformLike", [X], {"seed": 3.0}),
        ("RandomNormal", [], {"shape": [2]}),
        ("RandomUniform", [], {"shape": [2]}),
        ("Bernoulli", [X], {}),
        ("Multinomial", [random(2, 3)], {}),
    ],
)
def test_random_numbers_are_refused(kind: str, arrays: list, attributes: dict) -> None:
    with pytest.raises(UserError, match=f"{kind} node draws at random in every call; give the model a seed, seed=0, or make"):
        load_onnx(model_of(kind, arrays, **attributes)[0])


def test_more_parts_than_elements_are_refused() -> None:
    with pytest.raises(UserError, match="Split node is to give"):
        load_onnx(model_of("Split", [X], outputs=2, opset=18, axis=2, num_outputs=1 << 40)[0])


def test_dropout_that_drops_is_refused() -> None:
    with pytest.raises(UserError, match="drops elements at random"):
        load_onnx(model_of("Dropout", [X, np.array(0.5, "f4"), np.array(True)], constants=(1, 2))[0])
    check("Dropout", [X, np.array(0.5, "f4"), np.array(False)], constants=(1, 2))


# what does not fit


@pytest.mark.parametrize(
    ("kind", "arrays", "attributes", "message"),
    [
        ("Reshape", [X, ints(5, -1)], {}, "cannot be reshaped"),
        ("Reshape", [X, ints(-1, -1)], {}, "is no shape"),
        ("Reshape", [X, ints(1, 1, 1, 0)], {}, "no dimension to copy"),
        ("Squeeze", [X, ints(0)], {}, "not 1 long"),
        ("Unsqueeze", [X, ints(9)], {}, "dimension 9 does not exist"),
        ("Split", [X, ints(1, 1)], {"axis": 2, "outputs": 2}, "do not make up"),
        ("Slice", [X, ints(0), ints(2), ints(0), ints(0)], {}, "do not fit"),
        ("Pad", [X, ints(1)], {}, "1 pad for 3 dimensions"),
        ("Gather", [X, ints(7)], {"axis": 1}, r"are not all in -3\.\.2"),
        ("Gather", [X, np.array([0.5], "f4")], {}, "must be integers"),
        ("ScatterND", [X, np.array([[0, 3]]), random(1, 4)], {}, "not in"),
        ("TopK", [X, ints(9)], {"outputs": 2}, "9 elements"),
        ("Einsum", [X], {"equation": "ij->i"}, "does not fit"),
        ("DepthToSpace", [random(1, 3, 2, 2)], {"blocksize": 2}, "do not make blocks"),
        ("ConstantOfShape", [ints(1 << 20, 1 << 20)], {}, "no shape that a constant"),
        ("ConstantOfShape", [ints(-1)], {}, "no shape that a constant"),
        ("Transpose", [X], {"perm": [0, 0, 1]}, "no order"),
        ("Concat", [X, random(3, 3, 4)], {"axis": 1}, "do not fit"),
        ("And", [X, X], {}, "needs bool"),
    ],
)
def test_refusals_name_the_node(kind: str, arrays: list[Any], attributes: dict[str, Any], message: str) -> None:
    model, _ = model_of(
        kind, arrays, constants=tuple(range(1 if kind != "ConstantOfShape" else 0, len(arrays))), opset=17, **attributes
    )
    with pytest.raises(UserError, match=message) as error:
        load_onnx(model)
    assert f"{kind} node" in str(error.value)
