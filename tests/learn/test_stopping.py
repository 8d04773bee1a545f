"""When trees stop growing, and AutoTVM's trees on top of what others taught."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.learn.test_model_kinds import programs, samples_of

from tensorsmith.backends.cpu.features.schema import SCHEMA
from tensorsmith.baselines.autotvm.template_model import TREES, TemplateModel, TemplateSettings
from tensorsmith.errors import UserError
from tensorsmith.learn.models.accuracy import pairwise_accuracy
from tensorsmith.learn.models.stopping import Stopping, recall_curve
from tensorsmith.learn.models.trees import TreeModel, TreeSettings


def test_recall_is_averaged_over_how_many_are_asked_for() -> None:
    """spec: baselines.md, section 1.5: of the best 1, 2, 3 by score, how many are among the best 1, 2, 3."""
    wanted = np.array([4.0, 3.0, 2.0, 1.0])
    assert recall_curve(wanted, wanted, 4) == 1.0
    assert recall_curve(np.array([3.0, 4.0, 2.0, 1.0]), wanted, 3) == pytest.approx((0 + 1 + 1) / 3)
    assert recall_curve(np.array([1.0, 2.0, 3.0, 4.0]), wanted, 2) == 0.0


def test_stops_after_so_many_rounds_without_gain() -> None:
    wanted = np.array([1.0, 0.5, 0.0])
    stopping = Stopping("error", wanted, 6, 2)
    errors = [0.5, 0.4, 0.3, 0.2] + [0.2] * 20
    rounds = 0
    while not stopping.over:
        stopping.look(wanted + errors[rounds])
        rounds += 1
    assert 8 <= rounds <= 12
    never = Stopping("", wanted, 1, 2)
    for _ in range(50):
        never.look(wanted)
    assert not never.over


@pytest.mark.parametrize("stop", ["error", "recall"])
def test_trees_stop_by_themselves(stop: str) -> None:
    values, throughput = programs(120, 0)
    model = TreeModel(TreeSettings(loss="regression", trees=5000, rate=0.3, stop=stop, patience=10, gain=1e-4, l2=1.0, best=30))
    model.update(samples_of(values, throughput))
    assert model.booster is not None and 5 < model.booster.num_trees() < 1000
    assert pairwise_accuracy(model.predict(values), throughput) > 0.85


def test_an_unknown_way_to_stop() -> None:
    with pytest.raises(UserError, match="unknown way to stop 'soon'; known are error, recall"):
        TreeModel(TreeSettings(stop="soon"))


def test_a_margin_helps_at_first_and_fades(tmp_path: Path) -> None:
    values, throughput = programs(520, 0)
    settings = TemplateSettings(trees=replace(TREES, trees=60))
    taught = TemplateModel(settings)
    taught.teach("conv", samples_of(values, throughput))
    model = taught.of("conv")
    assert model.ready() and not taught.of("dense").ready() and model.margin == 1.0
    test, test_throughput = programs(200, 3)
    assert pairwise_accuracy(model.predict(test), test_throughput) > 0.85
    few, few_throughput = programs(64, 1)
    model.update(samples_of(few, few_throughput))
    alone = TemplateModel(settings)
    alone.update(samples_of(few, few_throughput))
    assert model.margin == 0.5
    better, worse = (pairwise_accuracy(m.predict(test), test_throughput) for m in (model, alone))
    assert better > worse
    model.save(tmp_path / "model", SCHEMA)
    again = TemplateModel.load(tmp_path / "model", SCHEMA)
    np.testing.assert_allclose(again.predict(test), model.predict(test), rtol=1e-6)
    model.update(samples_of(*programs(277, 5)))
    assert model.margin == 0.0


def test_features_that_others_did_not_have_are_left_out() -> None:
    values, throughput = programs(520, 0)
    model = TemplateModel(TemplateSettings(trees=replace(TREES, trees=20)))
    model.teach("conv", samples_of(values[:, :, :50], throughput))
    of = model.of("conv")
    np.testing.assert_array_equal(of.predict(values), of.predict(values[:, :, :50]))
    assert of.predict(values[:, :, :20]).shape == (520,)
