"""`tensorsmith generate` on a tiny model, as text and as JSON; what is wrong is one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.language import files
from typer.testing import CliRunner

import tensorsmith as ts
from tensorsmith.cli import app


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "tiny.gguf"
    path.write_bytes(files.llama_gguf())
    return path


def test_tokens_come_as_text_and_as_json(model: Path) -> None:
    wanted = ts.compile(ts.load(model)).generate([5, 17, 3], max_new_tokens=6, ignore_end=True)
    command = ["generate", str(model), "--ids", "5,17,3", "-n", "6", "--ignore-end"]
    said = CliRunner().invoke(app, command)
    assert said.exit_code == 0
    assert said.stdout.split() == [str(t) for t in wanted]
    assert "6 in all" in said.stderr
    found = json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)
    assert found["tokens"] == wanted
    assert (found["prompt_tokens"], found["text"], found["ended_by"]) == (3, None, "length")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "give a prompt"),
        (["-p", "a", "--ids", "1"], "give a prompt"),
        (["--ids", "1;2"], "--ids is '1;2'"),
        (["--ids", "500"], "tokens are numbers from 0 to 95"),
        (["-p", "text"], "tokenizer"),
        (["--ids", "1", "--weights", "q3"], "weights is 'q3'"),
    ],
)
def test_what_is_wrong_is_said(model: Path, arguments: list[str], words: str) -> None:
    said = CliRunner().invoke(app, ["generate", str(model), *arguments])
    assert isinstance(said.exception, ts.UserError)
    assert words in str(said.exception)


def test_other_files_are_no_language_models(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"")
    for verb in ("generate", "serve"):
        said = CliRunner().invoke(app, [verb, str(tmp_path / "model.onnx"), *(["--ids", "1"] if verb == "generate" else [])])
        assert "is no language model" in str(said.exception)
    said = CliRunner().invoke(app, ["serve", str(tmp_path / "model.onnx"), "--token-file", str(tmp_path / "missing")])
    assert "cannot read the token" in str(said.exception)
