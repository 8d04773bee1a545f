"""The policy: proposes new, legal candidates, learns an order, and is repeatable."""

from __future__ import annotations

import json

import pytest

from tensorsmith.ops import catalogue
from tensorsmith.program.lower import lower
from tensorsmith.search.ansor import AnsorPolicy, Settings
from tensorsmith.search.trial import Status, Trial
from tensorsmith.space.default import default_candidate
from tensorsmith.space.population import Space
from tensorsmith.space.sketch import Candidate
from tensorsmith.target import native

SMALL = Settings(population=64, generations=1, structures=2)


def space(name: str = "GMM-small") -> Space:
    return Space(catalogue.small()[name].workload(), native())


def text(candidate: Candidate) -> str:
    return json.dumps(candidate.to_json(), sort_keys=True, default=int)


def pretended(candidate: Candidate) -> Trial:
    """A time that depends on one hole only: the wider the vectors, the faster."""
    width = max(int(v) for hole, v in candidate.decisions.items() if ".j." in hole)
    return Trial(candidate, Status.OK, seconds=1e-3 / width)


def test_starts_with_the_default_schedule() -> None:
    where = space()
    found = where.find(default_candidate(where.workload, native()))
    assert found is not None
    plan, row = found
    first = AnsorPolicy(where, settings=SMALL).ask(1)[0]
    assert text(first) == text(where.plans[plan].candidate(row))


def test_never_asks_twice_and_everything_lowers() -> None:
    policy = AnsorPolicy(space(), seed=1, settings=SMALL)
    seen = []
    for _ in range(4):
        batch = policy.ask(8)
        for candidate in batch:
            lower(candidate)
        policy.tell([pretended(c) for c in batch])
        seen += [text(c) for c in batch]
    assert len(seen) == len(set(seen)) == 32


def test_finish_stays_near_the_best_and_is_new() -> None:
    policy = AnsorPolicy(space(), seed=2, settings=SMALL)
    batch = policy.ask(16)
    policy.tell([pretended(c) for c in batch])
    near = policy.finish(8)
    assert near and not {text(c) for c in near} & {text(c) for c in batch}


def test_failures_are_told_too() -> None:
    policy = AnsorPolicy(space(), seed=3, settings=SMALL)
    batch = policy.ask(16)
    policy.tell([Trial(c, Status.CRASHED, cause="SIGSEGV") for c in batch])
    assert policy.best_seconds is None
    policy.tell([pretended(c) for c in policy.ask(16)])
    assert policy.best_seconds is not None
    assert policy.ask(4)


def test_the_same_seed_asks_the_same() -> None:
    def run() -> list[str]:
        policy = AnsorPolicy(space("DEP-small"), seed=5, settings=SMALL)
        found = []
        for _ in range(2):
            batch = policy.ask(6)
            policy.tell([Trial(c, Status.OK, seconds=1e-3 + 1e-6 * len(text(c))) for c in batch])
            found += [text(c) for c in batch]
        return found

    assert run() == run()


@pytest.mark.parametrize("name", ["softmax-small", "ConvLayer-small", "add-small", "NRM-small"])
def test_other_kinds_of_workloads(name: str) -> None:
    batch = AnsorPolicy(space(name), seed=7, settings=SMALL).ask(6)
    assert batch
    for candidate in batch:
        lower(candidate)
