"""The analytic prior as a cost model: it learns nothing, and is always ready."""

from __future__ import annotations

from pathlib import Path

from tensorsmith.backends.cpu.features.batch import FeatureRows
from tensorsmith.learn.models.file import read, write
from tensorsmith.learn.models.model import Array, Samples


class PriorModel:
    """The prior's speed."""

    kind = "prior"

    def predict(self, given: FeatureRows, base: Array) -> Array:
        return base

    def update(self, samples: Samples) -> None:
        pass

    def ready(self) -> bool:
        return True

    def fork(self, seed: int = 0) -> PriorModel:
        return PriorModel()

    def save(self, path: str | Path) -> None:
        write(path, self.kind, {})

    @staticmethod
    def load(path: str | Path) -> PriorModel:
        read(path, PriorModel.kind)
        return PriorModel()
