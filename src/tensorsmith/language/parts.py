"""Matrices that a file holds as one, as those that the network knows."""

from __future__ import annotations

from collections.abc import Mapping

from tensorsmith.errors import UserError
from tensorsmith.language.weight import Weight


def apart(weights: Mapping[str, Weight], query: int, keys: int, inner: int) -> dict[str, Weight]:
    """Weights with query, key and value each for itself, and gate and up: rows `query`, `keys`, `keys`; twice `inner`."""
    splits = {
        "attn_qkv": {"attn_q": query, "attn_k": keys, "attn_v": keys},
        "ffn_gate_up": {"ffn_gate": inner, "ffn_up": inner},
    }
    found: dict[str, Weight] = {}
    for name, weight in weights.items():
        *front, middle, kind = name.split(".")
        if middle not in splits:
            found[name] = weight
            continue
        parts, at = splits[middle], 0
        if sum(parts.values()) != weight.shape[0]:
            raise UserError(f"{name} has {weight.shape[0]} rows; by the sizes in the file it has {sum(parts.values())}")
        for part, rows in parts.items():
            new = ".".join([*front, part, kind])
            found[new] = weight.part(at, at + rows, new)
            at += rows
    return found
