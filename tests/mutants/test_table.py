"""The table of mutants is up to date: `make mutants` could run. Whether they are noticed is for that command to say."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from tests.mutants.mutant import Mutant, OutOfDate, applied, missing, sources
from tests.mutants.table import MUTANTS

TEXTS = sources()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
def test_a_mutant_still_applies_and_its_tests_exist(mutant: Mutant) -> None:
    applied(mutant, TEXTS)
    assert mutant.tests
    assert [problem for test in mutant.tests if (problem := missing(test))] == []


def test_names_are_unique_and_there_are_enough() -> None:
    assert [name for name, count in Counter(m.name for m in MUTANTS).items() if count > 1] == []
    assert len(MUTANTS) >= 40


def test_what_is_out_of_date_is_said() -> None:
    texts = {Path("a.py"): "x = 1\ny = 1\n", Path("b.py"): "def f():\n    return 1\n"}
    with pytest.raises(OutOfDate, match="has to be in the source once, and is nowhere"):
        applied(Mutant("gone", "z", "w", ()), texts)
    with pytest.raises(OutOfDate, match=r"is 2 times in a\.py, 1 times in b\.py"):
        applied(Mutant("often", " 1\n", " 2\n", ()), texts)
    with pytest.raises(OutOfDate, match=r"changes 2 definitions of a\.py"):
        applied(Mutant("wide", "x = 1\ny = 1", "x = 2\ny = 2", ()), texts)
    with pytest.raises(OutOfDate, match=r"changes 0 definitions of b\.py"):
        applied(Mutant("idle", "return 1", "return (1)", ()), texts)
    assert applied(Mutant("fine", "return 1", "return 2", ()), texts).file == Path("b.py")
    assert missing("tests/mutants/test_table.py::test_nothing") == "there is no test_nothing in tests/mutants/test_table.py"
    assert missing("tests/nowhere.py::test_nothing") == "there is no tests/nowhere.py"
