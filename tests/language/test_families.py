"""Every family against the module of transformers, on tiny random networks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf

import tensorsmith as ts

pytestmark = pytest.mark.peers

_BASE: dict[str, Any] = {
    "vocab_size": 160, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 256, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
_LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
_LONG = {
    "rope_type": "longrope",
    "partial_rotary_factor": 0.5,
    "short_factor": [1.0, 1.1, 1.2, 1.3],
    "long_factor": [2.0, 2.5, 3.0, 4.0],
}


def _rope(**given: Any) -> dict[str, Any]:
    return {"rope_parameters": {"rope_theta": 10_000.0, **given}}


def _gemma(**given: Any) -> dict[str, Any]:
    return {"head_dim": 32, "query_pre_attn_scalar": 24, "sliding_window": 8, **given}


CASES: dict[str, tuple[type, type, dict[str, Any]]] = {
    "llama": (hf.LlamaForCausalLM, hf.LlamaConfig, {}),
    "llama tied, with biases": (
        hf.LlamaForCausalLM,
        hf.LlamaConfig,
        {"tie_word_embeddings": True, "attention_bias": True, "mlp_bias": True},
    ),
    "llama3": (hf.LlamaForCausalLM, hf.LlamaConfig, _rope(**_LLAMA3, original_max_position_embeddings=64)),
    "linear": (hf.LlamaForCausalLM, hf.LlamaConfig, _rope(rope_type="linear", factor=4.0)),
    "yarn": (hf.LlamaForCausalLM, hf.LlamaConfig, _rope(rope_type="yarn", factor=4.0, original_max_position_embeddings=64)),
    "mistral": (hf.MistralForCausalLM, hf.MistralConfig, {"sliding_window": 16}),
    "qwen2": (hf.Qwen2ForCausalLM, hf.Qwen2Config, {}),
    "qwen2, windows": (
        hf.Qwen2ForCausalLM,
        hf.Qwen2Config,
        {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1},
    ),
    "qwen3": (hf.Qwen3ForCausalLM, hf.Qwen3Config, {"head_dim": 32}),
    "gemma": (hf.GemmaForCausalLM, hf.GemmaConfig, {"head_dim": 32}),
    "gemma2": (hf.Gemma2ForCausalLM, hf.Gemma2Config, _gemma()),
    "gemma3": (hf.Gemma3ForCausalLM, hf.Gemma3TextConfig, _gemma(num_hidden_layers=7)),
    "phi3": (hf.Phi3ForCausalLM, hf.Phi3Config, {"sliding_window": 20}),
    "phi4": (
        hf.Phi3ForCausalLM,
        hf.Phi3Config,
        {**_rope(**_LONG, original_max_position_embeddings=32), "original_max_position_embeddings": 32},
    ),
    "gpt2": (hf.GPT2LMHeadModel, hf.GPT2Config, {"n_embd": 64, "n_layer": 3, "n_head": 4, "n_positions": 128}),
}


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.mark.parametrize("name", CASES)
def test_logits_are_those_of_the_module(name: str, tmp_path: Path) -> None:
    """A prompt and 32 steps behind it; on the way, sequences of Phi-4 change to their other frequencies."""
    module_type, config_type, more = CASES[name]
    torch.manual_seed(0)
    base = {"vocab_size": 160} if name == "gpt2" else _BASE
    module = module_type(config_type(**{**base, **more})).eval()
    with torch.no_grad():
        for parameter in module.parameters():  # what is 0 or 1 in a new network could be left out unnoticed
            parameter.mul_(4) if parameter.ndim > 1 else parameter.add_(torch.randn_like(parameter) / 5)
    module.save_pretrained(tmp_path)
    lm = ts.compile(ts.load(tmp_path))
    tokens = np.random.default_rng(0).integers(3, 160, 20).tolist()
    state = lm.sequence()
    logits = lm.step(state, tokens)
    for _ in range(33):
        with torch.no_grad():
            wanted = module(torch.tensor([tokens])).logits[0, -1].numpy()
        np.testing.assert_allclose(logits, wanted, rtol=0, atol=1e-4 * np.abs(wanted).max())
        tokens.append(int(wanted.argmax()))
        logits = lm.step(state, tokens[-1:])
