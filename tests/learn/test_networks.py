"""Networks in plain NumPy: gradients are right, the small cost model keeps what it knew, Halide's terms have its weights."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.learn.test_model_kinds import as_rows, programs, samples_of

from tensorsmith.backends.cpu.features.schema import SCHEMA
from tensorsmith.baselines.halide.model import HEAD_1, SCHEDULE, HalideModel, HalideSettings, Stages, _Pass, _slope, fresh
from tensorsmith.errors import UserError
from tensorsmith.learn.layers import Adadelta, Adam, Layers
from tensorsmith.learn.models.accuracy import pairwise_accuracy
from tensorsmith.learn.models.mlp import MlpModel, MlpSettings


def test_gradients_of_layers() -> None:
    rng = np.random.default_rng(0)
    net = Layers((3, 5, 2), rng)
    net.parameters = [p.astype(np.float64) for p in net.parameters]
    x, slope = rng.normal(size=(7, 3)), rng.normal(size=(7, 2))
    net.forward(x, keep=True)
    found, back = net.backward(slope)
    for n, p in enumerate(net.parameters):
        for at in np.ndindex(p.shape):
            p[at] += 1e-6
            high = (net.forward(x) * slope).sum()
            p[at] -= 2e-6
            low = (net.forward(x) * slope).sum()
            p[at] += 1e-6
            assert found[n][at] == pytest.approx((high - low) / 2e-6, abs=1e-4)
    assert back.shape == x.shape


@pytest.mark.parametrize("kind", [Adam, Adadelta])
def test_steps_go_downhill(kind: type) -> None:
    p = np.array([3.0, -2.0])
    steps = kind([p], 0.1 if kind is Adam else 1.0)
    for _ in range(300):
        steps.apply([2 * p])
    assert np.abs(p[0]) < 2.0 and np.abs(p[1]) < 1.0  # from 3 and -2


# -- mlp -----------------------------------------------------------------------------------------------------------------------

QUICK = MlpSettings(epochs=40, hidden=24, embedding=12)


def test_what_was_learned_before_is_kept_and_corrected() -> None:
    values, throughput = programs(300, 0)
    first = MlpModel(QUICK)
    first.update(samples_of(values, throughput, "one"))
    few, few_throughput = programs(16, 1, shift=0.5)
    test, test_throughput = programs(200, 2, shift=0.5)
    fresh_one, kept = MlpModel(QUICK), first.fork()
    for model in (fresh_one, kept):
        model.update(samples_of(few, few_throughput, "two"))
    alone, together = (pairwise_accuracy(m.predict(test), test_throughput) for m in (fresh_one, kept))
    assert together > 0.7 and together > alone + 0.1
    wrong = kept.fork()
    wrong.update(samples_of(values, throughput.min() / throughput))
    assert pairwise_accuracy(wrong.predict(values), throughput) < pairwise_accuracy(kept.predict(values), throughput) - 0.1


def test_a_statement_adds_to_the_others() -> None:
    values, throughput = programs(60, 0)
    model = MlpModel(QUICK)
    model.update(samples_of(values, throughput))
    twice = np.concatenate([values, values], axis=1)
    np.testing.assert_allclose(model.predict(twice), 2 * model.predict(values), rtol=1e-4, atol=1e-5)


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    model = MlpModel(QUICK)
    with pytest.raises(UserError, match="nothing to save"):
        model.save(tmp_path / "model", SCHEMA)
    model.update(samples_of(*programs(60, 0)))
    model.save(tmp_path / "model", SCHEMA)
    head, _, text = (tmp_path / "model").read_text().partition("\n")
    changed = json.loads(head)
    changed["settings"]["hidden"] = 25
    (tmp_path / "model").write_text(f"{json.dumps(changed)}\n{text}")
    with pytest.raises(UserError, match="is damaged: the weights have other shapes"):
        MlpModel.load(tmp_path / "model", SCHEMA)
    with pytest.raises(UserError, match="unknown loss 'paper'; known are log, rank, pairs"):
        MlpModel(MlpSettings(loss="paper"))


# -- Halide's ------------------------------------------------------------------------------------------------------------------


def test_the_network_has_4264_weights() -> None:
    """spec: baselines.md, section 8, item 8"""
    assert sum(w.size for w in fresh(np.random.default_rng(0))) == 4264 and SCHEDULE == 39


def test_gradients_of_the_terms() -> None:
    rng = np.random.default_rng(0)
    stages = Stages(rng.random((6, len(SCHEMA)), np.float32) * 6, SCHEMA)
    weights = fresh(rng)
    slope = rng.normal(size=6) * 1e9
    found = _Pass(weights, stages).gradients(slope, 0.0)
    for n, w in enumerate(weights):
        at = np.unravel_index(int(np.abs(found[n]).argmax()), w.shape)
        before, step = w[at], 1e-6 * max(1.0, abs(w[at]))
        ends = []
        for x in (before + step, before - step):
            w[at] = x
            ends.append(float((_Pass(weights, stages).seconds * slope).sum()))
        w[at] = before
        assert found[n][at] == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=2e-2)
    assert found[0].shape == (HEAD_1, 280)


def test_the_loss_pulls_times_towards_what_they_were() -> None:
    """Twice as slow as the best: predicted equal, it gets slower; predicted four times as slow, faster."""
    for seconds, sign in ((1.0, -1), (4.0, 1)):
        slope = _slope(np.array([1.0, seconds]), np.array([1.0, 0.5]), np.array([0, 0]), HalideSettings())
        assert np.sign(slope[1]) == sign and slope[0] == 0


def test_halide_learns_an_order() -> None:
    """Programs whose bytes from memory decide."""
    rng = np.random.default_rng(0)
    values = rng.random((200, 1, len(SCHEMA)), np.float32)
    for name in ("into_l3", "into_l2", "points", "vector_points"):
        values[:, 0, SCHEMA.index[name]] = 10 + 10 * rng.random(200)
    cost = 1 + 2.0 ** (values[:, 0, SCHEMA.index["into_l3"]] - 16)
    model = HalideModel()
    model.update(samples_of(values[:120], cost[:120].min() / cost[:120]))
    assert pairwise_accuracy(model.predict(as_rows(values[120:]), np.zeros(80)), 1 / cost[120:]) > 0.7
