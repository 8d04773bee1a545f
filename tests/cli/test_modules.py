"""Commands on PyTorch modules: `tensorsmith tune my_model.py:make_model`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.cli.models import write_dense
from typer.testing import CliRunner

import tensorsmith as ts
from tensorsmith.cli import app
from tensorsmith.cli.words import told
from tensorsmith.errors import UserError

pytestmark = pytest.mark.peers

RUN = CliRunner()

DEFINITION = """
import torch

def make_model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU()).eval(), torch.zeros(4, 8)

def make_open():
    return *make_model(), {"input": {0: torch.export.Dim("batch")}}

def broken():
    return torch.nn.ReLU()

number = 3
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "mine.py").write_text(DEFINITION)
    return str(tmp_path / "mine.py")


def test_a_module_is_tuned_compiled_and_written(file: str, tmp_path: Path) -> None:
    written, db = tmp_path / "mine.tsm", str(tmp_path / "tune.db")
    result = RUN.invoke(app, ["tune", f"{file}:make_model", "--trials", "2", "--db", db, "-o", str(written)])
    assert result.exit_code == 0, (result.output, result.exception)
    torch.manual_seed(0)
    module, x = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU()), torch.randn(4, 8)
    got = ts.load_executable(written)(x.numpy())
    np.testing.assert_allclose(got, module(x).detach().numpy(), rtol=1e-4, atol=1e-5)
    assert "matmul" in RUN.invoke(app, ["tasks", f"{file}:make_model"]).output
    assert RUN.invoke(app, ["compile", f"{file}:make_model", "--db", db, "-o", str(written)]).exit_code == 0


def test_a_module_and_a_file_are_tuned_together(file: str, tmp_path: Path) -> None:
    model, db = write_dense(tmp_path / "dense.onnx", ("rows", 8)), str(tmp_path / "tune.db")
    (tmp_path / "out").mkdir()
    arguments = [f"{file}:make_model", model, "--shape", "rows=3", "--trials", "2", "--db", db, "-o", str(tmp_path / "out")]
    result = RUN.invoke(app, ["tune", *arguments])
    assert result.exit_code == 0, (result.output, result.exception)
    assert ts.load_executable(tmp_path / "out" / "make_model.tsm")(np.zeros((4, 8), np.float32)).shape == (4, 4)
    assert ts.load_executable(tmp_path / "out" / "dense.tsm")(np.zeros((3, 8), np.float32))[0].shape == (3, 16)
    result = RUN.invoke(app, ["records", db, "best", f"{file}:make_model"])
    assert result.exit_code == 0 and "matmul" in result.output


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("other", "has no function other"),
        ("number", "has no function number"),
        ("broken", "broken of .* gives ReLU; it must give a module and its example inputs"),
    ],
)
def test_what_is_wrong_is_said(file: str, function: str, message: str) -> None:
    result = RUN.invoke(app, ["tune", f"{file}:{function}"])
    with pytest.raises(Exception, match=message):
        raise result.exception  # type: ignore[misc]


def test_a_module_of_open_dimensions_takes_their_sizes(file: str, tmp_path: Path) -> None:
    written, name = tmp_path / "mine.tsm", f"{file}:make_open"
    result = RUN.invoke(app, ["compile", name, "--shape", "batch=1,8", "-o", str(written), "--json"])
    assert result.exit_code == 0, (result.output, result.exception)
    assert [v["sizes"] for v in json.loads(result.stdout)["variants"]] == [{"batch": 1}, {"batch": 8}]
    assert ts.load_executable(written)(np.zeros((8, 8), np.float32)).shape == (8, 4)
    found = json.loads(RUN.invoke(app, ["tasks", name, "--shape", "batch=3", "--json"]).stdout)
    assert found["model"] == "Sequential[batch=3]"
    for arguments, message in (
        (["tune", name], "tune needs sizes to tune for: name some, as in --shape batch=1,8,32"),
        (["compile", name, "--shape", "rows=1,8"], "there is no open dimension 'rows'; there is batch"),
        (["tune", name, f"{file}:make_model"], f"{name} has open dimensions (batch): tune it by itself"),
    ):
        result = RUN.invoke(app, arguments)
        assert isinstance(result.exception, UserError) and told(result.exception) == message


def test_shapes_are_those_of_the_examples(file: str) -> None:
    result = RUN.invoke(app, ["tune", f"{file}:make_model", "--shape", "x=1x8"])
    assert "the shapes of a module are those of its example inputs" in str(result.exception)
    assert "there is no file nowhere.py" in str(RUN.invoke(app, ["tune", "nowhere.py:make_model"]).exception)
