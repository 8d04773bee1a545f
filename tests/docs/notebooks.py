"""Runs the cells of a notebook, without Jupyter."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.docs.blocks import ROOT

NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
NEED_TORCH = [path for path in NOTEBOOKS if "import torch" in path.read_text()]


def cells(path: Path) -> list[dict[str, Any]]:
    form = json.loads(path.read_text())
    assert form["nbformat"] == 4
    found: list[dict[str, Any]] = form["cells"]
    return found


def execute(path: Path, changed: Callable[[str], str]) -> dict[str, Any]:
    """Runs all cells in order, as `changed`, in one set of names, which it gives."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(cells(path)):
        if cell["cell_type"] == "code":
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(changed("".join(cell["source"])), f"{path.name}, cell {number}", "exec"), names)
    return names
