"""The harness with a clock that only moves when a contestant runs."""

import io
import json
import math
from collections.abc import Callable

import pytest
from rich.console import Console

import report
from harness import SAMPLE_SECONDS, Comparison, Machine, Repeated, Timing, compare, geometric_mean, order, settle


class FakeMachine:
    """Contestants made by `contestant` take exactly their seconds; `log` is who ran, in order, one entry per call."""

    def __init__(self, idle: bool = True) -> None:
        self.now = 0.0
        self.log: list[str] = []
        self.settled: list[int] = []  # length of the log at each settling
        self.machine = Machine(clock=lambda: self.now, settle=self._settle)
        self.idle = idle

    def _settle(self) -> bool:
        self.settled.append(len(self.log))
        return self.idle

    def contestant(self, name: str, *seconds: float) -> Callable[[], None]:
        """Takes the given times in turn, the last one for ever."""
        times = list(seconds)

        def run() -> None:
            self.log.append(name)
            self.now += times.pop(0) if len(times) > 1 else times[0]

        return run


def test_times_are_per_call():
    fake = FakeMachine()
    result = compare(
        {"fast": fake.contestant("fast", 1e-3), "slow": fake.contestant("slow", 2e-3)},
        rounds=5, slot_seconds=8e-3, machine=fake.machine,
    )  # fmt: skip
    assert result["fast"].best == pytest.approx(1e-3)
    assert result["slow"].median == pytest.approx(2e-3)
    assert (result["fast"].calls, result["slow"].calls) == (8, 4)
    assert result["fast"].slots == result["slow"].slots == 5
    assert result.best_peer("fast") == "slow"
    assert result.ratio("fast") == pytest.approx(2.0)
    assert result.ratio("slow") == pytest.approx(0.5)


def test_a_slow_contestant_runs_once_per_slot():
    fake = FakeMachine()
    result = compare({"a": fake.contestant("a", 1.0)}, seconds=0.0, min_rounds=3, machine=fake.machine)
    assert (result["a"].calls, result["a"].slots) == (1, 3)


def test_repeated_gets_the_count():
    fake = FakeMachine()
    counts = []

    def repeat(count: int) -> None:
        counts.append(count)
        fake.now += count * 1e-3

    result = compare({"ours": Repeated(repeat)}, rounds=3, min_rounds=1, slot_seconds=5e-3, machine=fake.machine)
    assert result["ours"].best == pytest.approx(1e-3)
    assert counts[-6:] == [1, 1, 1, 1, 1, 1]  # the warm-up of a slot, then its samples


def test_short_calls_share_a_sample():
    fake = FakeMachine()
    counts = []

    def repeat(count: int) -> None:
        counts.append(count)
        fake.now += count * SAMPLE_SECONDS / 4

    compare({"ours": Repeated(repeat)}, rounds=1, min_rounds=1, slot_seconds=5 * SAMPLE_SECONDS, machine=fake.machine)
    assert counts[-6:] == [1, 4, 4, 4, 4, 4]


@pytest.mark.parametrize(("seconds", "samples"), [(20e-3, 4), (40e-3, 1)])
def test_a_slot_has_a_few_samples_unless_they_are_long(seconds, samples):
    fake = FakeMachine()
    assert compare({"a": fake.contestant("a", seconds)}, rounds=1, min_rounds=1, machine=fake.machine)["a"].calls == samples


def test_the_best_is_a_sample_and_the_median_a_slot():
    fake = FakeMachine()
    calibration, slot = [4e-3] * 3, [9.0, 2e-3, 6e-3, 4e-3, 4e-3]  # a slot has a call that is not timed and four samples
    noisy = fake.contestant("a", *calibration, *slot, *slot, 9.0, *[5e-3] * 4)
    result = compare({"a": noisy}, rounds=3, seconds=1e9, slot_seconds=16e-3, machine=fake.machine)
    assert (result["a"].best, result["a"].median) == pytest.approx((2e-3, 4e-3))


def test_every_slot_starts_idle_and_warm():
    fake = FakeMachine()
    compare({n: fake.contestant(n, 1.0) for n in "ab"}, rounds=4, min_rounds=1, seconds=1e9, machine=fake.machine)
    slots = fake.log[fake.settled[2] :]  # after both were calibrated
    assert len(slots) == 4 * 2 * 2  # a warm-up call and a timed one
    assert fake.settled[2:] == list(range(fake.settled[2], len(fake.log), 2))


def test_the_order_changes_every_round():
    fake = FakeMachine()
    compare({n: fake.contestant(n, 1.0) for n in "abc"}, rounds=6, seconds=1e9, machine=fake.machine)
    slots = fake.log[fake.settled[3] :: 2]
    rounds = ["".join(slots[n : n + 3]) for n in range(0, len(slots), 3)]
    assert rounds == ["".join(order("abc", n)) for n in range(6)] == ["abc", "cba", "bca", "acb", "cab", "bac"]


@pytest.mark.parametrize("count", [0, 1, 2, 5, 8])
def test_order_gives_everyone_every_place(count):
    names = [str(n) for n in range(count)]
    rounds = [order(names, n) for n in range(2 * count)]
    assert all(sorted(r) == sorted(names) for r in rounds)
    for name in names:
        assert {r.index(name) for r in rounds} == set(range(count))


def test_median_and_best_differ_under_noise():
    fake = FakeMachine()
    noisy = fake.contestant("a", *[9.0] * 3, *[9.0, 1.0] * 2, *[9.0, 5.0], 9.0)
    result = compare({"a": noisy}, rounds=5, seconds=1e9, machine=fake.machine)
    assert (result["a"].best, result["a"].median) == (1.0, 5.0)


def test_the_hopeless_leave_and_the_kept_stay():
    fake = FakeMachine()
    contestants = {name: fake.contestant(name, t) for name, t in {"good": 1.0, "bad": 5.0, "ours": 9.0}.items()}
    result = compare(contestants, rounds=10, min_rounds=2, hopeless=3.0, keep=["ours"], seconds=1e9, machine=fake.machine)
    assert {name: result[name].slots for name in contestants} == {"good": 10, "bad": 2, "ours": 10}


def test_time_is_limited():
    fake = FakeMachine()
    result = compare({"a": fake.contestant("a", 1.0)}, seconds=20.0, rounds=1000, machine=fake.machine)
    assert result["a"].slots == 9  # three calls to calibrate, two in each slot


def test_the_peak_is_measured_in_every_round():
    fake = FakeMachine()
    peaks = iter([1e9, 3e9, 2e9])
    contestants, peak = {"a": fake.contestant("a", 1.0)}, lambda seconds: next(peaks)
    result = compare(contestants, rounds=3, seconds=1e9, peak=peak, machine=fake.machine)
    assert result.peak == 3e9
    assert next(peaks, None) is None


@pytest.mark.parametrize(
    ("seconds", "samples", "sample"), [(SAMPLE_SECONDS / 4, 15, SAMPLE_SECONDS), (8e-3, 4, 8e-3), (0.1, 1, 0.1)]
)
def test_the_peak_is_measured_as_long_as_the_fastest_contestant(seconds, samples, sample):
    fake = FakeMachine()
    contestants = {"fast": fake.contestant("fast", seconds), "slow": fake.contestant("slow", 2 * seconds)}
    asked: list[float] = []
    compare(contestants, rounds=2, min_rounds=2, peak=lambda s: asked.append(s) or 1e9, machine=fake.machine)
    assert asked == pytest.approx([sample] * samples * 2)


@pytest.mark.parametrize(("idle", "share"), [(True, 0.0), (False, 1.0)])
def test_disturbed_slots_are_counted(idle, share):
    fake = FakeMachine(idle)
    assert compare({"a": fake.contestant("a", 1.0)}, rounds=3, machine=fake.machine).disturbed == share


def test_settle_comes_to_an_end():
    assert settle(most=0.01, patience=0.0) in (True, False)


def test_geometric_mean():
    assert geometric_mean([2.0, 8.0]) == pytest.approx(4.0)
    assert geometric_mean([3.0]) == pytest.approx(3.0)
    assert geometric_mean(iter([1e-200, 1e200, 1e-200, 1e200])) == pytest.approx(1.0)
    assert math.isnan(geometric_mean([]))


def timing(best: float) -> Timing:
    return Timing(best, 2 * best, 3, 1)


COMPARISON = Comparison({report.OURS: timing(1e-3), "torch": timing(2e-3), "openvino": timing(1.5e-3)}, 4e9)


def test_row_has_the_agreed_figures():
    row = report.row(COMPARISON, flops=2e6, seconds_searching=1.5, trials=64)
    assert row["ratio_to_best_peer"] == pytest.approx(1.5)
    assert row["best_peer"] == "openvino"
    assert row["share_of_peak"] == pytest.approx(0.5)
    assert row["peer_share_of_peak"] == pytest.approx(1 / 3)
    assert (row["seconds_searching"], row["trials"]) == (1.5, 64)
    assert row["seconds"]["torch"] == 2e-3


def test_what_does_not_apply_is_left_out():
    alone = report.row(Comparison({report.OURS: timing(1.0)}), trials=None)
    assert not {"ratio_to_best_peer", "best_peer", "share_of_peak", "trials", "peak_flops"} & set(alone)
    without_ours = report.row(Comparison({"torch": timing(1.0)}, 1e9), flops=1e9, error="refused")
    assert not {"ratio_to_best_peer", "share_of_peak"} & set(without_ours)
    assert without_ours["best_peer"] == "torch"


def test_json(tmp_path):
    file = tmp_path / "out.json"
    results = report.Report(Console(quiet=True))
    results.add("hand", "a", report.row(COMPARISON, flops=2e6))
    results.add("memory", "b", {"error": "broken"})
    results.write(file)
    assert json.loads(file.read_text()) == results.rows()
    assert list(results.rows()) == ["a", "b"]
    assert results.errors == 1
    with pytest.raises(ValueError, match="two results"):
        results.add("other", "a", {})
    with pytest.raises(ValueError, match="not JSON compliant"):
        report.write_json(file, {"a": {"ratio_to_best_peer": math.nan}})


def test_table_ends_with_the_geometric_mean_and_its_count():
    results = report.Report(Console(width=160, record=True, file=io.StringIO()))
    results.add("hand", "first", report.row(COMPARISON, flops=2e6))
    results.add("hand", "second", {"error": "Refusal: too large", "seconds": {"torch": 1.0}, "best_peer": "torch"})
    results.print("hand")
    text = results.console.export_text()
    assert "1.500 (1 of 2)" in text
    assert "Refusal: too large" in text
