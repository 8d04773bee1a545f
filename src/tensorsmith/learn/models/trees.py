"""The learned cost model: how good a candidate will be, from those that were measured.

The score of a program is the sum over its statements of what boosted trees say of each statement's features (the
paper's model), trained with one of three losses on the sum (`losses.py`). Higher is better.

The trees need not start from nothing. A *base* score per program, the logarithm of the prior's speed, is added to their
sum, so that they learn only what the prior has wrong (losses that are not on a logarithm leave the base out). And
a model that was loaded or forked is *kept*: every update grows new trees on top of those, which stay as they are, so what
was learned on other workloads is corrected by what is measured on this one, not forgotten. It carries over because a
throughput is always relative to the best of its own workload.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorsmith.errors import UserError, needed_for
from tensorsmith.learn.features.rows import FeatureRows
from tensorsmith.learn.features.schema import Schema
from tensorsmith.learn.models.file import read, write
from tensorsmith.learn.models.forest import Forest
from tensorsmith.learn.models.losses import LOSSES, OF_THROUGHPUTS, Loss
from tensorsmith.learn.models.model import Array, Samples
from tensorsmith.learn.models.stopping import STOPS, Stopping
from tensorsmith.show.line import line, many

if TYPE_CHECKING:
    import lightgbm

log = logging.getLogger(__name__)

#: LightGBM counts the rows of a leaf by the sum of their curvatures. Where most are tiny, an empty leaf may seem to have some, and
#: the library gives up. Wanting more of it in a leaf helps.
_LEAST_WEIGHTS = (1e-3, 1e-1, 1.0)


@dataclass(frozen=True)
class TreeSettings:
    """Knobs of the trees. Small ones and a low rate: at first there are some tens of samples, and their times are noisy."""

    loss: str = "rank"
    trees: int = 60
    leaves: int = 8
    rate: float = 0.05
    least_in_leaf: int = 8  # rows, or a quarter of all where these are fewer than four times as many
    features: float = 0.5  # share of the features a tree looks at: they are many and alike
    warm: int = 12  # programs that ran, from which on something can be learned
    seed: int = 0
    threads: int = 1
    depth: int = 0  # of a tree; 0: the leaves alone limit it
    gain: float = 0.0  # that a split has to bring
    l2: float = 0.0  # that the values of leaves are held down by
    least_weight: float = 0.0  # the sum of curvatures in a leaf
    stop: str = ""  # "error" or "recall" (`stopping.py`): when the samples are told apart no better; else after all trees
    patience: int = 50  # rounds until then
    best: int = 64  # programs that recall is about
    margin: bool = False  # bases are scores of other trees, and added whatever the loss


class TreeModel:
    """Boosted trees on statements; see the module's text."""

    kind = "trees"

    def __init__(self, settings: TreeSettings = TreeSettings()) -> None:
        if settings.loss not in LOSSES:
            raise UserError(f"unknown loss {settings.loss!r}; known are {', '.join(LOSSES)}")
        if settings.stop not in STOPS:
            raise UserError(f"unknown way to stop {settings.stop!r}; known are {', '.join(STOPS[1:])}")
        self.settings = settings
        self.booster: lightgbm.Booster | None = None  # all trees: those kept, then those of the last update
        self.kept: lightgbm.Booster | None = None  # the trees that it began with
        self._forest: tuple[lightgbm.Booster, Forest] | None = None

    def __repr__(self) -> str:
        trees = "nothing learned yet" if self.booster is None else many(self.booster.num_trees(), "tree")
        return line(self, f"by {self.settings.loss}: {trees}")

    @property
    def adds_to_base(self) -> bool:
        """Whether scores are on the scale of the base, the logarithm of a speed."""
        return self.settings.margin or self.settings.loss not in OF_THROUGHPUTS

    def update(self, samples: Samples) -> None:
        """Learns from all samples given, instead of those of the last update; what the model began with is built upon."""
        if sum(t > 0 for t in samples.throughput) < self.settings.warm:
            return
        rows = np.concatenate(samples.rows)
        if not np.ptp(rows, axis=0).any():  # nothing to tell programs apart by; the library would give up
            self.booster = self.kept
            return
        lightgbm = _library()
        for least in (self.settings.least_weight, *_LEAST_WEIGHTS):
            try:
                self.booster = self._grown(samples, rows, least)
                return
            except lightgbm.basic.LightGBMError as problem:
                log.info("trees with curvatures of %g or more in a leaf are given up: %s", least, str(problem).splitlines()[0])
        self.booster = self.kept

    def _grown(self, samples: Samples, rows: Array, least_weight: float) -> lightgbm.Booster:
        pack = np.repeat(np.arange(len(samples)), [len(r) for r in samples.rows])
        loss = Loss(self.settings.loss, pack, samples, self.settings.seed, self.adds_to_base)
        lightgbm = _library()
        data = lightgbm.Dataset(rows, label=np.zeros(len(pack)), free_raw_data=True)
        stopping = Stopping(self.settings.stop, loss.wanted, self.settings.patience, self.settings.best)

        def gradient(predictions: Array, data: Any) -> tuple[Array, Array]:
            stopping.look(loss.total(predictions))
            return loss.gradient(predictions, data)

        def end(env: Any) -> None:
            if stopping.over:
                raise lightgbm.callback.EarlyStopException(env.iteration, [])

        parameters = {
            "objective": gradient,
            "num_leaves": self.settings.leaves,
            "max_depth": self.settings.depth or -1,
            "min_gain_to_split": self.settings.gain,
            "lambda_l2": self.settings.l2,
            "learning_rate": self.settings.rate,
            "min_data_in_leaf": max(1, min(self.settings.least_in_leaf, len(rows) // 4)),
            "feature_pre_filter": False,
            "min_sum_hessian_in_leaf": least_weight,
            "feature_fraction": self.settings.features,
            "seed": self.settings.seed,
            "num_threads": self.settings.threads,
            "deterministic": True,
            "force_row_wise": True,
            "verbosity": -1,
        }
        return lightgbm.train(parameters, data, num_boost_round=self.settings.trees, init_model=self.kept, callbacks=[end])

    def predict(self, given: FeatureRows | Array, base: Array | float = 0.0) -> Array:
        """Scores of programs: of a population's rows, or of features [programs, statements, features]; and their base scores."""
        if self.booster is None:
            raise UserError("this model has not learned anything yet; call update() or load()")
        rows = given.values if isinstance(given, FeatureRows) else given.reshape(-1, given.shape[-1])
        scores = self._trees(self.booster).predict(rows.T)
        total = given.total(scores) if isinstance(given, FeatureRows) else scores.reshape(given.shape[:2]).sum(axis=1)
        return total + base if self.adds_to_base else total

    def ready(self) -> bool:
        return self.booster is not None

    def fork(self, seed: int = 0) -> TreeModel:
        new = type(self)(self.settings)
        new.kept = new.booster = self.booster
        new._forest = self._forest
        return new

    def _trees(self, booster: lightgbm.Booster) -> Forest:
        """The trees in the form that answers fastest, made when they are first asked."""
        if self._forest is None or self._forest[0] is not booster:
            self._forest = booster, Forest(booster.model_to_string())
        return self._forest[1]

    def save(self, path: str | Path, schema: Schema) -> None:
        """Writes all trees as text, with the features they were learned on."""
        text = self.text()
        write(path, schema, self.kind, {"loss": self.settings.loss, "trees": text.count("\nTree=")}, text)

    def text(self) -> str:
        """All trees, as their library writes them."""
        if self.booster is None:
            raise UserError("there is nothing to save: this model has not learned anything yet")
        return str(self.booster.model_to_string())

    @classmethod
    def load(cls, path: str | Path, schema: Schema, settings: TreeSettings | None = None) -> TreeModel:
        """The inverse of `save`; refuses trees learned on other features, or with another loss than that of the settings."""
        head, text = read(path, schema, cls.kind)
        loss = head.get("loss")
        if loss not in LOSSES:
            raise UserError(f"{path}: the header names the loss {loss!r}; known are {', '.join(LOSSES)}")
        if settings is not None and settings.loss != loss:
            raise UserError(f"{path} was learned with the loss {loss!r}, and {settings.loss!r} is wanted; the two do not add up")
        model = cls.of_text(path, text, settings or replace(cls().settings, loss=loss))
        features = model.kept.num_feature() if model.kept is not None else 0
        if features != len(schema):
            raise UserError(f"{path} is damaged: its trees are on {features} features, there are {len(schema)}")
        return model

    @classmethod
    def of_text(cls, path: str | Path, text: str, settings: TreeSettings) -> TreeModel:
        """Trees by their text, which is that of the file `path`."""
        lightgbm = _library()
        model = cls(settings)
        try:
            model.kept = model.booster = lightgbm.Booster(model_str=text)
        except (lightgbm.basic.LightGBMError, ValueError) as problem:
            raise UserError(f"{path} is damaged: {problem}") from problem
        return model


def _library() -> Any:
    """LightGBM, imported when it is first needed: it takes a third of a second, and measuring workers never need it."""
    with needed_for("tuning with the cost model trees"):
        import lightgbm

    return lightgbm
