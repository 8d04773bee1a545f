"""Whether indices that are computed from data are in bounds, as a workload of its own.

A load at such an index is clamped, so that nothing outside of the tensor is ever read. Who would rather know runs another workload
beforehand, which finds the smallest and the largest index that each dimension is read at:

    B[i] = select(0 <= I[i], A[I[i]], 0.0)    ->    least = min(select(0 <= I[i], I[i], largest i64), over i);  most = max(...)

Loads in a branch that is not taken are not performed, and do not count.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tensorsmith.lang.expr import Binary, Const, Expr, Load, Select, operands_first, variables
from tensorsmith.lang.workload import Stage, Workload, topological

_LIMITS = np.iinfo(np.int64)
_NEUTRAL = {"min": Const(int(_LIMITS.max), "i64"), "max": Const(int(_LIMITS.min), "i64")}


@dataclass(frozen=True)
class Checked:
    """A dimension of a tensor that a stage reads at places that only the data tell."""

    stage: str
    tensor: str
    dimension: int
    extent: int
    text: str  # of the first such load


def index_check(workload: Workload) -> tuple[Workload, tuple[Checked, ...]] | None:
    """The workload that finds how far such indices go, of those inputs that it needs; None if there are none.

    Its outputs are the least and the largest index of each dimension that is checked, in their order.
    """
    checked: list[Checked] = []
    prefix = "check"
    while any(name.startswith(prefix) for name in workload.buffers):
        prefix += "_"
    found: list[Stage] = []
    for stage in workload.stages:
        if all(a.extent for a in stage.all_axes):
            for load, dimension in _from_data(stage):
                least, most = (f"{prefix}{len(checked)}_{word}" for word in ("least", "most"))
                extent = workload.buffers[load.tensor].shape[dimension]
                checked.append(Checked(stage.name, load.tensor, dimension, extent, str(load)))
                found += [_furthest(stage, load.tensor, dimension, op, name) for op, name in (("min", least), ("max", most))]
    if not checked:
        return None
    needed, todo = {s.name: s for s in found}, [*found]
    while todo:
        for read in todo.pop().reads:
            if workload.is_stage(read.tensor) and read.tensor not in needed:
                needed[read.tensor] = workload.stage(read.tensor)
                todo.append(needed[read.tensor])
    read_at_all = {x.tensor for s in needed.values() for x in s.reads}
    inputs = tuple(b for b in workload.inputs if b.name in read_at_all)
    return Workload(inputs, topological(needed.values()), tuple(s.name for s in found)).check(), tuple(checked)


def _from_data(stage: Stage) -> Iterator[tuple[Load, int]]:
    """The dimensions that a stage reads at indices of which nothing is known beforehand: each once, with the first such load."""
    bounds, seen = stage.bounds(), set()
    for load in stage.reads:
        for dimension, index in enumerate(load.indices):
            if bounds.range(index) is None and (load.tensor, dimension) not in seen:
                seen.add((load.tensor, dimension))
                yield load, dimension


def _furthest(stage: Stage, tensor: str, dimension: int, op: str, name: str) -> Stage:
    """The stage that finds the smallest (`op` is "min") or largest index at which another one reads a dimension of a tensor."""
    bounds, nothing = stage.bounds(), _NEUTRAL[op]
    found: dict[Expr, Expr] = {}  # the furthest index of all loads that are performed for a node

    def furthest(*parts: Expr) -> Expr:
        different = [x for x in dict.fromkeys(parts) if x is not nothing]
        result = different[0] if different else nothing
        for x in different[1:]:
            result = Binary(op, result, x)
        return result

    for e in operands_first(stage.body):
        inside = [found[c] for c in e.operands]
        if isinstance(e, Select):
            cond, a, b = inside
            found[e] = furthest(cond, nothing if a is nothing and b is nothing else Select(e.cond, a, b))
        elif isinstance(e, Load) and e.tensor == tensor and bounds.range(e.indices[dimension]) is None:
            found[e] = furthest(*inside, e.indices[dimension])
        else:
            found[e] = furthest(*inside)
    body = found[stage.body]
    used = variables(body)
    axes = tuple(a for a in stage.all_axes if a.name in used)
    return Stage(name, (), body, op, axes) if axes else Stage(name, (), body)
