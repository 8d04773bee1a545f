"""Trees asked about many rows at once answer what their library does."""

from __future__ import annotations

import lightgbm
import numpy as np
import pytest

from tensorsmith.errors import InternalError
from tensorsmith.learn.models import forest
from tensorsmith.learn.models.forest import Forest


def trees(leaves: int, rounds: int, features: int = 9, **parameters: object) -> lightgbm.Booster:
    rng = np.random.default_rng(leaves)
    x = rng.integers(0, 6, (400, features)).astype(np.float32) / 3
    y = x[:, 0] * x[:, 1] - np.sin(4 * x[:, 2]) + 0.1 * rng.random(len(x))
    settings = {"num_leaves": leaves, "min_data_in_leaf": 1, "verbosity": -1, "num_threads": 1, **parameters}
    return lightgbm.train(settings, lightgbm.Dataset(x, label=y), num_boost_round=rounds)


@pytest.mark.parametrize("leaves", [2, 3, 31, 32, 33, 300])
@pytest.mark.parametrize("rows", [1, 63, 64, 1000])
def test_answers_are_the_library_s(leaves: int, rows: int) -> None:
    model = trees(leaves, 12)
    x = np.random.default_rng(rows).random((rows, 9), np.float32) * 2
    assert Forest(model.model_to_string()).predict(x.T) == pytest.approx(model.predict(x), rel=1e-12, abs=1e-12)


def test_a_value_at_a_threshold_goes_left() -> None:
    model = trees(31, 10)
    thresholds = np.concatenate(Forest(model.model_to_string()).bounds)[:, 0]
    around = np.concatenate([thresholds, np.nextafter(thresholds, np.float32(9)), np.nextafter(thresholds, np.float32(-9))])
    x = np.tile(around[:, None], (1, 9))
    np.testing.assert_allclose(Forest(model.model_to_string()).predict(np.ascontiguousarray(x.T)), model.predict(x), rtol=1e-12)


def test_rows_in_parts_of_any_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Forest(trees(31, 5).model_to_string())
    x = np.random.default_rng(0).random((500, 9), np.float32)
    whole = found.predict(x.T)
    monkeypatch.setattr(forest, "_ROWS", 96)
    np.testing.assert_array_equal(found.predict(x.T), whole)
    np.testing.assert_array_equal(found.predict(np.ascontiguousarray(x.T)), whole)
    assert found.predict(x[:0].T).shape == (0,)


def test_trees_that_do_not_branch() -> None:
    rng = np.random.default_rng(0)
    data = lightgbm.Dataset(rng.random((50, 3)), label=np.full(50, 2.5))
    model = lightgbm.train({"verbosity": -1, "num_threads": 1}, data, num_boost_round=3)
    x = rng.random((7, 3), np.float32)
    assert Forest(model.model_to_string()).predict(x.T) == pytest.approx(model.predict(x))


def test_other_trees_are_refused() -> None:
    with pytest.raises(InternalError, match="decisions of type"):
        Forest(trees(4, 1, zero_as_missing=True).model_to_string())
