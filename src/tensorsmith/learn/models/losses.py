"""What the trees minimise: losses on the sum over a program's statements.

paper        squared error of the normalised throughput, weighted by it: what is slow hardly matters (Ansor's)
log          squared error of the logarithm of the throughput: every factor counts the same
rank         logistic loss over pairs of programs of one workload: which is faster, and by what factor
regression   squared error of the normalised throughput (AutoTVM's)
pairs        logistic loss over pairs of programs of one workload: which is faster (AutoTVM's other one)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tensorsmith.learn.models.model import Array, Samples

LOSSES = ("paper", "log", "rank", "regression", "pairs")
OF_THROUGHPUTS = ("paper", "regression")  # scores are throughputs, not logarithms of them


def _group_numbers(groups: Sequence[str]) -> Array:
    return np.unique(np.asarray(groups), return_inverse=True)[1]


class Loss:
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

    def total(self, predictions: Array) -> Array:
        """The scores of programs, of those of their statements."""
        return np.asarray(self.base + np.bincount(self.pack, weights=predictions, minlength=len(self.throughput)))

    @property
    def wanted(self) -> Array:
        """What scores should be; of losses over pairs only the order counts."""
        return self.throughput if self.kind in OF_THROUGHPUTS else self.log

    def gradient(self, predictions: Array, _: Any) -> tuple[Array, Array]:
        slope, curve = self.slope(self.total(predictions))
        return slope[self.pack], curve[self.pack]

    def slope(self, total: Array) -> tuple[Array, Array]:
        """By program: the first and the second derivative of the loss, at those scores."""
        if self.kind == "paper":
            weight = np.maximum(self.throughput, 1e-3)
            slope, curve = weight * (total - self.throughput), weight
        elif self.kind == "log":
            slope, curve = total - self.log, np.ones_like(total)
        elif self.kind == "regression":
            slope, curve = total - self.throughput, np.ones_like(total)
        else:
            slope, curve = self._pairs(total)
        return slope, curve

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
            is_so = _logistic(total[mine] - total[others])
            if self.kind == "pairs":  # which is faster, not by what factor
                weight = np.ones(others.shape)
                should = (np.sign(self.throughput[mine] - self.throughput[others]) + 1) / 2
            else:
                weight = np.maximum(self.throughput[mine], self.throughput[others])
                should = _logistic(self.log[mine] - self.log[others])
            slope[members] += (weight * (is_so - should)).mean(axis=1)
            curve[members] += (weight * is_so * (1 - is_so)).mean(axis=1)
        return slope, curve


def _logistic(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-np.clip(x, -30, 30))))
