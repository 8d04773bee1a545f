"""Loop and Scan, laid out step by step, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper, parser
from tests.frontends.onnx_nodes import by_onnxruntime, random
from tests.frontends.onnx_samples import scan_body

from tensorsmith.errors import UserError
from tensorsmith.frontends.onnx import NeedsConstant, load_onnx
from tensorsmith.graph.evaluate import evaluate
from tensorsmith.graph.graph import Graph

X = random(3, 4)

LOOP = """<ir_version: 8, opset_import: ["" : 17]>
g (float[3, 4] x, bool start) => (float[3, 4] y, float[n, 3, 4] steps)
{
    count = Constant <value: tensor = int64 {COUNT}> ()
    y, steps = Loop (count, START, x) <body = step (int64 n, bool going, float[3, 4] v)
        => (bool go_on, float[3, 4] after, float[3, 4] out)
    {
        weight = Constant <value: tensor = float[4, 4] {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7}> ()
        limit = Constant <value: tensor = int64 {LIMIT}> ()
        go_on = Less (n, limit)
        product = MatMul (v, weight)
        after = Tanh (product)
        out = Add (after, x)
    }>
}
"""


def loop(count: int, limit: int = 100, start: str = "") -> Graph:
    text = LOOP.replace("COUNT", str(count)).replace("LIMIT", str(limit)).replace("START", start or '""')
    return parser.parse_model(text)


def agree(model, **inputs) -> Graph:
    graph = load_onnx(model)
    want = by_onnxruntime(model, inputs)
    got = evaluate(graph, {v.name: inputs[v.name] for v in graph.inputs})
    for mine, theirs in zip(got.values(), want):
        assert mine.shape == theirs.shape
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)
    return graph


def test_a_loop_of_a_known_number_of_steps() -> None:
    graph = agree(loop(5), x=X, start=np.array(True))
    assert [n.operator for n in graph.nodes].count("matmul") == 5
    assert len([a for a in graph.constants.values() if a.shape == (4, 4)]) == 1  # the body's weight is there once


def test_the_condition_ends_a_loop() -> None:
    graph = agree(loop(10, limit=2), x=X, start=np.array(True))
    assert [n.operator for n in graph.nodes].count("matmul") == 3


def test_loops_that_are_refused() -> None:
    with pytest.raises(UserError, match="more than 1024 steps"):
        load_onnx(loop(5000, limit=10000))
    with pytest.raises(UserError, match="takes no step"):
        load_onnx(loop(0))
    with pytest.raises(NeedsConstant, match=r"whether to start .* computed from start"):
        load_onnx(loop(3, start="start"))


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"scan_input_axes": [1]},
        {"scan_input_directions": [1]},
        {"scan_output_axes": [1]},
        {"scan_output_axes": [-1], "scan_output_directions": [1], "scan_input_axes": [-1]},
    ],
)
def test_scans(attributes: dict) -> None:
    node = helper.make_node("Scan", ["state", "rows"], ["last", "every"], body=scan_body(), num_scan_inputs=1, **attributes)
    inputs = [helper.make_tensor_value_info(name, 1, shape) for name, shape in (("state", [2]), ("rows", [3, 4]))]
    outputs = [helper.make_empty_tensor_value_info(name) for name in ("last", "every")]
    model = helper.make_model(helper.make_graph([node], "g", inputs, outputs), opset_imports=[helper.make_opsetid("", 17)])
    steps = 4 if "scan_input_axes" in attributes else 3
    rows = np.moveaxis(X, 1 if steps == 4 else 0, 0)
    rows = rows[::-1] if "scan_input_directions" in attributes else rows
    rows = rows[::-1] if "scan_output_directions" in attributes else rows
    got = evaluate(load_onnx(model), {"state": np.ones(2, "f4"), "rows": X})
    np.testing.assert_array_equal(got["last"], np.full(2, 2.0**steps, "f4"))
    np.testing.assert_array_equal(got["every"], -np.moveaxis(rows, 0, attributes.get("scan_output_axes", [0])[0]))
