"""The notebooks of the examples: each runs, and is stored without results."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.docs import stand_ins
from tests.docs.notebooks import NEED_TORCH, NOTEBOOKS, cells, execute

from tensorsmith.runtime.executable import Executable


@pytest.mark.parametrize("path", [p for p in NOTEBOOKS if p not in NEED_TORCH], ids=lambda p: p.stem)
def test_it_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert isinstance(execute(path, stand_ins.tiny)["tuned"], Executable)
    assert Path("tune.db").exists()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_it_is_stored_without_results(path: Path) -> None:
    found = cells(path)
    assert found[0]["cell_type"] == "markdown" and "".join(found[0]["source"]).startswith("# ")
    assert len({cell["id"] for cell in found}) == len(found)
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in found if cell["cell_type"] == "code")


def test_there_are_three() -> None:
    assert [p.stem for p in NOTEBOOKS] == ["first_operator", "onnx_model", "pytorch_module"]
    assert [p.stem for p in NEED_TORCH] == ["pytorch_module"]
