"""The page of supported operators agrees with the importer's table."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import operators_page
from tensorsmith.frontends.onnx.table import table

PAGE = Path(__file__).parents[2] / "docs" / "operators.md"


def handled() -> dict[str, str]:
    return {kind: str(min(versions)) for (_, kind), versions in table().items()}


def test_the_page_has_the_operators_of_the_table() -> None:
    listed = operators_page.listed(PAGE.read_text())
    assert {kind: first for kind, first in listed.items() if first != "body"} == handled(), (
        "make it again: python benchmarks/onnx_suite.py --all --page docs/operators.md"
    )
    assert {kind for kind, first in listed.items() if first == "body"} <= set(operators_page._with_body())


def test_a_page() -> None:
    counts = {
        "Conv": Counter(passed=6, refused=1),
        "Det": Counter(refused=2),
        "HannWindow": Counter(passed=4),
        "(several)": Counter(passed=1),
    }
    reasons = {"Conv": Counter({"Conv: no": 1}), "Det": Counter({"an operator is not supported: Det": 2})}
    text = operators_page.page(counts, reasons)
    assert "11 of 14 pass, 3 are refused, 0 wrong, 0 errors" in text
    assert "| Conv | 1 | 6 of 7 | Conv: no |" in text
    assert "| HannWindow | body | 4 of 4 |  |" in text
    assert "| Det | an operator is not supported: Det |" in text.split("without support")[1]
    assert operators_page.listed(text) == {**handled(), "HannWindow": "body"}
