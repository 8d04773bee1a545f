"""docs/language.md: every example runs, every word is explained, every error is triggered and its fix works."""

from __future__ import annotations

import ast
import re
import traceback
from pathlib import Path

import numpy as np
import pytest

import tensorsmith as ts
from tensorsmith import lang
from tensorsmith.errors import UserError
from tensorsmith.lang import words

PAGE = (Path(__file__).parents[2] / "docs" / "language.md").read_text()
SECTIONS = {text.split("\n", 1)[0]: text for text in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]}
ERRORS = "Errors and their fixes"
FOLDER = Path(lang.__file__).parent

#: modules of the language that a definition cannot go through: they read workloads from files
OF_FILES = {"expr_json", "workload"}
#: errors that words cannot lead to, only workloads from files or made by hand; and one that takes 100,000 steps
NOT_FROM_WORDS = (
    "has a negative extent", "is not computed by any stage", "which is not computed before it",
    "unknown reduction", "a reduction needs reduce axes", "has the negative extent", "a reduction must be the whole body",
    "which is neither an input nor a stage", "has {len(e.indices)} indices", "is read as", "needs bool operands, not",
    "needs integers, not {left.dtype}", "is missing; needed are", "input {buffer.name} is", "under too many conditions",
)  # fmt: skip


def blocks(section: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", SECTIONS[section], re.DOTALL | re.MULTILINE)


def run(section: str) -> dict[str, object]:
    """The names that the examples of a section leave."""
    scope: dict[str, object] = {"np": np, "ts": ts}
    for code in blocks(section):
        exec(compile(code, f"docs/language.md, {section}", "exec"), scope)
    return scope


def rows() -> list[tuple[str, str, str]]:
    """What is written, the message, the fix."""
    found = []
    for line in SECTIONS[ERRORS].splitlines():
        if line.startswith("| `"):
            written, message, fix = re.split(r" \| (?=[^`])| \| (?=`)", line.removeprefix("| ").removesuffix(" |"))
            found.append((written.strip("`"), message, fix.strip("`")))
    return found


@pytest.mark.parametrize("section", SECTIONS)
def test_the_examples_of_a_section_run(section: str) -> None:
    run(section)


def test_every_section_has_an_example_that_is_checked() -> None:
    for section in SECTIONS:
        code = "\n".join(blocks(section))
        assert "assert" in code or section == ERRORS, section


@pytest.mark.parametrize(("written", "message", "fix"), rows(), ids=[written for written, _, _ in rows()])
def test_an_error_and_its_fix(written: str, message: str, fix: str) -> None:
    scope = run(ERRORS)
    with pytest.raises(UserError, match=re.escape(message)):
        eval(written, scope)
    eval(fix, scope)


def raised() -> dict[tuple[str, int], str]:
    """Where the language raises a `UserError`, and with what words."""
    found = {}
    for path in FOLDER.glob("*.py"):
        if path.stem not in OF_FILES:
            source = path.read_text()
            for node in ast.walk(ast.parse(source)):
                if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and ast.unparse(node.exc.func) == "UserError":
                    found[path.name, node.lineno] = ast.get_source_segment(source, node) or ""
    return found


def test_every_error_of_the_language_has_a_row() -> None:
    missing = {where: text for where, text in raised().items() if not any(words in text for words in NOT_FROM_WORDS)}
    assert len(missing) > 35
    scope = run(ERRORS)
    for written, _, _ in rows():
        with pytest.raises(UserError) as caught:
            eval(written, scope)
        last = traceback.extract_tb(caught.value.__traceback__)[-1]
        missing.pop((Path(last.filename).name, last.lineno or 0), None)
    assert missing == {}


def test_every_word_is_explained() -> None:
    explained = set(re.findall(r"\b\w+\b", " ".join(re.findall(r"`([^`\n]+)`", PAGE))))
    assert set(words.__all__) - explained == set()
