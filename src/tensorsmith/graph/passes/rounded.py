"""Products with weights in blocks whose file allows the other side to be rounded to 8 bits are made of integers:

    block_matmul(x, q, scale, zero, rounds)    ->    integer_block_matmul(quantize_blocks(x), q', scale', zero')

Blocks have to be multiples of what rows are quantised by.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensorsmith.graph.builder import Builder, rebuilt
from tensorsmith.graph.graph import Array, Graph, Node, Value
from tensorsmith.ops.block_formats import ACTIVATIONS, bits_format

_HALF = 16  # weights of one half of the bytes of a part


def run(graph: Graph) -> Graph:
    """The graph with integer products where they are allowed."""
    if not any(node.operator == "block_matmul" and node.attributes.get("rounds") for node in graph.nodes):
        return graph
    return rebuilt(graph, lambda: _rewrite)


def _rewrite(b: Builder, node: Node, inputs: Sequence[Value]) -> Sequence[Value] | None:
    if node.operator != "block_matmul" or not node.attributes.get("rounds"):
        return None
    x, *weights = inputs
    arrays = [b.known(v) for v in weights]
    known = [a for a in arrays if a is not None]
    bits = int(node.attributes["bits"])
    block = weights[0].shape[1] * 8 // bits
    if (
        len(known) < len(arrays)
        or block % ACTIVATIONS
        or node.attributes["middle"] != 1 << (bits - 1)
        or known[0].dtype != np.uint8
    ):
        return None
    q, scale, *zeros = (np.moveaxis(a, -1, 0) for a in known)  # (M, blocks, ...)
    fields = [_in_parts(q, bits), scale.astype(np.float32), *(z if z.dtype == np.uint8 else z.astype(np.float32) for z in zeros)]
    zero = None if not zeros else "u8" if fields[-1].dtype == np.uint8 else "f32"
    operands = [b.constant(np.ascontiguousarray(a), v.name) for a, v in zip(fields, weights)]
    quantised = b.add_all("quantize_blocks", [x])
    product = b.add("integer_block_matmul", [*quantised, *operands], name=node.output.name, format=bits_format(bits, block, zero))
    return [product if x.dtype == "f32" else b.add("cast", [product], to=x.dtype)]


def _in_parts(q: Array, bits: int) -> Array:
    """The bytes of blocks (M, blocks, bytes) in parts of 32 weights. Halves of a byte are no neighbours any more, but 16 apart."""
    if bits == 4:
        halves = np.stack([q & 15, q >> 4], -1).reshape(*q.shape[:2], -1, 2, _HALF)
        q = halves[..., 0, :] | (halves[..., 1, :] << 4)
    parts = q.reshape(*q.shape[:2], -1, ACTIVATIONS * bits // 8)
    return parts[:, :, 0] if parts.shape[2] == 1 else parts
