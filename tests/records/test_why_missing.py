"""A miss is explained by the part of the key that matches nothing."""

from __future__ import annotations

import dataclasses

import pytest
from tests.records.samples import TARGET, TIMING, failure, matmul, trial

from tensorsmith.lang import define as ts
from tensorsmith.records import Store, Timing
from tensorsmith.search.trial import Status

W = matmul()


@pytest.fixture
def store(tmp_path):
    with Store.open(tmp_path / "tune.db") as opened:
        yield opened


def test_no_records(store):
    assert store.why_missing(W, TARGET, TIMING) == "there are no records yet"


def test_nothing_is_missing(store):
    store.add(W, TARGET, TIMING, [trial(W)])
    assert store.why_missing(W, TARGET, TIMING) == ""


def test_no_such_workload(store):
    for other in (matmul(64), matmul(reduction=ts.max)):
        store.add(other, TARGET, TIMING, [trial(other)])
    assert store.why_missing(W, TARGET, TIMING) == (
        f"no such workload: {W.key} was never tuned; "
        "there are records of 2 others, 1 of them with the same structure but other shapes"
    )


def test_other_target(store):
    store.add(W, dataclasses.replace(TARGET, vector_bytes=64, cores=8, l3_bytes=1), TIMING, [trial(W)])
    assert store.why_missing(W, TARGET, TIMING) == (
        f"workload {W.key} has no record for the target x86_64/znver4/v32x16/c2; "
        "it has for x86_64/znver4/v64x16/c8 (vector_bytes 32 != 64, cores 2 != 8)"
    )


def test_many_other_targets_are_not_all_listed(store):
    for cores in range(3, 9):
        store.add(W, dataclasses.replace(TARGET, cores=cores), TIMING, [trial(W)])
    assert store.why_missing(W, TARGET, TIMING).endswith("(cores 2 != 5); and 3 more")


def test_other_timing(store):
    store.add(W, TARGET, Timing("cold", 2), [trial(W)])
    store.add(W, TARGET, Timing("cold", 1), [trial(W)])
    assert store.why_missing(W, TARGET, TIMING) == (
        f"workload {W.key} was never timed with warm cache, 2 threads; "
        "its records differ: cache warm != cold; cache warm != cold, threads 2 != 1"
    )


def test_only_failures(store):
    store.add(W, TARGET, TIMING, [failure(W), failure(W, i=6), failure(W, Status.TIMED_OUT, "")])
    assert store.why_missing(W, TARGET, TIMING) == "all 3 trials failed: 2 x crashed: segmentation fault; 1 x timed out"


def test_ran_but_not_usable(store):
    store.add(W, TARGET, TIMING, [trial(W, i=5), failure(W, i=5), trial(W, at_least=True)])
    found = store.why_missing(W, TARGET, TIMING)
    assert found.startswith("of 3 trials 2 ran, but none can be used: cut short")
    assert found.endswith("the others failed: 1 x crashed: segmentation fault")
