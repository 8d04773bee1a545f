"""A cost model of one's own: ridge regression on the features, in NumPy. It learns what the prior has wrong.

python examples/cost_model_ridge.py
tensorsmith tune GMM-1-b1 --model examples/cost_model_ridge.py:Ridge
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

import tensorsmith as ts
from tensorsmith.learn.features.rows import FeatureRows
from tensorsmith.learn.features.schema import Schema
from tensorsmith.learn.models.file import read, write
from tensorsmith.learn.models.model import Array, Samples

STRENGTH = 10.0  # of the pull towards the weights that it began with
LEAST = 12  # programs that ran before it is believed
SLOWEST = 0.02  # throughput below which programs are all just slow


class Ridge:
    """The score of a program: the prior's, plus a weighted sum of the features of all its statements."""

    kind = "ridge"

    def __init__(self) -> None:
        self.began_with: Array | None = None
        self.weights: Array | None = None  # None: nothing was learned yet

    def predict(self, given: FeatureRows, base: Array) -> Array:
        return np.asarray(base + given.total(given.values @ self.weights))

    def update(self, samples: Samples) -> None:
        if sum(t > 0 for t in samples.throughput) < LEAST:
            return
        x = np.stack([rows.sum(axis=0) for rows in samples.rows]).astype(float)
        y = np.log2(np.maximum(samples.throughput, SLOWEST)) - samples.base
        _, group = np.unique(samples.group, return_inverse=True)
        for g in range(group.max() + 1):  # only differences within a workload count
            x[group == g] -= x[group == g].mean(axis=0)
            y[group == g] -= y[group == g].mean()
        scale = x.std(axis=0) + 1e-6
        start = np.zeros(x.shape[1]) if self.began_with is None else self.began_with
        x /= scale
        pulled = np.linalg.solve(x.T @ x + STRENGTH * np.eye(x.shape[1]), x.T @ (y - x @ (start * scale)))
        self.weights = start + pulled / scale

    def ready(self) -> bool:
        return self.weights is not None

    def fork(self, seed: int = 0) -> Ridge:
        new = Ridge()
        new.began_with = new.weights = self.weights
        return new

    def save(self, path: str | Path, schema: Schema) -> None:
        write(path, schema, self.kind, {}, json.dumps(None if self.weights is None else self.weights.tolist()))

    @staticmethod
    def load(path: str | Path, schema: Schema) -> Ridge:
        new, weights = Ridge(), json.loads(read(path, schema, Ridge.kind)[1])
        new.began_with = new.weights = None if weights is None else np.array(weights)
        return new


if __name__ == "__main__":
    A, B, k = ts.placeholder((128, 128), name="A"), ts.placeholder((128, 128), name="B"), ts.reduce_axis(128, name="k")
    C = ts.compute((128, 128), lambda i, j: ts.sum(A[i, k] * B[k, j], axis=k), name="C")
    print(ts.tune([A, B, C], trials=32, model=Ridge).benchmark())
