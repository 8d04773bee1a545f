"""What a run is given besides the computation, in groups: each is checked and resolved once, and handed on as it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tensorsmith.backends import backend_of, rule_set
from tensorsmith.learn.models.model import CostModel
from tensorsmith.learn.models.registry import GivenModel, as_model
from tensorsmith.learn.pretrained import pretrained
from tensorsmith.plugins import load
from tensorsmith.records.keys import Timing
from tensorsmith.search.policy import MakePolicy, Preset, as_preset
from tensorsmith.search.trial import Cache
from tensorsmith.space.rules.base import Rule
from tensorsmith.targets.target import Target
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
        return Plugins(preset, as_rules(preset.rules if rules is None else rules, target), own, known is not None)


def as_rules(given: GivenRules, target: Target) -> tuple[Rule, ...]:
    """The rules of a named set, with those that are registered; or those that a module has, or a list, as they stand."""
    if isinstance(given, str) and ":" in given:
        found = load("rules", given)
        return rule_set(found if isinstance(found, (list, tuple)) else [found], target)
    return rule_set(given, target)


@dataclass(frozen=True)
class HowMeasured:
    """For which machine, and what timed runs find in the caches."""

    target: Target
    cache: Cache = "warm"

    @property
    def timing(self) -> Timing:
        return Timing(self.cache, self.target.cores)


@dataclass(frozen=True)
class RunOptions:
    """All of a run."""

    budget: Budget
    measured: HowMeasured
    plugins: Plugins
    seed: int = 0
    verbose: bool = False  # whether to say at the end where the time went
    early_stop: bool = True  # whether to stop where the best is about what the machine allows
    sizes: bool = False  # whether the networks are one network at several sizes: what is good at one is tried at the others
