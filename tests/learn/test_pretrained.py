"""The model that comes with the package."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.learn.test_ensemble import several

from tensorsmith.backends.cpu.features.schema import SCHEMA
from tensorsmith.learn.models.ensemble import EnsembleModel, EnsembleSettings
from tensorsmith.learn.pretrained import path_of, pretrained, read_model


def test_the_packages_model_fits_the_features_and_is_small() -> None:
    """After a change of the features: `benchmarks/collect.py` and `benchmarks/train.py` make another one."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = read_model(path_of(SCHEMA), SCHEMA)
    assert model is not None and model.ready()
    assert path_of(SCHEMA).stat().st_size < 4 << 20
    rows = np.random.default_rng(0).random((7, 2, len(SCHEMA)), np.float32)
    assert np.isfinite(model.opinions(rows)).all()
    assert 0 <= model.sure.doubt <= 10 and 0 < model.sure.margin <= 1


def test_it_is_read_once() -> None:
    assert pretrained(SCHEMA) is pretrained(SCHEMA)


def test_one_that_was_learned_on_other_features_is_not_used_and_that_is_said(tmp_path: Path) -> None:
    model = EnsembleModel(EnsembleSettings(members=2))
    model.update(several(4))
    model.save(tmp_path / "cpu.model", SCHEMA)
    assert read_model(tmp_path / "cpu.model", SCHEMA) is not None
    other = replace(SCHEMA, version=SCHEMA.version + 1)
    with pytest.warns(UserWarning, match=r"pre-trained model is not used.*version.*learn it anew"):
        assert read_model(tmp_path / "cpu.model", other) is None


def test_a_kind_of_machine_without_one() -> None:
    assert pretrained(replace(SCHEMA, name="toaster")) is None
