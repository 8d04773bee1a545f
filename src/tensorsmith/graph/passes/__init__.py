"""Passes: each takes a graph and gives one that computes the same with less work.

Constants are folded, doubles removed and dead nodes dropped whenever a graph is built anew (`graph.builder`), so every pass does
that.
"""

from __future__ import annotations

from collections.abc import Callable

from tensorsmith.graph.graph import Graph
from tensorsmith.graph.passes import (
    algebra,
    blocks,
    dequantised,
    integer,
    layout,
    normalisation,
    requantise,
    reshape,
    rounded,
    rows,
    scale,
    small,
    tables,
    unquantised,
)

#: in order; each round gives the others something to do
PASSES: tuple[Callable[[Graph], Graph], ...] = (
    blocks.run, algebra.run, normalisation.run, rows.run, layout.run, reshape.run, scale.run,
)  # fmt: skip
_ROUNDS = 6  # most networks are done after two or three


def optimise(graph: Graph, integers: bool = True, pairs: bool = False) -> Graph:
    """The graph after all passes, repeated until they find nothing more.

    Without `integers`, quantised numbers are multiplied as the real numbers that they stand for, in f32. With `pairs`,
    for machines that multiply bytes in pairs of i16, products by small weights are told from others.
    """
    graph = dequantised.run(rounded.run(integer.run(graph)) if integers else graph)
    for _ in range(_ROUNDS):
        before = graph
        for run in (*PASSES, unquantised.run, requantise.run, tables.run) if integers else PASSES:
            graph = run(graph)
        if graph is before or _outline(graph) == _outline(before):
            break
    return small.run(graph) if integers and pairs else graph


def _outline(graph: Graph) -> list[tuple[str, tuple[tuple[int, ...], ...]]]:
    """What tells whether a round changed anything."""
    return [(n.operator, tuple(graph.values[name].shape for name in n.inputs)) for n in graph.nodes]
