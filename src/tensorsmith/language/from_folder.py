"""A folder of Hugging Face as a network: `config.json` and its safetensors files."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tensorsmith.errors import UserError
from tensorsmith.language.architecture import Architecture, check_layers, check_sizes
from tensorsmith.language.families import ACTIVATIONS, Family, by_model_type
from tensorsmith.language.parts import apart
from tensorsmith.language.rotary import Rotary, rotary
from tensorsmith.language.safetensors import read_folder
from tensorsmith.language.weight import Weight

#: buffers of modules that older files have among their weights
_BUFFERS = ("rotary_emb.inv_freq", ".attn.bias", ".attn.masked_bias")


def read_json(path: Path) -> dict[str, Any]:
    """A file of the folder that is a JSON object."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except OSError as problem:
        raise UserError(f"cannot read {path}: {problem.strerror or problem}") from problem
    except (ValueError, RecursionError) as problem:
        raise UserError(f"{path} is no JSON: {problem}") from problem
    if not isinstance(found, dict):
        raise UserError(f"{path} is no JSON object")
    return found


def network_of(folder: Path) -> tuple[Architecture, dict[str, Weight]]:
    """Sizes and weights. Raises `UserError` for families and kinds that are not known, and for what does not fit together."""
    config = read_json(folder / "config.json")
    source = str(folder / "config.json")
    family = by_model_type(config.get("model_type"), source)
    if config.get("quantization_config"):
        raise UserError(
            f"{source} has a quantization_config; safetensors are read in f32, f16 and bf16. GGUF files may be quantised"
        )
    found = _Config(config, family, source).network()
    weights = _named(read_folder(folder), family, found)
    if _tied(config, family):
        weights.pop("output.weight", None)
    elif "output.weight" not in weights:
        raise UserError(f"{folder} lacks lm_head.weight, and its config.json does not say tie_word_embeddings")
    return found, found.checked(weights, str(folder))


def _tied(config: Mapping[str, Any], family: Family) -> bool:
    return bool(config.get("tie_word_embeddings", family.tied))


class _Config:
    """`config.json` with its words for what a family calls otherwise."""

    def __init__(self, config: Mapping[str, Any], family: Family, source: str) -> None:
        self.config, self.family, self.source = config, family, source

    def get(self, name: str, default: Any = None) -> Any:
        found = self.config.get(self.family.renamed.get(name, name))
        return default if found is None else found

    def number(self, name: str, default: float | None = None) -> Any:
        found = self.get(name, default)
        if not isinstance(found, (int, float)) or isinstance(found, bool) or not math.isfinite(found):
            word = self.family.renamed.get(name, name)
            raise UserError(f"{self.source}: {word} is {found!r}; expected a number")
        return found

    def size(self, name: str, default: int | None = None) -> int:
        found = self.number(name, default)
        check_sizes({name: int(found)}, self.source)
        return int(found)

    def network(self) -> Architecture:
        family, heads, width = self.family, self.size("num_attention_heads"), self.size("hidden_size")
        key_heads = self.size("num_key_value_heads", heads)
        if heads % key_heads:
            raise UserError(f"{self.source}: {heads} heads of queries do not share {key_heads} of keys evenly")
        head = self.size("head_dim", width // heads)
        gemma = self.get("hidden_activation") if family.activation != "silu" else None
        activation = gemma or (self.get("hidden_act", family.activation) if not family.scaled_embedding else family.activation)
        if not isinstance(activation, str) or activation not in ACTIVATIONS:
            raise UserError(f"{self.source}: the activation is {activation!r}; known are {', '.join(ACTIVATIONS)}")
        check_layers(self.size("num_hidden_layers"), self.source)
        windows = self._windows(self.size("num_hidden_layers"))
        scalar = self.number("query_pre_attn_scalar", head) if family.query_scalar else head
        return Architecture(
            family.name,
            self.size("vocab_size"),
            width,
            heads,
            key_heads,
            head,
            self.size("intermediate_size", 4 * width if family.transposed else None),
            self.size("max_position_embeddings"),
            tuple(windows),
            float(self.number("rms_norm_eps", 1e-6 if not family.centred else 1e-5)),
            float(scalar) ** -0.5,
            activation,
            family.gated,
            family.centred,
            family.query_norms,
            family.after_norms,
            float(width) ** 0.5 if family.scaled_embedding else 1.0,
            self._cap("attn_logit_softcapping"),
            self._cap("final_logit_softcapping"),
            *self._rotaries(head),
        )

    def _cap(self, name: str) -> float | None:
        return None if self.get(name) is None else float(self.number(name))

    def _windows(self, layers: int) -> list[int | None]:
        window = self.get("sliding_window")
        if window is None or self.get("use_sliding_window") is False:
            return [None] * layers
        window = self.size("sliding_window")
        kinds = self.get("layer_types")
        if kinds is None:
            if self.get("use_sliding_window"):  # Qwen's first layers see everything
                full = int(self.number("max_window_layers", layers))
                return [None if n < full else window for n in range(layers)]
            return self.family.windows(layers, window)
        if (
            not isinstance(kinds, list)
            or len(kinds) != layers
            or any(k not in ("full_attention", "sliding_attention") for k in kinds)
        ):
            raise UserError(f"{self.source}: layer_types has to be full_attention or sliding_attention for each of {layers} layers")
        return [window if kind == "sliding_attention" else None for kind in kinds]

    def _rotaries(self, head: int) -> tuple[Rotary | None, Rotary | None]:
        """That of all layers, and another one of layers with a window."""
        if self.family.transposed:
            return None, None
        given = self._mapping("rope_parameters")
        base = self.number("rope_theta", 10_000.0)
        old = {"rope_theta": base, **self._mapping("rope_scaling")}
        local_base = self.get("rope_local_base_freq", self.family.local_base)
        if "full_attention" in given:
            return self._rotary(given["full_attention"], head), self._rotary(given.get("sliding_attention") or {}, head)
        full = self._rotary(given or old, head)
        return full, None if local_base is None else self._rotary({"rope_theta": local_base, "rope_type": "default"}, head)

    def _mapping(self, name: str) -> Mapping[str, Any]:
        found = self.get(name) or {}
        if not isinstance(found, Mapping):
            raise UserError(f"{self.source}: {name} is {str(found)[:60]!r}; an object is expected")
        return found

    def _rotary(self, given: Mapping[str, Any], head: int) -> Rotary:
        if not isinstance(given, Mapping):
            raise UserError(f"{self.source}: rope_parameters has {str(given)[:60]!r} where an object is expected")
        share = given.get("partial_rotary_factor") or self.get("partial_rotary_factor", 1.0)
        context, base = self.size("max_position_embeddings"), given.get("rope_theta", self.get("rope_theta", 10_000.0))
        original = self.get("original_max_position_embeddings")
        scaling = dict(given) if original is None else {"original_max_position_embeddings": original, **given}
        try:
            return rotary(int(head * min(float(share), 1.0)) // 2, float(base), context, scaling)
        except (TypeError, ValueError, OverflowError) as problem:
            if isinstance(problem, UserError):
                raise
            raise UserError(f"{self.source}: its rotary cannot be made: {problem}") from problem


def _named(weights: Mapping[str, Weight], family: Family, about: Architecture) -> dict[str, Weight]:
    """The weights under our names, with rows for outputs, and norms that are multiplied as they are."""
    found: dict[str, Weight] = {}
    for name, weight in weights.items():
        if name.endswith(_BUFFERS):
            continue
        own = _own_name(name, family)
        if family.norm_offset and own.endswith("_norm.weight"):
            weight = Weight.of(own, weight.array() + family.norm_offset)
        if family.transposed and own.startswith("blk.") and len(weight.shape) == 2:
            weight = weight.transposed()
        found[own] = weight
    return apart(found, about.heads * about.head, about.key_heads * about.head, about.inner)


def _own_name(name: str, family: Family) -> str:
    """Our name of a weight; one that is not known stays, and is refused with all others."""
    for prefix in family.prefixes:
        stem, _, kind = name.removeprefix(prefix).rpartition(".")
        layer, rest = "", stem
        if stem.startswith(family.layer_prefix):
            number, _, rest = stem.removeprefix(family.layer_prefix).partition(".")
            layer = f"blk.{number}."
        if name.startswith(prefix) and rest in family.names:
            return f"{layer}{family.names[rest]}.{kind}"
    return name


def ends_of(folder: Path) -> list[object]:
    """The tokens that end a text: those of `generation_config.json`, which has more of them, else of `config.json`."""
    for name in ("generation_config.json", "config.json"):
        if (folder / name).is_file() and (found := read_json(folder / name).get("eos_token_id")) is not None:
            return list(found) if isinstance(found, list) else [found]
    return []


def chat_template_of(folder: Path) -> str | None:
    """The template by which a conversation becomes a text."""
    alone, settings = folder / "chat_template.jinja", folder / "tokenizer_config.json"
    if alone.is_file():
        return alone.read_text("utf-8")
    found = read_json(settings).get("chat_template") if settings.is_file() else None
    if isinstance(found, list):  # several by name
        found = next((t.get("template") for t in found if isinstance(t, dict) and t.get("name") == "default"), None)
    return found if isinstance(found, str) else None


def special_of(folder: Path) -> dict[str, str]:
    """What `tokenizer_config.json` calls the tokens that templates name."""
    settings = folder / "tokenizer_config.json"
    given = read_json(settings) if settings.is_file() else {}
    found = {}
    for name in ("bos_token", "eos_token"):
        value = given.get(name)
        text = value.get("content") if isinstance(value, dict) else value
        found[name] = text if isinstance(text, str) else ""
    return found
