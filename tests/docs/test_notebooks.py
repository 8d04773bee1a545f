"""The notebooks of the examples: each runs, and is stored with what its cells show."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest
from tests.docs import stand_ins
from tests.docs.blocks import ROOT
from tests.docs.notebooks import NEED_TORCH, NOTEBOOKS, cells, execute

from tensorsmith.runtime.executable import Executable


@pytest.mark.parametrize("path", [p for p in NOTEBOOKS if p not in NEED_TORCH], ids=lambda p: p.stem)
def test_it_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert isinstance(execute(path, stand_ins.tiny)["tuned"], Executable)
    assert Path("tune.db").exists()


MAKER = runpy.run_path(str(ROOT / "docs" / "make" / "notebooks.py"))


def shown(cell: dict[str, Any]) -> str:
    """All texts that are stored of what a cell showed."""
    texts = [output.get("text", []) for output in cell["outputs"]]
    texts += [lines for output in cell["outputs"] for lines in output.get("data", {}).values()]
    return "\n".join("".join(lines) for lines in texts)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_it_is_stored_with_what_it_shows(path: Path) -> None:
    found = cells(path)
    assert found[0]["cell_type"] == "markdown" and "".join(found[0]["source"]).startswith("# ")
    assert len({cell["id"] for cell in found}) == len(found)
    code = [cell for cell in found if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    assert {output["output_type"] for cell in code for output in cell["outputs"]} <= {"stream", "display_data", "execute_result"}
    assert all(shown(cell).strip() for cell in code if "print(" in "".join(cell["source"]))
    made = json.loads(path.read_text())["metadata"]["of_cells"]
    assert made == MAKER["digest"](found), "a cell has changed: run python docs/make/notebooks.py"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_what_is_stored_is_small_and_says_nothing_of_the_machine_that_ran_it(path: Path) -> None:
    assert path.stat().st_size < 60_000
    for cell in cells(path):
        text = shown(cell) if cell["cell_type"] == "code" else ""
        assert not re.search(r"/(home|tmp|root|work|usr|opt|Users)/", text)
        assert text == MAKER["without_figures"](text)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_the_bar_is_shown(path: Path) -> None:
    (tuning,) = [cell for cell in cells(path) if "ts.tune(" in "".join(cell["source"])]
    assert "on_progress" not in "".join(tuning["source"])
    (bar,) = [html for o in tuning["outputs"] if "<progress" in (html := "".join(o.get("data", {}).get("text/html", [])))]
    assert re.search(r'<progress max="1" value="[\d.]+"[^>]*></progress> \d+%', bar) and "trials" in bar


def test_figures_are_taken_out() -> None:
    without = MAKER["without_figures"]
    assert (
        without("best 1,234.5 us, 12.5 GFLOP/s, 1.03x, 45 % of peak, after 3 s")
        == "best … us, … GFLOP/s, …x, … % of peak, after … s"
    )
    assert without("best us  GFLOP/s\n 4.8  219.6") == "best us  GFLOP/s\n …  …"
    assert without('<td style="width: 90%" data-value="12">12.5 us</td>') == '<td style="width: 90%">… us</td>'
    assert without("for i0 < 128: y[8*i0] = x1[i0, 4] # f32[64, 12]") == "for i0 < 128: y[8*i0] = x1[i0, 4] # f32[64, 12]"


def test_there_are_three() -> None:
    assert [p.stem for p in NOTEBOOKS] == ["first_operator", "onnx_model", "pytorch_module"]
    assert [p.stem for p in NEED_TORCH] == ["pytorch_module"]
