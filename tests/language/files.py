"""Files of tiny language models, written byte by byte: folders with safetensors, and GGUF."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]

CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "vocab_size": 96,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
    "eos_token_id": 95,
}


def llama_weights(config: Mapping[str, Any] = CONFIG, seed: int = 0) -> Arrays:
    """Random weights under the names that safetensors files have, so large that tokens differ clearly."""
    random = np.random.default_rng(seed)
    width, inner, head = config["hidden_size"], config["intermediate_size"], config["hidden_size"] // config["num_attention_heads"]
    keys = config["num_key_value_heads"] * head
    layer = {"self_attn.q_proj": (width, width), "self_attn.k_proj": (keys, width), "self_attn.v_proj": (keys, width)}
    layer |= {"self_attn.o_proj": (width, width), "mlp.gate_proj": (inner, width), "mlp.up_proj": (inner, width)}
    layer |= {"mlp.down_proj": (width, inner), "input_layernorm": (width,), "post_attention_layernorm": (width,)}
    shapes = {"model.embed_tokens": (config["vocab_size"], width), "model.norm": (width,), "lm_head": (config["vocab_size"], width)}
    for n in range(config["num_hidden_layers"]):
        shapes |= {f"model.layers.{n}.{name}": shape for name, shape in layer.items()}
    made = {}
    for name, shape in shapes.items():
        values = random.standard_normal(shape) / np.sqrt(shape[-1]) if len(shape) == 2 else 1 + random.standard_normal(shape) / 5
        made[f"{name}.weight"] = (values * (3 if name == "model.embed_tokens" else 1)).astype(np.float32)
    return made


def safetensors(arrays: Mapping[str, np.ndarray]) -> bytes:
    """A file of arrays of f32."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    body = b""
    for name, array in arrays.items():
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [len(body), len(body) + array.nbytes]}
        body += array.tobytes()
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def folder(path: Path, config: Mapping[str, Any] = CONFIG, weights: Arrays | None = None) -> Path:
    """A folder of Hugging Face."""
    path.mkdir(exist_ok=True)
    (path / "config.json").write_text(json.dumps(config))
    (path / "model.safetensors").write_bytes(safetensors(weights or llama_weights(config)))
    return path


# -- GGUF --------------------------------------------------------------------------------------------------------------

_TYPES = {"f32": 0, "f16": 1, "q4_0": 2, "q8_0": 8, "q4_k": 12, "q6_k": 14}


def text(value: str) -> bytes:
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def value(given: Any) -> bytes:
    """A value with its type in front."""
    if isinstance(given, bool):
        return struct.pack("<I?", 7, given)
    if isinstance(given, int):
        return struct.pack("<Ii", 5, given)
    if isinstance(given, float):
        return struct.pack("<If", 6, given)
    if isinstance(given, str):
        return struct.pack("<I", 8) + text(given)
    elements = [value(v) for v in given]
    return struct.pack("<I", 9) + elements[0][:4] + struct.pack("<Q", len(elements)) + b"".join(e[4:] for e in elements)


def gguf(metadata: Mapping[str, Any], tensors: Mapping[str, tuple[tuple[int, ...], str, bytes]]) -> bytes:
    """A file of values, and of tensors that are given as shape, format and bytes."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    head += b"".join(text(key) + value(given) for key, given in metadata.items())
    body = b""
    for name, (shape, format, data) in tensors.items():
        head += text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *reversed(shape))
        head += struct.pack("<IQ", _TYPES[format], len(body))
        body += data + bytes(-len(data) % 32)
    return head + bytes(-len(head) % 32) + body


NAMES = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm", "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
}  # fmt: skip


def llama_metadata(config: Mapping[str, Any] = CONFIG) -> dict[str, Any]:
    return {
        "general.architecture": "llama",
        "llama.context_length": config["max_position_embeddings"],
        "llama.embedding_length": config["hidden_size"],
        "llama.block_count": config["num_hidden_layers"],
        "llama.feed_forward_length": config["intermediate_size"],
        "llama.attention.head_count": config["num_attention_heads"],
        "llama.attention.head_count_kv": config["num_key_value_heads"],
        "llama.attention.layer_norm_rms_epsilon": config["rms_norm_eps"],
        "tokenizer.ggml.eos_token_id": config["eos_token_id"],
    }


def paired(rows: np.ndarray, heads: int) -> np.ndarray:
    """Rows of heads as files of the architecture `llama` have them: i and i + half are neighbours."""
    head = len(rows) // heads
    return np.stack([rows[h * head + i + half * (head // 2)] for h in range(heads) for i in range(head // 2) for half in (0, 1)])


def llama_gguf(
    config: Mapping[str, Any] = CONFIG, weights: Arrays | None = None, metadata: Mapping[str, Any] | None = None
) -> bytes:
    """The same network as `folder` writes, as a GGUF file in f32."""
    tensors = {}
    for name, array in (weights or llama_weights(config)).items():
        stem = name.removesuffix(".weight")
        layer = ""
        if stem.startswith("model.layers."):
            _, _, number, stem = stem.split(".", 3)
            layer = f"blk.{number}."
        if stem.endswith(("q_proj", "k_proj")):
            array = paired(array, config["num_attention_heads" if stem.endswith("q_proj") else "num_key_value_heads"])
        tensors[f"{layer}{NAMES[stem]}.weight"] = (array.shape, "f32", np.ascontiguousarray(array).tobytes())
    return gguf(metadata or llama_metadata(config), tensors)
