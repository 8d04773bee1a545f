"""What a run says: the line, the summary of failures, and who hears it."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.measure.small import candidates, matmul

from tensorsmith.search.trial import Status, Trial
from tensorsmith.tuning.progress.failures import Failures
from tensorsmith.tuning.progress.reporter import Callback, LiveLine, PlainLines, make_reporter
from tensorsmith.tuning.progress.workload import Progress

WORKLOAD = matmul()  # 2 * 16 * 24 * 32 = 24,576 operations


def progress(trials: int = 32, **options) -> Progress:
    return Progress(WORKLOAD, **{"trials": trials, "wanted": 64, "best_seconds": 1e-6, "elapsed": 4.0, **options})


def test_the_line() -> None:
    assert str(progress()) == "32/64 trials, best 1.0 us alone, 24.6 GFLOP/s, 8.0 trials/s, 4s left"
    assert str(progress(0, best_seconds=None, elapsed=0.0)) == "0/64 trials, nothing measured yet, 0.0 trials/s"
    full = progress(failures=Counter(refused=2, crashed=1), peak=49.152e9)
    assert str(full) == "32/64 trials, 3 failed, best 1.0 us alone, 24.6 GFLOP/s (50% of peak), 8.0 trials/s, 4s left"
    assert "left" not in str(progress(64))
    assert str(progress(wanted=None, seconds=100.0)).endswith("8.0 trials/s, 1m36s left")


def test_time_left_is_that_of_the_nearer_limit() -> None:
    assert progress().seconds_left == 4.0
    assert progress(seconds=5.0).seconds_left == 1.0
    assert progress(seconds=3.0).seconds_left == 0.0
    assert progress(0, wanted=None).seconds_left is None


def test_where_the_time_went() -> None:
    found = progress(times={"search": 1.0, "build": 2.25}).time_split
    assert found == "search 1.0 s, build 2.2 s; 4.0 s in all"


def test_failures_are_grouped_by_cause_with_an_example() -> None:
    failures = Failures()
    given = candidates(WORKLOAD, *range(1, 7))
    for candidate, status, cause in zip(
        given,
        (Status.WRONG_ANSWER, Status.WRONG_ANSWER, Status.REFUSED, Status.REFUSED, Status.REFUSED, Status.CRASHED),
        ("C: 1 is wrong", "C: all are wrong", "tile of 90 too large", "tile of 7 too large", "no vector", "SIGSEGV while building"),
    ):
        failures.add(Trial(candidate, status, cause=cause))
    failures.add(Trial(given[0], Status.OK, 1.0))
    assert failures.by_status() == {"wrong answer": 2, "refused": 3, "crashed": 1}
    lines = str(failures).splitlines()
    assert len(lines) == 4
    assert lines[0].startswith("2 wrong answer: candidate ") and lines[0].endswith(": C: 1 is wrong")
    assert any(line.startswith("2 refused") and line.endswith("tile of 90 too large") for line in lines)
    assert str(Failures()) == ""


def test_plain_lines_are_few(capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    lines = PlainLines(lambda: now[0])
    for second in range(13):
        now[0] = second
        lines.update(progress(second))
    lines.close()
    assert [line.split("/")[0] for line in capsys.readouterr().out.splitlines()] == ["5", "10", "12"]
    lines.update(progress(13))
    lines.say("and then")
    lines.close()
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("13/") and second == "and then"


def test_a_callback_hears_everything_and_nothing_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[Progress] = []
    reporter = make_reporter(seen.append)
    assert isinstance(reporter, Callback)
    reporter.update(progress(1))
    reporter.say("for people")
    with pytest.warns(RuntimeWarning, match="the disk is full"):
        reporter.warn("the disk is full")
    reporter.close()
    assert [p.trials for p in seen] == [1]
    assert capsys.readouterr().out == ""


def test_the_live_line_ends_with_the_last_state(capsys: pytest.CaptureFixture[str]) -> None:
    line = LiveLine()
    line.update(progress(1))
    line.say("[bold] is no markup here")
    line.update(progress(2))
    line.close()
    out = capsys.readouterr().out
    assert "[bold] is no markup here" in out and "2/64 trials" in out


def test_without_a_terminal_lines_are_plain() -> None:
    assert isinstance(make_reporter(None), PlainLines)
