"""The store: what goes in comes out, the best is the best, nothing is counted twice."""

from __future__ import annotations

import dataclasses
from random import Random

import numpy as np
import pytest
from tests.records.samples import TARGET, TIMING, candidate, failure, matmul, trial

from tensorsmith.backends.cpu.default import default_candidate
from tensorsmith.errors import InternalError, UserError
from tensorsmith.lang import define as ts
from tensorsmith.ops import catalogue, conv
from tensorsmith.records import Store, StoreError, Timing, candidate_key, structure_key
from tensorsmith.records.record import FINALISTS, WINNER, ranked
from tensorsmith.search.trial import Status, Trial
from tensorsmith.space.sketch.sketch import Candidate

W = matmul()


@pytest.fixture
def store(tmp_path):
    with Store.open(tmp_path / "tune.db") as opened:
        yield opened


def test_an_empty_store_answers(store):
    assert store.best(W, TARGET, TIMING) is None
    assert (
        store.top(W, TARGET, TIMING, 5) == store.history(W, TARGET, TIMING) == store.similar(W, TARGET) == store.workloads() == []
    )
    assert store.measured(W, TARGET, TIMING) == set()
    assert store.failures(W) == {}
    store.add(W, TARGET, TIMING, [])
    assert store.workloads() == []


def test_a_record_comes_back_whole(store):
    given = trial(W, 2e-3, spread=0.03, cause="", build_seconds=0.02, run_seconds=0.5, note="SM 1410 MHz")
    store.add(W, TARGET, TIMING, [given], run="first")
    record = store.best(W, TARGET, TIMING)
    assert record.trial == given
    assert (record.target, record.timing, record.run) == (TARGET, TIMING, "first")
    assert (record.workload, record.candidate, record.seconds) == (W, given.candidate, 2e-3)
    assert record.key == candidate_key(given.candidate)
    assert record.created > 1.6e9


def test_records_are_there_after_reopening(tmp_path):
    with Store.open(tmp_path / "tune.db") as store:
        store.add(W, TARGET, TIMING, [trial(W)])
    for read_only in (False, True):
        with Store.open(tmp_path / "tune.db", read_only=read_only) as store:
            assert store.best(W, TARGET, TIMING).trial == trial(W)


def test_the_key_has_three_parts(store):
    store.add(W, TARGET, TIMING, [trial(W)])
    assert store.best(matmul(64), TARGET, TIMING) is None
    assert store.best(W, dataclasses.replace(TARGET, vector_bytes=64), TIMING) is None
    assert store.best(W, TARGET, Timing("cold", 2)) is None
    assert store.best(W, TARGET, Timing("warm", 1)) is None
    # parts that the target's key leaves out do not matter
    assert store.best(W, dataclasses.replace(TARGET, l3_bytes=1), TIMING) is not None


def test_top_is_sorted_and_without_failures(store):
    store.add(W, TARGET, TIMING, [trial(W, t, i) for t, i in [(3e-3, 1), (1e-3, 2), (2e-3, 3)]] + [failure(W)])
    assert [r.seconds for r in store.top(W, TARGET, TIMING, 2)] == [1e-3, 2e-3]
    assert len(store.top(W, TARGET, TIMING, 10)) == 3
    assert store.best(W, TARGET, TIMING).seconds == 1e-3


def test_a_timing_cut_short_is_never_best(store):
    store.add(W, TARGET, TIMING, [trial(W, 1e-6, 1, at_least=True), trial(W, 1e-3, 2)])
    assert store.best(W, TARGET, TIMING).seconds == 1e-3


def test_the_last_full_timing_of_a_candidate_counts(store):
    store.add(W, TARGET, TIMING, [trial(W, 1e-3, 1), trial(W, 2e-3, 2)])
    store.add(W, TARGET, TIMING, [trial(W, 3e-3, 1)])  # the first was luck
    store.add(W, TARGET, TIMING, [trial(W, 9e-3, 2, at_least=True)])  # says nothing about the earlier one
    assert [(r.candidate.decisions["C.i.1"], r.seconds) for r in store.top(W, TARGET, TIMING, 9)] == [(2, 2e-3), (1, 3e-3)]


@pytest.mark.parametrize("status, trusted", [(Status.WRONG_ANSWER, False), (Status.CRASHED, False), (Status.TIMED_OUT, True)])
def test_a_candidate_that_was_ever_wrong_is_not_used(store, status, trusted):
    store.add(W, TARGET, TIMING, [failure(W, status, "x", i=4), trial(W, 1e-3, 4), trial(W, 2e-3, 2)])
    assert store.best(W, TARGET, TIMING).seconds == (1e-3 if trusted else 2e-3)


def test_a_candidate_that_failed_when_it_was_last_tried_is_not_used(store):
    store.add(W, TARGET, TIMING, [trial(W, 1e-3, 4), trial(W, 2e-3, 2)])
    store.add(W, TARGET, TIMING, [failure(W, Status.REFUSED, "x", i=4)], run="finalists")
    assert store.best(W, TARGET, TIMING).seconds == 2e-3
    store.add(W, TARGET, TIMING, [trial(W, 1.5e-3, 4)], run="finalists")
    assert store.best(W, TARGET, TIMING).seconds == 1.5e-3


def test_history_has_everything_in_order(store):
    for batch in range(3):
        store.add(W, TARGET, TIMING, [trial(W, 1e-3 / (batch + 1), batch + 1), failure(W)])
    found = store.history(W, TARGET, TIMING)
    assert [r.trial.status for r in found] == [Status.OK, Status.CRASHED] * 3
    assert [r.seconds for r in found if r.trial.ok] == [1e-3, 1e-3 / 2, 1e-3 / 3]


def test_measured_has_failures_too(store):
    store.add(W, TARGET, TIMING, [trial(W, i=1), failure(W, i=2)])
    assert store.measured(W, TARGET, TIMING) == {candidate_key(candidate(W, 1)), candidate_key(candidate(W, 2))}
    assert store.measured(W, TARGET, Timing("cold", 2)) == set()


def test_candidate_keys_are_of_the_content():
    one = candidate(W, 4)
    turned = Candidate(one.sketch, dict(reversed(one.decisions.items())))
    assert candidate_key(one) == candidate_key(turned) == candidate_key(Candidate.from_json(W, one.to_json()))
    assert candidate_key(one) == candidate_key(Candidate(one.sketch, {h: np.int64(v) for h, v in one.decisions.items()}))
    assert candidate_key(one) != candidate_key(candidate(W, 5))


def test_numpy_numbers_are_stored_as_numbers(store):
    one = candidate(W)
    decisions = {h: np.int32(v) for h, v in one.decisions.items()}
    store.add(W, TARGET, TIMING, [Trial(Candidate(one.sketch, decisions), Status.OK, np.float64(1e-3))])
    assert store.best(W, TARGET, TIMING).trial == trial(W)


def test_failures_are_counted_by_cause_with_an_example(store):
    store.add(W, TARGET, TIMING, [failure(W, i=i) for i in (7, 8, 9)] + [failure(W, Status.TIMED_OUT, "build", 3), trial(W)])
    store.add(W, TARGET, Timing("cold", 2), [failure(W, i=1)])
    found = store.failures(W, TARGET, TIMING)
    assert [(key, count) for key, (count, _) in found.items()] == [
        ((Status.CRASHED, "segmentation fault"), 3),
        ((Status.TIMED_OUT, "build"), 1),
    ]
    assert found[Status.CRASHED, "segmentation fault"][1].trial == failure(W, i=7)
    assert store.failures(W)[Status.CRASHED, "segmentation fault"][0] == 4


def test_a_cause_may_be_any_text(store):
    odd = "lone \udc80 surrogate, NUL \0, quote ' and " + "long " * 5000
    store.add(W, TARGET, TIMING, [failure(W, cause=odd)])
    ((_, cause),) = store.failures(W)
    assert cause.startswith("lone ? surrogate, NUL \0, quote ' and long") and len(cause) == 4000


@pytest.mark.parametrize("seconds", [0.0, float("nan"), float("inf"), None])
def test_an_impossible_time_does_not_end_a_run_and_is_not_used(store, seconds):
    store.add(W, TARGET, TIMING, [Trial(candidate(W, 1), Status.OK, seconds), trial(W, 1e-3, 2)])
    assert store.best(W, TARGET, TIMING).seconds == 1e-3
    assert len(store.history(W, TARGET, TIMING)) == 1
    assert store.skipped == {"result: status ok without a time": 1}


def test_workloads_sums_up(store):
    other = matmul(64)
    store.add(W, TARGET, TIMING, [trial(W, 2e-3, 1), trial(W, 1e-3, 2), failure(W)])
    store.add(other, TARGET, TIMING, [failure(other)])
    store.add(W, TARGET, Timing("cold", 2), [trial(W, 5e-3)])
    rows = store.workloads()
    assert [(r.workload, r.timing.cache, r.trials, r.failed, r.best) for r in rows] == [
        (W, "warm", 3, 1, 1e-3),
        (other, "warm", 1, 1, None),
        (W, "cold", 1, 0, 5e-3),
    ]
    assert rows[0].title == "C f32[32, 16]"
    assert rows[0].target == TARGET and rows[0].first <= rows[0].last


def test_similar_is_the_same_structure_in_other_shapes(store):
    near, far, unlike = matmul(64), matmul(512), matmul(64, reduction=ts.max)
    for w in (far, near, unlike, W):
        store.add(w, TARGET, TIMING, [trial(w, 2e-3, 1), trial(w, 1e-3, 2), failure(w)])
    store.add(near, TARGET, Timing("cold", 2), [trial(near, 5e-4, 3)])
    assert [(r.workload, r.seconds) for r in store.similar(W, TARGET, TIMING, k=1)] == [(near, 1e-3), (far, 1e-3)]
    assert [(r.workload, r.seconds) for r in store.similar(W, TARGET, k=2)] == [
        (near, 5e-4),
        (near, 1e-3),
        (far, 1e-3),
        (far, 2e-3),
    ]
    assert store.similar(W, dataclasses.replace(TARGET, cores=64)) == []


def test_structures_of_padded_convolutions_are_equal():
    def padded(n, size, channels, stride):
        x = ts.placeholder((n, size, size, channels), name="x")
        weight = ts.placeholder((3, 3, channels, channels), name="weight", constant=True)
        return structure_key(ts.workload([x, weight, conv.conv2d(x, weight, stride, 1)]))

    assert padded(1, 14, 256, 1) == padded(16, 56, 64, 1)
    assert padded(1, 14, 256, 2) == padded(16, 56, 64, 2) != padded(1, 14, 256, 1)
    assert padded(1, 14, 256, 1) != structure_key(catalogue.get("DEP-1-b1").workload())


@pytest.mark.parametrize("name", ["C2D-1-b1", "GMM-1-b1", "T2D-1-b1", "NRM-1-b1"])
def test_real_workloads_with_their_default_schedules(store, name):
    w = catalogue.get(name).workload()
    given = Trial(default_candidate(w, TARGET), Status.OK, 1e-3)
    store.add(w, TARGET, TIMING, [given])
    assert store.best(w, TARGET, TIMING).trial == given
    assert store.workloads()[0].workload == w
    assert not store.skipped


def test_a_trial_of_another_workload_is_a_bug(store):
    with pytest.raises(InternalError, match="a trial of workload"):
        store.add(W, TARGET, TIMING, [trial(matmul(64))])


def test_a_read_only_store_refuses_to_write(tmp_path):
    Store.open(tmp_path / "tune.db").close()
    store = Store.open(tmp_path / "tune.db", read_only=True)
    with store, pytest.raises(StoreError, match="opened for reading only") as problem:
        store.add(W, TARGET, TIMING, [trial(W)])
    assert problem.value.kind == "read-only" and isinstance(problem.value, UserError)


def test_odd_paths(tmp_path):
    path = tmp_path / "50% #1? é.db"
    with Store.open(str(path)) as store:
        store.add(W, TARGET, TIMING, [trial(W)])
    with Store.open(path, read_only=True) as store:
        assert store.best(W, TARGET, TIMING)


@pytest.mark.parametrize("bad", [{"cache": "lukewarm"}, {"threads": 0}, {"threads": True}, {"threads": 1.5}])
def test_timings_are_checked(bad):
    with pytest.raises(UserError, match="timing with"):
        Timing(**bad)


def test_the_winner_of_a_final_stands_before_all_that_was_known_when_it_won() -> None:
    with Store.in_memory() as store:
        store.add(W, TARGET, TIMING, [trial(W, 1e-3, 1), trial(W, 2e-3, 2), trial(W, 9e-3, 3)])
        store.add(W, TARGET, TIMING, [trial(W, 1e-3, 1)], run=FINALISTS)
        store.add(W, TARGET, TIMING, [trial(W, 2e-3, 2)], run=WINNER)
        assert [r.seconds for r in store.top(W, TARGET, TIMING, 9)] == [2e-3, 1e-3, 9e-3]
        store.add(W, TARGET, TIMING, [trial(W, 1.5e-3, 4), trial(W, 3e-3, 5)])  # found since then
        assert [r.seconds for r in store.top(W, TARGET, TIMING, 9)] == [1.5e-3, 2e-3, 1e-3, 3e-3, 9e-3]
        store.add(W, TARGET, TIMING, [trial(W, 2e-3, 2)], run=FINALISTS)
        store.add(W, TARGET, TIMING, [trial(W, 3e-3, 5)], run=WINNER)
        assert [r.seconds for r in store.top(W, TARGET, TIMING, 1)] == [3e-3]


def test_the_ranking_in_sql_is_that_of_the_records() -> None:
    """A journal and `compile` put records of several sources in order, by the same rule."""
    rng = Random(0)
    for _ in range(50):
        with Store.in_memory() as store:
            for _ in range(rng.randrange(1, 12)):
                run = rng.choice(["", "", FINALISTS, WINNER])
                store.add(W, TARGET, TIMING, [trial(W, rng.randrange(1, 5) * 1e-3, rng.randrange(1, 7))], run=run)
            found = store.top(W, TARGET, TIMING, 99)
            assert [r.uid for r in ranked(sorted(found, key=lambda r: r.uid))] == [r.uid for r in found]
