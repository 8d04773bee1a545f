"""A GGUF file as a network: sizes from its values, weights by its names, which are ours."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from tensorsmith.errors import UserError
from tensorsmith.language.architecture import Architecture, check_layers, check_sizes
from tensorsmith.language.families import Family, by_architecture
from tensorsmith.language.gguf import GgufFile
from tensorsmith.language.parts import apart
from tensorsmith.language.rotary import Rotary, rotary, scaled_by
from tensorsmith.language.weight import Weight

_MISSING = object()
#: what a file holds for rotaries; not weights of a layer
_FACTORS = ("rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight")


def network_of(file: GgufFile) -> tuple[Architecture, dict[str, Weight]]:
    """Sizes and weights. Raises `UserError` for families that are not known, and for what does not fit together."""
    if file.metadata.get("split.count", 1) not in (0, 1):
        raise UserError(f"{file.path} is one of {file.metadata['split.count']} parts; files in parts are not read: join them first")
    family = by_architecture(file.metadata.get("general.architecture"), str(file.path))
    about = _Values(file, family).network()
    weights = {_own_name(name): weight for name, weight in file.tensors.items() if name not in _FACTORS}
    if family.name == "Phi-3":
        weights = {n.replace("ffn_up", "ffn_gate_up"): w for n, w in weights.items()}
    weights = apart(weights, about.heads * about.head, about.key_heads * about.head, about.inner)
    found = about.checked(weights, str(file.path))
    if family.paired_rows and about.head % 2:
        raise UserError(f"{file.path}: heads have {about.head} numbers, which are no pairs")
    if family.paired_rows:
        for name, weight in found.items():
            if heads := about.heads if ".attn_q." in name else about.key_heads if ".attn_k." in name else 0:
                found[name] = weight.reordered(_halves_first(heads, about.head))
    return about, found


def ends_of(file: GgufFile) -> list[object]:
    """The tokens that end a text."""
    return [file.metadata.get(f"tokenizer.ggml.{key}_token_id") for key in ("eos", "eot")]


def special_of(file: GgufFile) -> dict[str, str]:
    """The names of the tokens that templates name."""
    names, found = file.metadata.get("tokenizer.ggml.tokens", []), {}
    for name in ("bos", "eos"):
        number = file.metadata.get(f"tokenizer.ggml.{name}_token_id")
        known = isinstance(names, list) and isinstance(number, int) and 0 <= number < len(names)
        found[f"{name}_token"] = str(names[number]) if known and number is not None else ""
    return found


def _own_name(name: str) -> str:
    """Two files' words for one weight."""
    return re.sub(r"\.attn_output_norm\.", ".post_attention_norm.", name)


def _halves_first(heads: int, head: int) -> list[int]:
    """Rows of heads whose neighbours are turned together, so that row i and row i + head / 2 are."""
    rows = np.arange(heads * head).reshape(heads, head // 2, 2)
    return [int(n) for n in rows.swapaxes(1, 2).reshape(-1)]


class _Values:
    """The values of a file under the name of its architecture."""

    def __init__(self, file: GgufFile, family: Family) -> None:
        self.metadata, self.family, self.source = file.metadata, family, str(file.path)
        self.tensors: Mapping[str, Weight] = file.tensors
        self.prefix = str(file.metadata["general.architecture"])

    def get(self, name: str, default: Any = None) -> Any:
        return self.metadata.get(f"{self.prefix}.{name}", default)

    def number(self, name: str, default: Any = _MISSING) -> float:
        found = self.get(name, default)
        if found is _MISSING:
            raise UserError(f"{self.source} lacks {self.prefix}.{name}")
        if not isinstance(found, (int, float)) or isinstance(found, bool) or not math.isfinite(found):
            raise UserError(f"{self.source}: {self.prefix}.{name} is {str(found)[:60]!r}; one number is expected")
        return found

    def size(self, name: str, default: Any = _MISSING) -> int:
        found = int(self.number(name, default))
        check_sizes({f"{self.prefix}.{name}": found}, self.source)
        return found

    def network(self) -> Architecture:
        family, width, heads = self.family, self.size("embedding_length"), self.size("attention.head_count")
        key_heads = self.size("attention.head_count_kv", heads)
        if heads % key_heads:
            raise UserError(f"{self.source}: {heads} heads of queries do not share {key_heads} of keys evenly")
        head = self.size("attention.key_length", width // heads)
        if self.size("attention.value_length", head) != head:
            raise UserError(f"{self.source}: heads of keys and values differ in size, which is not supported")
        layers, window = self.size("block_count"), self.get("attention.sliding_window")
        check_layers(layers, self.source)
        kind = "layer_norm_epsilon" if family.centred else "layer_norm_rms_epsilon"
        embedding = self.tensors.get("token_embd.weight")
        vocabulary = embedding.shape[0] if embedding is not None else self.size("vocab_size")
        return Architecture(
            family.name,
            vocabulary,
            width,
            heads,
            key_heads,
            head,
            self.size("feed_forward_length"),
            self.size("context_length"),
            tuple(family.windows(layers, self.size("attention.sliding_window") if window else None) if window else [None] * layers),
            float(self.number(f"attention.{kind}")),
            float(self.number("attention.scale", head**-0.5)),
            family.activation,
            family.gated,
            family.centred,
            family.query_norms,
            family.after_norms,
            float(width) ** 0.5 if family.scaled_embedding else 1.0,
            self.cap("attn_logit_softcapping"),
            self.cap("final_logit_softcapping"),
            *self.rotaries(head),
        )

    def cap(self, name: str) -> float | None:
        return float(self.number(name)) or None if self.get(name) is not None else None

    def rotaries(self, head: int) -> tuple[Rotary | None, Rotary | None]:
        if self.family.centred:
            return None, None
        pairs, base = self.size("rope.dimension_count", head) // 2, float(self.number("rope.freq_base", 10_000.0))
        context = self.size("context_length")
        scaling: dict[str, Any] = {"rope_type": self.get("rope.scaling.type", "default")}
        if scaling["rope_type"] in ("none", "default"):
            scaling = {}
        else:
            scaling["factor"] = self.number("rope.scaling.factor", 1.0)
            original = self.get("rope.scaling.original_context_length")
            scaling |= {} if original is None else {"original_max_position_embeddings": original}
        if (tables := self.factors("rope_factors_short", pairs)) is not None:
            scaling = {
                "rope_type": "longrope",
                "short_factor": tables,
                "long_factor": self.factors("rope_factors_long", pairs),
                "original_max_position_embeddings": self.number("rope.scaling.original_context_length", context),
                "attention_factor": self.number("rope.scaling.attn_factor", 1.0),
            }
        full = rotary(pairs, base, context, scaling)
        if (table := self.factors("rope_freqs", pairs)) is not None:
            full = Rotary(scaled_by(full.frequencies, table), full.factor)
        local = self.family.local_base
        return full, None if local is None else rotary(pairs, float(self.number("rope.local.freq_base", local)), context, {})

    def factors(self, name: str, pairs: int) -> np.ndarray | None:
        weight = self.tensors.get(f"{name}.weight")
        if weight is not None and weight.shape != (pairs,):
            raise UserError(f"{self.source}: {name} is {list(weight.shape)}; there are {pairs} pairs")
        return None if weight is None else weight.array()
