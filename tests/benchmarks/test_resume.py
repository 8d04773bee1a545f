"""What is done is not done again, what was stopped goes on, and what is half written does not count."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from resume import Log, Outcome, Tell, ending_at_ctrl_c, kept


def test_results_are_made_once_for_the_same_settings(tmp_path: Path) -> None:
    made: list[int] = []

    def make() -> dict[str, int]:
        made.append(1)
        return {"n": len(made)}

    path = tmp_path / "rows" / "a.json"
    assert kept(path, {"trials": 8, "who": ("a", "b")}, make) == {"n": 1}
    assert kept(path, {"trials": 8, "who": ("a", "b")}, make) == {"n": 1}
    assert kept(path, {"trials": 9, "who": ("a", "b")}, make) == {"n": 2}
    path.write_text('{"of": {"trials": 9')
    assert kept(path, {"trials": 9, "who": ("a", "b")}, make) == {"n": 3}
    assert not list(path.parent.glob("*.part"))


class Stopped(Exception):
    pass


def searching(log: Log, trials: int, step: int = 4, stop_after: int | None = None) -> tuple[Outcome, list[int]]:
    """A search whose best is 100 less its trials; what it was asked for."""
    asked: list[int] = []

    def go(left: int, tell: Tell) -> str | None:
        asked.append(left)
        start = trials - left
        for done in range(step, left + 1, step):
            tell(done, 0.5 * done, 100.0 - start - done, 0.0)
            if stop_after is not None and done >= stop_after:
                raise Stopped
        return None

    return log.search(trials, go), asked


def test_a_stopped_search_goes_on_with_what_is_left(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "run.log"
    with pytest.raises(Stopped):
        searching(Log(path), 16, stop_after=8)
    with path.open("a") as file:
        file.write("[12, 6.0, 8")  # killed while it wrote
    whole, asked = searching(Log(path), 16)
    assert asked == [8] and whole.trials == 16 and whole.note == ""
    assert whole.points == ((4, 2.0, 96.0), (8, 4.0, 92.0), (12, 6.0, 88.0), (16, 8.0, 84.0))
    again, asked = searching(Log(path), 16)
    assert asked == [] and again == whole


def test_more_trials_go_on_and_fewer_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    searching(Log(path), 8)
    more, asked = searching(Log(path), 16)
    assert asked == [8] and more.trials == 16
    with pytest.raises(SystemExit, match="is of 16 trials, and 8 are wanted"):
        searching(Log(path), 8)


def test_a_search_that_ends_early_or_fails_says_so_and_is_not_tried_again(tmp_path: Path) -> None:
    early, _ = searching(Log(tmp_path / "early.log"), 10, step=4)
    assert early.note == "ended after 8 of 10 trials"
    assert searching(Log(tmp_path / "early.log"), 10)[1] == []
    failed = Log(tmp_path / "failed.log").search(8, lambda left, tell: "failed: RuntimeError: no")
    assert failed == Outcome((), "failed: RuntimeError: no") and failed.best is None and failed.trials == 0
    assert searching(Log(tmp_path / "failed.log"), 8)[1] == []


def test_points_of_a_network_have_the_base_of_its_end(tmp_path: Path) -> None:
    def go(left: int, tell: Tell) -> None:
        tell(4, 1.0, 5.0, 6.0)  # of two tasks, one was looked at
        tell(8, 2.0, 9.0, 11.0)
        tell(8, 2.5, 9.0, 11.0)  # nothing new

    found = Log(tmp_path / "net.log").search(8, go)
    assert found.points == ((4, 1.0, 10.0), (8, 2.0, 9.0))
    assert found.at(7) == 10.0 and found.at(3) is None and found.to_reach(9.5) == (8, 2.0) and found.to_reach(1.0) is None


def test_ctrl_c_ends_the_script_with_a_word() -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(SystemExit, match="the same command does what is missing"), ending_at_ctrl_c("out"):
        os.kill(os.getpid(), signal.SIGINT)
        signal.pause()
    assert signal.getsignal(signal.SIGINT) is before
