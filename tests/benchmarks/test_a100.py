"""Prior and trees of GPUs on a sample of what Ansor measured on an A100."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

import a100
import a100_data
from tensorsmith.backends.gpu.prior import estimate_seconds
from tensorsmith.backends.gpu.rates import DEFAULT

SAMPLE = Path(__file__).parent / "data" / "a100-matmul-sample.csv.gz"


@pytest.fixture(scope="module")
def searches() -> list[a100_data.Search]:
    return a100_data.read(SAMPLE)


def of(found: dict[str, a100.Row], dtype: str, column: str) -> list[float]:
    return [row[column] for name, row in found.items() if name.startswith(dtype)]


def test_the_prior_on_the_first_programs_of_each_search(searches: list[a100_data.Search]) -> None:
    found = a100.prior(searches, 64)
    assert len(found) == 20 and min(row["programs"] for row in found.values()) > 35
    assert np.mean(of(found, "f32", "spearman")) > 0.92 and min(of(found, "f32", "spearman")) > 0.8
    assert np.mean(of(found, "f32", "top5")) > 0.97
    assert np.mean(of(found, "f16", "spearman")) > 0.9
    assert np.mean(of(found, "f32", "random5")) < 0.75  # what was not chosen is slow: the figures above say something


def test_no_rate_decides_it_alone(searches: list[a100_data.Search]) -> None:
    """What was set by hand is right to a factor of two; were it fitted to these programs, it would not be."""
    early = [s.first(64) for s in searches if s.dtype == "f32"]
    known = [(s.seconds, a100_data.matrix(s, a100.TARGET)) for s in early]
    for rate in dataclasses.fields(DEFAULT):
        for factor in (0.5, 2.0):
            changed = dataclasses.replace(DEFAULT, **{rate.name: factor * getattr(DEFAULT, rate.name)})
            scores = [a100.spearman(y, estimate_seconds(m, a100.TARGET, changed)) for y, m in known]
            assert np.mean(scores) > 0.92 and min(scores) > 0.78, (rate.name, factor, scores)


def test_trees_on_a_shape_that_they_have_not_seen(searches: list[a100_data.Search]) -> None:
    """Over whole searches (every twelfth program of each), where most programs are good: better than the prior alone on the
    average, and better than drawing."""
    whole = [s.where(s.columns["order"] % 12 == 0) for s in searches]
    found = a100.trees(whole, dataclasses.replace(a100.SETTINGS, members=3))
    assert len(found) == 20
    trees, prior = np.mean(of(found, "f32", "spearman")), np.mean(of(found, "f32", "prior"))
    assert trees > prior + 0.01 and np.mean(of(found, "f32", "top10")) > np.mean(of(found, "f32", "random10"))


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert a100.main(["--data", str(SAMPLE), "--only", "prior", "--json", str(tmp_path / "found.json")]) == 0
    shown = capsys.readouterr().out
    assert "f32 1024x1024x512" in shown and "f32 mean" in shown and "f16 least" in shown
    assert json.loads((tmp_path / "found.json").read_text())["prior"]["f32 16x512x64"]["programs"] == 64


def test_ranks() -> None:
    a = np.array([3.0, 1.0, 2.0, 2.0])
    assert a100.spearman(a, 10 * a) == pytest.approx(1.0) and a100.spearman(a, -a) == pytest.approx(-1.0)
    assert a100.spearman(a, np.ones(4)) == 0.0
    assert a100.reached(np.array([4.0, 2.0, 1.0]), np.array([0, 1, 2]), 2) == 0.5
