"""Trees with a doubt: what several opinions promise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.learn.test_model_kinds import programs, samples_of

from tensorsmith.backends.cpu.features.schema import SCHEMA
from tensorsmith.baselines.autotvm.bagged import BaggedModel, Doubt, expected_improvement
from tensorsmith.errors import UserError
from tensorsmith.testing import check_cost_model


def test_expected_improvement_is_that_of_a_normal_variable() -> None:
    mean, spread = np.array([1.0, 2.0, 0.0, 1.5, 0.5]), np.array([1.0, 1.0, 1.0, 0.0, 0.0])
    assert expected_improvement(mean, spread, 1.0) == pytest.approx([0.398942, 1.083316, 0.083316, 0.5, 0.0], abs=1e-6)
    drawn = np.random.default_rng(0).normal(0.7, 0.4, 400_000)
    (found,) = expected_improvement(np.array([0.7]), np.array([0.4]), 1.0)
    assert found == pytest.approx(np.maximum(drawn - 1.0, 0).mean(), rel=0.02)


def test_members_differ_and_a_doubt_is_worth_kappa() -> None:
    values, throughput = programs(80, 0)
    models = [BaggedModel(doubt=Doubt("ucb", kappa=k)).fork(3) for k in (0.0, 2.0)]
    for model in models:
        model.update(samples_of(values, throughput))
    opinions = models[0].opinions(values)
    assert opinions.shape == (5, 80) and (opinions.std(axis=0) > 0).mean() > 0.9
    np.testing.assert_allclose(models[0].predict(values), opinions.mean(axis=0))
    np.testing.assert_allclose(models[1].predict(values) - models[0].predict(values), 2 * opinions.std(axis=0), atol=1e-9)


def test_the_best_so_far_is_what_has_to_be_beaten() -> None:
    values, throughput = programs(80, 0)
    model = BaggedModel()
    model.update(samples_of(values, 0.5 * throughput))
    opinions = model.opinions(values)
    want = expected_improvement(opinions.mean(axis=0), opinions.std(axis=0), 0.5)
    assert model.best == 0.5 and (want >= 0).all()
    np.testing.assert_allclose(model.predict(values), want)


@pytest.mark.parametrize("acquisition", ["ei", "ucb"])
def test_it_keeps_the_promises_of_a_model(acquisition: str) -> None:
    check_cost_model(BaggedModel(doubt=Doubt(acquisition)))


def test_what_it_cannot_do(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="unknown acquisition 'pi'; known are ei, ucb"):
        BaggedModel(doubt=Doubt("pi"))
    with pytest.raises(UserError, match="nothing to save"):
        BaggedModel().save(tmp_path / "model", SCHEMA)
