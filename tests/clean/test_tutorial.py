"""The tutorial as a newcomer does it: every block, in order and as printed, by the built wheel in a fresh environment."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.clean.environment import Environment, build
from tests.docs.blocks import Block, blocks_of

pytestmark = pytest.mark.clean

_INSTALLING = ("python3 -m venv", "source ", "pip install")  # what the environment has behind it
_HEAD = """
import subprocess


def shell(command):
    print("$", command, flush=True)
    subprocess.run(command, shell=True, check=True)

"""


def script(blocks: list[Block]) -> str:
    """The page as one program: commands between its lines, files written where the page says so."""
    parts = [_HEAD]
    for block in blocks:
        if block.language == "shell":
            parts += [f"shell({c!r})" for c in block.commands if not c.startswith(_INSTALLING)]
        elif block.language == "python":
            file = re.match(r"# (\w+\.py)\n", block.text)
            parts.append(f"open({file.group(1)!r}, 'w').write({block.text!r})" if file else block.text)
    return "\n".join(parts) + "\nprint('the end of the tutorial')\n"


def test_the_tutorial_works_for_a_newcomer(tmp_path: Path) -> None:
    (tmp_path / "dist").mkdir()
    (wheel,) = build(tmp_path / "dist", "--wheel")
    clean = Environment.make(tmp_path, f"{wheel}[onnx,report]")
    work = tmp_path / "work"
    work.mkdir()
    (work / "tutorial.py").write_text(script(blocks_of("docs/tutorial.md")))
    said = clean.run(str(clean.python), "tutorial.py", folder=work)
    print(said)
    assert said.endswith("the end of the tutorial\n")
    assert "gives what it gave before it was saved, bit by bit" in said
    assert {"tune.db", "report.html", "model.tsm", "y.npy"} <= {f.name for f in work.iterdir()}
    assert not list((tmp_path / "home").iterdir()), "something was written to the home"
