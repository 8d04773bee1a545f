"""The page of supported operators has the tables that `tensorsmith ops` prints."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from typer.testing import CliRunner

import operators_page
from tensorsmith.cli import app
from tensorsmith.errors import UserError
from tensorsmith.frontends.operators import Operator, operators

PAGE = Path(__file__).parents[2] / "docs" / "operators.md"


@pytest.mark.parametrize("system", ["onnx", pytest.param("torch", marks=pytest.mark.peers)])
def test_the_page_has_the_tables_of_the_command(system: str) -> None:
    printed = CliRunner().invoke(app, ["ops", "--system", system, "--markdown"]).output
    assert operators_page.in_page(PAGE.read_text(), system) == printed.rstrip("\n"), (
        "make it again: python benchmarks/operators_page.py docs/operators.md"
    )


def test_the_page_has_the_tests_of_every_operator() -> None:
    rows = PAGE.read_text().split("## ONNX's own tests")[1].split("## Operators with tests")[0].splitlines()
    listed = [row.split("|")[1].strip() for row in rows if row.startswith("| ")]
    assert listed[2:-1] == operators_page.supported(), (
        "make it again: python benchmarks/onnx_suite.py --all --page docs/operators.md"
    )


@pytest.fixture
def without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    def known(system: str) -> list[Operator]:
        if system == "torch":
            raise UserError("it is not installed")
        return operators(system)

    monkeypatch.setattr(operators_page, "operators", known)


@pytest.mark.usefixtures("without_torch")
def test_a_page() -> None:
    counts = {
        "Conv": Counter(passed=5, rounding=1, refused=1),
        "Det": Counter(refused=2),
        "HannWindow": Counter(passed=4),
        "(several)": Counter(passed=1),
    }
    reasons = {
        "Conv": Counter({"an element type A": 3, "Conv: no": 2, "an element type B": 1}),
        "Det": Counter({"an operator is not supported: Det": 2}),
    }
    text = operators_page.page(counts, reasons)
    assert "10 of 14 pass, 1 differ from ONNX's numbers by rounding only, 3 are refused, 0 wrong, 0 errors" in text
    assert "| Conv | 5 of 7, 1 differ by rounding | an element type A, B; Conv: no |" in text
    assert "| HannWindow | 4 of 4 |  |" in text
    assert "| Det | an operator is not supported: Det |" in text.split("without support")[1]
    assert operators_page.in_page(text, "onnx") == operators_page.in_page(PAGE.read_text(), "onnx")


@pytest.mark.usefixtures("without_torch")
def test_only_the_tables_are_made_anew() -> None:
    text = PAGE.read_text()
    stale = text.replace("| Conv | 1 |", "| Conv | 99 |")
    assert stale != text and operators_page.refreshed(stale) == text
