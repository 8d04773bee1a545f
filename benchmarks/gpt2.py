"""GPT-2 (124 million parameters, random weights) token by token, with the keys and values of earlier tokens as inputs and outputs.

    python benchmarks/gpt2.py                       # a cache of 256 tokens, 24 of them generated
    python benchmarks/gpt2.py --context 1024

The network is one step: a token and its place, a mask, and for each layer the keys and values of `--context` places go in; the
scores of the next token and the new token's keys and values come out, which the caller writes into its cache. It is written as an
ONNX file from the weights of `transformers`' GPT2LMHeadModel, and both we and ONNX Runtime run that file. What it gives is compared
with the module's own forward pass, and the tokens that each generates with those of the module. Times are of one step with a full
cache.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from rich.table import Table
from transformers import GPT2Config, GPT2LMHeadModel

import environment  # noqa: F401  first: it sets what OpenVINO reads
import tensorsmith as ts
from contest import Settings, hold, quiet_machine
from frameworks import onnxruntime_session
from report import console, write_json
from rows import OURS, row
from tensorsmith.runtime.pool import with_threads
from tensorsmith.targets.target import native

KINDS = (None, "bf16", "f16", "int8")
_MASKED = -1e9  # added to the scores of places that hold nothing yet

Step = Callable[[dict[str, np.ndarray]], Sequence[np.ndarray]]  # logits, then the new keys and values of each layer


class _Graph:
    """Nodes and constants of an ONNX file in the making."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}

    def add(self, operator: str, *inputs: str, outputs: int = 1, name: str = "", **attributes: Any) -> Any:
        names = [name or f"v{len(self.nodes)}"] if outputs == 1 else [f"v{len(self.nodes)}_{n}" for n in range(outputs)]
        self.nodes.append(helper.make_node(operator, list(inputs), names, **attributes))
        return names[0] if outputs == 1 else names

    def constant(self, array: np.ndarray, name: str) -> str:
        self.constants.setdefault(name, np.ascontiguousarray(array))
        return name


def step_model(module: GPT2LMHeadModel, context: int) -> onnx.ModelProto:
    """One step of the network as an ONNX file."""
    config = module.config
    heads, width = config.n_head, config.n_embd
    size = width // heads
    weights = {name: p.detach().numpy() for name, p in module.state_dict().items()}
    g = _Graph()

    def weight(name: str) -> str:
        return g.constant(weights[name], name)

    def normal(x: str, name: str) -> str:
        scale, shift = weight(f"{name}.weight"), weight(f"{name}.bias")
        return str(g.add("LayerNormalization", x, scale, shift, axis=-1, epsilon=config.layer_norm_epsilon))

    def dense(x: str, name: str) -> str:
        return str(g.add("Add", g.add("MatMul", x, weight(f"{name}.weight")), weight(f"{name}.bias")))

    def in_heads(x: str) -> str:
        shape = g.constant(np.array([1, 1, heads, size]), "in_heads")
        return str(g.add("Transpose", g.add("Reshape", x, shape), perm=[0, 2, 1, 3]))

    table = weight("transformer.wte.weight")
    x = g.add("Add", g.add("Gather", table, "token"), g.add("Gather", weight("transformer.wpe.weight"), "place"))
    outputs = []
    for n in range(config.n_layer):
        at = f"transformer.h.{n}"
        qkv = dense(normal(x, f"{at}.ln_1"), f"{at}.attn.c_attn")
        parts = g.add("Split", qkv, g.constant(np.array([width] * 3), "thirds"), outputs=3, axis=-1)
        query = in_heads(parts[0])
        key, value = (g.add("Identity", in_heads(p), name=f"new_{w}{n}") for p, w in zip(parts[1:], ("key", "value")))
        outputs += [key, value]
        keys = g.add("Concat", f"key{n}", key, axis=2)
        values = g.add("Concat", f"value{n}", value, axis=2)
        scores = g.add("MatMul", query, g.add("Transpose", keys, perm=[0, 1, 3, 2]))
        scaled = g.add("Mul", scores, g.constant(np.array(size**-0.5, np.float32), "scale"))
        shares = g.add("Softmax", g.add("Add", scaled, "mask"), axis=-1)
        mixed = g.add("Transpose", g.add("MatMul", shares, values), perm=[0, 2, 1, 3])
        joined = g.add("Reshape", mixed, g.constant(np.array([1, 1, width]), "joined"))
        x = g.add("Add", x, dense(joined, f"{at}.attn.c_proj"))
        inner = g.add("Gelu", dense(normal(x, f"{at}.ln_2"), f"{at}.mlp.c_fc"), approximate="tanh")
        x = g.add("Add", x, dense(inner, f"{at}.mlp.c_proj"))
    last = g.add("Reshape", normal(x, "transformer.ln_f"), g.constant(np.array([1, width]), "row"))
    g.add("Gemm", last, table, name="logits", transB=1)

    def typed(name: str, *shape: int, kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, kind, shape)

    inputs = [typed(name, 1, 1, kind=TensorProto.INT64) for name in ("token", "place")] + [typed("mask", 1, 1, 1, context + 1)]
    inputs += [typed(f"{w}{n}", 1, heads, context, size) for n in range(config.n_layer) for w in ("key", "value")]
    results = [typed("logits", 1, config.vocab_size), *(typed(name, 1, heads, 1, size) for name in outputs)]
    constants = [numpy_helper.from_array(a, name) for name, a in g.constants.items()]
    graph = helper.make_graph(g.nodes, "gpt2", inputs, results, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


class Cache:
    """The keys and values of the tokens so far, and the inputs of the next step."""

    def __init__(self, module: GPT2LMHeadModel, context: int) -> None:
        config = module.config
        self.layers, self.context, self.length = config.n_layer, context, 0
        shape = (1, config.n_head, context, config.n_embd // config.n_head)
        self.arrays = {f"{w}{n}": np.zeros(shape, np.float32) for n in range(self.layers) for w in ("key", "value")}
        self.mask = np.full((1, 1, 1, context + 1), _MASKED, np.float32)
        self.mask[..., -1] = 0  # the token itself

    def inputs(self, token: int) -> dict[str, np.ndarray]:
        return {"token": np.array([[token]]), "place": np.array([[self.length]]), "mask": self.mask, **self.arrays}

    def write(self, results: Sequence[np.ndarray]) -> None:
        for array, new in zip(self.arrays.values(), results[1:]):
            array[:, :, self.length : self.length + 1] = new
        self.mask[..., self.length] = 0
        self.length += 1


def generated(step: Step, cache: Cache, prompt: Sequence[int], count: int) -> tuple[list[int], list[np.ndarray]]:
    """The most likely tokens behind a prompt, and the scores that each was chosen by."""
    tokens, scores = list(prompt), []
    for n in range(len(prompt) + count - 1):
        results = step(cache.inputs(tokens[n]))
        cache.write(results)
        if n >= len(prompt) - 1:
            scores.append(np.array(results[0][0]))
            tokens.append(int(results[0].argmax()))
    return tokens[len(prompt) :], scores


def wanted(module: GPT2LMHeadModel, prompt: Sequence[int], count: int) -> tuple[list[int], list[np.ndarray]]:
    """The same by the module itself, without a cache."""
    tokens, scores = list(prompt), []
    for _ in range(count):
        logits = module(torch.tensor([tokens])).logits[0, -1]
        scores.append(logits.numpy())
        tokens.append(int(logits.argmax()))
    return tokens[len(prompt) :], scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--context", type=int, default=256, help="places of the cache")
    parser.add_argument("--tokens", type=int, default=24, help="to generate, for the comparison of answers")
    parser.add_argument("--seconds", type=float, default=15.0, help="of timing")
    parser.add_argument("--threads", type=int, default=native().cores)
    parser.add_argument("--json", metavar="FILE")
    given = parser.parse_args()
    torch.manual_seed(0)
    with quiet_machine(), with_threads(given.threads):
        module = GPT2LMHeadModel(GPT2Config()).eval()
        file = step_model(module, given.context).SerializeToString()
        model, session = ts.load(file), onnxruntime_session(file, given.threads)
        steps: dict[str, Step] = {}
        sizes: dict[str, int] = {}
        for kind in KINDS:
            executable = ts.compile(model, weights=kind)
            name = f"{OURS} {kind or 'f32'}"
            steps[name], sizes[name] = (lambda inputs, e=executable: list(e.run(inputs).values())), executable.memory.constants
        steps["onnxruntime f32"] = lambda inputs: session.run(None, inputs)
        sizes["onnxruntime f32"] = sum(p.numel() * 4 for p in module.parameters())
        prompt = np.random.default_rng(0).integers(0, module.config.vocab_size, 8).tolist()
        tokens, scores = wanted(module, prompt, given.tokens)
        caches = {name: Cache(module, given.context) for name in steps}
        found = {name: generated(step, caches[name], prompt, given.tokens) for name, step in steps.items()}
        full = Cache(module, given.context)
        for array in full.arrays.values():
            array[...] = np.random.default_rng(0).standard_normal(array.shape)
        full.mask[...] = 0
        full.length = given.context - 1
        inputs = full.inputs(prompt[0])
        contestants = {name: (lambda s=step: s(inputs)) for name, step in steps.items()}
        settings = Settings(threads=given.threads, seconds=given.seconds)
        ours = [name for name in steps if name.startswith(OURS)]
        result = hold(contestants, ours, f"gpt2 {given.context}", settings)
    table = Table(title=f"GPT-2, a token with {given.context} before it, {given.threads} threads")
    for column in ("", "ms", "tokens/s", "times onnxruntime", "MiB of weights", "first score off by", "same tokens"):
        table.add_column(column, justify="left" if not column else "right")
    peer, rows = result["onnxruntime f32"], {}
    spread = float(np.std(scores[0]))
    for name in steps:
        timing, (chosen, own) = result[name], found[name]
        off = float(np.sqrt(np.mean((own[0] - scores[0]) ** 2))) / spread
        same = next((n for n, (a, b) in enumerate(zip(chosen, tokens)) if a != b), len(tokens))
        times = peer.best / timing.best
        table.add_row(
            name, f"{timing.best * 1e3:.2f}", f"{1 / timing.best:.1f}", f"{times:.2f}", f"{sizes[name] / 2**20:.0f}",
            f"{off:.2%}", f"{same} of {len(tokens)}",
        )  # fmt: skip
        rows[name] = {"seconds": timing.best, "times_onnxruntime": times, "error": off, "same_tokens": same}
    console().print(table)
    console().print(f"the best of {len(peer.slots)} rounds, {result.disturbed:.0%} of the slots disturbed")
    if given.json:
        write_json(given.json, {f"gpt2 {given.context}": row(result, threads=given.threads, steps=rows)})


if __name__ == "__main__":
    main()
