"""What a run is given besides the computation, in groups: each is checked and resolved once, and handed on as it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tensorsmith.backends import backend_of, rule_set
from tensorsmith.learn.models.model import CostModel
from tensorsmith.learn.models.registry import GivenModel, as_model
from tensorsmith.learn.pretrained import pretrained
from tensorsmith.measure.places import LOCAL, GivenRunner, Place, as_place
from tensorsmith.measure.runner import cannot_measure
from tensorsmith.records.keys import Timing
from tensorsmith.runtime.device import device_of
from tensorsmith.search.policy import MakePolicy, Preset, as_preset
from tensorsmith.search.trial import Cache
from tensorsmith.space.rules.base import Rule
from tensorsmith.targets.target import Target, given_or_native
from tensorsmith.tuning.budget import Budget

#: what stands for rules: the name of a set, "module:Name" of some, or a list of them
GivenRules = str | Sequence[Rule]


@dataclass(frozen=True)
class Plugins:
    """Who searches, where, and by which model."""

    policy: Preset
    rules: tuple[Rule, ...]
    model: CostModel  # every search has a fork of it
    pretrained: bool = (
        False  # whether that is the package's: records are learned on top of it; another that is ready stays as it is
    )

    @staticmethod
    def of(
        target: Target,
        policy: str | Preset | MakePolicy = "tensorsmith",
        rules: GivenRules | None = None,
        model: GivenModel | None = None,
    ) -> Plugins:
        """From what users give. Without rules or a model, those of the policy."""
        preset, schema = as_preset(policy), backend_of(target).schema
        known = pretrained(schema) if model is None and preset.pretrained else None
        own = as_model(preset.model if model is None else model, schema) if known is None else known.beginning()
        return Plugins(preset, rule_set(preset.rules if rules is None else rules, target), own, known is not None)


def where(runner: GivenRunner, target: Target | str | None) -> tuple[Place, Target]:
    """Where to measure, and for which target: without one, that of the machines there."""
    place = as_place(runner)
    return place, place.detect() if target is None and not place.here else given_or_native(target)


@dataclass(frozen=True)
class HowMeasured:
    """For which machine, what timed runs find in the caches, and where they run."""

    target: Target
    cache: Cache = "warm"
    place: Place = LOCAL
    threads: int | None = None  # that were asked for: the target is one of as many cores

    @property
    def timing(self) -> Timing:
        return Timing(self.cache, self.target.cores)

    def check(self) -> None:
        """Raises `UserError` if programs are to run on this machine and cannot; machines elsewhere are asked later."""
        why_not = device_of(self.target.kind).why_not(self.target) if self.place.here else None
        if why_not is not None:
            raise cannot_measure(self.target, why_not)


@dataclass(frozen=True)
class RunOptions:
    """All of a run."""

    budget: Budget
    measured: HowMeasured
    plugins: Plugins
    seed: int = 0
    verbose: bool = False  # whether to say at the end where the time went
    early_stop: bool = True  # whether to stop where the best is about what the machine allows
    fallback: bool = True  # whether the default schedule, or an earlier record, may be the answer instead of what the policy finds
    sizes: bool = False  # whether the networks are one network at several sizes: what is good at one is tried at the others
