"""The referee with a clock that only moves when a contestant runs."""

import itertools
from collections import Counter
from collections.abc import Callable

import pytest

from tensorsmith.measure import stillness
from tensorsmith.measure.referee import (
    HOPELESS,
    MIN_ROUNDS,
    RETAKES,
    SAMPLE_SECONDS,
    Comparison,
    Repeated,
    Timing,
    compare,
)
from tensorsmith.measure.stillness import PAUSE_SECONDS, Machine, settle


class FakeMachine:
    """Contestants made by `contestant` take exactly their seconds; `log` is who ran, in order, one entry per call."""

    def __init__(self, idle: bool = True, stolen: float = 0.0) -> None:
        """`stolen` is a share of all processor time."""
        self.now = 0.0
        self.log: list[str] = []
        self.settled: list[int] = []  # length of the log at each settling
        self.machine = Machine(lambda: self.now, self._settle, lambda: 2 * stolen * self.now, processors=2)
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

    def rounds(self, names: str, seed: int, count: int) -> list[str]:
        """Who had a slot in each round, if all take as long as a slot's only sample."""
        self.log.clear()
        self.settled.clear()
        compare({n: self.contestant(n, 1.0) for n in names}, rounds=count, seed=seed, seconds=1e9, machine=self.machine)
        slots = self.log[self.settled[len(names)] :]  # after all were calibrated
        return ["".join(slots[n : n + len(names)]) for n in range(0, len(slots), len(names))]


def test_times_are_per_call():
    fake = FakeMachine()
    result = compare(
        {"fast": fake.contestant("fast", 1e-3), "slow": fake.contestant("slow", 2e-3)},
        ours=["fast"], rounds=5, slot_seconds=8e-3, machine=fake.machine,
    )  # fmt: skip
    assert result["fast"].best == pytest.approx(1e-3)
    assert result["slow"].median == pytest.approx(2e-3)
    assert (result["fast"].calls, result["slow"].calls) == (8, 4)
    assert len(result["fast"].slots) == len(result["slow"].slots) == 5
    assert result.best_peer() == "slow"
    assert result.ratio("fast") == pytest.approx(2.0)


def test_a_slow_contestant_runs_once_per_slot():
    fake = FakeMachine()
    result = compare({"a": fake.contestant("a", 1.0)}, seconds=0.0, min_rounds=3, machine=fake.machine)
    assert (result["a"].calls, len(result["a"].slots)) == (1, 3)
    assert len(fake.log) == 2 + 3  # the first call of all, one to calibrate, and a slot has no other than the timed one


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
    result = compare({"a": noisy}, rounds=3, min_rounds=3, seconds=1e9, slot_seconds=16e-3, machine=fake.machine)
    assert (result["a"].best, result["a"].median) == pytest.approx((2e-3, 4e-3))


def test_every_slot_starts_idle_and_warm():
    fake = FakeMachine()
    contestants = {n: fake.contestant(n, 8e-3) for n in "ab"}
    compare(contestants, rounds=4, min_rounds=1, slot_seconds=32e-3, seconds=1e9, machine=fake.machine)
    slots = fake.log[fake.settled[2] :]  # after both were calibrated
    assert len(slots) == 4 * 2 * 5  # a warm-up call and four timed ones
    assert fake.settled[2:] == list(range(fake.settled[2], len(fake.log), 5))


# -- the order -----------------------------------------------------------------------------------------------------------


def test_the_order_is_drawn_anew_in_every_round():
    rounds = FakeMachine().rounds("abcd", seed=0, count=200)
    assert all(sorted(r) == list("abcd") for r in rounds)
    for place in range(4):
        assert min(Counter(r[place] for r in rounds).values()) > 30  # 50 are expected of everyone in every place
    followers = Counter(pair for r in rounds for pair in itertools.pairwise(r))
    assert len(followers) == 12 and min(followers.values()) > 25  # everyone follows everyone else, 50 times


def test_the_order_is_that_of_the_seed():
    fake = FakeMachine()
    assert fake.rounds("abcdef", 1, 8) == fake.rounds("abcdef", 1, 8) != fake.rounds("abcdef", 2, 8)


def test_the_peak_has_a_place_in_the_order():
    fake = FakeMachine()
    compare(
        {n: fake.contestant(n, 1.0) for n in "ab"},
        rounds=40, seconds=1e9, peak=lambda seconds: fake.log.append("P") or 1.0, machine=fake.machine,
    )  # fmt: skip
    slots = fake.log[fake.settled[2] :]
    assert {slots[n : n + 3].index("P") for n in range(0, len(slots), 3)} == {0, 1, 2}


# -- who stays -----------------------------------------------------------------------------------------------------------


def slots_of(seconds: dict[str, float], ours: list[str]) -> dict[str, int]:
    fake = FakeMachine()
    contestants = {name: fake.contestant(name, t) for name, t in seconds.items()}
    result = compare(contestants, ours=ours, rounds=10, min_rounds=4, seconds=1e9, machine=fake.machine)
    assert set(result.dropped) == {name for name, timing in result.timings.items() if len(timing.slots) < 10}
    return {name: len(result[name].slots) for name in contestants}


def test_the_best_peer_stays_however_far_we_lead():
    assert slots_of({"ours": 0.1, "good": 1.0, "fair": 1.4, "bad": 1.6}, ["ours"]) == {"ours": 10, "good": 10, "fair": 10, "bad": 4}


def test_those_who_are_left_have_the_seconds_after_the_rounds_of_all():
    fake = FakeMachine()
    contestants = {name: fake.contestant(name, t) for name, t in {"ours": 1.0, "good": 1.0, "bad": 9.0}.items()}
    result = compare(contestants, ours=["ours"], min_rounds=2, seconds=100.0, machine=fake.machine)
    assert len(result["bad"].slots) == 2
    assert len(result["good"].slots) == 2 + 50  # a slot is one call of a second, for the two that are left


def test_ours_stay_however_far_we_are_behind():
    assert slots_of({"ours": 9.0, "untuned": 20.0, "good": 1.0}, ["ours", "untuned"]) == {"ours": 10, "untuned": 10, "good": 10}


def test_a_peer_that_was_unlucky_once_stays():
    fake = FakeMachine()
    unlucky = fake.contestant("b", *[9.0] * 5, 1.0)  # two calls to calibrate, and three of its slots
    result = compare(
        {"a": fake.contestant("a", 1.0), "b": unlucky}, rounds=6, min_rounds=4, seconds=1e9, machine=fake.machine
    )  # fmt: skip
    assert len(result["b"].slots) == 6
    assert result.dropped == ()
    assert HOPELESS == 1.5


def test_ours_are_no_peers():
    result = Comparison(
        {n: Timing(t, (t,), 1) for n, t in {"ours": 2.0, "untuned": 1.0, "peer": 4.0}.items()}, frozenset(["ours", "untuned"])
    )
    assert result.best_peer() == "peer"
    assert (result.ratio("ours"), result.ratio("untuned")) == (2.0, 4.0)
    assert Comparison(result.timings, frozenset(result.timings)).ratio("ours") is None


# -- figures -------------------------------------------------------------------------------------------------------------


def test_the_ratio_has_its_spread_over_the_rounds():
    ours, peer = Timing(1.0, (1.0, 1.0, 2.0, 1.0, 1.0), 1), Timing(2.0, (2.0, 2.5, 3.0, 4.0, 3.0), 1)
    steady = Timing(2.2, (2.2,) * 5, 1)
    result = Comparison({"ours": ours, "peer": peer, "steady": steady}, frozenset(["ours"]))
    assert result.best_peer() == "peer"
    assert result.ratio("ours") == 2.0
    assert result.median_ratio("ours") == pytest.approx(2.2)  # by medians the other one is the best
    assert result.quartiles("ours") == pytest.approx((2.0, 3.0))  # of 1.5, 2, 2.5, 3, 4
    assert result.quartiles("nobody") is None


def test_time_is_limited():
    fake = FakeMachine()
    result = compare({"a": fake.contestant("a", 1.0)}, seconds=20.0, rounds=1000, machine=fake.machine)
    assert len(result["a"].slots) == MIN_ROUNDS + 20


def test_the_peak_is_measured_in_every_round():
    fake = FakeMachine()
    peaks = iter([1e9, 3e9, 2e9])
    contestants, peak = {"a": fake.contestant("a", 1.0)}, lambda seconds: next(peaks)
    result = compare(contestants, rounds=3, min_rounds=3, seconds=1e9, peak=peak, machine=fake.machine)
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


# -- disturbance ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("idle", "stolen", "share"),
    [(True, 0.0, 0.0), (False, 0.0, 1.0), (True, 0.049, 0.0), (True, 0.051, 1.0)],
    ids=["quiet", "others run", "little stolen", "much stolen"],
)
def test_disturbed_slots_are_counted(idle, stolen, share):
    fake = FakeMachine(idle, stolen)
    assert compare({"a": fake.contestant("a", 1.0)}, rounds=3, machine=fake.machine).disturbed == share


def slots_beside_others(disturbed: list[bool], seconds: float = 1e9) -> tuple[Comparison, list[float]]:
    """A contest of two rounds with one contestant; `disturbed` are its slots in the order they are taken, the n-th of which takes n
    seconds. And the seconds of the slots that were taken."""
    fake, taken = FakeMachine(), []
    coming = iter([False, *disturbed])  # the first is before the calibration

    def run() -> None:
        taken.append(float(max(1, len(taken) - 1)))  # two calls to calibrate
        fake.now += taken[-1]

    machine = Machine(lambda: fake.now, lambda: not next(coming), lambda: 0.0, processors=2)
    return compare({"a": run}, rounds=2, min_rounds=2, seconds=seconds, machine=machine), taken[2:]


def test_a_disturbed_slot_is_taken_again_and_its_samples_do_not_count():
    result, taken = slots_beside_others([True, True, False, False])
    assert taken == [1.0, 2.0, 3.0, 4.0]
    assert result["a"].slots == (3.0, 4.0) and result["a"].best == 3.0  # though a disturbed one was faster
    assert (result.disturbed, result["a"].disturbed, result.retaken) == (0.0, 0, 2)


def test_a_slot_that_stays_disturbed_is_kept_and_counted_after_some_retakes():
    result, taken = slots_beside_others([True] * (1 + RETAKES) + [False])
    assert len(taken) == 1 + RETAKES + 1
    assert result["a"].slots == (1.0 + RETAKES, 2.0 + RETAKES)  # the last try, be it the slowest
    assert (result.disturbed, result["a"].disturbed, result.retaken) == (0.5, 1, RETAKES)


def test_all_retakes_together_take_no_longer_than_the_contest():
    result, taken = slots_beside_others([True] * 20, seconds=4.0)
    assert taken == [1.0, 2.0, 3.0, 4.0]  # retakes of 2 and 3 seconds, and the second round has none left
    assert (result["a"].disturbed, result.retaken) == (2, 2)
    assert slots_beside_others([True] * 20, seconds=0.0)[1] == [1.0, 2.0]


def test_everyone_has_as_many_slots_however_disturbed():
    fake, looks = FakeMachine(), itertools.count()
    machine = Machine(lambda: fake.now, lambda: next(looks) % 3 > 0, lambda: 0.0, processors=2)
    result = compare({n: fake.contestant(n, 1.0) for n in "ab"}, rounds=9, seconds=1e9, machine=machine)
    assert [len(result[n].slots) for n in "ab"] == [9, 9] and result.retaken > 0 == result.disturbed


class FakeTime:
    """`time` of a machine on which other threads run until a moment, but for those in which they happen to be off."""

    def __init__(self, others_until: float, off: frozenset[int]) -> None:
        self.now, self.looks, self.others_until, self.off = 0.0, 0, others_until, off

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def perf_counter(self) -> float:
        return self.now

    def others_running(self) -> int:
        self.looks += 1
        return int(self.now < self.others_until and self.looks not in self.off)


@pytest.mark.parametrize(
    ("others", "off", "least", "most", "still"),
    [
        (0.0, frozenset(), PAUSE_SECONDS, 25e-3, True),  # the pause, and two looks
        (60e-3, frozenset(), 60e-3, 65e-3, True),  # threads that spin for longer than the pause
        (60e-3, frozenset({3, 5}), 60e-3, 65e-3, True),  # one look that finds nobody is not enough
        (9.0, frozenset(), 0.3, 0.4, False),  # threads or processes that never sleep
    ],
)
def test_a_slot_begins_when_all_is_still(monkeypatch, others, off, least, most, still):
    fake = FakeTime(others, off)
    monkeypatch.setattr(stillness, "time", fake)
    monkeypatch.setattr(stillness, "others_running", fake.others_running)
    assert settle() is still
    assert least <= fake.now <= most


def test_what_the_kernel_says_is_understood():
    assert stillness.others_running() >= 0
    assert stillness.stolen_seconds() >= 0.0
