"""Random definitions and schedules whose code can be told in numbers: one stage, or a sum and what is done with it in registers.

Sizes of tiles divide their axes and unrolled steps their loops, so that every tile and every round is whole; conditions and reads
through other reads are left to the other property tests.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random

from tensorsmith.lang import define as ts
from tensorsmith.lang.define import Tensor
from tensorsmith.lang.expr import Expr
from tensorsmith.lang.workload import Workload
from tensorsmith.space.sketch.nest import Nest
from tensorsmith.space.sketch.sketch import Candidate, Sketch

LANES = (1, 2, 4, 8, 9, 10, 12, 16, 17, 18, 20, 24, 32)  # what is left beside whole vectors is stored at once
STEPS = (1, 2, 3, 4, 5, 6, 8)


@dataclass(frozen=True)
class Drawn:
    """A candidate, and what its loads share."""

    candidate: Candidate
    shared: frozenset[str]  # inputs of which steps in a row may read the same elements


def random_tiles(rng: Random) -> Drawn:
    spatial = [f"i{n}" for n in range(rng.randint(1, 3))]
    reduce = ["k", "q"][: rng.randint(0, 2)]
    across = bool(reduce) and rng.random() < 0.2
    lanes = reduce[-1] if across else rng.choice(spatial)
    counts = {a: [rng.randint(1, 3), rng.randint(1, 4)] for a in spatial}  # outer loop, loop of the tile
    counts |= {a: [rng.choice(STEPS), rng.choice(STEPS)] for a in reduce}
    counts[lanes][1] = rng.choice(LANES)
    extents = {a: math.prod(n) for a, n in counts.items()}
    inputs, shared, body = _body(rng, spatial, reduce, extents)
    kept = {a: ts.reduce_axis(extents[a], name=a) for a in reduce}

    combine = ts.prod if rng.random() < 0.1 else ts.sum

    def value(*axes: Expr) -> Expr:
        at = dict(zip(spatial, axes)) | kept
        inside = body(at)
        if not reduce:
            return inside
        return combine(inside, axis=[kept[a] for a in reduce])

    c = ts.compute(tuple(extents[a] for a in spatial), value, name="C")
    fused = bool(reduce) and not across and rng.random() < 0.4
    last = [c]
    if fused:
        e = ts.placeholder(c.shape, name="E")
        inputs.append(e)
        last = [ts.compute(c.shape, lambda *x: (c[x] - e[x]) * e[x], name="D")]
    workload = ts.workload([*inputs, *last])
    return Drawn(_candidate(rng, workload, spatial, reduce, lanes, counts, fused), frozenset(shared))


def _body(rng, spatial, reduce, extents):
    """Inputs, those whose elements several steps may share, and the value at a point."""
    inputs: list[Tensor] = []
    shared: set[str] = set()
    reads = []
    product = rng.random() < 0.5
    for n in range(2 if product else rng.randint(1, 3)):
        axes = [a for a in (*spatial, *reduce) if rng.random() < 0.7]
        rng.shuffle(axes)
        window = None
        if reduce and rng.random() < 0.2:
            window = (rng.choice(spatial), rng.choice(reduce), rng.choice((1, 2)))
            axes = [a for a in axes if a not in window[:2]]
        name = f"A{n}"
        if window or not set(reduce) <= set(axes):
            shared.add(name)
        shape = [extents[a] for a in axes]
        if window:
            shape.append((extents[window[0]] - 1) * window[2] + extents[window[1]])
        tensor = ts.placeholder(tuple(shape), name=name, constant=rng.random() < 0.3)
        inputs.append(tensor)
        reads.append((tensor, axes, window))
    operators = ["mul" if product else rng.choice(("add", "sub", "mul")) for _ in reads[1:]]

    def body(at: dict[str, Expr]) -> Expr:
        total = None
        for (tensor, axes, window), op in zip(reads, ["", *operators]):
            index = [at[a] for a in axes]
            if window:
                index.append(at[window[0]] * window[2] + at[window[1]])
            value = tensor[tuple(index)]
            if total is None:
                total = value
            else:
                total = total + value if op == "add" else total - value if op == "sub" else total * value
        return total

    return inputs, shared, body


def _candidate(
    rng: Random, workload: Workload, spatial: list[str], reduce: list[str], lanes: str, counts: dict[str, list[int]], fused: bool
) -> Candidate:
    outer = [f"{a}.0" for a in spatial]
    rng.shuffle(outer)
    outer = [f"{x}!" if rng.random() < 0.15 else x for x in outer]
    tile = [f"{a}.1" for a in spatial]
    rng.shuffle(tile)
    packed = tuple(b.name for b in workload.inputs if b.constant and b.name.startswith("A") and rng.random() < 0.5)
    decisions = {f"{'D' if fused else 'C'}.{a}.1": counts[a][1] for a in spatial}
    steps = [f"{a}.{part}" for part in (0, 1) for a in reduce]
    if lanes in reduce:  # its lanes come last
        steps = [x for x in steps if x != f"{lanes}.1"]
    steps = [f"{x}!" if rng.random() < 0.15 else x for x in steps]
    decisions |= {f"C.{a}.1": counts[a][1] for a in reduce}
    behind = [f"{lanes}.1"] if lanes in reduce else []
    if fused:
        inner = [x.replace(".1", ".0") for x in tile]
        nests = (
            Nest("C", " ".join(["|", *steps, *inner]), vector=f"{lanes}.0", at=f"D:{len(outer)}", packed=packed),
            Nest("D", " ".join([*outer, "|", *tile]), vector=f"{lanes}.1"),
        )
    else:
        nests = (Nest("C", " ".join([*outer, "|", *steps, *tile, *behind]), vector=f"{lanes}.1", packed=packed),)
    sketch = Sketch(workload, nests).check()
    given = {h: decisions.get(h, rng.choice((1, *STEPS))) for h in sketch.holes}
    for hole in sketch.holes:
        if hole.endswith(".parallel"):
            given[hole] = rng.choice((0, 0, *range(1, len(outer) + 1)))
    return Candidate(sketch, given)
