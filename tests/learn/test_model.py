"""Cost models: they learn an order, keep it across save and load, and start from a base score."""

from __future__ import annotations

import numpy as np
import pytest

from tensorsmith.backends.cpu.features.schema import SCHEMA
from tensorsmith.errors import UserError
from tensorsmith.learn.models.accuracy import pairwise_accuracy, r2, recall
from tensorsmith.learn.models.losses import LOSSES
from tensorsmith.learn.models.model import Samples
from tensorsmith.learn.models.trees import TreeModel, TreeSettings

RNG = np.random.default_rng(0)


def programs(count: int, statements: int) -> tuple[np.ndarray, np.ndarray]:
    """Random features, and a throughput that depends on two of them, summed over the statements."""
    values = RNG.random((count, statements, len(SCHEMA)), np.float32)
    cost = 0.2 + (2 * values[:, :, 3] + values[:, :, 17] ** 2).sum(axis=1)
    return values, cost.min() / cost


def trained(loss: str, values: np.ndarray, throughput: np.ndarray, base: np.ndarray | None = None) -> TreeModel:
    samples = Samples()
    for n, (rows, y) in enumerate(zip(values, throughput)):
        samples.add(rows, float(y), "w", 0.0 if base is None else float(base[n]))
    model = TreeModel(TreeSettings(loss=loss))
    model.update(samples)
    return model


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("statements", [1, 3])
def test_learns_the_order(loss: str, statements: int) -> None:
    values, throughput = programs(400, statements)
    model = trained(loss, values[:300], throughput[:300])
    assert pairwise_accuracy(model.predict(values[300:]), throughput[300:]) > (0.8 if statements == 1 else 0.7)


def test_programs_of_different_length_go_together() -> None:
    one, fast = programs(150, 1)
    two, slow = programs(150, 2)
    samples = Samples()
    for values, throughput in ((one, fast), (two, slow * 0.4)):
        for rows, y in zip(values, throughput):
            samples.add(rows, float(y), "w")
    model = TreeModel()
    model.update(samples)
    assert model.predict(one).mean() > model.predict(two).mean()


def test_a_base_that_knows_the_answer_is_kept() -> None:
    values, throughput = programs(60, 1)
    base = np.log2(throughput)
    model = trained("rank", values[:20], throughput[:20], base[:20])
    assert pairwise_accuracy(model.predict(values[20:], base[20:]), throughput[20:]) > 0.95


def test_save_and_load(tmp_path) -> None:
    values, throughput = programs(80, 2)
    model = trained("rank", values, throughput)
    model.save(tmp_path / "model.txt", SCHEMA)
    again = TreeModel.load(tmp_path / "model.txt", SCHEMA)
    np.testing.assert_array_equal(model.predict(values), again.predict(values))


def test_the_same_seed_gives_the_same_model() -> None:
    values, throughput = programs(80, 2)
    first, second = (trained("rank", values, throughput).predict(values) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_failures_rank_last() -> None:
    values, throughput = programs(300, 1)
    failed = values[:, 0, 5] > 0.7
    model = trained("rank", values[:200], np.where(failed, 0.0, throughput)[:200])
    scores = model.predict(values[200:])
    assert np.median(scores[failed[200:]]) < np.median(scores[~failed[200:]])


def test_refusals(tmp_path) -> None:
    with pytest.raises(UserError, match="unknown loss 'mse'"):
        TreeModel(TreeSettings(loss="mse"))
    with pytest.raises(UserError, match="not learned anything"):
        TreeModel().predict(np.zeros((1, 1, len(SCHEMA)), np.float32))
    with pytest.raises(UserError, match="cannot read"):
        TreeModel.load(tmp_path / "missing", SCHEMA)


def test_measures() -> None:
    throughput = np.array([0.1, 0.4, 0.7, 1.0])
    assert pairwise_accuracy(throughput, throughput) == 1
    assert pairwise_accuracy(-throughput, throughput) == 0
    assert recall(throughput, throughput, 2) == 1 and recall(-throughput, throughput, 2) == 0


def test_the_share_explained() -> None:
    throughput = np.array([0.1, 0.4, 0.7, 1.0])
    assert r2(2 * throughput + 1, throughput) == pytest.approx(1)
    assert r2(np.array([1.0, -1.0, -1.0, 1.0]), throughput) == pytest.approx(0, abs=1e-9)
    assert r2(np.ones(4), throughput) == 0


def test_the_paper_loss_leaves_the_base_out() -> None:
    values, throughput = programs(60, 1)
    base = RNG.random(60) * 100
    np.testing.assert_array_equal(
        trained("paper", values, throughput, base).predict(values, base), trained("paper", values, throughput).predict(values)
    )


@pytest.mark.parametrize("gives_up_below", [1e-2, np.inf])
def test_what_the_library_gives_up_on_is_tried_otherwise(gives_up_below: float, monkeypatch: pytest.MonkeyPatch) -> None:
    import lightgbm

    grown, asked = lightgbm.train, []

    def train(parameters: dict, *given: object, **more: object) -> lightgbm.Booster:
        asked.append(parameters["min_sum_hessian_in_leaf"])
        if asked[-1] < gives_up_below:
            raise lightgbm.basic.LightGBMError("Check failed: (best_split_info.left_count) > (0)")
        return grown(parameters, *given, **more)

    values, throughput = programs(100, 1)
    known = trained("rank", values, throughput)
    model = known.fork()
    samples = Samples()
    for rows, y in zip(values, throughput):
        samples.add(rows, float(y), "w")
    monkeypatch.setattr(lightgbm, "train", train)
    model.update(samples)
    assert asked[:2] == [0.0, 1e-3] and model.booster is not None
    more = model.booster.num_trees() - known.booster.num_trees()  # type: ignore[union-attr]
    assert (len(asked), more) == ((3, model.settings.trees) if np.isfinite(gives_up_below) else (4, 0))
