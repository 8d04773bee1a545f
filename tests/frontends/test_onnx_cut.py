"""Models cut at tensors of theirs: `ts.load(..., outputs=[...])`, and the messages that say where to cut."""

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
from tensorsmith.cli.words import told
from tensorsmith.errors import UserError
from tensorsmith.frontends.onnx import NeedsConstant, UnsupportedOperators

#: a detector: boxes and scores of a product, of which NonMaxSuppression chooses some; a tensor beside them, and one of sizes
_W, _V = (", ".join(str(float(v)) for v in random(*shape).ravel()) for shape in ((8, 4), (8, 3)))
DETECTOR = f"""g (float[1, 4, 8] x, int64[1] limit) => (int64[n, 3] chosen, float[1, 4] side)
    <float[8, 4] w = {{{_W}}}, float[8, 3] v = {{{_V}}}>
    {{
        raw = MatMul(x, w)
        boxes = Abs(raw)
        logits = MatMul(x, v)
        turned = Transpose<perm = [0, 2, 1]>(logits)
        scores = Sigmoid(turned)
        chosen = NonMaxSuppression(boxes, scores, limit)
        side = ReduceMax<axes = [2], keepdims = 0>(x)
    }}"""


def parsed(text: str, opset: int = 13, **domains: int) -> ModelProto:
    sets = ", ".join(f'"{name}" : {version}' for name, version in {"": opset, **domains}.items())
    return parser.parse_model(f"<ir_version: 8, opset_import: [{sets}]> {text}")


def said(load: Any) -> UserError:
    with pytest.raises(UserError) as problem:
        load()
    return problem.value


def test_a_detector_is_cut_before_it_chooses() -> None:
    proto, x = parsed(DETECTOR), random(1, 4, 8)
    model = ts.load(proto, outputs=["scores", "boxes"])
    assert [v.name for v in model.inputs] == ["x"]  # what only the rest reads is no input any more
    got = ts.compile(model).run({"x": x})
    assert list(got) == ["scores", "boxes"]
    del proto.graph.output[:]
    proto.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in got)
    for mine, theirs in zip(got.values(), by_onnxruntime(proto, {"x": x, "limit": np.array([3])})):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)


def test_the_refusal_says_where_to_cut_and_that_works() -> None:
    problem = said(lambda: ts.load(parsed(DETECTOR), constants={"limit": np.array([3])}))
    assert isinstance(problem, NeedsConstant)
    text = str(problem)
    assert text.startswith("NonMaxSuppression chosen: the size of its result depends on the boxes (boxes), ")
    assert 'cut the model before it, outputs=["side", "boxes", "scores"]' in text
    assert "constants=" not in text
    assert "--outputs side,boxes,scores" in told(problem)
    assert [v.name for v in ts.load(parsed(DETECTOR), outputs=["side", "boxes", "scores"]).outputs] == ["side", "boxes", "scores"]


def test_a_refusal_in_a_branch_says_where_to_cut_around_it() -> None:
    text = """g (float[4] x, bool flag) => (int64[1, n] y) {
        z = Neg(x)
        y = If(flag) <
            then_branch = a () => (int64[1, n] p) { p = NonZero(z) },
            else_branch = b () => (int64[1, n] q) { q = NonZero(z) }
        >
    }"""
    assert 'cut the model before it, outputs=["z"]' in str(said(lambda: ts.load(parsed(text))))


def test_a_constant_is_advised_besides_where_one_helps() -> None:
    text = "g (float[4] x, int64[1] n) => (float[m] y) { z = Neg(x)  y = Expand(z, n) }"
    problem = said(lambda: ts.load(parsed(text)))
    assert 'constants={"n": array}, or cut the model before it, outputs=["z"]' in str(problem)


def test_operators_of_others_are_cut_off_or_defined() -> None:
    text = "g (float[4] x) => (float[4] y, float[4] w) { z = Neg(x)  s = Exp(z)  t = acme.Fancy(z, s)  y = Relu(t)  w = Abs(s) }"
    problem = said(lambda: ts.load(parsed(text, acme=1)))
    assert isinstance(problem, UnsupportedOperators)
    assert str(problem) == (
        'g uses operators that are not supported: acme.Fancy (opset 1) x1; cut the model before them, outputs=["w", "z", "s"], or '
        "define the operator in the file by a function of its domain and name (a FunctionProto of standard operators), "
        "or here by ts.frontends.register"
    )
    assert "--outputs w,z,s" in told(problem)
    x = random(4)
    got = ts.compile(ts.load(parsed(text, acme=1), outputs=["w", "z", "s"])).run({"x": x})
    np.testing.assert_allclose(got["s"], np.exp(-x), rtol=1e-5)
    defined = parsed(text, acme=1)
    own = parser.parse_function('<domain: "acme", opset_import: ["" : 13]> Fancy (a, b) => (c) { c = Mul(a, b) }')
    defined.functions.append(own)
    np.testing.assert_allclose(
        ts.compile(ts.load(defined)).run({"x": x})["y"], np.maximum(-x * np.exp(-x), 0), rtol=1e-5, atol=1e-6
    )


def test_nodes_that_no_output_needs_are_not_looked_at() -> None:
    text = "g (float[4] x) => (float[4] y) { y = Relu(x)  z = acme.Fancy(x)  n = NonZero(x) }"
    assert [n.operator for n in ts.load(parsed(text, acme=1)).source.nodes] == ["relu"]


def test_what_an_inner_graph_reads_of_the_outer_one_stays() -> None:
    text = """g (float[4] x) => (float[4] y) <bool yes = {1}> {
        z = Neg(x)
        y = If(yes) <then_branch = a () => (float[4] p) { p = Exp(z) }, else_branch = b () => (float[4] q) { q = Abs(z) }>
    }"""
    x = random(4)
    np.testing.assert_allclose(ts.compile(ts.load(parsed(text), outputs=["y"]))(x), np.exp(-x), rtol=1e-5)


def test_an_input_and_an_open_model_may_be_cut_too() -> None:
    text = "g (float[n, 4] x, float[k] other) => (float[n, 4] y) { z = Neg(x)  y = acme.Fancy(z, other) }"
    opened = ts.load(parsed(text, acme=1), shapes={"n": None}, outputs=["z", "x"])
    exe, x = ts.compile(opened), random(3, 4)
    z, same = exe(x)
    np.testing.assert_array_equal(z, -x)
    np.testing.assert_array_equal(same, x)


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        (["box"], "outputs: the model has no tensor 'box' among its 11 tensors; near it are 'boxes'"),
        (["q"], "outputs: the model has no tensor 'q' among its 11 tensors; its outputs are 'chosen', 'side'"),
        ([], "outputs=[]: name at least one tensor of the model"),
        ("boxes", "outputs='boxes': give a list of names of tensors, outputs=[\"side\"]"),
        (["boxes", "boxes"], "outputs: 'boxes' is named twice"),
        ([3], 'outputs=[3]: give a list of names of tensors, outputs=["side"]'),
    ],
)
def test_names_that_are_not_there(outputs: Any, message: str) -> None:
    assert str(said(lambda: ts.load(parsed(DETECTOR), outputs=outputs))) == message


def command(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.mark.parametrize("verb", ["tasks", "run", "compile", "bench", "sketches", "export"])
def test_commands_cut_models(verb: str, tmp_path: Path) -> None:
    onnx.save(parsed(DETECTOR), tmp_path / "m.onnx")
    more = {
        "compile": ["-o", tmp_path / "m.tsm"],
        "bench": ["--seconds", "0.01"],
        "sketches": ["--task", "0"],
        "export": ["-o", tmp_path / "c"],
    }.get(verb, [])
    result = command(verb, tmp_path / "m.onnx", "--outputs", "boxes,scores", *more)
    assert result.exit_code == 0, result.output
    assert command(verb, tmp_path / "m.onnx", *more).exit_code != 0


def test_a_command_says_what_cannot_be_cut(tmp_path: Path) -> None:
    result = command("tasks", "GMM-small", "--outputs", "y")
    assert result.exit_code != 0
    result = command("sketches", "GMM-small", "--outputs", "y")
    assert isinstance(result.exception, (UserError, SystemExit))
    assert "only a model in an ONNX file can be cut" in (str(result.exception) + result.output)
