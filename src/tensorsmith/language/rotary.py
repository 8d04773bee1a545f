"""Rotary position embeddings: pairs of a head's numbers are turned by an angle that grows with the token's place.

All kinds are a table of frequencies and a factor on cosine and sine; "longrope" has two tables, chosen by the length.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorsmith.errors import UserError
from tensorsmith.lang.dtypes import Array


@dataclass(frozen=True)
class Rotary:
    """Radians per place of each pair: numbers i and i + len(frequencies) of a head are a pair, the rest of it stays."""

    frequencies: Array
    factor: float = 1.0
    long: Rotary | None = None  # used where more than `original` places are
    original: int = 0

    def is_long(self, length: int) -> bool:
        """Whether a sequence of so many tokens is turned by the frequencies of long ones, all of its tokens."""
        return self.long is not None and length > self.original

    def tables(self, places: Array, long: bool = False) -> tuple[Array, Array]:
        """Cosine and sine (places, pairs) for the tokens at some places."""
        if long and self.long is not None:
            return self.long.tables(places)
        angles = places.astype(np.float32)[:, None] * self.frequencies
        return np.cos(angles) * np.float32(self.factor), np.sin(angles) * np.float32(self.factor)


def rotary(pairs: int, base: float, context: int, scaling: Mapping[str, Any]) -> Rotary:
    """The rotary of a base and of a kind of scaling, in the words of `config.json`; `context` is what the model was made for."""
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if not isinstance(kind, str) or kind not in _KINDS:
        raise UserError(f"rope_type is {kind!r}; known are {', '.join(_KINDS)}")
    if not 0 < base < math.inf:
        raise UserError(f"rope_theta is {base}; it has to be positive")
    plain = (1.0 / np.float32(base) ** (np.arange(pairs, dtype=np.float32) / np.float32(pairs))).astype(np.float32)
    try:
        return _KINDS[kind](plain, base, context, scaling)
    except (KeyError, TypeError, ZeroDivisionError, OverflowError) as problem:
        raise UserError(f"rope_type {kind!r} needs {problem}, which the file does not give as a number") from problem


def scaled_by(frequencies: Array, factors: Array) -> Array:
    """Frequencies divided one by one, as a file with a table of factors wants it."""
    return (frequencies / factors).astype(np.float32)


def _default(plain: Array, base: float, context: int, scaling: Mapping[str, Any]) -> Rotary:
    return Rotary(plain)


def _linear(plain: Array, base: float, context: int, scaling: Mapping[str, Any]) -> Rotary:
    return Rotary(scaled_by(plain, np.float32(scaling["factor"])))


def _llama3(plain: Array, base: float, context: int, scaling: Mapping[str, Any]) -> Rotary:
    """Long waves are stretched by the factor, short ones are not, those between them in part."""
    factor, low, high = (float(scaling[key]) for key in ("factor", "low_freq_factor", "high_freq_factor"))
    turns = float(scaling["original_max_position_embeddings"]) * plain / (2 * math.pi)
    share = np.clip((turns - low) / (high - low), 0, 1)
    return Rotary((plain * (share + (1 - share) / factor)).astype(np.float32))


def _yarn(plain: Array, base: float, context: int, scaling: Mapping[str, Any]) -> Rotary:
    """Pairs that turn often in the original context stay, those that turn less than once are stretched."""
    factor, pairs = float(scaling["factor"]), len(plain)
    original = float(scaling.get("original_max_position_embeddings") or context)
    ends = []
    for turns, whole in ((scaling.get("beta_fast") or 32, math.floor), (scaling.get("beta_slow") or 1, math.ceil)):
        pair = pairs * math.log(original / (turns * 2 * math.pi)) / math.log(base)
        ends.append(whole(pair) if scaling.get("truncate", True) else pair)
    first, last = max(ends[0], 0), min(ends[1], 2 * pairs - 1)
    stretched = np.clip((np.arange(pairs) - first) / max(last - first, 1e-3), 0, 1)
    return Rotary((plain * (1 - stretched + stretched / factor)).astype(np.float32), _yarn_factor(scaling, factor))


def _yarn_factor(scaling: Mapping[str, Any], factor: float) -> float:
    def growth(scale: float) -> float:
        return 0.1 * scale * math.log(factor) + 1 if factor > 1 else 1.0

    if scaling.get("attention_factor") is not None:
        return float(scaling["attention_factor"])
    if scaling.get("mscale") and scaling.get("mscale_all_dim"):
        return growth(float(scaling["mscale"])) / growth(float(scaling["mscale_all_dim"]))
    return growth(1.0)


def _longrope(plain: Array, base: float, context: int, scaling: Mapping[str, Any]) -> Rotary:
    original = int(scaling["original_max_position_embeddings"])
    factor = float(scaling.get("factor") or context / original)
    given = scaling.get("attention_factor")
    grown = 1.0 if factor <= 1 else math.sqrt(1 + math.log(factor) / math.log(original))
    share = float(given) if given is not None else grown
    tables = []
    for key in ("short_factor", "long_factor"):
        factors = np.asarray(scaling[key], np.float32)
        if factors.shape != plain.shape:
            raise UserError(f"{key} has {factors.size} numbers; there are {len(plain)} pairs")
        tables.append(scaled_by(plain, factors))
    return Rotary(tables[0], share, Rotary(tables[1], share), original)


_KINDS: dict[str, Callable[[Array, float, int, Mapping[str, Any]], Rotary]] = {
    "default": _default,
    "linear": _linear,
    "llama3": _llama3,
    "yarn": _yarn,
    "longrope": _longrope,
}
