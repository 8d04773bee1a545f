"""Runs the blocks of a page, one after the other, in one folder and with one set of names."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.docs import stand_ins
from tests.docs.blocks import ROOT, Block
from typer.testing import CliRunner

from tensorsmith.cli import app

_A_FILE = re.compile(r"# (\w+\.py)\n")  # the first line of a block that is a file of the reader's


class Running:
    """The state of a page: the working directory is its folder."""

    def __init__(self, names: dict[str, Any]) -> None:
        self.names = {"__name__": "__main__", **names}
        self.printed = ""  # by the last Python block

    def run(self, blocks: Iterable[Block]) -> None:
        for block in blocks:
            if block.stand_in:
                stand_ins.use_model(Path(), self.names, block.stand_in)
            if block.why_not_run is None:
                {"python": self._python, "shell": self._shell, "text": self._text}[block.language](block)

    def _python(self, block: Block) -> None:
        text = stand_ins.tiny(block.text)
        if file := _A_FILE.match(text):
            Path(file.group(1)).write_text(text)
            return
        code = compile("\n" * (block.line - 1) + text, block.page, "exec")  # so that a traceback names the page's line
        with contextlib.redirect_stdout(io.StringIO()) as said:
            exec(code, self.names)
        self.printed = said.getvalue()

    def _text(self, block: Block) -> None:
        if block.mark == "prints":
            assert block.text.rstrip() == self.printed.rstrip(), f"{block}: this is not what the block before it prints"

    def _shell(self, block: Block) -> None:
        for line in block.commands:
            words, written = _first_command(shlex.split(line, comments=True))
            check = CHECKS.get(words[0])
            assert check is not None, f"{block}: nobody runs or checks `{words[0]}`"
            try:
                said = check(words)
                if written is not None:
                    Path(written).write_text(said or "")
            except Exception as problem:
                raise AssertionError(f"{block}: `{line}`: {problem}") from problem


def _first_command(words: list[str]) -> tuple[list[str], str | None]:
    """The words before a pipe, whose reader is a program of others, or before `>`, and the file that is written by that."""
    end = next((n for n, word in enumerate(words) if word in ("|", ">")), len(words))
    return words[:end], words[end + 1] if words[end : end + 1] == [">"] else None


# -- commands ----------------------------------------------------------------------------------------------------------


def tensorsmith(words: list[str]) -> str:
    """Runs a command in this process, and gives what it printed. One that follows a tuning is ended after its first look, as by
    Ctrl-C."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules["tensorsmith.cli.report"], "follow", _look_once)
        result = CliRunner().invoke(app, stand_ins.tiny_command(words)[1:])
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout


def _look_once(path: Path, make: Callable[[], None], every: float) -> None:
    make()
    raise KeyboardInterrupt


def make(words: list[str]) -> None:
    """That the Makefile has these targets; what they do is too long for a test."""
    there = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    targets = {w for w in words[1:] if "=" not in w}
    assert targets <= there, f"no {', '.join(targets - there)} in the Makefile"


def python(words: list[str]) -> None:
    """Runs a script that the page has written. Of our own ones: that there is such a script, which has such options; what it does
    is too long for a test."""
    if Path(words[1]).is_file():
        done = subprocess.run([sys.executable, *words[1:]], capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        return
    if words[1] == "-c":
        exec(compile(words[2], "python -c", "exec"), {"__name__": "__main__"})
        return
    module = words[1] == "-m"
    if module and not words[2].startswith("tests."):
        return  # a program of Python's own, such as venv
    script = ROOT / (words[2].replace(".", "/") + ".py" if module else words[1])
    assert script.is_file(), f"there is no {script.relative_to(ROOT)}"
    options = {w for w in words[2:] if w.startswith("--")}
    known = "".join(p.read_text() for p in {script, *(ROOT / "benchmarks").glob("*.py")}) if options else ""
    missing = {o for o in options if f'"{o}"' not in known}
    assert not missing, f"{script.name} has no {', '.join(missing)}"


def pip(words: list[str]) -> None:
    """That the extras it asks for are there."""
    text = (ROOT / "pyproject.toml").read_text()
    for extras in re.findall(r"\[([\w,]+)\]", " ".join(words)):
        for extra in extras.split(","):
            assert re.search(rf"^{extra} = \[", text, re.MULTILINE), f"there is no extra {extra!r}"


def nothing(words: list[str]) -> None:
    """Commands of others, on the reader's own machine."""


CHECKS: dict[str, Callable[[list[str]], str | None]] = {
    "tensorsmith": tensorsmith,
    "make": make,
    "python": python,
    "python3": python,
    "pip": pip,
    "source": nothing,
    "cd": nothing,
}
