"""Pieces of a value that lie in its memory in one: what a slice may show, and what the parts of a concat may be written to.

gates[7:8, :, :]                  of a tensor (steps, batch, width): batch * width numbers in a row
concat(state_0, .., state_99)     along the first axis: each state is such a piece of the result
"""

from __future__ import annotations

import math
from itertools import accumulate

from tensorsmith.graph.graph import Graph, Node
from tensorsmith.lang.dtypes import dtype

MANY = 8  # pieces of one value: as many kernels, or as many cases of one, would be dear to compile


def cut(graph: Graph, node: Node) -> int | None:
    """Where a slice begins in its input, in bytes, if it is one piece of its memory; else None."""
    source = graph.values[node.inputs[0]]
    starts, sizes = node.attributes["starts"], node.attributes["sizes"]
    steps = node.attributes.get("steps") or (1,) * len(sizes)
    if 0 in sizes or any(step != 1 and size > 1 for step, size in zip(steps, sizes)):
        return None
    parted = [d for d, (size, extent) in enumerate(zip(sizes, source.shape)) if size != extent]
    if parted and any(size != 1 for size in sizes[: parted[-1]]):
        return None
    at = 0
    for start, extent in zip(starts, source.shape):
        at = at * extent + start
    return int(at) * dtype(source.dtype).bytes


def joined(graph: Graph, node: Node) -> list[tuple[str, int]] | None:
    """The parts of a concat, and where each begins in the result, in bytes, if each is one piece of its memory; else None."""
    shape = node.output.shape
    axis = node.attributes["axis"] % len(shape)
    sizes = [math.prod(graph.values[name].shape) * dtype(node.output.dtype).bytes for name in node.inputs]
    if 0 in sizes or any(extent != 1 for extent in shape[:axis]):
        return None
    return list(zip(node.inputs, accumulate(sizes, initial=0)))
