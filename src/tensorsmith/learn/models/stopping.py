"""When to stop growing trees: as soon as the samples themselves are not told apart any better.

error    the root of the mean squared error of the scores (Ansor's and MetaSchedule's trees)
recall   how many of the best are found, averaged over how many are asked for (AutoTVM's trees)
"""

from __future__ import annotations

import numpy as np

from tensorsmith.learn.models.model import Array

STOPS = ("", "error", "recall")
_EVERY = 2  # rounds between two looks


class Stopping:
    """Looks at the scores of every second round; `over` when so many rounds brought nothing."""

    def __init__(self, kind: str, wanted: Array, patience: int, best: int) -> None:
        """`wanted`: the scores as they should be; `best`: programs that recall is about."""
        self.kind, self.wanted, self.patience, self.count = kind, wanted, patience, best
        self.round = 0
        self.best = -np.inf
        self.best_round = 0

    def look(self, scores: Array) -> None:
        """At the scores before another round."""
        if self.kind and self.round % _EVERY == 0:
            value = recall_curve(scores, self.wanted, self.count) if self.kind == "recall" else -rmse(scores, self.wanted)
            if value > self.best + 1e-6 * abs(value):
                self.best, self.best_round = value, self.round
        self.round += 1

    @property
    def over(self) -> bool:
        return bool(self.kind) and self.round - self.best_round > self.patience


def rmse(scores: Array, wanted: Array) -> float:
    return float(np.sqrt(np.mean((scores - wanted) ** 2)))


def recall_curve(scores: Array, wanted: Array, best: int) -> float:
    """AutoTVM's a-recall: the mean, over n = 1 ... best, of the share of the n best-scored that are among the n best."""
    best = min(best, len(scores))
    if not best:
        return 0.0
    rank = np.empty(len(wanted), np.int64)
    rank[np.argsort(-wanted, kind="stable")] = np.arange(len(wanted))
    top = rank[np.argsort(-scores, kind="stable")[:best]]
    ends = np.arange(best)
    found = (top[None, :] <= ends[:, None]) & (ends[None, :] <= ends[:, None])
    return float((found.sum(axis=1) / (ends + 1)).mean())
