"""Bound inference gives the same lengths as texts, as arrays and as regions with their starts; so do the loops of copies."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tests.space.test_population import loops

from tensorsmith.backends import space_of
from tensorsmith.backends.cpu.rules import ANSOR
from tensorsmith.errors import Refusal
from tensorsmith.lang import define as ts
from tensorsmith.ops import catalogue
from tensorsmith.program.ir import own_block
from tensorsmith.program.lower import lower
from tensorsmith.space.population.embed import _geometry
from tensorsmith.space.population.sampling import Sampling, sample
from tensorsmith.space.sketch.copies import follow, followed
from tensorsmith.space.sketch.nest import Nest
from tensorsmith.space.sketch.rewrite import CacheRead
from tensorsmith.space.sketch.text import _Text
from tensorsmith.targets.target import native

CASES = ["C2D-small", "ConvLayer-small", "TBS-small", "softmax-small", "T2D-small", "DEP-small", "NRM-1-b1", "GMM-small"]


def drawn(name, kind, count=4):
    """Candidates of all sketches, by our rules and by Ansor's."""
    rng = np.random.default_rng(9)
    for rules in ("default", ANSOR):
        space = space_of(catalogue.get(name).workload(), native(), rules)
        yield from space.candidates(sample(space, count * len(space.plans), rng, Sampling(kind)))


def lowered_lengths(candidate):
    """By stage and axis: how much of it is computed where it is computed."""
    found = {}
    todo = list(lower(candidate).body)
    while todo:
        node = todo.pop()
        block = own_block(node)
        found[block.stage.name] = {axis: int(b.length) for axis, b in block.axes.items()}
        todo += block.before
        while node is not block:
            todo += node.body[:-1]
            node = node.body[-1]
    return found


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("kind", ["target", "uniform"])
def test_arrays_are_regions(name, kind):
    attached = 0
    for candidate in drawn(name, kind):
        sketch = candidate.sketch
        try:
            wanted = lowered_lengths(candidate)
        except Refusal:
            continue
        found = _geometry(sketch).measure(np.array([[candidate.decisions[h] for h in sketch.holes]], np.int32))
        for nest in sketch.nests:
            mine = {axis: int(length[0]) for axis, length in found.lengths[nest.stage].items()}
            assert mine == wanted[nest.stage], f"{nest.stage} of\n{sketch.brief()}\n{candidate.decisions}"
            attached += nest.at is not None
    assert attached >= 2


def value(length, decisions):
    """What a text of holes comes to."""
    if isinstance(length, int):
        return length
    return eval(re.sub(r"[A-Za-z_][\w.]*", lambda m: m[0] if m[0] == "max" else str(decisions[m[0]]), length))


@pytest.mark.parametrize("name", CASES)
def test_texts_are_regions(name):
    """Where tiles divide what they split: a text says nothing of a rest. More than there is of an axis is all of it."""
    checked = 0
    for candidate in drawn(name, "uniform", 8):
        sketch, text = candidate.sketch, _Text(candidate.sketch)
        try:
            wanted = lowered_lengths(candidate)
        except Refusal:
            continue
        counts = {k: int(v) for k, v in loops(lower(candidate).body).items()}
        for nest in sketch.nests:
            if nest.at is None:
                continue
            owner = nest.at.stage
            whole = all(
                np.prod([counts[f"{owner}.{axis}.{p}"] for p in range(parts)]) == wanted[owner][axis]
                for axis, parts in sketch.nest(owner).parts.items()
            )
            if not whole or sketch.nest(owner).at is not None:
                continue
            for a in sketch.rewritten.stage(nest.stage).axes:
                shown = value(text.lengths[nest.stage][a.name], candidate.decisions)
                assert min(shown, a.extent) == wanted[nest.stage][a.name], (
                    f"{nest.stage}.{a.name} of\n{sketch}\n{candidate.decisions}"
                )
                checked += 1
    assert checked >= 4


@pytest.mark.parametrize("name", ["GMM-small", "matmul-small", "dense-small", "TBS-small"])
def test_the_loops_of_copies_run_as_often_as_those_they_follow(name):
    copies = 0
    for candidate in drawn(name, "target"):
        sketch = candidate.sketch
        for nest in sketch.nests:
            if nest.follows is None:
                continue
            copies += 1
            try:
                counts = loops(lower(candidate).body)
            except Refusal:
                continue
            for axis, mine in followed(sketch.rewritten, sketch.by_stage, nest).items():
                assert len(mine) == nest.parts.get(axis, 0)
                for p, one in enumerate(mine):
                    assert counts[f"{nest.stage}.{axis}.{p}"] == counts[f"{one.stage}.{one.loop}"]
    assert copies > 10


@pytest.mark.parametrize(
    "at, loops",
    [(None, "i.0 i.1 k.0 | i.2 vector i.2"), ("E:1", "i.0 k.0 | i.1 vector i.1"), ("D:1", "k.0 | i.0 vector i.0")],
)
def test_a_copy_follows_through_nests_in_nests(at, loops):
    """C on the tile of D, D inside a loop of E: what is copied for C runs in the loops of all three that are inside its place."""
    a, b, k = ts.placeholder((8, 8), name="A"), ts.placeholder((8, 8), name="B"), ts.reduce_axis(8, "k")
    c = ts.compute((8, 8), lambda i, j: ts.sum(a[i, k] * b[k, j], axis=k), name="C")
    d = ts.compute((8, 8), lambda i, j: c[i, j] + 1.0, name="D")
    workload = CacheRead("C", "A").apply(ts.workload([a, b, ts.compute((8, 8), lambda i, j: d[i, j] * 2.0, name="E")]))
    nests = {
        "C": Nest("C", "| k.0 i.0 j.0", vector="j.0", at="D:2"),
        "D": Nest("D", "i.0 j.0 | i.1 j.1", at="E:1"),
        "E": Nest("E", "i.0 j.0 |"),
    }
    copy = follow(workload, nests, Nest("A.pack", "", at=at, follows="C"))
    assert f"{copy.loops} vector {copy.vector}" == loops
