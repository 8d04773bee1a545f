"""A random order: what a search is without a model, for comparison."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tensorsmith.errors import UserError
from tensorsmith.learn.features.rows import FeatureRows
from tensorsmith.learn.features.schema import Schema
from tensorsmith.learn.models.file import read, write
from tensorsmith.learn.models.model import Array, Samples
from tensorsmith.show.line import line


class RandomModel:
    """A score that depends on a program's features and the seed, and says nothing about the program."""

    kind = "random"

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def __repr__(self) -> str:
        return line(self, f"of seed {self.seed}")

    def predict(self, given: FeatureRows, base: Array) -> Array:
        bits = np.ascontiguousarray(given.values, np.float32).view(np.uint32)
        odd = np.random.default_rng(self.seed).integers(0, 2**32, bits.shape[1], np.uint32) | np.uint32(1)
        mixed = (bits * odd).sum(axis=1, dtype=np.uint32)  # modulo 2**32
        mixed = (mixed ^ (mixed >> np.uint32(15))) * odd[0]
        return np.asarray(np.modf(given.total(mixed / 2.0**32))[0])

    def update(self, samples: Samples) -> None:
        pass

    def ready(self) -> bool:
        return True

    def fork(self, seed: int = 0) -> RandomModel:
        return RandomModel(seed)

    def save(self, path: str | Path, schema: Schema) -> None:
        write(path, schema, self.kind, {"seed": self.seed})

    @staticmethod
    def load(path: str | Path, schema: Schema) -> RandomModel:
        head, _ = read(path, schema, RandomModel.kind)
        seed = head.get("seed", 0)
        if not isinstance(seed, int):
            raise UserError(f"{path}: the seed is {seed!r}, not a whole number")
        return RandomModel(seed)
