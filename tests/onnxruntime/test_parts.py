"""Parts: as few as possible, and never one that waits for its own results."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

from tensorsmith.onnxruntime.parts import joined
from tensorsmith.onnxruntime.reading import GraphRead, Read, in_order


@st.composite
def graphs(draw: st.DrawFn) -> tuple[GraphRead, list[int]]:
    """A graph of a few nodes, in an order in which they can run, and those that are supported."""
    count = draw(st.integers(1, 9))
    nodes = []
    for n in range(count):
        before = draw(st.sets(st.integers(0, n - 1), max_size=3)) if n else set()
        nodes.append(Read(n, helper.make_node("Any", [f"v{b}" for b in sorted(before)], [f"v{n}"])))
    return GraphRead(nodes), [n for n in range(count) if draw(st.booleans())]


def edges(graph: GraphRead) -> list[tuple[int, int]]:
    return [(int(name[1:]), n) for n, node in enumerate(graph.nodes) for name in node.proto.input]


def has_circle(group: dict[int, int], pairs: list[tuple[int, int]]) -> bool:
    """Whether what is left after all groups that nothing leads into were taken away again and again is not empty."""
    left = {(group[a], group[b]) for a, b in pairs if group[a] != group[b]}
    while left:
        ends = {b for _, b in left}
        fewer = {(a, b) for a, b in left if a in ends}
        if fewer == left:
            return True
        left = fewer
    return False


@given(graphs())
def test_parts_wait_for_nothing_of_their_own(case: tuple[GraphRead, list[int]]) -> None:
    graph, supported = case
    groups = joined(graph, supported)
    assert sorted(n for group in groups for n in group) == supported
    group = {n: n for n in range(len(graph.nodes))} | {n: members[0] for members in groups for n in members}
    assert not has_circle(group, edges(graph))
    for one in groups:  # nor could any two be one
        for other in groups:
            if one is not other:
                merged = group | dict.fromkeys(other, one[0])
                assert has_circle(merged, edges(graph))


@given(graphs(), st.randoms())
def test_nodes_follow_what_they_read(case: tuple[GraphRead, list[int]], shuffler: object) -> None:
    nodes = list(case[0].nodes)
    shuffler.shuffle(nodes)  # type: ignore[attr-defined]
    seen: set[str] = set()
    for node in in_order(nodes):
        assert set(node.proto.input) <= seen
        seen |= set(node.proto.output)
    assert len(seen) == len(nodes)
