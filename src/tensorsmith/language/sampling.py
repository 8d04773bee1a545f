"""How the next token is chosen from its logits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tensorsmith.errors import UserError
from tensorsmith.lang.dtypes import Array


@dataclass(frozen=True)
class Sampling:
    """In this order: the repetition penalty divides positive logits of tokens that were there and multiplies negative ones, the
    temperature divides all, and what is left is the `top_k` most likely, then the fewest that have `top_p` of the probability, then
    those with `min_p` of the most likely one's. Temperature 0 takes the most likely token (of equal ones, the first)."""

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0

    def __post_init__(self) -> None:
        _between("temperature", self.temperature, 0, math.inf)
        _between("top_p", self.top_p, 0, 1)
        _between("min_p", self.min_p, 0, 1)
        _between("repetition_penalty", self.repetition_penalty, 1e-3, 1e3)
        if self.top_k is not None and (isinstance(self.top_k, bool) or not isinstance(self.top_k, int) or self.top_k < 1):
            raise UserError(f"top_k is {self.top_k!r}; give a positive number, or None for all tokens")

    def choose(self, logits: Array, before: Sequence[int], random: np.random.Generator) -> int:
        """The next token behind those `before`."""
        if not np.isfinite(logits).any():
            raise UserError("the network gives no finite score for any token: its weights, or their format, are broken")
        if self.repetition_penalty != 1 and len(before):
            logits = logits.copy()
            there = np.unique(np.asarray(before))
            own = logits[there]
            logits[there] = np.where(own > 0, own / self.repetition_penalty, own * self.repetition_penalty)
        if self.temperature == 0:
            return int(logits.argmax())
        return self._drawn(logits, random)

    def _drawn(self, logits: Array, random: np.random.Generator) -> int:
        scaled = logits.astype(np.float64) / self.temperature
        order = np.argsort(-scaled, kind="stable")[: self.top_k]
        shares = np.exp(scaled[order] - scaled[order[0]])
        shares /= shares.sum()
        kept = len(shares)
        if self.top_p < 1:
            kept = int(np.searchsorted(np.cumsum(shares), self.top_p)) + 1
        shares = shares[: max(kept, 1)]
        shares = shares[shares >= self.min_p * shares[0]]
        ends = np.cumsum(shares)
        return int(order[min(np.searchsorted(ends, random.random() * ends[-1], "right"), len(ends) - 1)])


def log_probability(logits: Array, token: int) -> float:
    """The logarithm of a token's probability, as the network gives it."""
    shifted = logits.astype(np.float64) - logits.max()
    return float(shifted[token] - np.log(np.exp(shifted).sum()))


def _between(name: str, given: object, low: float, high: float) -> None:
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not low <= given <= high:
        limit = f"from {low:g} to {high:g}" if high < math.inf else f"of {low:g} or more"
        raise UserError(f"{name} is {given!r}; give a number {limit}")
