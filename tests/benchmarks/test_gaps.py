"""Where the default schedule is behind: which workloads are asked about, and what is said of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import gaps
import tensorsmith as ts
from tensorsmith.backends import backend_of
from tensorsmith.lang.workload import Workload
from tensorsmith.ops import elementwise
from tensorsmith.records.keys import Timing
from tensorsmith.records.store import Store
from tensorsmith.search.trial import Status, Trial
from tensorsmith.space.plain import plain_candidate
from tensorsmith.targets.target import native


def workload() -> Workload:
    x = ts.placeholder((64, 48), name="x")
    return ts.workload([x, elementwise.relu(x)])


@pytest.fixture
def database(tmp_path: Path) -> str:
    """Records in which another program is twice as fast as the default schedule."""
    w, path = workload(), tmp_path / "records.db"
    default = backend_of(native()).default_candidate(w, native())
    with Store.open(path) as store:
        trials = [Trial(default, Status.OK, 2e-6), Trial(plain_candidate(w), Status.OK, 1e-6)]
        store.add(w, native(), Timing("warm", native().cores), trials)
    return str(path)


def test_what_was_ahead_by_enough_is_asked_about(database: str) -> None:
    with Store.open(database) as store:
        (case,) = gaps.behind(store, 1.5)
        assert case.other == plain_candidate(workload()) != case.default
        assert not list(gaps.behind(store, 2.5))


def test_only_schedules_that_changed_are_compared(database: str) -> None:
    with Store.open(database) as store:
        before = gaps.saved(store)
        assert not list(gaps.changed(store, before))
        before = {key: plain_candidate(workload()).to_json() for key in before}
        (case,) = gaps.changed(store, before)
        assert case.other == plain_candidate(workload())


def test_it_says_how_far_the_default_schedule_is(database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gaps.main([database, "--seconds", "0.01", "--json", str(tmp_path / "gaps.json")])
    (row,) = json.loads((tmp_path / "gaps.json").read_text()).values()
    assert row["speed"] > 0
    assert "of the best program: geometric mean" in capsys.readouterr().out
    gaps.main([database, "--show", workload().key[:8]])
    assert capsys.readouterr().out.count("relu[") >= 2


def test_schedules_of_other_code_come_from_a_file(database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gaps.main([database, "--save", str(tmp_path / "before.json")])
    gaps.main([database, "--against", str(tmp_path / "before.json")])
    assert capsys.readouterr().out == ""


def test_no_file() -> None:
    with pytest.raises(SystemExit):
        gaps.main(["nowhere.db"])
