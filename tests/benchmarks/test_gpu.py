"""What the benchmark of code for GPUs counts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import gpu
from tensorsmith.backends.gpu.cuda import ptxas
from tensorsmith.backends.gpu.cuda.ptxas import Compiled


def test_what_compilers_say_is_counted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """With an assembler that gives every kernel the same."""
    known = gpu.workloads()
    monkeypatch.setattr(gpu, "workloads", lambda: {"matmul-small": known["matmul-small"]})
    monkeypatch.setattr(ptxas, "found", lambda: "ptxas")

    def said(text: str, architecture: str) -> dict[str, Compiled]:
        assert architecture == "sm_80"
        names = [line.split()[2].partition("(")[0] for line in text.splitlines() if ".entry" in line]
        return dict.fromkeys(names, Compiled(32, 1 << 20, 0, 4))

    monkeypatch.setattr(ptxas, "compiled", said)
    file = tmp_path / "found.json"
    assert gpu.main(["--only", "compiled", "--devices", "a100", "--count", "3", "--json", str(file)]) == 0
    found = json.loads(file.read_text())["compiled"]["a100"]
    assert found["candidates"] == 3 and not found["refused"] and found["spilling"] == found["kernels"] >= 3
    assert found["shared_as_predicted"] == 0 < found["shared"] == found["kernels"]
    assert "shared memory as predicted: 0 of" in capsys.readouterr().out


def test_there_are_ten_workloads_at_least() -> None:
    known = gpu.workloads()
    assert len(known) >= 10 and set(gpu.SPEED) <= known.keys() and len(known) * 8 >= 100
