"""The policy: proposes new, legal candidates, learns an order, and is repeatable."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from tests.backends.cpu.machines import target

from tensorsmith.backends import space_of
from tensorsmith.backends.cpu.default import default_candidate
from tensorsmith.backends.cpu.features.schema import SCHEMA
from tensorsmith.learn.models.registry import as_model
from tensorsmith.learn.models.trees import TreeModel
from tensorsmith.ops import catalogue
from tensorsmith.program.lower import lower
from tensorsmith.search.policies.random import RandomPolicy
from tensorsmith.search.policies.random import Settings as RandomSettings
from tensorsmith.search.policies.tensorsmith import Settings, TensorsmithPolicy
from tensorsmith.search.policy import Policy
from tensorsmith.search.trial import Status, Trial
from tensorsmith.space.population.adapt import adapt
from tensorsmith.space.population.embed import Programs
from tensorsmith.space.population.population import Space
from tensorsmith.space.population.sampling import sample
from tensorsmith.space.sketch.sketch import Candidate
from tensorsmith.targets.target import native

SMALL = Settings(population=64, generations=1, structures=4, new_structures=2)


def space(name: str = "GMM-small") -> Space:
    return space_of(catalogue.get(name).workload(), native())


def text(candidate: Candidate) -> str:
    return json.dumps(candidate.to_json(), sort_keys=True, default=int)


def pretended(candidate: Candidate) -> Trial:
    """A time that depends on one hole only: the wider the vectors, the faster."""
    width = max(int(v) for hole, v in candidate.decisions.items() if ".j." in hole)
    return Trial(candidate, Status.OK, seconds=1e-3 / width)


def test_starts_with_the_default_schedule_as_it_is_used_without_a_search() -> None:
    where = space()
    default = default_candidate(where.workload, native())
    found = where.find(default)
    assert found is not None
    policy = TensorsmithPolicy(where, settings=SMALL)
    first = policy.ask(1)[0]
    assert text(first) == text(default)
    policy.tell([Trial(first, Status.OK, seconds=1e-3)])
    assert [plan for plan, _ in policy.told] == [found[0]] and policy.best_seconds == 1e-3
    again = TensorsmithPolicy(where, settings=SMALL)
    again.tell([Trial(where.plans[found[0]].candidate(found[1]), Status.OK, seconds=1e-3)])  # its row, as older records have it
    assert text(default) not in {text(c) for c in again.ask(16)}


class After:
    """Comes true when it was asked so many times."""

    def __init__(self, times: int) -> None:
        self.left = times

    def __call__(self) -> bool:
        self.left -= 1
        return self.left < 0


def test_no_population_evolves_for_the_first_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A network looks at each task with a few trials first: what there is of seeds has to do."""
    evolved: list[int] = []
    monkeypatch.setattr(TensorsmithPolicy, "_evolved", lambda self, count: evolved.append(count) or [])
    for name in ("GMM-small", "DEP-small", "C2D-small"):
        assert len(TensorsmithPolicy(space(name), seed=0).ask(4)) == 4
    assert not evolved
    TensorsmithPolicy(space(), seed=0).ask(64)
    assert evolved


def test_a_search_that_is_stopped_gives_what_it_has() -> None:
    where = space()
    first = text(TensorsmithPolicy(where, settings=SMALL).ask(1)[0])
    policy = TensorsmithPolicy(where, settings=SMALL)
    assert [text(c) for c in policy.ask(16, lambda: True)] == [first], "the default schedule needs no search"
    assert policy.ask(16, lambda: True) == []
    whole = [text(c) for c in TensorsmithPolicy(where, settings=SMALL).ask(16)]
    assert [first, *(text(c) for c in policy.ask(15))] == whole, "what was not searched for yet comes later"


def test_every_part_of_a_search_looks_whether_to_stop() -> None:
    """Seeds, sketch by sketch, and generations: the longer it may go on, the more it finds, and the last look is near the end."""
    where = space()
    whole = [text(c) for c in TensorsmithPolicy(where, settings=SMALL).ask(16)]
    counter = After(10**9)
    TensorsmithPolicy(where, settings=SMALL).ask(16, counter)
    looks = 10**9 - counter.left
    assert looks > len(where.plans) * (1 + SMALL.generations)
    found = [len(TensorsmithPolicy(where, settings=SMALL).ask(16, After(n))) for n in range(looks + 1)]
    assert found == sorted(found) and found[0] == 1 and 1 < found[looks - 1] < 16
    assert [text(c) for c in TensorsmithPolicy(where, settings=SMALL).ask(16, After(looks))] == whole


def test_never_asks_twice_and_everything_lowers() -> None:
    policy = TensorsmithPolicy(space(), seed=1, settings=SMALL)
    seen = []
    for _ in range(4):
        batch = policy.ask(8)
        for candidate in batch:
            lower(candidate)
        policy.tell([pretended(c) for c in batch])
        seen += [text(c) for c in batch]
    assert len(seen) == len(set(seen)) == 32


def test_finish_stays_near_the_best_and_is_new() -> None:
    policy = TensorsmithPolicy(space(), seed=2, settings=SMALL)
    batch = policy.ask(16)
    policy.tell([pretended(c) for c in batch])
    near = policy.finish(8)
    assert near and not {text(c) for c in near} & {text(c) for c in batch}


def test_failures_are_told_too() -> None:
    policy = TensorsmithPolicy(space(), seed=3, settings=SMALL)
    batch = policy.ask(16)
    policy.tell([Trial(c, Status.CRASHED, cause="SIGSEGV") for c in batch])
    assert policy.best_seconds is None
    policy.tell([pretended(c) for c in policy.ask(16)])
    assert policy.best_seconds is not None
    assert policy.ask(4)


def test_the_same_seed_asks_the_same() -> None:
    def run() -> list[str]:
        policy = TensorsmithPolicy(space("DEP-small"), seed=5, settings=SMALL)
        found = []
        for _ in range(2):
            batch = policy.ask(6)
            policy.tell([Trial(c, Status.OK, seconds=1e-3 + 1e-6 * len(text(c))) for c in batch])
            found += [text(c) for c in batch]
        return found

    assert run() == run()


@pytest.mark.parametrize("name", ["softmax-small", "ConvLayer-small", "add-small", "NRM-small"])
def test_other_kinds_of_workloads(name: str) -> None:
    batch = TensorsmithPolicy(space(name), seed=7, settings=SMALL).ask(6)
    assert batch
    for candidate in batch:
        lower(candidate)


# -- programs, not rows ------------------------------------------------------------------------------------------------


def rounds(policy: TensorsmithPolicy, count: int, batch: int = 8) -> list[Candidate]:
    found: list[Candidate] = []
    for _ in range(count):
        asked = policy.ask(batch)
        policy.tell([pretended(c) for c in asked])
        found += asked
    return found


def test_no_program_is_asked_for_twice_by_any_row() -> None:
    programs = Programs()
    policy = TensorsmithPolicy(space("GMM-small"), seed=4, settings=SMALL)
    asked = rounds(policy, 6) + policy.finish(8)
    assert len({programs.key(c) for c in asked}) == len(asked)


def test_history_is_never_asked_for_again() -> None:
    first = TensorsmithPolicy(space(), seed=1, settings=SMALL)
    done = [Trial(Candidate.from_json(c.sketch.workload, c.to_json()), Status.OK, seconds=1e-3) for c in rounds(first, 3)]
    second = TensorsmithPolicy(space(), seed=1, settings=SMALL)
    second.tell(done)
    programs = Programs()
    assert not {programs.key(c) for c in rounds(second, 3)} & {programs.key(t.candidate) for t in done}


def test_candidates_of_other_workloads_are_passed_over() -> None:
    policy = TensorsmithPolicy(space("GMM-small"), settings=SMALL)
    policy.tell([pretended(c) for c in TensorsmithPolicy(space("matmul-small"), settings=SMALL).ask(3)])
    assert policy.best_seconds is None and not policy.told


# -- similar workloads ---------------------------------------------------------------------------------------------------


def test_hints_are_carried_over_and_asked_for_first() -> None:
    there, here = space("GMM-3-b1"), space("GMM-small")
    hints = list(there.candidates(sample(there, 6, np.random.default_rng(0))))
    expected = {text(here.plans[p].candidate(row)) for hint in hints for p, row in adapt(here, hint)}
    settings = replace(SMALL, hints=3)
    asked = [text(c) for c in TensorsmithPolicy(here, settings=settings, hints=hints).ask(16)]
    assert 1 <= len(expected & set(asked[1:4])) <= 3
    assert not expected & {text(c) for c in TensorsmithPolicy(here, settings=replace(settings, hints=0), hints=hints).ask(4)}


def test_hints_that_come_later_are_asked_for_next() -> None:
    there, here = space("GMM-3-b1"), space("GMM-small")
    hints = list(there.candidates(sample(there, 2, np.random.default_rng(0))))
    expected = [text(here.plans[p].candidate(row)) for hint in hints for p, row in adapt(here, hint)[:1]]
    policy = TensorsmithPolicy(here, settings=SMALL)
    rounds(policy, 1)
    policy.hint([*hints, default_candidate(here.workload, native())])  # its own are not hints
    assert [text(c) for c in policy.ask(4)][: len(set(expected))] == list(dict.fromkeys(expected))
    unknown = TensorsmithPolicy(here, settings=replace(SMALL, known=False))
    unknown.hint(hints)
    assert not unknown.waiting


def test_hints_of_another_structure_do_no_harm() -> None:
    there = space("DEP-small")
    policy = TensorsmithPolicy(space("GMM-small"), settings=SMALL, hints=[default_candidate(there.workload, native())])
    assert len(policy.ask(4)) == 4


# -- models --------------------------------------------------------------------------------------------------------------


def test_a_model_that_has_learned_is_believed_at_once_and_kept() -> None:
    first = TensorsmithPolicy(space("GMM-3-b1"), seed=1, settings=SMALL)
    rounds(first, 4)
    first._learn()
    assert isinstance(first.model, TreeModel) and first.model.booster is not None
    loaded = first.model.fork()
    second = TensorsmithPolicy(space("GMM-small"), seed=1, settings=SMALL, model=loaded)
    rounds(second, 4)
    second._learn()
    assert loaded.booster is not None and loaded.booster.num_trees() == 2 * loaded.settings.trees


@pytest.mark.parametrize(
    ("model", "changes"),
    [("random", {}), ("prior", {}), ("trees", {"generations": 0}), ("trees", {"crossover": True}), ("trees", {"known": False})],
)
def test_every_part_can_be_left_out(model: str, changes: dict[str, object]) -> None:
    def run() -> list[str]:
        policy = TensorsmithPolicy(space(), seed=9, model=as_model(model, SCHEMA), settings=replace(SMALL, **changes))
        return [text(c) for c in rounds(policy, 3)]

    found = run()
    assert len(found) == len(set(found)) == 24 and found == run()


def test_random_search_starts_anywhere() -> None:
    where = space()
    first = RandomPolicy(where, seed=0, settings=RandomSettings(population=64)).ask(8)
    found = where.find(default_candidate(where.workload, native()))
    assert found is not None
    assert text(where.plans[found[0]].candidate(found[1])) not in {text(c) for c in first}


def test_it_finds_what_it_is_told_to_look_for() -> None:
    """With times that depend on the program alone, the policy ends ahead of random search."""

    def best(policy: Policy) -> float:
        for _ in range(3):
            policy.tell([Trial(c, Status.OK, seconds=aim(c)) for c in policy.ask(16)])
        assert policy.best_seconds is not None
        return policy.best_seconds

    def aim(candidate: Candidate) -> float:
        """Least at one tile: 5 rows, and 8 rows around them."""
        sizes = [(candidate.decisions.get("matmul.i.2", 1), 5), (candidate.decisions.get("matmul.i.1", 1), 8)]
        return 1e-3 * (1 + sum(abs(np.log2(have / want)) for have, want in sizes))

    small = replace(SMALL, population=128, generations=2)
    drawn = RandomSettings(population=128)
    where = space_of(catalogue.get("GMM-2-b1").workload(), target(vector_bytes=32, registers=16))  # the same on every machine
    ours = sorted(best(TensorsmithPolicy(where, seed=seed, settings=small)) for seed in range(3))[1]
    random = sorted(best(RandomPolicy(where, seed=seed, settings=drawn)) for seed in range(3))[1]
    assert ours < random


def test_samples_are_relative_to_the_best_and_failures_count_as_nothing() -> None:
    policy = TensorsmithPolicy(space(), seed=1, settings=SMALL)
    asked = policy.ask(3)
    policy.tell([Trial(c, Status.OK, seconds=s) for c, s in zip(asked, (2e-3, 1e-3))])
    policy.tell([Trial(asked[2], Status.WRONG_ANSWER, cause="nan")])
    samples = policy.samples()
    assert samples.throughput == [0.5, 1.0, 0.0] and set(samples.group) == {policy.space.workload.key}
    assert all(np.isfinite(rows).all() and rows.ndim == 2 for rows in samples.rows)
