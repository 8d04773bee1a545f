"""Tests that could not fail: what none of them may do."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
FILES = sorted(FOLDER.rglob("*.py"))


def outside_of_functions_inside(node: ast.AST) -> Iterator[ast.AST]:
    """What a function does itself, not those defined in it."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (ast.FunctionDef, ast.Lambda, ast.ClassDef)):
            yield child
            yield from outside_of_functions_inside(child)


def problems(text: str) -> list[str]:
    tree = ast.parse(text)
    found = []
    for node in ast.walk(tree):
        name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
        if name == "importorskip":
            found.append(
                "skips where a package is missing: import it, and mark what needs more than the tests' own packages with `peers`"
            )
        if name == "perf_counter":
            found.append("reads the clock: a busy machine would decide; count something, or make it a benchmark")
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            returns = [n for n in outside_of_functions_inside(node) if isinstance(n, ast.Return)]
            found += [
                f"{node.name} returns in line {n.lineno}: leave such cases out of its parameters, or reject() them" for n in returns
            ]
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(FOLDER)))
def test_no_test_passes_by_doing_nothing(path: Path) -> None:
    assert problems(path.read_text()) == []


def test_such_tests_are_found() -> None:
    early = "def test_a(x):\n    if x:\n        return\n    def inner():\n        return 1\n    assert inner()\n"
    assert [p.partition(":")[0] for p in problems(early)] == ["test_a returns in line 3"]
    assert len(problems("torch = pytest.importorskip('torch')\nstart = time.perf_counter()\n")) == 2
