"""`tensorsmith ops`: what is listed, chosen by words, and left out where a system is not installed."""

from __future__ import annotations

import json
import sys

import pytest
from typer.testing import CliRunner, Result

from tensorsmith.cli import app
from tensorsmith.errors import UserError
from tensorsmith.frontends import operators as module
from tensorsmith.frontends.onnx.table import table
from tensorsmith.frontends.operators import operators


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["ops", *arguments])


@pytest.fixture
def without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("tensorsmith.frontends.torch")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)


def test_every_operator_of_the_table() -> None:
    found = {o.operator: o for o in operators("onnx")}
    assert {name for name, o in found.items() if not o.by_definition} == {".".join(filter(None, key)) for key in table()}
    assert all(o.types and o.since >= 1 and o.system == "onnx" and not o.overloads for o in found.values())
    assert found["HannWindow"].by_definition and found["ai.onnx.preview.FlexAttention"].by_definition
    assert "SequenceMap" not in found and found["Bernoulli"].types == ("f32", "f64", "f16", "bf16")
    assert found["Softmax"].since == 1 and found["Gelu"].since == 20 and found["LayerNormalization"].since == 17


def test_types_are_those_that_onnx_allows_and_that_are_read() -> None:
    found = {o.operator: o.types for o in operators("onnx")}
    assert found["And"] == ("bool",) and found["ConvInteger"] == ("i8", "u8")
    assert found["Constant"][:2] == ("f32", "f64")  # which takes no tensor: those of its result
    assert {t for types in found.values() for t in types} <= set(module._SHORT.values())  # no strings, no 8-bit floats


@pytest.mark.usefixtures("without_torch")
def test_words_choose() -> None:
    found = json.loads(run("pool", "SOFTMAX", "--json").stdout)
    names = {o["operator"] for o in found}
    assert {"MaxPool", "GlobalAveragePool", "Softmax", "LogSoftmax"} <= names and "Conv" not in names
    result = run("quantum", "leap")
    assert isinstance(result.exception, UserError)
    assert str(result.exception) == "no supported operator has quantum or leap in its name; `tensorsmith ops` lists all"


@pytest.mark.usefixtures("without_torch")
def test_what_is_not_installed_is_left_out() -> None:
    result = run("Relu")
    assert result.exit_code == 0 and "LeakyRelu" in result.stdout and "PyTorch" not in result.stdout
    assert result.stderr.strip().endswith("pip install '.[torch]' in a checkout of Tensorsmith")
    result = run("--system", "torch")
    assert isinstance(result.exception, UserError) and "pip install '.[torch]' in a checkout" in str(result.exception)


@pytest.mark.peers
def test_overloads_of_pytorch() -> None:
    from tensorsmith.frontends.torch.table import table as of_torch

    found = {o.operator: o for o in operators("torch")}
    assert {f"{o.operator}.{overload}" for o in found.values() for overload in o.overloads} == set(of_torch())
    assert "Tensor" in found["add"].overloads and found["add"].since is None and "f32" in found["add"].types
    out = run("convolution", "--system", "torch", "--markdown").stdout
    assert out.splitlines()[0] == "| operator | overloads | types |" and "| convolution | default |" in out


def test_mistakes() -> None:
    assert "there is no front end for 'jax'; there are onnx, torch" in str(run("--system", "jax").exception)
    assert "give one of the two" in str(run("--json", "--markdown").exception)
