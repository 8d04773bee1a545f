"""`tensorsmith demo`, in short, and the network it makes."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import tensorsmith as ts
from tensorsmith.cli import app, smallnet

DEMO = sys.modules["tensorsmith.cli.demo"]


@pytest.mark.parametrize("peer", [True, False])
def test_the_demo_shows_tasks_a_table_and_a_file(peer: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not peer:
        monkeypatch.setitem(sys.modules, "onnxruntime", None)  # importing it now fails
    monkeypatch.setattr(DEMO, "_MEASURING", 0.0)
    result = CliRunner().invoke(app, ["demo", "--seconds", "0"])
    assert result.exit_code == 0, (result.output, result.exception)
    for text in (
        "depthwise_conv+add+relu",
        "untuned",
        "tuned",
        "median",
        "best",
        "disturbed",
        "difference",
        "the same outputs, bit by bit",
    ):
        assert text in result.output
    assert ("onnxruntime is left out: onnxruntime is not installed" in result.output) != peer
    assert "WRONG" not in result.output


def test_the_network_has_the_layers_of_real_ones_and_natural_activations(tmp_path: Path) -> None:
    smallnet.write(tmp_path / "net.onnx")
    model = ts.load(tmp_path / "net.onnx")
    names = [task.workload.operators for task in model.tasks()]
    for layer in ("conv+add+relu", "conv+add+add+relu", "depthwise_conv+add+relu", "conv+add+add", "global_avg_pool"):
        assert layer in names, f"batch norm and residual are fused into the convolution: {layer}"
    image = np.random.default_rng(0).standard_normal((1, 3, 96, 96)).astype(np.float32)
    logits = ts.compile(model)(image)
    assert 0.1 < logits.std() < 10 and np.unique(logits).size > 90
