"""ONNX's backend interface, and a part of its own test suite by generated code; `benchmarks/onnx_suite.py` runs all of it."""

from __future__ import annotations

import importlib
import warnings

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, parser
from onnx.backend.test.runner import BackendIsNotSupposedToImplementIt, Runner

import tensorsmith.frontends.onnx.backend as backend
from tensorsmith.errors import UserError
from tensorsmith.frontends.onnx.read import TYPES

#: modules of ONNX's node tests; each makes its cases when it is imported
MODULES = [
    "add", "argmax", "clip", "concat", "cumsum", "depthtospace", "div", "equal", "flatten", "gather", "gathernd", "gelu",
    "hardswish", "identity", "if_", "leakyrelu", "mod", "pad", "pow", "prelu", "rangeop", "scatternd", "slice", "squeeze",
    "topk", "transpose", "trilu", "where",
]  # fmt: skip


def node_tests() -> list:
    """The cases of those modules, one in two of those with many."""
    import onnx.backend.test.case.node as node

    cases = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in MODULES:
            before = len(node._NodeTestCases)
            importlib.import_module(f"onnx.backend.test.case.node.{name}")
            made = node._NodeTestCases[before:]
            cases += made if len(made) < 4 else made[::2]
    return [c for c in cases if not c.name.endswith("_expanded") and of_known_types(c)]


def of_known_types(case) -> bool:
    values = (*case.model.graph.input, *case.model.graph.output)
    return all(v.type.tensor_type.elem_type in TYPES for v in values)


@pytest.mark.parametrize("case", node_tests(), ids=lambda c: c.name)
def test_of_onnx(case) -> None:
    prepared = backend.prepare(case.model)
    for inputs, outputs in case.data_sets:
        inputs, outputs = (
            [numpy_helper.to_array(a) if isinstance(a, TensorProto) else a for a in arrays] for arrays in (inputs, outputs)
        )
        Runner.assert_similar_outputs(outputs, prepared.run(inputs), case.rtol, case.atol)


def model(text: str):
    return parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}')


X = np.arange(6, dtype="f4").reshape(2, 3) - 2


@pytest.mark.parametrize("reference", [True, False])
def test_a_model_is_compiled_again_for_other_shapes_and_constants(reference: bool) -> None:
    prepared = backend.prepare(
        model("g (float[n, m] x, int64[k] s) => (float[a, b] y) { r = Relu(x) y = Reshape(r, s) }"), reference=reference
    )
    for shape in ((3, 2), (6, 1), (3, 2)):
        (y,) = prepared.run([X, np.array(shape)])
        np.testing.assert_array_equal(y, np.maximum(X, 0).reshape(shape))
    (y,) = prepared.run({"x": X.T.copy(), "s": np.array([-1])})
    np.testing.assert_array_equal(y, np.maximum(X.T, 0).reshape(-1))
    assert len(prepared._compiled) == 3


def test_outputs_by_name_and_by_position() -> None:
    results = backend.run_model(
        model("g (float[2, 3] x) => (float[2, 3] low, int64[2] size) { low = Neg(x) size = Shape(x) }"), [X]
    )
    np.testing.assert_array_equal(results["low"], -X)
    np.testing.assert_array_equal(results[1], [2, 3])


def test_run_node() -> None:
    (y,) = backend.run_node(helper.make_node("Add", ["a", "b"], ["y"]), [X, np.array([1, 2, 3], "f4")])
    np.testing.assert_array_equal(y, X + np.array([1, 2, 3], "f4"))
    (y,) = backend.run_node(helper.make_node("Clip", ["x", "", "high"], ["y"]), [X, None, np.float32(1)])
    np.testing.assert_array_equal(y, np.minimum(X, 1))
    (y,) = backend.run_node(helper.make_node("ReduceSum", ["x"], ["y"], axes=[0]), [X], opset_version=11)
    np.testing.assert_array_equal(y, X.sum(0, keepdims=True))


@pytest.mark.parametrize("kind", ["int16", "uint16", "uint32", "uint64", "float16", "float64"])
def test_results_have_the_declared_type(kind: str) -> None:
    number = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    values = [helper.make_tensor_value_info(name, number, [3]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "g", values[:1], values[1:])
    x = np.array([1, 2, 40000 if kind == "uint16" else 3], kind)
    (y,) = backend.run_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), [x])
    assert y.dtype == x.dtype
    np.testing.assert_array_equal(y, x + x)


def test_what_is_not_supported_is_said_so() -> None:
    assert backend.supports_device("CPU")
    assert not backend.supports_device("CUDA")
    with pytest.raises(UserError, match="no device 'CUDA'"):
        backend.prepare(model("g (float[2] x) => (float[2] y) { y = Relu(x) }"), "CUDA")
    with pytest.raises(BackendIsNotSupposedToImplementIt, match="Det"):
        backend.run_model(model("g (float[2, 2] x) => (float y) { y = Det(x) }"), [X[:, :2]])
    with pytest.raises(BackendIsNotSupposedToImplementIt, match="strings"):
        backend.run_model(model("g (string[2] x) => (string[2] y) { y = Identity(x) }"), [np.array(["a", "b"])])
    with pytest.raises(UserError, match=r"takes 1 input \(x\), 2 given"):
        backend.run_model(model("g (float[2] x) => (float[2] y) { y = Relu(x) }"), [X, X])
