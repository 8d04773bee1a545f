"""Cost models: how good a candidate will be, learned from those that were measured.

The score of a program is the sum over its statements of what boosted trees say of each statement's features (the
paper's model). Higher is better. Three losses, all on the sum:

    paper   squared error of the normalised throughput, weighted by it: what is slow hardly matters
    log     squared error of the logarithm of the throughput: every factor counts the same
    rank    logistic loss over pairs of programs of one workload: which is faster, and by what factor

The trees need not start from nothing: a *base* score per program, the logarithm of the prior's speed, is added to their
sum, so that they learn only what the prior has wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorsmith.errors import UserError
from tensorsmith.learn.schema import SCHEMA_VERSION

if TYPE_CHECKING:
    import lightgbm

Array = np.ndarray[Any, np.dtype[Any]]

LOSSES = ("paper", "log", "rank")


@dataclass(frozen=True)
class ModelSettings:
    """Knobs of the trees. Few leaves and a low rate suit the hundreds of samples there are at first."""

    loss: str = "rank"
    trees: int = 100
    leaves: int = 31
    rate: float = 0.1
    least_in_leaf: int = 3  # rows; programs are few and each has only some rows
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

    def __init__(self, settings: ModelSettings = ModelSettings()) -> None:  # noqa: B008  frozen
        if settings.loss not in LOSSES:
            raise UserError(f"unknown loss {settings.loss!r}; known are {', '.join(LOSSES)}")
        self.settings = settings
        self.booster: lightgbm.Booster | None = None

    def fit(self, samples: Samples) -> None:
        """Learns from all samples given, forgetting what it knew."""
        counts = np.array([len(r) for r in samples.rows])
        pack = np.repeat(np.arange(len(samples)), counts)
        loss = _Loss(self.settings.loss, pack, samples, self.settings.seed)
        lightgbm = _library()
        data = lightgbm.Dataset(np.concatenate(samples.rows), label=np.zeros(len(pack)), free_raw_data=True)
        parameters = {
            "objective": loss.gradient,
            "num_leaves": self.settings.leaves,
            "learning_rate": self.settings.rate,
            "min_data_in_leaf": self.settings.least_in_leaf,
            "min_sum_hessian_in_leaf": 0.0,
            "feature_fraction": self.settings.features,
            "seed": self.settings.seed,
            "num_threads": self.settings.threads,
            "deterministic": True,
            "force_row_wise": True,
            "verbosity": -1,
        }
        self.booster = lightgbm.train(parameters, data, num_boost_round=self.settings.trees)

    def predict(self, values: Array, base: Array | float = 0.0) -> Array:
        """Scores of programs of one structure, from their features [programs, statements, features] and base scores."""
        if self.booster is None:
            raise UserError("this model has not learned anything yet; call fit() or load()")
        programs, statements, features = values.shape
        rows = values.reshape(programs * statements, features)
        scores = self.booster.predict(rows, num_threads=self.settings.threads)
        return np.asarray(scores).reshape(programs, statements).sum(axis=1) + base

    def save(self, path: str | Path) -> None:
        """Writes the trees as text, with the version of the features they were learned on."""
        if self.booster is None:
            raise UserError("there is nothing to save: this model has not learned anything yet")
        Path(path).write_text(f"tensorsmith-model features={SCHEMA_VERSION}\n{self.booster.model_to_string()}")

    @staticmethod
    def load(path: str | Path, settings: ModelSettings = ModelSettings()) -> TreeModel:  # noqa: B008  frozen
        """The inverse of `save`; refuses trees learned on other features."""
        try:
            head, _, text = Path(path).read_text().partition("\n")
        except OSError as problem:
            raise UserError(f"cannot read the model {path}: {problem}") from problem
        if head != f"tensorsmith-model features={SCHEMA_VERSION}":
            raise UserError(f"{path} is no model for version {SCHEMA_VERSION} of the features; its first line is {head[:60]!r}")
        model = TreeModel(settings)
        lightgbm = _library()
        try:
            model.booster = lightgbm.Booster(model_str=text)
        except lightgbm.basic.LightGBMError as problem:
            raise UserError(f"{path} is damaged: {problem}") from problem
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

    def __init__(self, kind: str, pack: Array, samples: Samples, seed: int) -> None:
        self.kind, self.pack = kind, pack
        self.throughput = np.array(samples.throughput)
        self.base = np.array(samples.base)
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
