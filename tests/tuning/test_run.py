"""The loop, with times of our own: when it ends, what it keeps, what it says."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.measure.small import matmul
from tests.tuning.fakes import DEFAULT_POLICY, FakeMeasurer

import tensorsmith as ts
from tensorsmith.backends import backend_of
from tensorsmith.errors import UserError
from tensorsmith.measure.conditions import Condition
from tensorsmith.measure.contest import Timed
from tensorsmith.records.faults import StoreError
from tensorsmith.records.keys import Timing, candidate_key
from tensorsmith.records.record import FINALS
from tensorsmith.records.store import Store
from tensorsmith.search.policies.random import RandomPolicy
from tensorsmith.search.trial import Status, Trial
from tensorsmith.space.sketch.sketch import Candidate
from tensorsmith.targets import neighbours
from tensorsmith.targets.target import native
from tensorsmith.tune import Progress
from tensorsmith.tuning.history import journal
from tensorsmith.tuning.tasks import formulation

WORKLOAD = matmul()
Make = Callable[..., FakeMeasurer]


@pytest.fixture
def measurer(monkeypatch: pytest.MonkeyPatch) -> Make:
    """Lets all runs use one fake measurer and a cheap search, and no worker ever start."""

    def make(seconds: Callable[[int], float | None], after: Callable[[int], None] = lambda n: None) -> FakeMeasurer:
        fake = FakeMeasurer(seconds, after)
        monkeypatch.setattr(formulation, "Measurer", lambda *arguments, **options: fake)
        monkeypatch.setitem(*DEFAULT_POLICY)
        monkeypatch.setattr("tensorsmith.measure.workshop.Workshop.start", lambda self: None)
        return fake

    return make


def tune(**options) -> list[Progress]:
    seen: list[Progress] = []
    ts.tune(WORKLOAD, on_progress=seen.append, **options)
    return seen


def pretend_default(monkeypatch: pytest.MonkeyPatch, default: Callable[..., Candidate]) -> None:
    """Lets tunings take another candidate for the default schedule."""
    backend = replace(backend_of(native()), default_candidate=default)
    monkeypatch.setattr(formulation, "backend_of", lambda target: backend)


def slower(n: int) -> float:
    return 1e-5 * (n + 1)


def test_the_trials_that_were_wanted(measurer: Make) -> None:
    fake = measurer(slower)
    seen = tune(trials=40)
    assert len(fake.measured) == 40 == seen[-1].trials == seen[-1].wanted
    assert len({candidate_key(c) for c in fake.measured}) == 40
    assert seen[-1].best_seconds == 1e-5
    assert [p.trials for p in seen] == [8, 16, 24, 32, 40]


def test_the_workers_have_work_while_the_next_batch_is_searched_for(measurer: Make) -> None:
    fake = measurer(slower)
    tune(trials=64)
    assert fake.pending_at_submit == [0, 8, 8, 8, 8]  # the first ones are built while the next are searched for


def test_patience(measurer: Make) -> None:
    """The last improvement that counts is the 20th trial; the 30th is better by less than 1 %."""
    fake = measurer(lambda n: {20: 5e-6, 30: 4.99e-6}.get(n, 1e-5))
    seen = tune(trials=1000, patience=40)
    assert 20 + 40 <= len(fake.measured) <= 20 + 40 + 16 + 8
    assert seen[-1].best_seconds == 4.99e-6


def pretend_bound(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Lets the machine allow so long for everything."""
    roof = SimpleNamespace(bound=lambda workload: seconds)
    monkeypatch.setattr("tensorsmith.tuning.of_workload.Roofline", SimpleNamespace(measured=lambda target, cache: roof))


def test_a_search_ends_near_what_the_machine_allows(
    measurer: Make, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The 20th trial is 2 % above it, the others twice as slow."""
    fake = measurer(lambda n: 1.02e-5 if n == 20 else 2e-5)
    pretend_bound(monkeypatch, 1e-5)
    ts.tune(WORKLOAD, trials=200)
    assert 21 <= len(fake.measured) <= 48 and fake.finals  # what was on its way is measured, and the final is held
    assert "the best is within 3% of what this machine allows" in capsys.readouterr().out


@pytest.mark.parametrize(("bound", "early_stop"), [(1e-5, False), (0.98e-5, True), (3e-5, True)])
def test_a_search_goes_on_otherwise(measurer: Make, monkeypatch: pytest.MonkeyPatch, bound: float, early_stop: bool) -> None:
    """If it is told to; 4 % above what the machine allows; and where that is beaten, so that it was measured wrongly."""
    fake = measurer(lambda n: 1.02e-5)
    pretend_bound(monkeypatch, bound)
    seen = tune(trials=64, early_stop=early_stop)
    assert len(fake.measured) == 64 == seen[-1].trials


def test_time_is_up(measurer: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the middle of a batch: what is measured is kept, the rest is dropped."""
    over = []
    fake = measurer(lambda n: 1e-5, after=lambda n: over.append(n) if n >= 18 else None)
    monkeypatch.setattr("tensorsmith.tuning.budget.Clock.searched", property(lambda self: bool(over)))
    seen = tune(trials=64, seconds=1000.0)
    assert len(fake.measured) == 24 == seen[-1].trials
    assert fake.cancelled and fake.finals  # there is time left for the final


def test_where_no_time_is_left_for_a_final_the_default_schedule_stays(
    measurer: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The 4th is twice as fast in the search, and nobody has called it."""
    over = []
    fake = measurer(lambda n: 0.5e-5 if n == 3 else 1e-5, after=lambda n: over.append(n) if n >= 18 else None)
    pretend_default(monkeypatch, lambda *_: fake.measured[7])
    for property_ in ("searched", "over"):
        monkeypatch.setattr(f"tensorsmith.tuning.budget.Clock.{property_}", property(lambda self: bool(over)))
    tune(trials=64, seconds=1000.0, database=tmp_path / "tune.db")
    assert not fake.finals
    with Store.open(tmp_path / "tune.db") as store:
        (best,) = store.top(WORKLOAD, native(), Timing("warm", native().cores), 1)
    assert best.candidate.decisions == fake.measured[7].decisions


def test_slow_programs_have_more_time_for_their_final(measurer: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs of 20 ms need more than the share of a short run that is kept for finals."""
    kept: list[float] = []
    monkeypatch.setattr("tensorsmith.tuning.budget.Clock.reserve", lambda self, seconds: kept.append(seconds))
    measurer(lambda n: 20e-3)
    tune(trials=16, seconds=1000.0)
    assert max(kept) > 1.0


def test_the_first_search_leaves_time_to_measure(measurer: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look at the clock takes half a second, and no search ends by itself."""
    clock = [0.0]

    def monotonic() -> float:
        clock[0] += 0.5
        return clock[0]

    fake = measurer(slower)
    searches: list[tuple[float, float]] = []
    ask = RandomPolicy.ask

    def slow(policy: RandomPolicy, count: int, stop: Callable[[], bool]) -> list[Candidate]:
        begun = clock[0]
        while not stop():
            pass
        searches.append((begun, clock[0]))
        return ask(policy, 3)

    monkeypatch.setattr(RandomPolicy, "ask", slow)
    monkeypatch.setattr("tensorsmith.tuning.budget.time.monotonic", monotonic)
    tune(seconds=20.0)
    assert len(fake.measured) >= 3
    (begun, ended), *_ = searches
    end = 18  # of the search; the rest is for the final
    assert ended <= (begun + end) / 2 + 1 and len(searches) == 1, "and after a search that long no other is begun"


def test_something_is_said_before_any_work(measurer: Make, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    def go(*arguments: object) -> None:
        raise InterruptedError

    monkeypatch.setattr("tensorsmith.tuning.run.Run.go", go)
    with pytest.raises(InterruptedError):
        ts.tune(WORKLOAD, trials=8)
    assert capsys.readouterr().out == "tuning C f32[16, 32]: deriving sketches\n"


@pytest.mark.parametrize("limit, word", [({"trials": 0}, "trials is 0"), ({"seconds": 0.0}, "the time is 0")])
def test_no_search_is_said(limit: dict, word: str, capsys: pytest.CaptureFixture[str]) -> None:
    ts.tune(WORKLOAD, **limit)
    assert capsys.readouterr().out.startswith(f"nothing is tuned: {word}. The answer is the best record")
    with pytest.raises(UserError, match="is 0, so that the policy finds nothing"):
        ts.tune(WORKLOAD, **limit, fallback=False)


def test_a_size_of_zero_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    a = ts.placeholder((0, 3), name="A")
    ts.tune([a, ts.compute((0, 3), lambda i, j: a[i, j] + 1, name="B")], trials=4)
    assert "nothing is tuned: a size is 0" in capsys.readouterr().out


def test_a_run_that_ends_before_its_first_trial_says_so(measurer: Make, capsys: pytest.CaptureFixture[str]) -> None:
    measurer(lambda n: None)
    ts.tune(WORKLOAD, trials=4)
    assert "nothing was measured before the run ended, so the answer is the default schedule" in capsys.readouterr().out


def test_ctrl_c_keeps_what_is_measured(measurer: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fake = measurer(slower, after=lambda n: os.kill(os.getpid(), signal.SIGINT) if n == 10 else None)
    kernel = ts.tune(WORKLOAD, trials=64, database=tmp_path / "tune.db")
    assert callable(kernel) and not fake.finals
    with Store.open(tmp_path / "tune.db") as store:
        assert len(store.history(WORKLOAD, native(), Timing("warm", native().cores))) == 16
    out = capsys.readouterr().out
    assert "stopped: 16/64 trials" in out and "everything measured is kept" in out


def test_ctrl_c_twice(measurer: Make, tmp_path: Path) -> None:
    measurer(slower, after=lambda n: os.kill(os.getpid(), signal.SIGINT) if n in (10, 11) else None)
    with pytest.raises(KeyboardInterrupt):
        ts.tune(WORKLOAD, trials=64, database=tmp_path / "tune.db")
    with Store.open(tmp_path / "tune.db") as store:
        assert len(store.history(WORKLOAD, native(), Timing("warm", native().cores))) == 8
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_busy_machine_is_said(measurer: Make, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Early in the run, once, and at its end; another tuner on the same cores at once."""
    moments = iter(range(0, 1000, 10))

    def read() -> neighbours.Reading:
        moment = float(next(moments))
        return neighbours.Reading(moment, 2, busy=2.0 * moment, ours=0.5 * moment)

    monkeypatch.setattr(neighbours, "read", read)
    monkeypatch.setattr(neighbours, "measuring", lambda: [neighbours.Measuring("tuning", 4711)])
    monkeypatch.setattr(neighbours, "_FIRST_LOOK", -1.0)
    measurer(slower)
    ts.tune(matmul(), trials=20)
    out = capsys.readouterr().out
    first, second = (f"the machine {was} (other programs: 1.5 of the 2 cores)" for was in ("is busy", "was busy meanwhile"))
    assert out.count(first) == out.count(second) == 1 and out.index(first) < out.index(second)
    assert out.index("another measurement (tuning, process 4711)") < out.index(first)


def test_failures_are_summed_up(measurer: Make, capsys: pytest.CaptureFixture[str]) -> None:
    fake = measurer(lambda n: None if n % 4 == 3 else slower(n))
    ts.tune(WORKLOAD, trials=16, verbose=True)
    out = capsys.readouterr().out
    assert "16/16 trials, 4 failed, best 10.0 us" in out
    assert f"4 of 16 trials failed, for example:\n4 refused: candidate {candidate_key(fake.measured[3])}: too large" in out
    assert "search " in out and "model " in out and "build " in out and "run " in out and "s in all" in out


def test_an_exhausted_space_ends_the_run(measurer: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = measurer(slower)
    ask, asked = RandomPolicy.ask, []

    def exhausted(policy: RandomPolicy, count: int, stop: Callable[[], bool]) -> list:
        asked.append(count)
        return ask(policy, 5) if len(asked) == 1 else []

    monkeypatch.setattr(RandomPolicy, "ask", exhausted)
    assert tune(trials=64)[-1].trials == 5 == len(fake.measured)


def test_when_everything_fails_the_default_schedule_is_given(measurer: Make) -> None:
    measurer(lambda n: None)
    seen: list = []
    kernel = ts.tune(WORKLOAD, trials=8, on_progress=seen.append)
    assert callable(kernel) and seen[-1].best_seconds is None and seen[-1].failures == {"refused": 8}


def test_a_run_continues_where_the_last_one_ended(measurer: Make, tmp_path: Path) -> None:
    first = measurer(slower)
    tune(trials=16, database=tmp_path / "tune.db")
    second = measurer(lambda n: 1.0)
    seen = tune(trials=16, database=tmp_path / "tune.db")
    keys = [candidate_key(c) for c in first.measured + second.measured]
    assert len(set(keys)) == 32
    assert seen[-1].best_seconds is not None and seen[-1].best_seconds <= 1e-5  # of the first run


def test_a_record_that_is_too_good_to_be_true_is_found_out(measurer: Make, tmp_path: Path) -> None:
    """Before the next run measures anything, and at no cost in trials; `compile` goes by the new times."""
    database, timing = tmp_path / "tune.db", Timing("warm", native().cores)
    first = measurer(slower)
    first.again = lambda n, c: Trial(c, Status.OK, 1e-5)
    tune(trials=16, database=database)
    glitch = first.measured[9]
    with Store.open(database) as store:
        store.add(WORKLOAD, native(), timing, [Trial(glitch, Status.OK, 1e-9)])

    second = measurer(lambda n: 1e-4)
    measured_before: list[int] = []

    def again(n: int, candidate: Candidate) -> Trial:
        measured_before.append(len(second.measured))
        return Trial(candidate, Status.OK, 5e-5 if candidate.decisions == glitch.decisions else 2e-5)

    second.again = again
    seen = tune(trials=16, database=database)
    assert candidate_key(second.finals[0][0]) == candidate_key(glitch) and measured_before[0] == 0
    assert len(second.measured) == 16 == seen[-1].trials
    assert seen[0].trials == 0 and seen[0].best_seconds == 2e-5 == seen[-1].best_seconds
    with Store.open(database) as store:
        assert store.best(WORKLOAD, native(), timing).seconds == 2e-5
        history = store.history(WORKLOAD, native(), timing)
        assert sum(r.run not in FINALS for r in history) == 33  # the search has not measured it again
        assert [r.seconds for r in history if r.key == candidate_key(glitch)] == [1e-4, 1e-9, 5e-5]


def test_the_default_schedule_is_checked_with_the_best(measurer: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = measurer(lambda n: 1.0 if n == 2 else slower(n))
    first.again = lambda n, c: Trial(c, Status.OK, 1e-5)
    tune(trials=16, database=tmp_path / "tune.db")
    pretend_default(monkeypatch, lambda *_: first.measured[2])
    second = measurer(slower)
    second.again = lambda n, c: Trial(c, Status.OK, 1e-5)
    tune(trials=1, database=tmp_path / "tune.db")
    assert second.finals[0][-1].decisions == first.measured[2].decisions and len(second.finals[0]) >= 3


def test_what_was_tuned_is_settled_against_the_default_schedule(
    measurer: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = measurer(lambda n: {3: 1e-6, 7: 5e-6}.get(n, 1e-4))  # the default schedule is the one of 5 us, it seems
    pretend_default(monkeypatch, lambda *_: fake.measured[7])
    fake.again = lambda n, c: Trial(c, Status.OK, 0.9e-6 if c.decisions == fake.measured[7].decisions else 1e-6)
    tune(trials=16, database=tmp_path / "tune.db")
    assert fake.measured[7] in fake.finals[0]
    with Store.open(tmp_path / "tune.db") as store:
        (best,) = store.top(WORKLOAD, native(), Timing("warm", native().cores), 1)
    assert best.candidate.decisions == fake.measured[7].decisions and best.seconds == 0.9e-6


@pytest.mark.parametrize("paused, wins", [(0.5, True), (2.0, False)])
def test_what_loses_after_a_pause_does_not_replace_the_default_schedule(
    measurer: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str], paused: float, wins: bool
) -> None:
    """The search finds a program that takes half the time back to back; `compile` uses it if it wins after a pause too.

    Else it is the very program that is used without a search, though the search knows it by another sketch.
    """
    fake = measurer(slower)
    default = candidate_key(backend_of(native()).default_candidate(WORKLOAD, native()))

    def compare(places, turns, stop):
        found = []
        for _, c in places:
            is_default = candidate_key(c) == default
            rounds = {condition: [1e-5 if is_default else 5e-6] * 8 for condition in Condition}
            rounds[Condition.PAUSED] = [1e-4 if is_default else paused * 1e-4] * 8
            found.append(Timed(Trial(c, Status.OK, rounds[Condition.ALONE][0]), rounds))
        return found

    fake.compare = compare
    database = tmp_path / "tune.db"
    kernel = ts.tune(WORKLOAD, trials=16, database=database)
    said = "the default schedule is the best found" in capsys.readouterr().out
    without = ts.compile(WORKLOAD)
    assert said is not wins
    assert (kernel.program == without.program) is not wins
    assert (ts.compile(WORKLOAD, database=database).program == without.program) is not wins
    seen: list[Progress] = []
    fake.compare = compare
    ts.tune(WORKLOAD, trials=1, on_progress=seen.append)
    assert seen[-1].default_is_best is not wins


def test_ctrl_c_while_records_are_checked(measurer: Make, tmp_path: Path) -> None:
    measurer(slower)
    tune(trials=16, database=tmp_path / "tune.db")
    fake = measurer(slower)
    original = fake.compare

    def compare(places, turns, stop):
        os.kill(os.getpid(), signal.SIGINT)
        return original(places, turns, stop)

    fake.compare = compare
    seen = tune(trials=16, database=tmp_path / "tune.db")
    assert not fake.measured and not fake.finals and seen[-1].trials == 0


def test_finalists_are_those_that_are_close(measurer: Make) -> None:
    fake = measurer(lambda n: {3: 1.00e-6, 5: 1.05e-6, 9: 1.08e-6, 11: 1.5e-6}.get(n, 1e-4))
    tune(trials=16)
    assert [c.decisions for c in fake.finals[0][:3]] == [fake.measured[n].decisions for n in (3, 5, 9)]
    assert len(fake.finals[0]) == 4  # and the default schedule


def test_a_disk_that_is_full_ends_nothing(
    measurer: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(journal, "_LAST_PAUSE", 0.0)
    original = Store.add

    def add(store: Store, *arguments, **options) -> None:
        if str(store.path) != ":memory:":
            raise StoreError("full", "the disk is full: free some space and try again")
        original(store, *arguments, **options)

    monkeypatch.setattr(Store, "add", add)
    fake = measurer(slower)
    kernel = ts.tune(WORKLOAD, trials=32, database=tmp_path / "tune.db")
    assert callable(kernel) and len(fake.measured) == 32
    out = capsys.readouterr().out
    assert out.count("trials are kept in memory for now: the disk is full") == 1
    assert "35 trials could not be added" in out and list(tmp_path.glob("*.jsonl"))
    with pytest.warns(RuntimeWarning) as warned:
        tune(trials=8, database=tmp_path / "tune.db")
    for w, words in zip(warned, ("trials are kept in memory", "trials could not be added"), strict=True):
        assert words in str(w.message)


def test_a_peak_that_what_ran_contradicts_is_measured_again(measurer: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three times at most; then the line says why a share is above 100 %."""
    measurer(lambda n: 1e-5)
    again: list[int] = []
    monkeypatch.setattr("tensorsmith.tuning.of_workload.quick_peak", lambda cores: 1.0)
    monkeypatch.setattr("tensorsmith.tuning.of_workload.new_peak", lambda cores: again.append(cores) or 2.0 * len(again))
    seen: list[Progress] = []
    ts.tune(WORKLOAD, trials=64, on_progress=seen.append, early_stop=False)
    assert len(again) == 3 and seen[-1].peak == 6.0
    assert "of peak: operations on padding are counted and skipped, or the machine was busy" in str(seen[-1])
    again.clear()
    monkeypatch.setattr("tensorsmith.tuning.of_workload.new_peak", lambda cores: again.append(cores) or 1e15)
    ts.tune(WORKLOAD, trials=64, on_progress=seen.append, early_stop=False)
    assert len(again) == 1 and str(seen[-1]).count("% of peak)") == 1
