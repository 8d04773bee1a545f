"""The families of networks that are known: an entry says how one differs from Llama, in files of either kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tensorsmith.errors import UserError

_LLAMA = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_NORMED_HEADS = {"self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm"}
_GEMMA = {
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}
_GPT2 = {
    "wte": "token_embd",
    "wpe": "position_embd",
    "ln_f": "output_norm",
    "lm_head": "output",
    "ln_1": "attn_norm",
    "attn.c_attn": "attn_qkv",
    "attn.c_proj": "attn_output",
    "ln_2": "ffn_norm",
    "mlp.c_fc": "ffn_up",
    "mlp.c_proj": "ffn_down",
}

Windows = Callable[[int, int | None], list[int | None]]  # of so many layers, by the size of a window


def _everywhere(layers: int, window: int | None) -> list[int | None]:
    return [window] * layers


def _nowhere(layers: int, window: int | None) -> list[int | None]:
    return [None] * layers


def _all_but_every(period: int) -> Windows:
    return lambda layers, window: [None if (n + 1) % period == 0 else window for n in range(layers)]


@dataclass(frozen=True)
class Family:
    """`model_types` are its names in `config.json`, `architectures` those in GGUF files; `names` its weights' in safetensors."""

    name: str
    model_types: tuple[str, ...]
    architectures: tuple[str, ...]
    names: Mapping[str, str] = field(default_factory=lambda: _LLAMA)
    layer_prefix: str = "model.layers."
    prefixes: tuple[str, ...] = ("",)  # what names may begin with that says nothing
    paired_rows: bool = False  # GGUF files have rows of query and key so ordered that neighbours are turned together
    windows: Windows = _nowhere  # where a file does not say it layer by layer
    norm_offset: float = 0.0  # of norms in safetensors: what multiplies is the weight and this
    transposed: bool = False  # matrices in safetensors are (inputs, outputs)
    activation: str = "silu"
    gated: bool = True
    centred: bool = False
    query_norms: bool = False
    after_norms: bool = False
    scaled_embedding: bool = False  # by the square root of the width
    query_scalar: bool = False  # `query_pre_attn_scalar` is what scores are divided by the root of, not the size of a head
    tied: bool = False  # where a file does not say it: the embedding is the matrix of the logits
    local_base: float | None = None  # base of the rotary of layers with windows
    renamed: Mapping[str, str] = field(default_factory=dict)  # `config.json`'s words for sizes


_GEMMA_ALIKE: dict[str, Any] = {"norm_offset": 1.0, "activation": "gelu_pytorch_tanh", "scaled_embedding": True, "tied": True}

FAMILIES = (
    Family("Llama", ("llama",), ("llama",), paired_rows=True, windows=_everywhere),
    Family("Mistral", ("mistral",), ("mistral3",), paired_rows=True, windows=_everywhere),
    Family("Qwen2", ("qwen2",), ("qwen2",)),
    Family("Qwen3", ("qwen3",), ("qwen3",), _LLAMA | _NORMED_HEADS, query_norms=True),
    Family("Gemma", ("gemma",), ("gemma",), **_GEMMA_ALIKE),
    Family(
        "Gemma 2",
        ("gemma2",),
        ("gemma2",),
        _LLAMA | _GEMMA,
        windows=_all_but_every(2),
        after_norms=True,
        query_scalar=True,
        **_GEMMA_ALIKE,
    ),
    Family(
        "Gemma 3",
        ("gemma3_text",),
        ("gemma3",),
        _LLAMA | _GEMMA | _NORMED_HEADS,
        windows=_all_but_every(6),
        after_norms=True,
        query_norms=True,
        query_scalar=True,
        local_base=10_000.0,
        **_GEMMA_ALIKE,
    ),
    Family(
        "Phi-3",
        ("phi3",),
        ("phi3",),
        _LLAMA | {"self_attn.qkv_proj": "attn_qkv", "mlp.gate_up_proj": "ffn_gate_up"},
        windows=_everywhere,
    ),
    Family(
        "GPT-2",
        ("gpt2",),
        ("gpt2",),
        _GPT2,
        layer_prefix="h.",
        prefixes=("transformer.", ""),
        transposed=True,
        activation="gelu_new",
        gated=False,
        centred=True,
        tied=True,
        renamed={
            "hidden_size": "n_embd",
            "num_hidden_layers": "n_layer",
            "num_attention_heads": "n_head",
            "max_position_embeddings": "n_positions",
            "intermediate_size": "n_inner",
            "rms_norm_eps": "layer_norm_epsilon",
            "hidden_act": "activation_function",
        },
    ),
)

#: operators, with their attributes, by the names that files use
ACTIVATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "silu": ("silu", {}),
    "swish": ("silu", {}),
    "gelu": ("gelu", {"approximate": False}),
    "gelu_new": ("gelu", {"approximate": True}),
    "gelu_pytorch_tanh": ("gelu", {"approximate": True}),
    "relu": ("relu", {}),
}


def by_model_type(name: object, source: str) -> Family:
    """The family of a `config.json`."""
    return _of(name, {n: f for f in FAMILIES for n in f.model_types}, "model_type", source)


def by_architecture(name: object, source: str) -> Family:
    """The family of a GGUF file."""
    return _of(name, {n: f for f in FAMILIES for n in f.architectures}, "general.architecture", source)


def _of(name: object, known: Mapping[str, Family], key: str, source: str) -> Family:
    if not isinstance(name, str) or name not in known:
        raise UserError(f"{source}: {key} is {name!r}; known are {', '.join(known)}")
    return known[name]
