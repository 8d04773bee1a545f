"""What one runs while working: a little of everything, end to end, in less than a minute (`make smoke`)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.frontends import test_random_graphs as random_graphs
from tests.property import test_agreement as random_programs

import tensorsmith as ts
from tensorsmith.cli.smallnet import write


def test_a_tiny_matmul_is_tuned(tmp_path: Path) -> None:
    a, b = (ts.placeholder((16, 16), name=name) for name in "AB")
    k = ts.reduce_axis(16, name="k")
    c = ts.compute((16, 16), lambda i, j: ts.sum(a[i, k] * b[k, j], axis=k), name="C")
    seen: list[int] = []
    kernel = ts.tune([a, b, c], trials=4, database=tmp_path / "tune.db", on_progress=lambda p: seen.append(p.trials))
    x, y = np.random.default_rng(0).random((2, 16, 16), np.float32)
    np.testing.assert_allclose(kernel(x, y), x @ y, rtol=1e-5)
    assert seen[-1] == 4 and (tmp_path / "tune.db").exists()


def test_a_network_computes_what_its_graph_says(tmp_path: Path) -> None:
    write(tmp_path / "net.onnx")
    model = ts.load(tmp_path / "net.onnx")
    inputs = {"image": np.random.default_rng(0).standard_normal((1, 3, 96, 96)).astype(np.float32)}
    wanted = model.evaluate(inputs)
    for name, array in ts.compile(model).run(inputs).items():
        np.testing.assert_allclose(array, wanted[name], rtol=1e-3, atol=1e-4)


def test_machine_code_interpreter_and_evaluator_agree() -> None:
    random_programs.run(20, "seeded")


def test_graphs_agree_with_onnx_runtime() -> None:
    assert random_graphs.run("seeded", 4)


@pytest.mark.parametrize("command", ["tune", "compile", "run", "bench", "tasks", "records"])
def test_the_command_line_explains_itself(command: str) -> None:
    script = [sys.executable, "-c", "from tensorsmith.cli import main; main()", command, "--help"]
    done = subprocess.run(script, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "Usage:" in done.stdout and not done.stderr
