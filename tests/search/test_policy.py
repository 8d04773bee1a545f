"""What stands for a policy, and the policies there are."""

from __future__ import annotations

import functools

import pytest

from tensorsmith.backends import space_of
from tensorsmith.backends.cpu.features.schema import SCHEMA
from tensorsmith.errors import UserError
from tensorsmith.learn.models.registry import as_model
from tensorsmith.search.policies.random import RandomPolicy, Settings
from tensorsmith.search.policy import POLICIES, Preset, as_preset, register_policy
from tensorsmith.targets.target import native
from tensorsmith.testing.promise import matmul


def test_names_classes_functions_and_presets() -> None:
    assert as_preset("random").make is RandomPolicy
    assert as_preset(RandomPolicy) == Preset("RandomPolicy", RandomPolicy)
    assert as_preset("tensorsmith.search.policies.random:RandomPolicy").make is RandomPolicy
    own = Preset("own", RandomPolicy, rules="ansor")
    assert as_preset(own) is own
    few = as_preset(functools.partial(RandomPolicy, settings=Settings(population=8)))
    made = few.make(space_of(matmul(), native()), seed=0, hints=(), model=as_model("random", SCHEMA))
    assert made.settings.population == 8


def test_every_built_in_one_bears_its_name() -> None:
    for name in POLICIES.names():
        assert as_preset(name).name == name


def test_what_is_no_policy() -> None:
    with pytest.raises(UserError, match=r"policy is 5, no policy; give one of tensorsmith, ansor, .*random, autotvm, .*or a class"):
        as_preset(5)
    made = RandomPolicy(space_of(matmul(), native()))
    with pytest.raises(UserError, match="a policy that is made already"):
        as_preset(made)
    with pytest.raises(UserError, match="there is no policy 'annealing'"):
        as_preset("annealing")


def test_registered_ones_have_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(POLICIES, "_added", {})
    register_policy(Preset("mine", RandomPolicy))
    assert as_preset("mine").name == "mine"
    with pytest.raises(UserError, match="there is a policy called 'mine' already"):
        register_policy(Preset("mine", RandomPolicy))
    with pytest.raises(UserError, match="there is a policy called 'random' already"):
        register_policy(Preset("random", RandomPolicy))
