"""The page of supported operators agrees with the importer's table."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import operators_page

PAGE = Path(__file__).parents[2] / "docs" / "operators.md"


def test_the_page_has_the_operators_of_the_table() -> None:
    listed = operators_page.listed(PAGE.read_text())
    assert {kind: first for kind, first in listed.items() if first != "body"} == operators_page.handled(), (
        "make it again: python benchmarks/onnx_suite.py --all --page docs/operators.md"
    )
    assert {kind for kind, first in listed.items() if first == "body"} <= set(operators_page.with_body())


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
    assert "| Conv | 1 | 5 of 7, 1 differ by rounding | an element type A, B; Conv: no |" in text
    assert "| HannWindow | body | 4 of 4 |  |" in text
    assert "| Det | an operator is not supported: Det |" in text.split("without support")[1]
    assert operators_page.listed(text) == {**operators_page.handled(), "HannWindow": "body"}
