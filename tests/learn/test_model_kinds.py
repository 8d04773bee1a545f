"""Cost models of every kind behind one interface; files of models; what was loaded is kept."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tensorsmith.backends.cpu.features.schema import SCHEMA
from tensorsmith.errors import UserError
from tensorsmith.learn.features.rows import FeatureRows
from tensorsmith.learn.features.schema import Schema
from tensorsmith.learn.features.sets import schema_for
from tensorsmith.learn.models.accuracy import pairwise_accuracy
from tensorsmith.learn.models.model import Samples
from tensorsmith.learn.models.registry import MODELS, as_model, load_model, register_model
from tensorsmith.learn.models.trees import TreeModel, TreeSettings


def programs(count: int, seed: int, shift: float = 0.0, schema: Schema = SCHEMA) -> tuple[np.ndarray, np.ndarray]:
    """Random features of one statement, and a throughput that depends on two of them; `shift` moves the whole workload."""
    values = np.random.default_rng(seed).random((count, 1, len(schema)), np.float32)
    values[:, :, 40] = shift
    cost = (1 + shift) * (0.2 + 2 * values[:, 0, 3] + values[:, 0, 17] ** 2)
    return values, cost.min() / cost


def samples_of(values: np.ndarray, throughput: np.ndarray, group: str = "w", base: np.ndarray | None = None) -> Samples:
    samples = Samples()
    for n, (rows, y) in enumerate(zip(values, throughput)):
        samples.add(rows, float(y), group, 0.0 if base is None else float(base[n]))
    return samples


def as_rows(values: np.ndarray, schema: Schema = SCHEMA) -> FeatureRows:
    return FeatureRows(values[:, 0], np.arange(len(values)), len(values), (), schema)


@pytest.mark.parametrize("kind", [name for name in MODELS.names() if name != "treegru"])  # which has tests of its own
def test_every_kind_learns_predicts_and_comes_back(kind: str, tmp_path: Path) -> None:
    model = as_model(kind, SCHEMA).fork(seed=5)
    schema = schema_for(model, SCHEMA)  # of the features that it is asked with
    values, throughput = programs(120, 0, schema=schema)
    base = np.log2(throughput) + np.random.default_rng(1).normal(0, 0.3, 120)
    model.update(samples_of(values, throughput, base=base))
    scores = model.predict(as_rows(values, schema), base)
    assert scores.shape == (120,) and np.isfinite(scores).all()
    if kind not in ("random", "halide"):  # Halide's terms are of certain features, which say nothing here
        assert pairwise_accuracy(scores, throughput) > 0.75
    model.save(tmp_path / "model", schema)
    again = load_model(tmp_path / "model", SCHEMA)
    assert again.kind == kind and schema_for(again, SCHEMA) is schema
    np.testing.assert_array_equal(again.predict(as_rows(values, schema), base), scores)


def test_rows_of_a_population_and_programs_get_the_same_scores() -> None:
    values, throughput = programs(60, 0)
    model = TreeModel()
    model.update(samples_of(values, throughput))
    np.testing.assert_array_equal(model.predict(as_rows(values)), model.predict(values))


def test_what_was_loaded_survives_updates(tmp_path: Path) -> None:
    values, throughput = programs(400, 0)
    first = TreeModel()
    first.update(samples_of(values, throughput, "one"))
    first.save(tmp_path / "model", SCHEMA)
    few, few_throughput = programs(12, 1, shift=0.5)
    test, test_throughput = programs(200, 2, shift=0.5)
    fresh, kept = TreeModel(), TreeModel.load(tmp_path / "model", SCHEMA)
    for model in (fresh, kept):
        for _ in range(2):  # an update replaces the last one, and what was loaded stays below
            model.update(samples_of(few, few_throughput, "two"))
    alone = pairwise_accuracy(fresh.predict(test), test_throughput)
    together = pairwise_accuracy(kept.predict(test), test_throughput)
    assert together > 0.85 and together > alone + 0.05
    assert kept.booster is not None and kept.booster.num_trees() == 2 * kept.settings.trees


def test_an_update_corrects_what_was_loaded(tmp_path: Path) -> None:
    values, throughput = programs(200, 0)
    wrong = TreeModel()
    wrong.update(samples_of(values, throughput.min() / throughput))
    wrong.save(tmp_path / "model", SCHEMA)
    model = TreeModel.load(tmp_path / "model", SCHEMA)
    assert pairwise_accuracy(model.predict(values), throughput) < 0.3
    model.update(samples_of(values, throughput))
    assert pairwise_accuracy(model.predict(values), throughput) > 0.8


def test_a_loaded_and_updated_model_can_be_saved_again(tmp_path: Path) -> None:
    values, throughput = programs(80, 0)
    model = TreeModel(TreeSettings(loss="log"))
    model.update(samples_of(values, throughput))
    model.save(tmp_path / "one", SCHEMA)
    second = TreeModel.load(tmp_path / "one", SCHEMA)
    second.update(samples_of(*programs(40, 1)))
    second.save(tmp_path / "two", SCHEMA)
    third = load_model(tmp_path / "two", SCHEMA)
    assert isinstance(third, TreeModel) and third.settings.loss == "log"
    np.testing.assert_allclose(third.predict(values), second.predict(values), rtol=1e-6, atol=1e-9)


def _saved(folder: Path) -> Path:
    model = TreeModel(TreeSettings(trees=5))
    model.update(samples_of(*programs(40, 0)))
    model.save(folder / "model", SCHEMA)
    return folder / "model"


def _with_head(path: Path, **changes: object) -> None:
    line, _, text = path.read_text().partition("\n")
    path.write_text(json.dumps({**json.loads(line), **changes}) + "\n" + text)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"features": SCHEMA.version + 1}, f"version {SCHEMA.version + 1} of the features.*computes version {SCHEMA.version}"),
        ({"names": "x"}, "learn it anew"),
        ({"version": 99}, "model file of version 99"),
        ({"format": "other"}, "is no model of tensorsmith"),
        ({"kind": "prior"}, "of kind 'prior', not 'trees'"),
        ({"loss": "mse"}, "the loss 'mse'"),
        ({"digest": "0"}, "is damaged"),
    ],
)
def test_headers_are_checked(changes: dict[str, object], message: str, tmp_path: Path) -> None:
    path = _saved(tmp_path)
    _with_head(path, **changes)
    with pytest.raises(UserError, match=message):
        TreeModel.load(path, SCHEMA)


def test_damage_and_strangers_are_refused(tmp_path: Path) -> None:
    path = _saved(tmp_path)
    whole = path.read_text()
    path.write_text(whole[: len(whole) // 2])
    with pytest.raises(UserError, match="is damaged"):
        TreeModel.load(path, SCHEMA)
    for text in ("", "something else\n", "[1]\n", "\x00" * 20):
        path.write_text(text)
        with pytest.raises(UserError, match="is no model of tensorsmith"):
            load_model(path, SCHEMA)
    path.write_bytes(b"\xff\xfe\x80")
    with pytest.raises(UserError, match="cannot read"):
        load_model(path, SCHEMA)
    with pytest.raises(UserError, match="cannot write"):
        as_model("prior", SCHEMA).save(tmp_path / "missing" / "model", SCHEMA)


def test_losses_are_not_mixed(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="learned with the loss 'rank', and 'paper' is wanted"):
        TreeModel.load(_saved(tmp_path), SCHEMA, TreeSettings(loss="paper"))


def test_unknown_kinds(tmp_path: Path) -> None:
    known = "trees, ensemble, ansor, mlp, prior, random, halide, treegru"
    with pytest.raises(UserError, match=f"there is no cost model 'oracle'; known are {known}"):
        as_model("oracle", SCHEMA)
    path = _saved(tmp_path)
    _with_head(path, kind="oracle")
    with pytest.raises(UserError, match="there is no cost model 'oracle'"):
        load_model(path, SCHEMA)


def test_files_hold_text_only(tmp_path: Path) -> None:
    text = _saved(tmp_path).read_text(encoding="ascii")
    assert text.splitlines()[1] == "tree" and "end of trees" in text
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize("count", [1, 2, 5, 12])
def test_few_programs_or_equal_ones_do_no_harm(count: int) -> None:
    values, throughput = programs(count, 0)
    for given in (values, np.repeat(values[:1], count, axis=0)):
        model = TreeModel(TreeSettings(warm=1))
        model.update(samples_of(given, throughput))
        if model.booster is not None:
            assert np.isfinite(model.predict(values)).all()


def test_a_few_programs_that_ran_are_not_enough_to_be_believed() -> None:
    values, throughput = programs(40, 0)
    model = TreeModel()
    for ran in (0, 11, 12):
        model.update(samples_of(values, np.where(np.arange(40) < ran, throughput, 0.0)))
        assert model.ready() is (ran == 12)


def test_a_fork_goes_its_own_way(tmp_path: Path) -> None:
    values, throughput = programs(60, 0)
    first = TreeModel()
    first.update(samples_of(values, throughput))
    before = first.predict(values)
    fork = first.fork()
    np.testing.assert_array_equal(fork.predict(values), before)
    fork.update(samples_of(values, throughput.min() / throughput))
    np.testing.assert_array_equal(first.predict(values), before)
    assert fork.booster.num_trees() == 2 * first.booster.num_trees()


def test_what_stands_for_a_model(tmp_path: Path) -> None:
    path = _saved(tmp_path)
    assert isinstance(as_model(path, SCHEMA), TreeModel) and isinstance(as_model(str(path), SCHEMA), TreeModel)
    own = TreeModel(TreeSettings(loss="paper"))
    assert as_model(own, SCHEMA) is own
    assert as_model(lambda: own, SCHEMA) is own and as_model(TreeModel, SCHEMA).kind == "trees"
    assert as_model("tensorsmith.learn.models.prior:PriorModel", SCHEMA).kind == "prior"
    with pytest.raises(UserError, match="model is 5, which has no predict, no update, no ready, no fork, no save, no load"):
        as_model(5, SCHEMA)
    with pytest.raises(UserError, match="'nowhere:Model': nowhere cannot be imported"):
        as_model("nowhere:Model", SCHEMA)


def test_registered_models_have_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Mine(TreeModel):
        kind = "mine"

    monkeypatch.setattr(MODELS, "_added", {})
    with pytest.raises(UserError, match=r"kind of .* is 'mine'; a model that is called 'yours'"):
        register_model("yours", Mine)
    with pytest.raises(UserError, match="there is a cost model called 'trees' already"):
        register_model("trees", TreeModel)
    register_model("mine", Mine)
    assert isinstance(as_model("mine", SCHEMA), Mine) and MODELS.names() == (
        "trees",
        "ensemble",
        "ansor",
        "mlp",
        "prior",
        "random",
        "halide",
        "treegru",
        "mine",
    )
