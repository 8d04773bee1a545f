"""What a network is made of, whatever family it is of and whatever file it came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tensorsmith.errors import UserError
from tensorsmith.language.rotary import Rotary
from tensorsmith.language.weight import Weight

_LARGEST = 1 << 24  # of any size: nothing that a file says makes us take much memory before its weights are there
MOST_LAYERS = 1 << 10


@dataclass(frozen=True)
class Architecture:
    """A decoder: layers of attention and of two or three products, each behind a norm.

    Weights have the names that GGUF gives them, and the rows of query and key in the order in which number i of a head is turned
    together with number i + half. What some networks lack (biases, norms of queries and keys, norms behind attention and products)
    is there where its weights are.
    """

    family: str
    vocabulary: int
    width: int
    heads: int
    key_heads: int
    head: int  # numbers of a head
    inner: int
    context: int
    windows: tuple[int | None, ...]  # of each layer: how many of the last tokens it sees, itself included; None: all
    epsilon: float
    scale: float  # of queries times keys
    activation: str = "silu"
    gated: bool = True
    centred: bool = False  # norms take off the mean (LayerNorm), and have a bias
    query_norms: bool = False  # RMS norms of each head's query and key
    after_norms: bool = False  # norms behind attention and behind the products, too
    embedding_scale: float = 1.0
    score_cap: float | None = None  # attention scores s become cap tanh(s / cap)
    logit_cap: float | None = None
    rotary: Rotary | None = None  # none: places are learned, and added to the embedding
    local_rotary: Rotary | None = None  # of layers with a window, where they have another

    @property
    def layers(self) -> int:
        return len(self.windows)

    def rotary_of(self, layer: int) -> Rotary | None:
        return self.local_rotary if self.local_rotary is not None and self.windows[layer] is not None else self.rotary

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The weights that it must have; all others in `optional` may be there."""
        found = {"token_embd.weight": (self.vocabulary, self.width), "output_norm.weight": (self.width,)}
        if self.rotary is None:
            found["position_embd.weight"] = (self.context, self.width)
        for n in range(self.layers):
            found |= {f"blk.{n}.{name}.weight": shape for name, shape in self._layer().items()}
        if self.centred:
            found |= {name.replace(".weight", ".bias"): (self.width,) for name in list(found) if "_norm." in name}
        return found

    def optional(self) -> dict[str, tuple[int, ...]]:
        """Weights that some networks of a family have: biases of products, a matrix of its own for the logits."""
        found: dict[str, tuple[int, ...]] = {"output.weight": (self.vocabulary, self.width)}
        for n in range(self.layers):
            products = {name: shape for name, shape in self._layer().items() if len(shape) == 2}
            found |= {f"blk.{n}.{name}.bias": shape[:1] for name, shape in products.items()}
        return found

    def _layer(self) -> dict[str, tuple[int, ...]]:
        query, keys, width = self.heads * self.head, self.key_heads * self.head, self.width
        found: dict[str, tuple[int, ...]] = {"attn_norm": (width,), "ffn_norm": (width,)}
        found |= {"attn_q": (query, width), "attn_k": (keys, width), "attn_v": (keys, width), "attn_output": (width, query)}
        found |= {"ffn_up": (self.inner, width), "ffn_down": (width, self.inner)}
        if self.gated:
            found["ffn_gate"] = (self.inner, width)
        if self.query_norms:
            found |= {"attn_q_norm": (self.head,), "attn_k_norm": (self.head,)}
        if self.after_norms:
            found |= {"post_attention_norm": (width,), "post_ffw_norm": (width,)}
        return found

    def checked(self, weights: Mapping[str, Weight], source: str) -> dict[str, Weight]:
        """The weights, if they are the network's. Raises `UserError` that names what is missing, left over or of another shape."""
        for rotary in (self.rotary, self.local_rotary):
            if rotary is not None and not 0 < 2 * len(rotary.frequencies) <= self.head:
                raise UserError(f"{source}: {2 * len(rotary.frequencies)} numbers of a head are turned; it has {self.head}")
        needed = self.shapes()
        known = needed | self.optional()
        if missing := [name for name in needed if name not in weights]:
            raise UserError(f"{source} lacks {_some(missing)}, which a {self.family} of {self.layers} layers has")
        if unknown := [name for name in weights if name not in known]:
            raise UserError(f"{source} has {_some(unknown)}, which a {self.family} of {self.layers} layers has not")
        for name, weight in weights.items():
            if weight.shape != known[name]:
                raise UserError(f"{source}: {name} is {list(weight.shape)}; by the sizes it gives it is {list(known[name])}")
        return dict(weights)


def _some(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more


def check_sizes(given: Mapping[str, int], source: str) -> None:
    """Raises `UserError` for a size that no network has."""
    for name, size in given.items():
        if not 0 < size <= _LARGEST:
            raise UserError(f"{source}: {name} is {size}; it has to be from 1 to {_LARGEST}")


def check_layers(layers: int, source: str) -> None:
    """Raises `UserError` for more layers than any network has."""
    if layers > MOST_LAYERS:
        raise UserError(f"{source} says that there are {layers} layers; {MOST_LAYERS} are the most")
