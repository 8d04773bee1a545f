"""Cost models behind one interface, by kind.

trees    boosted trees that correct the prior (`graph/model.py`)
prior    the analytic prior alone: learns nothing
random   a random score: what a search is without a model, for comparison
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import numpy as np

from tensorsmith.errors import UserError
from tensorsmith.learn.features.rows import FeatureRows
from tensorsmith.learn.features.schema import Schema
from tensorsmith.learn.models.file import read, write
from tensorsmith.learn.models.trees import Array, ModelSettings, Samples, TreeModel


class CostModel(Protocol):
    """What a policy asks of a model. Scores of programs of one workload can be compared, higher is better."""

    @property
    def kind(self) -> str:
        """Its name in `KINDS`."""

    def predict(self, given: FeatureRows, base: Array) -> Array:
        """A score per program; `base` is the logarithm of the speed that the prior gives each."""

    def update(self, samples: Samples) -> None:
        """Learns from everything measured so far; programs that failed have the throughput 0."""

    def save(self, path: str | Path, schema: Schema) -> None:
        """Writes a file that `load_model` reads; `schema` is of the features that it learned on."""


class PriorModel:
    """The prior's speed."""

    kind = "prior"

    def predict(self, given: FeatureRows, base: Array) -> Array:
        return base

    def update(self, samples: Samples) -> None:
        pass

    def save(self, path: str | Path, schema: Schema) -> None:
        write(path, schema, self.kind, {})


class RandomModel:
    """Any order. A program's score is drawn anew each time that it is asked for."""

    kind = "random"

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self._rng = np.random.default_rng(seed)

    def predict(self, given: FeatureRows, base: Array) -> Array:
        return self._rng.random(given.candidates)

    def update(self, samples: Samples) -> None:
        pass

    def save(self, path: str | Path, schema: Schema) -> None:
        write(path, schema, self.kind, {"seed": self.seed})


KINDS = (TreeModel.kind, PriorModel.kind, RandomModel.kind)


def make_model(kind: str, settings: ModelSettings, seed: int = 0) -> CostModel:
    """A model that has learned nothing yet."""
    if kind == TreeModel.kind:
        return TreeModel(settings)
    if kind == PriorModel.kind:
        return PriorModel()
    if kind == RandomModel.kind:
        return RandomModel(seed)
    raise UserError(f"unknown cost model {kind!r}; known are {', '.join(KINDS)}")


def load_model(path: str | Path, schema: Schema) -> CostModel:
    """The model that was saved, of whatever kind."""
    head, _ = read(path, schema)
    if head.get("kind") == TreeModel.kind:
        return TreeModel.load(path, schema)
    seed = head.get("seed", 0)
    if not isinstance(seed, int):
        raise UserError(f"{path}: the seed is {seed!r}, not a whole number")
    return make_model(str(head.get("kind")), ModelSettings(), seed)
