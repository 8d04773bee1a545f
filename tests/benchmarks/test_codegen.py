"""Which cases the benchmark of the generated code takes; nothing is measured."""

import pytest

import codegen
from contest import Settings
from report import Report

pytestmark = pytest.mark.peers


@pytest.mark.parametrize("section", ["default", "memory"])
def test_quick_is_fewer_cases(section, monkeypatch):
    monkeypatch.setattr(codegen, "measure_peak", lambda: {"bytes": 1e10})
    monkeypatch.setattr(codegen, "contest", lambda case, *rest: {"seconds": {"tensorsmith": 1.0}, "total": 1.0})
    cases = {}
    for quick in (False, True):
        report = Report()
        codegen.SECTIONS[section](report, Settings(1), quick)
        cases[quick] = set(report.rows())
    assert cases[True] and cases[True] < cases[False]
