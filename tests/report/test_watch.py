"""A report that follows a tuning is made again when the file has grown, and only then."""

from __future__ import annotations

from pathlib import Path

from tests.report.samples import SMALL, TARGET, TIMING, default

from tensorsmith.records import Store
from tensorsmith.report.watch import watch


def test_made_again_when_records_come(tmp_path: Path) -> None:
    path, made, rounds = tmp_path / "tune.db", [], iter(range(6))
    with Store.open(path) as tuner:
        looked = 0

        def sleep(seconds: float) -> None:
            nonlocal looked
            assert seconds == 5.0
            looked += 1
            if looked in (2, 4):
                tuner.add(SMALL, TARGET, TIMING, [default(SMALL, 1e-3)])

        watch(path, lambda: made.append(looked), 5.0, sleep=sleep, now=lambda: 0.0, going_on=lambda: next(rounds, None) is not None)
    assert made == [0, 2, 4]


def test_a_file_that_is_gone_is_no_end(tmp_path: Path) -> None:
    path, made, rounds = tmp_path / "tune.db", [], iter(range(3))
    path.write_text("something")

    def sleep(seconds: float) -> None:
        path.unlink(missing_ok=True)

    watch(path, lambda: made.append(1), 1.0, sleep=sleep, now=lambda: 0.0, going_on=lambda: next(rounds, None) is not None)
    assert made == [1, 1]


def test_what_takes_long_is_made_seldom(tmp_path: Path) -> None:
    path, slept, rounds, moments = tmp_path / "tune.db", [], iter(range(2)), iter([0.0, 2.0, 2.0, 2.0])
    path.write_text("something")

    def going_on() -> bool:
        return next(rounds, None) is not None

    watch(path, lambda: None, 5.0, sleep=slept.append, now=lambda: next(moments), going_on=going_on)
    assert slept == [10.0, 5.0]
