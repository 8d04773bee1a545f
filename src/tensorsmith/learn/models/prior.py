"""The analytic prior as a cost model: it learns nothing, and is always ready."""

from __future__ import annotations

from pathlib import Path

from tensorsmith.learn.features.rows import FeatureRows
from tensorsmith.learn.features.schema import Schema
from tensorsmith.learn.models.file import read, write
from tensorsmith.learn.models.model import Array, Samples
from tensorsmith.show.line import line


class PriorModel:
    """The prior's speed."""

    kind = "prior"

    def __repr__(self) -> str:
        return line(self, "of the backend")

    def predict(self, given: FeatureRows, base: Array) -> Array:
        return base

    def update(self, samples: Samples) -> None:
        pass

    def ready(self) -> bool:
        return True

    def fork(self, seed: int = 0) -> PriorModel:
        return PriorModel()

    def save(self, path: str | Path, schema: Schema) -> None:
        write(path, schema, self.kind, {})

    @staticmethod
    def load(path: str | Path, schema: Schema) -> PriorModel:
        read(path, schema, PriorModel.kind)
        return PriorModel()
