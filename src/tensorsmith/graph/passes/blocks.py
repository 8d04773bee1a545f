"""Weights quantised in blocks go into their products as they are:

    matmul(x, dequantize_blocks(q, scale, zero))         ->    block_matmul(x, q', scale', zero')
    transpose(dequantize_blocks(q, scale, zero))         ->    dequantize_blocks(transpose(q), ...)

Blocks have to lie along the sum. What is read by anything else becomes a constant after all.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensorsmith.graph import operators
from tensorsmith.graph.builder import Builder, rebuilt
from tensorsmith.graph.graph import Array, Graph, Node, Value


def run(graph: Graph) -> Graph:
    """The graph without `dequantize_blocks` of constants."""
    if not any(node.operator == "dequantize_blocks" for node in graph.nodes):
        return graph
    return rebuilt(graph, lambda: _Blocks(graph).rewrite)


class _Blocks:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def rewrite(self, b: Builder, node: Node, inputs: Sequence[Value]) -> Sequence[Value] | None:
        if node.operator == "dequantize_blocks":
            arrays = [b.known(v) for v in inputs]
            if any(a is None for a in arrays) or self._goes_into_products(node):
                return None
            return [b.constant(a, node.output.name) for a in operators.evaluate(node.operator, _all(arrays), node.attributes)]
        source = b.producer(inputs[-1]) if inputs else None
        if source is None or source.operator != "dequantize_blocks":
            return None
        parts = _all([b.known(v) for v in b.read(source)])
        if len(parts) < len(source.inputs):
            return None
        if node.operator == "transpose":
            order = node.attributes["order"]
            turned = [b.constant(np.ascontiguousarray(a.transpose(order)), inputs[0].name) for a in parts]
            return [b.add("dequantize_blocks", turned, **{**source.attributes, "axis": order.index(source.attributes["axis"])})]
        if node.operator == "matmul" and self._fits(node, source):
            return [_product(b, node, inputs[0], source, parts)]
        return None

    def _goes_into_products(self, node: Node) -> bool:
        """Whether all readers of what blocks are taken apart to are products, or transposes."""
        name = node.output.name
        if name in self.graph.returned or len(node.output.shape) != 2:
            return False
        readers = self.graph.consumers[name]
        return all(r.operator == "transpose" or (r.operator == "matmul" and self._fits(r, node)) for r in readers)

    def _fits(self, product: Node, blocks: Node) -> bool:
        """Whether a product sums along the blocks of its right side."""
        along = 1 if product.attributes.get("transpose_b") else 0
        left = self.graph.values[product.inputs[0]]
        same = product.inputs[0] != product.inputs[1] and left.dtype == blocks.output.dtype
        plain = not product.attributes.get("transpose_a") and len(blocks.output.shape) == 2
        return same and plain and blocks.attributes["axis"] == along


def _all(arrays: Sequence[Array | None]) -> list[Array]:
    return [a for a in arrays if a is not None]


def _product(b: Builder, node: Node, x: Value, source: Node, parts: Sequence[Array]) -> Value:
    if node.attributes.get("transpose_b"):
        parts = [a.T for a in parts]
    q, scale = parts[0], parts[1]
    zero = parts[2] if len(parts) > 2 else None
    block = int(source.attributes["block"])
    depth, columns = q.shape
    blocks = -(-depth // block)
    if depth < blocks * block:  # what is beyond the end is multiplied by 0
        x = b.add("pad", [x], pairs=(*[(0, 0)] * (len(x.shape) - 1), (0, blocks * block - depth)))
        q = np.pad(q, ((0, blocks * block - depth), (0, 0)))
    packed, bits, moved = _packed(q.reshape(blocks, block, columns))
    operands = [b.constant(packed, f"{source.inputs[0]}_blocks"), b.constant(np.ascontiguousarray(scale), source.inputs[1])]
    if zero is not None:
        shifted = (zero.astype(np.int32) + moved).astype(packed.dtype)
        operands.append(b.constant(np.ascontiguousarray(shifted), source.inputs[2]))
    return b.add("block_matmul", [x, *operands], name=node.output.name, bits=bits, middle=moved)


def _packed(q: Array) -> tuple[Array, int, int]:
    """Integers (blocks, block, M) in as few bits as they need: the bytes, the bits, and what was added to each number."""
    low, high = (int(q.min()), int(q.max())) if q.size else (0, 0)
    moved = 8 if low < 0 else 0
    if -moved <= low and high + moved < 16 and q.shape[1] % 2 == 0:
        nibbles = (q.astype(np.int16) + moved).astype(np.uint8)
        return nibbles[:, ::2] | (nibbles[:, 1::2] << 4), 4, moved
    return np.ascontiguousarray(q), 8, 0
