from __future__ import annotations

import pytest

from tensorsmith.errors import UserError
from tensorsmith.tuning.budget import EFFORTS, Budget, Clock, duration


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((None, None, None, None), Budget(64)),
        (("normal", None, None, None), Budget(256, None, 128)),
        (("thorough", None, 60.0, None), Budget(1000, 60.0, 300)),
        (("normal", 10, None, None), Budget(10, None, 128)),
        (("normal", None, None, 5), Budget(256, None, 5)),
        (("normal", None, None, 0), Budget(256, None, None)),
        ((None, 10, None, None), Budget(10)),
        ((None, 10, None, 3), Budget(10, None, 3)),
        ((None, None, 60.0, None), Budget(None, 60.0)),
    ],
)
def test_what_is_given_wins_over_the_preset(given: tuple, expected: Budget) -> None:
    assert Budget.of(*given) == expected


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("hard", None, None, None), f"no effort 'hard'; it is one of {', '.join(EFFORTS)}"),
        ((None, -1, None, None), "trials is -1"),
        ((None, 2.5, None, None), "trials is 2.5"),
        ((None, None, -1.0, None), "seconds is -1.0"),
        ((None, None, float("nan"), None), "seconds is nan"),
        ((None, None, None, -2), "patience is -2"),
    ],
)
def test_mistakes(given: tuple, message: str) -> None:
    with pytest.raises(UserError, match=message):
        Budget.of(*given)


def test_what_is_left() -> None:
    assert Budget(10).left(4) == 6
    assert Budget(10).left(14) == 0
    assert Budget(None, 5.0).left(100) is None


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("1.5", 1.5), ("90s", 90), ("10m", 600), ("1h", 3600), (" 1h30m ", 5400), ("1.5M", 90)]
)
def test_durations(text: str, seconds: float) -> None:
    assert duration(text) == seconds


@pytest.mark.parametrize("text", ["", "m", "10x", "ten", "-5s", "5m later"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(UserError, match="write it as 90s, 10m, 1h or 1h30m"):
        duration(text)


def test_the_first_candidates_are_proposed_in_time_to_measure_them(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    clock = Clock(10.0)  # 8.5 of it for the search
    now[0] = 102.5
    first, later, endless = clock.proposing(True), clock.proposing(False), Clock(None).proposing(True)
    now[0] = 105.4
    assert not first() and not later()
    now[0] = 105.5
    assert first() and not later()
    now[0] = 108.5
    assert first() and later() and not endless()


def test_a_clock_keeps_time_for_the_final(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    clock = Clock(10.0)
    assert not clock.searched and not clock.over and clock.elapsed == 0
    now[0] = 109.5
    assert clock.searched and not clock.over
    now[0] = 110.0
    assert clock.over
    endless = Clock(None)
    now[0] = 1e9
    assert endless.left is None and not endless.searched and not endless.over


def test_a_clock_keeps_time_for_what_comes_after_the_run() -> None:
    now = [100.0]
    clock = Clock(60.0, most_settling=9.0, now=lambda: now[0])
    clock.keep(12.0)
    assert (clock.left, clock.rest, clock.whole_rest) == (60.0 - 12.0 - 9.0, 48.0, 60.0)
    now[0] = 140.0
    assert clock.searched and not clock.over
    now[0] = 148.0
    assert clock.over and clock.whole_rest == 12.0
    clock.keep(1000.0)  # of a short run most is for the search
    assert clock.rest == pytest.approx(60.0 - 24.0 - 48.0)
    endless = Clock(None, now=lambda: now[0])
    endless.keep(12.0)
    assert endless.rest is None and endless.whole_rest is None and not endless.over


def test_a_clock_begins_when_the_caller_begins_to_wait() -> None:
    clock = Clock(10.0, now=lambda: 107.0, begun=100.0)
    assert clock.elapsed == 7.0 and clock.whole_rest == 3.0


def test_a_clock_reserves_what_the_finals_need_up_to_half_of_the_time() -> None:
    clock = Clock(10.0, now=lambda: 100.0)
    clock.reserve(0.5)  # less than is kept anyway
    assert clock.left == 8.5
    clock.reserve(2.5)
    assert (clock.left, clock.rest) == (7.5, 10.0)
    clock.reserve(1.0)  # of a faster program, which may yet turn out to be none
    assert clock.left == 7.5
    clock.reserve(30.0)
    assert clock.left == 5.0
    endless = Clock(None, now=lambda: 100.0)
    endless.reserve(2.5)
    assert endless.left is None
