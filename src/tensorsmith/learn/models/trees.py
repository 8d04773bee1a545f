"""The learned cost model: how good a candidate will be, from those that were measured.

The score of a program is the sum over its statements of what boosted trees say of each statement's features (the
paper's model). Higher is better. Three losses, all on the sum:

    paper   squared error of the normalised throughput, weighted by it: what is slow hardly matters
    log     squared error of the logarithm of the throughput: every factor counts the same
    rank    logistic loss over pairs of programs of one workload: which is faster, and by what factor

The trees need not start from nothing. A *base* score per program, the logarithm of the prior's speed, is added to their
sum, so that they learn only what the prior has wrong (the paper's loss is not on a logarithm and leaves the base out). And
a model that was loaded is *kept*: every update grows new trees on top of the loaded ones, which stay as they are, so what
was learned on other workloads is corrected by what is measured on this one, not forgotten. It carries over because a
throughput is always relative to the best of its own workload.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorsmith.errors import UserError
from tensorsmith.learn.features.rows import FeatureRows
from tensorsmith.learn.features.schema import Schema
from tensorsmith.learn.models.file import read, write
from tensorsmith.learn.models.forest import Forest

if TYPE_CHECKING:
    import lightgbm

Array = np.ndarray[Any, np.dtype[Any]]

LOSSES = ("paper", "log", "rank")


@dataclass(frozen=True)
class ModelSettings:
    """Knobs of the trees. Small ones and a low rate: at first there are some tens of samples, and their times are noisy."""

    loss: str = "rank"
    trees: int = 60
    leaves: int = 8
    rate: float = 0.05
    least_in_leaf: int = 8  # rows, or a quarter of all where these are fewer than four times as many
    features: float = 0.5  # share of the features a tree looks at: they are many and alike
    seed: int = 0
    threads: int = 1


@dataclass
class Samples:
    """Measured programs: feature rows of all statements, which program each row is of, and per program its throughput and workload.

    A throughput is relative: the best time of the workload by the program's time, 0 for one that failed.
    """

    rows: list[Array] = field(default_factory=list)  # [statements, features] per program
    throughput: list[float] = field(default_factory=list)
    group: list[str] = field(default_factory=list)
    base: list[float] = field(default_factory=list)  # what is known of a program before the trees, in powers of two

    def add(self, rows: Array, throughput: float, group: str, base: float = 0.0) -> None:
        self.rows.append(np.asarray(rows, np.float32))
        self.throughput.append(float(throughput))
        self.group.append(group)
        self.base.append(float(base))

    def __len__(self) -> int:
        return len(self.rows)


class TreeModel:
    """Boosted trees on statements; see the module's text."""

    kind = "trees"

    def __init__(self, settings: ModelSettings = ModelSettings()) -> None:  # noqa: B008  frozen
        if settings.loss not in LOSSES:
            raise UserError(f"unknown loss {settings.loss!r}; known are {', '.join(LOSSES)}")
        self.settings = settings
        self.booster: lightgbm.Booster | None = None  # all trees: those kept, then those of the last update
        self.kept: lightgbm.Booster | None = None  # the trees that were loaded
        self._forest: tuple[lightgbm.Booster, Forest] | None = None

    @property
    def adds_to_base(self) -> bool:
        """Whether scores are on the scale of the base, the logarithm of a speed."""
        return self.settings.loss != "paper"

    def update(self, samples: Samples) -> None:
        """Learns from all samples given, instead of those of the last update; what was loaded is built upon."""
        if not len(samples):
            return
        rows = np.concatenate(samples.rows)
        if not np.ptp(rows, axis=0).any():  # nothing to tell programs apart by; the library would give up
            self.booster = self.kept
            return
        pack = np.repeat(np.arange(len(samples)), [len(r) for r in samples.rows])
        loss = _Loss(self.settings.loss, pack, samples, self.settings.seed, self.adds_to_base)
        lightgbm = _library()
        data = lightgbm.Dataset(rows, label=np.zeros(len(pack)), free_raw_data=True)
        parameters = {
            "objective": loss.gradient,
            "num_leaves": self.settings.leaves,
            "learning_rate": self.settings.rate,
            "min_data_in_leaf": max(1, min(self.settings.least_in_leaf, len(rows) // 4)),
            "feature_pre_filter": False,
            "min_sum_hessian_in_leaf": 0.0,
            "feature_fraction": self.settings.features,
            "seed": self.settings.seed,
            "num_threads": self.settings.threads,
            "deterministic": True,
            "force_row_wise": True,
            "verbosity": -1,
        }
        self.booster = lightgbm.train(parameters, data, num_boost_round=self.settings.trees, init_model=self.kept)

    def predict(self, given: FeatureRows | Array, base: Array | float = 0.0) -> Array:
        """Scores of programs: of a population's rows, or of features [programs, statements, features]; and their base scores."""
        if self.booster is None:
            raise UserError("this model has not learned anything yet; call update() or load()")
        rows = given.values if isinstance(given, FeatureRows) else given.reshape(-1, given.shape[-1])
        scores = self._trees(self.booster).predict(rows.T)
        total = given.total(scores) if isinstance(given, FeatureRows) else scores.reshape(given.shape[:2]).sum(axis=1)
        return total + base if self.adds_to_base else total

    def _trees(self, booster: lightgbm.Booster) -> Forest:
        """The trees in the form that answers fastest, made when they are first asked."""
        if self._forest is None or self._forest[0] is not booster:
            self._forest = booster, Forest(booster.model_to_string())
        return self._forest[1]

    def save(self, path: str | Path, schema: Schema) -> None:
        """Writes all trees as text, with the features they were learned on."""
        if self.booster is None:
            raise UserError("there is nothing to save: this model has not learned anything yet")
        write(
            path, schema, self.kind, {"loss": self.settings.loss, "trees": self.booster.num_trees()}, self.booster.model_to_string()
        )

    @staticmethod
    def load(path: str | Path, schema: Schema, settings: ModelSettings | None = None) -> TreeModel:
        """The inverse of `save`; refuses trees learned on other features, or with another loss than that of the settings."""
        head, text = read(path, schema, TreeModel.kind)
        loss = head.get("loss")
        if loss not in LOSSES:
            raise UserError(f"{path}: the header names the loss {loss!r}; known are {', '.join(LOSSES)}")
        if settings is not None and settings.loss != loss:
            raise UserError(f"{path} was learned with the loss {loss!r}, and {settings.loss!r} is wanted; the two do not add up")
        model = TreeModel(settings or replace(ModelSettings(), loss=loss))
        lightgbm = _library()
        try:
            model.kept = lightgbm.Booster(model_str=text)
        except (lightgbm.basic.LightGBMError, ValueError) as problem:
            raise UserError(f"{path} is damaged: {problem}") from problem
        if model.kept.num_feature() != len(schema):
            raise UserError(f"{path} is damaged: its trees are on {model.kept.num_feature()} features, there are {len(schema)}")
        model.booster = model.kept
        return model


def _library() -> Any:
    """LightGBM, imported when it is first needed: it takes a third of a second, and measuring workers never need it."""
    import lightgbm

    return lightgbm


def _group_numbers(groups: Sequence[str]) -> Array:
    return np.unique(np.asarray(groups), return_inverse=True)[1]


class _Loss:
    """Gradient and curvature of a loss on the sums over statements, handed to every statement of a program."""

    _PARTNERS = 64  # programs that each program is compared with, per tree
    _FLOOR = 0.02  # throughput below which programs are all just slow

    def __init__(self, kind: str, pack: Array, samples: Samples, seed: int, with_base: bool) -> None:
        self.kind, self.pack = kind, pack
        self.throughput = np.array(samples.throughput)
        self.base = np.array(samples.base) if with_base else np.zeros(len(samples))
        self.log = np.log2(np.maximum(self.throughput, self._FLOOR))
        self.rng = np.random.default_rng(seed)
        group = _group_numbers(samples.group)
        self.members = [np.flatnonzero(group == g) for g in range(int(group.max()) + 1)]

    def gradient(self, predictions: Array, _: Any) -> tuple[Array, Array]:
        total = self.base + np.bincount(self.pack, weights=predictions, minlength=len(self.throughput))
        if self.kind == "paper":
            weight = np.maximum(self.throughput, 1e-3)
            slope, curve = weight * (total - self.throughput), weight
        elif self.kind == "log":
            slope, curve = total - self.log, np.ones_like(total)
        else:
            slope, curve = self._pairs(total)
        return slope[self.pack], curve[self.pack]

    def _pairs(self, total: Array) -> tuple[Array, Array]:
        """Each program against some others of its workload: by how much is it better, weighted by how good the better one is.

        The wanted difference of two scores is that of the logarithms, so a pair that is right pulls no further.
        """
        slope, curve = np.zeros_like(total), np.full_like(total, 1e-3)
        for members in self.members:
            if len(members) < 2:
                continue
            others = members[self.rng.integers(0, len(members), (len(members), self._PARTNERS))]
            mine = members[:, None]
            weight = np.maximum(self.throughput[mine], self.throughput[others])
            is_so = _logistic(total[mine] - total[others])
            should = _logistic(self.log[mine] - self.log[others])
            slope[members] += (weight * (is_so - should)).mean(axis=1)
            curve[members] += (weight * is_so * (1 - is_so)).mean(axis=1)
        return slope, curve


def _logistic(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-np.clip(x, -30, 30))))


def pairwise_accuracy(score: Array, throughput: Array) -> float:
    """Share of pairs that the score puts in the right order."""
    first, second = np.triu_indices(len(score), 1)
    apart = throughput[first] != throughput[second]
    right = np.sign(score[first] - score[second]) == np.sign(throughput[first] - throughput[second])
    return float(right[apart].mean()) if apart.any() else 1.0


def recall(score: Array, throughput: Array, k: int) -> float:
    """Share of the k best programs that are among the k with the highest score."""
    k = min(k, len(score))
    return len(set(np.argsort(-score)[:k]) & set(np.argsort(-throughput)[:k])) / k


def r2(score: Array, throughput: Array) -> float:
    """The share of the throughput's variance that the score explains, after the best straight line through both."""
    if len(score) < 2 or np.ptp(score) == 0 or np.ptp(throughput) == 0:
        return 0.0
    return float(np.corrcoef(score, throughput)[0, 1] ** 2)
