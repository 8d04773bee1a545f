"""The suite for policies: ours pass it, and each promise is noticed when it is broken."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from tests.backends.cpu.machines import target

from tensorsmith.backends import backend_of
from tensorsmith.baselines import beam, flextensor, metaschedule
from tensorsmith.baselines.annealing import Annealing
from tensorsmith.baselines.autotvm import policy as autotvm
from tensorsmith.baselines.autotvm.template_model import TemplateModel
from tensorsmith.baselines.halide import policy as halide
from tensorsmith.baselines.tuners import Genetic
from tensorsmith.search.policies import ablations, ansor, random, tensorsmith
from tensorsmith.search.policies.random import RandomPolicy, Settings
from tensorsmith.search.policy import POLICIES, Preset, never
from tensorsmith.search.trial import Trial
from tensorsmith.space.population.population import Space
from tensorsmith.space.sketch.sketch import Candidate
from tensorsmith.targets.target import native
from tensorsmith.testing import BrokenPromise, check_policy
from tensorsmith.testing import promise as module
from tensorsmith.testing.promise import matmul

SMALL = {"population": 64, "generations": 1, "structures": 4, "new_structures": 2}
EVOLUTION = {"population": 64, "generations": 1, "round": 16}
SCHEDULES = {"beam": 2, "passes": 2, "batch": 3, "patience": 2}


def small(preset: Preset, settings: Any) -> Preset:
    """The same with small populations."""
    make = preset.make.func if isinstance(preset.make, partial) else preset.make
    return replace(preset, make=partial(make, settings=settings))


def evolving(settings: ansor.Settings) -> ansor.Settings:
    return replace(settings, **EVOLUTION, chances=replace(settings.chances, structures=4))


def annealed(preset: Preset) -> Preset:
    """Plans of four points, by short walks: the model is learned and asked in the few rounds of the suite."""
    assert isinstance(preset.make, partial)
    settings = preset.make.keywords["settings"]
    walks = replace(settings.by_model, plan=4, annealing=Annealing(chains=4, steps=4))
    assert isinstance(preset.model, TemplateModel)
    model = replace(preset.model.settings, trees=replace(preset.model.settings.trees, trees=6))
    return replace(small(preset, replace(settings, by_model=walks)), model=TemplateModel(model))


def fewer(preset: Preset) -> Preset:
    """One of our ablations; what has no generations keeps it so."""
    assert isinstance(preset.make, partial)
    settings = preset.make.keywords["settings"]
    return small(preset, replace(settings, **{**SMALL, "generations": min(1, settings.generations)}))


POLICIES_OF_OURS = {
    "tensorsmith": small(tensorsmith.PRESET, replace(tensorsmith.SETTINGS, **SMALL)),
    "ansor": small(ansor.PRESET, evolving(ansor.SETTINGS)),
    "ansor-nofinetune": small(ansor.NO_FINETUNE, evolving(ansor.SETTINGS)),
    "ansor-limited": small(ansor.LIMITED_SPACE, evolving(ansor.LIMITED)),
    "beam": small(beam.PRESET, replace(beam.SETTINGS, width=3, children=2)),
    "autotvm": annealed(autotvm.PRESET),
    "autotvm-paper": annealed(autotvm.PAPER),
    "autotvm-rank": annealed(autotvm.RANK),
    "autotvm-curve": annealed(autotvm.CURVE),
    "autotvm-diverse": annealed(autotvm.DIVERSE),
    "autotvm-diverse-paper": annealed(autotvm.DIVERSE_PAPER),
    "autotvm-ei": annealed(autotvm.EI),
    "autotvm-ucb": annealed(autotvm.UCB),
    "autotvm-transfer": annealed(autotvm.TRANSFER),
    "autotvm-random": autotvm.RANDOM,
    "autotvm-grid": autotvm.GRID,
    "autotvm-ga": small(autotvm.GA, autotvm.Settings(tuner="ga", genetic=Genetic(population=6))),
    "flextensor": small(flextensor.PRESET, flextensor.Settings(warm_up=6, parallel=2, trials=5)),
    "flextensor-p": small(flextensor.P_METHOD, flextensor.Settings(method="p", warm_up=6, parallel=2, trials=5)),
    "halide": small(halide.PRESET, replace(halide.SETTINGS, **SCHEDULES)),
    "halide-beam": small(halide.BEAM, replace(halide.SETTINGS, **SCHEDULES, learns=False)),
    "metaschedule": small(metaschedule.PRESET, replace(metaschedule.SETTINGS, evolution=evolving(metaschedule.SETTINGS.evolution))),
    "metaschedule-replay": metaschedule.REPLAY,
    **{p.name: fewer(p) for p in vars(ablations).values() if isinstance(p, Preset) and p is not tensorsmith.PRESET},
    "random": random.PRESET,
}


@pytest.mark.parametrize("name", POLICIES.names())
def test_ours(name: str) -> None:
    assert POLICIES_OF_OURS[name].name == name
    check_policy(POLICIES_OF_OURS[name], target=target())


def test_a_policy_can_be_given_by_its_name() -> None:
    check_policy("random", target=target())


class Base(RandomPolicy):
    """Keeps all promises, with little work."""

    def __init__(self, space: Space, **given: object) -> None:
        super().__init__(space, settings=Settings(population=32, structures=4), **given)


class Twice(Base):
    def ask(self, count: int, stop: Callable[[], bool] = never) -> list[Candidate]:
        found = super().ask(count, stop)
        return [*found[:-1], found[0]] if len(found) > 1 else found


class OnceMore(Base):
    """Asks for what an earlier batch had."""

    first: Candidate | None = None

    def ask(self, count: int, stop: Callable[[], bool] = never) -> list[Candidate]:
        found = super().ask(count, stop)
        if self.first is not None and found:
            found[0] = self.first
        self.first = found[-1] if found else None
        return found


class TooMany(Base):
    def ask(self, count: int, stop: Callable[[], bool] = never) -> list[Candidate]:
        return super().ask(count + 1, stop)


class Deaf(Base):
    def ask(self, count: int, stop: Callable[[], bool] = never) -> list[Candidate]:
        return super().ask(count)


class Stubborn(Base):
    """Asks whether to stop, and goes on."""

    def ask(self, count: int, stop: Callable[[], bool] = never) -> list[Candidate]:
        stop()
        found: list[Candidate] = []
        while len(found) < count:
            found += super().ask(count - len(found))
        return found


class GivesUp(Base):
    """Ends for good when it is stopped."""

    over = False

    def ask(self, count: int, stop: Callable[[], bool] = never) -> list[Candidate]:
        self.over = self.over or stop()
        return [] if self.over else super().ask(count)


class OfAnother(Base):
    def ask(self, count: int, stop: Callable[[], bool] = never) -> list[Candidate]:
        found = super().ask(count, stop)
        return [*found[:-1], backend_of(native()).default_candidate(matmul(3, 5, 7), native())] if found else found


class NoCandidates(Base):
    def ask(self, count: int, stop: Callable[[], bool] = never) -> list[Candidate]:
        return [str(c) for c in super().ask(count, stop)]  # type: ignore[misc]


class DiesOfFailures(Base):
    def tell(self, trials: Sequence[Trial]) -> None:
        super().tell(trials)
        self.mean = sum(t.seconds for t in trials) / len(trials)  # type: ignore[misc]


class StopsAfterFailures(Base):
    hopeless = False

    def tell(self, trials: Sequence[Trial]) -> None:
        super().tell(trials)
        self.hopeless = not any(t.ok for t in trials)

    def ask(self, count: int, stop: Callable[[], bool] = never) -> list[Candidate]:
        return [] if self.hopeless else super().ask(count, stop)


class TakesStrangers(Base):
    def tell(self, trials: Sequence[Trial]) -> None:
        super().tell(trials)
        self.best_seconds = min((t.seconds for t in trials if t.seconds), default=None)


class Unseeded(Base):
    def __init__(self, space: Space, **given: object) -> None:
        super().__init__(space, **given)
        self.rng = np.random.default_rng()


class Forgetful(Base):
    """Does not know what was told, only what it asked for."""

    def tell(self, trials: Sequence[Trial]) -> None:
        seen, self.seen = self.seen, type(self.seen)()
        super().tell(trials)
        self.seen = seen


class DoesNotKnowTheBest(Base):
    def tell(self, trials: Sequence[Trial]) -> None:
        super().tell(trials)
        own = [t for t in trials if t.candidate.sketch.workload.key == self.space.workload.key]
        self.best_seconds = max((t.seconds for t in own if t.seconds is not None), default=None)


class RefusesHints(Base):
    def __init__(self, space: Space, *, hints: Sequence[Candidate] = (), **given: object) -> None:
        super().__init__(space, **given)
        for hint in hints:
            assert space.find(hint) is not None


class NeverEnds(Base):
    def ask(self, count: int, stop: Callable[[], bool] = never) -> list[Candidate]:
        found = super().ask(count, stop)
        return found or [self.space.plans[0].candidate(self.space.plans[0].low)]


class SearchesForever(Base):
    def ask(self, count: int, stop: Callable[[], bool] = never) -> list[Candidate]:
        found = super().ask(count, stop)
        while not found and not stop():
            pass
        return found


class Hangs(Base):
    def ask(self, count: int, stop: Callable[[], bool] = never) -> list[Candidate]:
        found = super().ask(count, stop)
        if not found and not stop():
            never_set.wait(5.0)
        return found


class TakesNoModel(Base):
    def __init__(self, space: Space, seed: int, hints: Sequence[Candidate]) -> None:
        super().__init__(space, seed=seed)


class _Never:
    """Waits, as a search without an end would."""

    def wait(self, seconds: float) -> None:
        import time

        time.sleep(seconds)


never_set = _Never()


@pytest.mark.parametrize(
    ("policy", "promise"),
    [
        (Twice, "a program is asked for once: candidate .* is the program of candidate"),
        (OnceMore, "a program is asked for once: candidate .* is the program of candidate"),
        (TooMany, r"ask\(count\) gives at most count candidates: 9 for 8"),
        (Deaf, "asks whether to stop: it never called stop"),
        (Stubborn, "ends with what it has when stop.* is true: it gave all 1000 candidates"),
        (GivesUp, "a search that was stopped goes on when it is asked again: it gave no candidate"),
        (OfAnother, "ask gives candidates of the workload of its space: one is of"),
        (NoCandidates, "ask gives candidates: there is a str among them"),
        (DiesOfFailures, "tell takes .*: it raised TypeError"),
        (StopsAfterFailures, "a policy goes on after failures: it gave no candidate any more"),
        (TakesStrangers, "tell passes over trials of other workloads: best_seconds is 1e-09"),
        (Unseeded, "the same seed and the same results give the same candidates: .* are the same"),
        (Forgetful, "what an earlier run has measured is not asked for again"),
        (DoesNotKnowTheBest, "best_seconds is the least time that was told"),
        (RefusesHints, r"a policy is made of \(space, seed, hints, model\): it raised AssertionError"),
        (NeverEnds, "is exhausted after a while, and ask gives no candidate then: it has given"),
        (SearchesForever, "is exhausted after a while, .*: it searches on until it is stopped"),
        (Hangs, "is exhausted after a while, .*: it did not come back"),
        (TakesNoModel, r"a policy is made of \(space, seed, hints, model\): it raised TypeError"),
    ],
    ids=lambda x: getattr(x, "__name__", None),
)
def test_every_promise_is_checked(policy: type, promise: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PATIENCE", 2.0 if policy is Hangs else 60.0)
    with pytest.raises(BrokenPromise, match=promise):
        check_policy(policy)


def test_the_cheap_one_keeps_all_promises() -> None:
    """So that each of the above breaks but the one it is about."""
    check_policy(Base)
    check_policy(Base, workload=matmul(9, 16, 5))
