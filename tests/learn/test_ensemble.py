"""Several forests: what they agree on, what they are sure of, and the file they come back from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.learn.test_model_kinds import as_rows, programs, samples_of

from tensorsmith.backends.cpu.features.schema import SCHEMA
from tensorsmith.errors import UserError
from tensorsmith.learn.models.ensemble import EnsembleModel, EnsembleSettings, Sure
from tensorsmith.learn.models.model import Samples
from tensorsmith.learn.models.trees import TreeSettings

SETTINGS = EnsembleSettings(members=4, trees=TreeSettings(trees=20, least_in_leaf=4))


def several(workloads: int, each: int = 20) -> Samples:
    """Programs of workloads called 0, 1, 2, ..."""
    samples = Samples()
    for n in range(workloads):
        values, throughput = programs(each, n)
        for rows, y in zip(values, throughput):
            samples.add(rows, float(y), str(n))
    return samples


def learned(samples: Samples, sure: Sure = Sure()) -> EnsembleModel:  # noqa: B008  frozen
    model = EnsembleModel(SETTINGS, sure)
    model.update(samples)
    return model


def test_the_first_learns_from_all_and_each_of_the_others_leaves_some_workloads_out(monkeypatch: pytest.MonkeyPatch) -> None:
    model, seen = EnsembleModel(SETTINGS), []
    for member in model.members:
        monkeypatch.setattr(member, "update", lambda samples: seen.append(set(samples.group)))
    samples = several(9)
    model.update(samples)
    everything = set(samples.group)
    assert seen[0] == everything
    left_out = [everything - some for some in seen[1:]]
    assert [len(out) for out in left_out] == [3, 3, 3]
    assert set.union(*left_out) == everything  # each is left out once


def test_of_one_workload_programs_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    model, seen = EnsembleModel(SETTINGS), []
    for member in model.members:
        monkeypatch.setattr(member, "update", lambda samples: seen.append([float(r[0, 0]) for r in samples.rows]))
    model.update(several(1, each=30))
    assert [len(some) for some in seen] == [30, 20, 20, 20]
    assert len({tuple(some) for some in seen}) == 4


def test_the_score_is_the_mean_of_the_opinions() -> None:
    model = learned(several(9))
    values, _ = programs(50, 77)
    base = np.linspace(-1, 1, 50)
    opinions = model.opinions(as_rows(values), base)
    assert opinions.shape == (4, 50) and (opinions.std(axis=0) > 0).any()
    np.testing.assert_allclose(model.predict(as_rows(values), base), opinions.mean(axis=0))


def test_what_the_members_disagree_about_is_no_gain() -> None:
    opinions = np.array([[0.0, 1.0, 0.1], [0.0, 1.0, 2.1], [1.0, 2.0, 0.9], [1.0, 2.0, 2.9]])  # of three programs
    alike = np.zeros(3)  # by the prior
    assert EnsembleModel(SETTINGS, Sure(doubt=0.0)).gains(opinions, alike, than=0) == pytest.approx([0.0, 1.0, 1.0])
    careful = EnsembleModel(SETTINGS, Sure(doubt=1.0)).gains(opinions, alike, than=0)
    assert careful[:2] == pytest.approx([0.0, 1.0])  # all say the same of the second, whatever they say of the first
    assert careful[2] < 0.1
    assert EnsembleModel(SETTINGS, Sure(doubt=0.0)).gains(opinions, alike, than=1) == pytest.approx([-1.0, 0.0, 0.0])


def test_what_the_prior_takes_for_slower_is_no_gain() -> None:
    opinions = np.array([[0.0, 1.0, 2.0]] * 4)
    gains = EnsembleModel(SETTINGS, Sure(doubt=1.0)).gains(opinions, np.array([5.0, 5.0, 4.9]), than=0)
    assert gains.tolist() == [0.0, 1.0, -np.inf]


def test_the_rule_comes_back_from_the_file(tmp_path: Path) -> None:
    model = learned(several(9), Sure(doubt=1.5, margin=0.07))
    model.save(tmp_path / "model", SCHEMA)
    again = EnsembleModel.load(tmp_path / "model", SCHEMA)
    assert again.sure == Sure(1.5, 0.07) and again.settings == SETTINGS
    values, _ = programs(50, 77)
    np.testing.assert_array_equal(again.opinions(as_rows(values)), model.opinions(as_rows(values)))


def test_files_with_parts_missing_are_refused(tmp_path: Path) -> None:
    learned(several(9)).save(tmp_path / "model", SCHEMA)
    text = (tmp_path / "model").read_text()
    (tmp_path / "other").write_text(text.replace('"members": 4', '"members": 3', 1))
    with pytest.raises(UserError, match=r"is damaged: 4 members, and 3 by the header"):
        EnsembleModel.load(tmp_path / "other", SCHEMA)
    with pytest.raises(UserError, match="nothing to save"):
        EnsembleModel(SETTINGS).save(tmp_path / "none", SCHEMA)
    with pytest.raises(UserError, match="2 members or more"):
        EnsembleModel(EnsembleSettings(members=1))


def test_a_search_begins_with_the_first_member_and_goes_on() -> None:
    model = learned(several(9))
    values, throughput = programs(60, 5)
    begun = model.beginning()
    np.testing.assert_allclose(begun.predict(values), model.members[0].predict(values))
    before = model.members[0].predict(values)
    begun.update(samples_of(values, 1.0 - throughput))
    assert begun.booster is not None and begun.booster.num_trees() == 20 + begun.settings.trees
    np.testing.assert_array_equal(model.members[0].predict(values), before)  # which stays as it is
