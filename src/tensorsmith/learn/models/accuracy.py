"""How good the order of a model's scores is, on programs whose throughput is known."""

from __future__ import annotations

import numpy as np

from tensorsmith.learn.models.model import Array


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
