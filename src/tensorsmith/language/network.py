"""One step of a language model as a graph: some tokens of some sequences, each behind the tokens of its cache.

    x        f32 [sequences * tokens, width]      embeddings, which the caller looks up
    cos, sin f32 [sequences * tokens, pairs]      of their places; local_cos, local_sin of layers with another rotary
    mask     f32 [sequences, tokens, cached + tokens]    0, or -inf where a token may not look; window_mask of layers with a window
    key_L_S, value_L_S  f32 [cached, key heads, head]    the cache of layer L of sequence S
    last     i64 [sequences]                      rows of x whose logits are wanted

gives the logits [sequences, vocabulary], and new_key_L_S, new_value_L_S [tokens, key heads, head], which the caller appends.
Whatever stands in the cache beyond its used length is masked; it has to be finite.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tensorsmith.graph.builder import Builder
from tensorsmith.graph.graph import Graph, Value
from tensorsmith.language.architecture import Architecture
from tensorsmith.language.families import ACTIVATIONS
from tensorsmith.language.products import product
from tensorsmith.language.weight import Weight


@dataclass(frozen=True)
class StepSize:
    """Tokens of each sequence, sequences, and places of their caches."""

    tokens: int
    sequences: int
    cached: int


def step_graph(about: Architecture, weights: Mapping[str, Weight], size: StepSize, stored: str | None) -> Graph:
    """The network of a step of a size, with its weights `stored` in a format."""
    return _Step(about, weights, size, stored).graph()


class _Step:
    def __init__(self, about: Architecture, weights: Mapping[str, Weight], size: StepSize, stored: str | None) -> None:
        self.about, self.weights, self.size, self.stored = about, weights, size, stored
        self.cached: list[tuple[str, Value]] = []  # the new keys and values, in the order in which they leave the graph
        self.b = Builder(f"step_{size.tokens}x{size.sequences}_of_{size.cached}")

    def graph(self) -> Graph:
        b, about, size = self.b, self.about, self.size
        rows = size.tokens * size.sequences
        x = b.input("x", (rows, about.width), "f32")
        self.turns: dict[str, tuple[Value, Value]] = {}
        for prefix, rotary in (("", about.rotary), ("local_", about.local_rotary)):
            if rotary is not None:
                shape = (rows, len(rotary.frequencies))
                self.turns[prefix] = b.input(f"{prefix}cos", shape, "f32"), b.input(f"{prefix}sin", shape, "f32")
        looks = (size.sequences, size.tokens, size.cached + size.tokens)
        self.mask = b.input("mask", looks, "f32")
        self.window_mask = b.input("window_mask", looks, "f32") if any(about.windows) else self.mask
        last = b.input("last", (size.sequences,), "i64") if size.tokens > 1 else None
        for n in range(about.layers):
            at = f"blk.{n}."
            attended = self.attention(n, self.norm(x, f"{at}attn_norm"))
            if about.after_norms:
                attended = self.norm(attended, f"{at}post_attention_norm")
            x = b.add("add", [x, attended])
            inner = self.feed_forward(at, self.norm(x, f"{at}ffn_norm"))
            if about.after_norms:
                inner = self.norm(inner, f"{at}post_ffw_norm")
            x = b.add("add", [x, inner])
        if last is not None:
            x = b.add("gather", [x, last])
        b.output("logits", self.logits(self.norm(x, "output_norm")))
        for name, value in self.cached:
            b.output(name, value)
        return b.graph()

    def logits(self, x: Value) -> Value:
        weight = self.weights.get("output.weight", self.weights["token_embd.weight"])
        found, cap = product(self.b, x, weight, self.stored), self.about.logit_cap
        return found if cap is None else self.capped(found, cap)

    def capped(self, x: Value, cap: float) -> Value:
        return self.times(self.b.add("tanh", [self.times(x, 1 / cap)]), cap)

    def times(self, x: Value, factor: float) -> Value:
        return self.b.add("multiply", [x, self.b.constant(np.float32(factor), "factor")])

    def vector(self, name: str) -> Value:
        return self.b.constant(self.weights[name].array(), name)

    def norm(self, x: Value, name: str) -> Value:
        axis = len(x.shape) - 1
        centred = self.about.centred
        normal = self.b.add("normalize", [x], axes=(axis,), epsilon=self.about.epsilon, centre=centred)
        scaled = self.b.add("multiply", [normal, self.vector(f"{name}.weight")])
        return self.b.add("add", [scaled, self.vector(f"{name}.bias")]) if centred else scaled

    def dense(self, x: Value, name: str) -> Value:
        found = product(self.b, x, self.weights[f"{name}.weight"], self.stored)
        return self.b.add("add", [found, self.vector(f"{name}.bias")]) if f"{name}.bias" in self.weights else found

    def feed_forward(self, at: str, x: Value) -> Value:
        operator, options = ACTIVATIONS[self.about.activation]
        up = self.dense(x, f"{at}ffn_up")
        if not self.about.gated:
            return self.dense(self.b.add(operator, [up], **options), f"{at}ffn_down")
        gate = self.b.add(operator, [self.dense(x, f"{at}ffn_gate")], **options)
        return self.dense(self.b.add("multiply", [gate, up]), f"{at}ffn_down")

    def attention(self, layer: int, x: Value) -> Value:
        about, size, at = self.about, self.size, f"blk.{layer}."
        query = self.turned(self.heads(x, f"{at}attn_q", about.heads), layer)
        key = self.turned(self.heads(x, f"{at}attn_k", about.key_heads), layer)
        value = self.heads(x, f"{at}attn_v", about.key_heads)
        query = self.times(query, about.scale)
        found = []
        for s in range(size.sequences):
            rows = s * size.tokens, size.tokens
            parts = [self.rows(v, *rows) for v in (query, key, value)]
            found.append(self.attended(layer, s, *parts))
        both = found[0] if len(found) == 1 else self.b.add("concat", found, axis=0)
        return self.dense(both, f"{at}attn_output")

    def heads(self, x: Value, name: str, heads: int) -> Value:
        """A product (tokens, heads, head), with the norm of heads where there is one."""
        found = self.b.add("reshape", [self.dense(x, name)], shape=(x.shape[0], heads, self.about.head))
        return self.norm(found, f"{name}_norm") if f"{name}_norm.weight" in self.weights else found

    def rows(self, x: Value, start: int, count: int) -> Value:
        if x.shape[0] == count:
            return x
        return self.b.add("slice", [x], starts=(start, 0, 0), sizes=(count, *x.shape[1:]))

    def turned(self, x: Value, layer: int) -> Value:
        """Heads with their numbers turned by the angles of their tokens' places."""
        rotary = self.about.rotary_of(layer)
        if rotary is None:
            return x
        b, pairs = self.b, len(rotary.frequencies)
        cos, sin = (
            b.add("reshape", [v], shape=(x.shape[0], 1, pairs))
            for v in self.turns["local_" if rotary is self.about.local_rotary else ""]
        )

        def part(start: int, count: int) -> Value:
            return b.add("slice", [x], starts=(0, 0, start), sizes=(*x.shape[:2], count))

        first, second = part(0, pairs), part(pairs, pairs)
        parts = [
            b.add("subtract", [b.add("multiply", [first, cos]), b.add("multiply", [second, sin])]),
            b.add("add", [b.add("multiply", [second, cos]), b.add("multiply", [first, sin])]),
        ]
        if 2 * pairs < x.shape[2]:
            parts.append(part(2 * pairs, x.shape[2] - 2 * pairs))
        return b.add("concat", parts, axis=2)

    def attended(self, layer: int, sequence: int, query: Value, key: Value, value: Value) -> Value:
        """What the tokens of a sequence take from those in its cache, and from one another."""
        b, about, size = self.b, self.about, self.size
        m, kv, head = size.tokens, about.key_heads, about.head
        group = about.heads // kv
        names = [f"{what}_{layer}_{sequence}" for what in ("key", "value")]
        self.cached += [(f"new_{name}", new) for name, new in zip(names, (key, value))]
        old_key, old_value = (b.input(name, (size.cached, kv, head), "f32") for name in names)
        grouped = b.add("reshape", [query], shape=(m, kv, group, head))
        grouped = b.add("reshape", [b.add("transpose", [grouped], order=(1, 2, 0, 3))], shape=(kv, group * m, head))
        parts = [b.add("matmul", [grouped, b.add("transpose", [k], order=(1, 2, 0))]) for k in (old_key, key)]
        scores = b.add("reshape", [b.add("concat", parts, axis=2)], shape=(kv, group, m, size.cached + m))
        if about.score_cap is not None:
            scores = self.capped(scores, about.score_cap)
        mask = self.mask if about.windows[layer] is None else self.window_mask
        seen = b.add("slice", [mask], starts=(sequence, 0, 0), sizes=(1, *mask.shape[1:])) if size.sequences > 1 else mask
        shares = b.add("softmax", [b.add("add", [scores, seen])], axis=3)
        shares = b.add("reshape", [shares], shape=(kv, group * m, size.cached + m))
        mixed = []
        for v, start, count in ((old_value, 0, size.cached), (value, size.cached, m)):
            own = b.add("slice", [shares], starts=(0, 0, start), sizes=(kv, group * m, count))
            mixed.append(b.add("matmul", [own, b.add("transpose", [v], order=(1, 0, 2))]))
        both = b.add("reshape", [b.add("add", mixed)], shape=(kv, group, m, head))
        return b.add("reshape", [b.add("transpose", [both], order=(2, 0, 1, 3))], shape=(m, about.heads * head))


def mask_of(places: np.ndarray, used: int, cached: int, window: int | None) -> np.ndarray:
    """What tokens at `places` may see, 0, else -inf: of the cache, of which so many are `used`, and behind it of one another."""
    tokens = len(places)
    seen = np.concatenate([np.arange(cached), places])
    held = np.concatenate([np.arange(cached) < used, np.ones(tokens, bool)])
    may = held & (seen <= places[:, None])
    if window is not None:
        may &= seen > places[:, None] - window
    return np.where(may, np.float32(0), np.float32(-math.inf))
