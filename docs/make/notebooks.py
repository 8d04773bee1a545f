"""Runs the notebooks of the examples and stores what they show.

python docs/make/notebooks.py           writes examples/notebooks/*.ipynb

It needs nbclient and ipykernel, and PyTorch for the notebook on it. Times, rates and shares are taken out of what is stored: they
are those of whatever machine ran it last, and would say nothing to a reader. `tests/docs/test_notebooks.py` tells whether what is
stored belongs to the cells.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
NOTEBOOKS = ROOT / "examples" / "notebooks"
HIDDEN = "…"
#: a number in front of a unit of time, of a rate or of a share
_FIGURE = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?=\s?(?:ns|us|µs|ms|s|min|G?FLOP/s|GB/s|MB/s|trials/s|x|×|times|runs|%)(?!\w))")
_DECIMAL = re.compile(r"(?<![\w.])\d[\d,]*\.\d+(?![\w.])")  # in a table of figures, whose units are in its head
_ATTRIBUTE = re.compile(r'\s*data-\w+="[^"]*"')  # by which the columns of a table are ordered
_MARKUP = re.compile(r"(<progress[^>]*></progress> \d+%|<[^>]*>)")  # how far a bar is may be told
_BUSY = ("another measurement ", "the machine is busy ", "the machine was busy ")  # what is said of the machine, not of the run


def main() -> None:
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        form = json.loads(path.read_text(encoding="utf-8"))
        run(form)
        path.write_text(json.dumps(form, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1024:.0f} KB")


def run(form: dict[str, Any]) -> None:
    """Executes the cells in an empty folder, and puts into each what it showed."""
    import nbformat  # type: ignore[import-not-found, unused-ignore]
    from nbclient import NotebookClient  # type: ignore[import-not-found, unused-ignore]

    notebook = nbformat.reads(json.dumps(form), as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(notebook, timeout=1200, resources={"metadata": {"path": folder}}).execute()
    count = 0
    for cell, ran in zip(form["cells"], notebook.cells, strict=True):
        if cell["cell_type"] == "code":
            count += 1
            cell["execution_count"] = count
            cell["outputs"] = [kept for output in ran.outputs if (kept := stored(dict(output), count))]
    form["metadata"]["of_cells"] = digest(form["cells"])


def stored(output: dict[str, Any], count: int) -> dict[str, Any] | None:
    """An output without figures; None if nothing of it is to be kept."""
    if output["output_type"] == "stream":
        text = "".join(line for line in _lines(output["text"]) if not line.startswith(_BUSY))
        if not text.strip() or output["name"] != "stdout":
            return None
        return {"name": "stdout", "output_type": "stream", "text": _lines(without_figures(text))}
    if output["output_type"] not in ("display_data", "execute_result"):
        raise SystemExit(f"a cell ended with: {output}")
    data = {
        kind: _lines(without_figures(str(text))) for kind, text in output["data"].items() if kind in ("text/plain", "text/html")
    }
    found: dict[str, Any] = {"data": data, "metadata": {}, "output_type": output["output_type"]}
    return found | ({"execution_count": count} if output["output_type"] == "execute_result" else {})


def without_figures(text: str) -> str:
    """A text, or HTML, with an ellipsis in place of every figure that a machine is judged by."""
    parts = _MARKUP.split(_ATTRIBUTE.sub("", text))
    plain = [_FIGURE.sub(HIDDEN, part) for part in parts[::2]]
    if "GFLOP/s" in text:
        plain = [_DECIMAL.sub(HIDDEN, part) for part in plain]
    return "".join(x for pair in zip(plain, [*parts[1::2], ""]) for x in pair)


def digest(cells: list[dict[str, Any]]) -> str:
    """Of all cells' sources: what is stored beside outputs, to tell whether they are those of the cells."""
    return hashlib.sha256("\0".join("".join(cell["source"]) for cell in cells).encode()).hexdigest()[:16]


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


if __name__ == "__main__":
    sys.exit(main())
