"""How many operations every program of a workload has to do, in whatever formulation: only those that are certain.

A program need not compute what is multiplied by the zeros of a padding, so of a stage that reads one, the points count at which
all that it reads lies inside: counted, not estimated.

    pad[h<16, w<16] = select(1 <= h & h < 15 & 1 <= w & w < 15, x[h - 1, w - 1], 0.0)
    conv[h<14, w<14] = sum(pad[h + kh, w + kw] * weight[kh, kw], over kh<3, kw<3)       (40 / 42) ** 2 of its points

Of a stage with conditions of its own, or of whose producers more than that is not known, nothing counts; nor does what reads
constants alone. Of another formulation (Winograd's) the largest stage counts alone: the transforms before and behind it multiply by
many zeros and ones. The fewest operations over all formulations are the answer.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping

import numpy as np

from tensorsmith.lang.affine import Affine, affine
from tensorsmith.lang.expr import Binary, Const, Expr, Load, Select, joined, walk
from tensorsmith.lang.flops import stage_flops
from tensorsmith.lang.workload import Stage, Workload
from tensorsmith.rewrites.formulations import formulations

_MOST_POINTS = 1 << 22  # at which conditions are looked at


@functools.lru_cache(maxsize=1024)
def needed_flops(workload: Workload) -> float:
    """Operations on f32 that nobody can do without; 0 where that is not known."""
    if any(b.dtype != "f32" for b in workload.buffers.values()):
        return 0.0
    options = formulations(workload)
    return min(sum(_of_stages(options[0].workload)), *(_largest(f.workload) for f in options[1:]), math.inf)


def _largest(workload: Workload) -> float:
    """Of the products in the middle of another formulation: what they read is computed, so none of them is known to be zero."""
    return float(max((stage_flops(s) for s in workload.stages if not _is_conditional(s)), default=0))


def _is_conditional(stage: Stage) -> bool:
    return any(isinstance(e, Select) for e in walk(stage.body))


def _of_stages(workload: Workload) -> list[float]:
    stages = {s.name: s for s in workload.stages}
    constant = {b.name for b in workload.inputs if b.constant}
    unknown: set[str] = set()  # tensors with values that may be known beforehand, without being those of a padding
    found = []
    for stage in workload.stages:
        loads = [e for e in walk(stage.body) if isinstance(e, Load)]
        if loads and all(load.tensor in constant for load in loads):
            constant.add(stage.name)
            continue
        conditional = _is_conditional(stage)
        doubtful = any(load.tensor in unknown for load in loads)
        if conditional or doubtful:
            if not (is_padding(stage) and not doubtful):
                unknown |= {stage.name} if not stage.reduction else set()
            continue
        padded = [load for load in loads if load.tensor in stages and is_padding(stages[load.tensor])]
        if padded and not stage.reduction:
            unknown.add(stage.name)
        found.append(_share_inside(stage, padded, stages) * stage_flops(stage))
    return found


def is_padding(stage: Stage) -> bool:
    """Whether a stage is a tensor with a border of one value: a choice by affine conditions on its axes."""
    body = stage.body
    return (
        not stage.reduction
        and isinstance(body, Select)
        and isinstance(body.a, Load)
        and isinstance(body.b, Const)
        and all(_slack(part) is not None for part in joined(body.cond, "and"))
    )


def _slack(part: Expr) -> Affine | None:
    """What is at least 0 where a comparison holds, and nowhere else."""
    if not isinstance(part, Binary) or part.op not in ("lt", "le"):
        return None
    a, b = affine(part.a), affine(part.b)
    return None if a is None or b is None else b + a.scaled(-1) + Affine({}, -int(part.op == "lt"))


def _share_inside(stage: Stage, padded: list[Load], stages: Mapping[str, Stage]) -> float:
    """The share of a stage's points at which all that it reads of paddings lies inside of them; 0 if nobody knows."""
    facts: list[Affine] = []
    for load in padded:
        padding = stages[load.tensor]
        assert isinstance(padding.body, Select)
        at = {axis.name: affine(index) for axis, index in zip(padding.axes, load.indices)}
        for part in joined(padding.body.cond, "and"):
            slack = _slack(part)
            places = [] if slack is None else [(at.get(name), n) for name, n in slack.terms.items()]
            if slack is None or any(place is None for place, _ in places):
                return 0.0
            facts.append(sum((place.scaled(n) for place, n in places if place is not None), Affine({}, slack.offset)))
    extents = {a.name: a.extent for a in stage.all_axes}
    share = 1.0
    for together in _connected(facts):
        names = sorted({name for fact in together for name in fact.terms})
        if math.prod(extents[name] for name in names) > _MOST_POINTS:
            return 0.0
        grid = dict(zip(names, np.meshgrid(*(np.arange(extents[n]) for n in names), indexing="ij", sparse=True)))
        inside = np.ones([extents[n] for n in names], bool)
        for fact in together:
            inside &= np.asarray(sum(c * grid[n] for n, c in fact.terms.items()) + fact.offset) >= 0
        share *= float(inside.mean())
    return share


def _connected(facts: list[Affine]) -> list[list[Affine]]:
    """Facts by the axes that they share, directly or through others."""
    groups: list[tuple[set[str], list[Affine]]] = []
    for fact in facts:
        names, mine = set(fact.terms), [fact]
        for group in [g for g in groups if g[0] & names]:
            groups.remove(group)
            names |= group[0]
            mine += group[1]
        groups.append((names, mine))
    return [mine for _, mine in groups]
