"""The comparison of default schedule, model and search; nothing is timed here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import no_trial
import pace
from no_trial import Row
from pace import Pace
from tensorsmith.ops import catalogue


def test_ratios_are_above_1_where_the_choice_is_faster() -> None:
    row = Row(default=2.0, model=1.0, tuned=0.5, choosing=0.1, schedule="model")
    assert row.against_default == 2.0 and row.against_tuned == 0.5
    assert Row(2.0, 1.0, None, 0.1, "model").against_tuned is None


def test_the_summary() -> None:
    rows = {"a": Row(2.0, 1.0, 0.5, 0.1, "model"), "b": Row(1.0, 1.0, 1.0, 2.0, "default"), "c": Row(0.9, 1.0, None, 1.0, "model")}
    found = no_trial.summary(rows)
    assert found["cases"] == 3 and found["worst_against_default"] == 0.9 and found["most_seconds_choosing"] == 2.0
    assert found["chosen"] == 2 and found["geomean_against_tuned"] == pytest.approx(0.5**0.5)
    assert found["geomean_tuned_against_default"] == pytest.approx(4**0.5)


def test_what_is_asked_about() -> None:
    assert [name for name, _ in no_trial.workloads(16, None, None)] == list(catalogue.cases(16))
    assert [name for name, _ in no_trial.workloads(16, "GMM-1-b1,C2D-2-b16", None)] == ["GMM-1-b1", "C2D-2-b16"]


def test_programs_that_are_the_same_run_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The model takes the default schedule here."""
    monkeypatch.setattr("tensorsmith.predicted.predicted", lambda *arguments: None)
    seen: list[dict[str, Any]] = []

    def hold(contestants: Any, ours: Any, name: str, settings: Any) -> Any:
        seen.append(dict(contestants))
        return {who: type("T", (), {"best": 1e-5})() for who in contestants}

    monkeypatch.setattr(no_trial, "hold", hold)
    workload = catalogue.get("matmul-small").workload()
    row = no_trial.measured("matmul", workload, 0, "", no_trial.Settings(1, 0.1, ()))
    assert [set(c) for c in seen] == [{"default"}]
    assert row.against_default == 1.0 and row.schedule == "default" and row.tuned is None


def test_the_parts_of_a_run_add_up() -> None:
    p = Pace(trials=100, seconds=10.0, search=2.0, model=1.0, timing=3.0, waiting=1.5, final=1.0, builds=12.0)
    assert p.trials_per_second == 10.0 and p.rest == pytest.approx(1.5) and p.searching == pytest.approx(100 / 7.5)
    cells = pace.table({"x": p}).columns
    assert [next(iter(c.cells)) for c in cells[5:11]] == ["20%", "10%", "30%", "15%", "10%", "15%"]


def test_the_cases_of_the_pace_exist() -> None:
    assert all(catalogue.get(name) for name in pace.CASES.split(","))
