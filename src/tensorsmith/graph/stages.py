"""Stages of a fused group, made fewer: the form in which equal work looks equal and schedules find something to hold on to.

    t[i] = c[i] + b[i]; s[i] = sigmoid(t[i]); y[i] = t[i] * s[i]     ->  y[i] = (c[i] + b[i]) * sigmoid(c[i] + b[i])
    p[b, h, i, j] = sum(...); y[b, i, h, j] = p[b, h, i, j]          ->  y[b, i, h, j] = sum(...)
    p[g, i] = sum(...); y[c] = relu(p[c // 8, c % 8] + b[c])         ->  q[g, i] = relu(p[g, i] + b[g * 8 + i])
                                                                         y[c] = q[c // 8, c % 8]

What stands behind a product becomes one stage that reads the product element by element, in its order.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace

from tensorsmith.lang.affine import Affine, Bounds, affine, conjuncts, refuted
from tensorsmith.lang.expr import (
    EXPENSIVE,
    Axis,
    Binary,
    Const,
    Expr,
    Load,
    Select,
    Unary,
    Var,
    same,
    substitute,
    transform,
    walk,
    written_out,
)
from tensorsmith.lang.inline import fits, inline
from tensorsmith.lang.workload import Stage, Workload, topological

_LARGEST_BODY = 1000  # nodes of an expression: a value read twice at every step of a long chain would double each time


def simplified(workload: Workload) -> Workload:
    """The workload with numbers, chains of movements, transposes of results and elementwise stages put where they are read."""
    workload = Workload(workload.inputs, tuple(tidied(s) for s in workload.stages), workload.outputs)
    for wanted in (_is_number, _moves_for_movement):
        workload = _inlined_where(workload, wanted)
    workload = _permuted(workload)
    return _split(_inlined_where(workload, _maps_for_maps))


def _inlined_where(workload: Workload, wanted: Callable[[Workload, Stage], bool]) -> Workload:
    for name in [s.name for s in workload.stages]:
        stage = workload.stage(name)
        if name not in workload.outputs and not stage.reduction and wanted(workload, stage) and fits(workload, name):
            readers = workload.consumers[name]
            workload = inline(workload, name)
            stages = tuple(tidied(s) if s.name in readers else s for s in workload.stages)
            workload = Workload(workload.inputs, stages, workload.outputs)
    return workload


def tidied(stage: Stage) -> Stage:
    """The stage without branches that are never taken, and divisions that do nothing.

    A slice of padding reads nothing but padding; i // 8 is 0 for i < 8.
    """
    if any(a.extent == 0 for a in stage.all_axes):
        return stage
    return replace(stage, body=_tidied(stage.body, stage.bounds()))


def _tidied(e: Expr, bounds: Bounds) -> Expr:
    def tidy(x: Expr) -> Expr | None:
        if isinstance(x, Select):
            if any(bounds.affine_range(fact)[1] < 0 for fact in conjuncts(x.cond)):
                return transform(x.b, tidy)
            if any(bounds.affine_range(fact)[1] < 0 for fact in refuted(x.cond)):
                return transform(x.a, tidy)
            inside, outside = bounds.given(x.cond), bounds.otherwise(x.cond)
            if inside is not bounds or outside is not bounds:
                return Select(transform(x.cond, tidy), _tidied(x.a, inside), _tidied(x.b, outside))
        if isinstance(x, Binary) and x.op in ("floordiv", "mod") and x.dtype == "i64" and isinstance(x.b, Const):
            return _divided(Binary(x.op, transform(x.a, tidy), x.b), int(x.b.value), bounds)
        return None

    return transform(e, tidy)


def _divided(e: Binary, divisor: int, bounds: Bounds) -> Expr:
    """(8 * g + i) // 8 is g, and (8 * g + i) % 8 is i, for i < 8."""
    form = affine(e.a)
    if form is None or divisor <= 0:
        return e
    whole = Affine({v: k // divisor for v, k in form.terms.items() if k % divisor == 0}, form.offset // divisor)
    rest = Affine({v: k for v, k in form.terms.items() if k % divisor}, form.offset % divisor)
    low, high = bounds.affine_range(rest)
    if low < 0 or high >= divisor:
        return e
    return _expression(whole if e.op == "floordiv" else rest)


def _expression(form: Affine) -> Expr:
    parts: list[Expr] = [Var(v) if k == 1 else Var(v) * k for v, k in form.terms.items()]
    if form.offset or not parts:
        parts.append(Const(form.offset, "i64"))
    return functools.reduce(lambda a, b: a + b, parts)


def _readers(workload: Workload, stage: Stage) -> list[Stage]:
    return [workload.stage(name) for name in workload.consumers[stage.name]]


def _is_number(workload: Workload, stage: Stage) -> bool:
    return isinstance(stage.body, Const)


def _moves_for_movement(workload: Workload, stage: Stage) -> bool:
    """A movement that only movements read."""
    return _is_movement(stage) and all(_is_movement(r) for r in _readers(workload, stage))


def _is_movement(stage: Stage) -> bool:
    """Whether the stage lists elements of another tensor at places found without a division."""
    body = stage.body
    return not stage.reduction and isinstance(body, Load) and all(affine(i) is not None for i in body.indices)


def _maps_for_maps(workload: Workload, stage: Stage) -> bool:
    """A stage that is cheap, or read once for each of its elements, by stages that reduce nothing."""
    readers = _readers(workload, stage)
    size = written_out(stage.body)
    expensive = any(isinstance(e, (Unary, Binary)) and e.op in EXPENSIVE for e in walk(stage.body))
    for reader in readers:
        if reader.reduction or not all(affine(i) is not None for x in reader.reads if x.tensor == stage.name for i in x.indices):
            return False
        if expensive and (len(readers) > 1 or _extent(reader) > _extent(stage) or len(_places(reader, stage)) > 1):
            return False
        if written_out(reader.body, lambda e: 1 + size * (isinstance(e, Load) and e.tensor == stage.name)) > _LARGEST_BODY:
            return False
    return bool(readers)


def _places(reader: Stage, stage: Stage) -> list[Load]:
    return [x for x in reader.reads if x.tensor == stage.name]


def _extent(stage: Stage) -> int:
    total = 1
    for n in stage.shape:
        total *= n
    return total


def _permuted(workload: Workload) -> Workload:
    """Stages whose only reader reads them in another order of axes, the last one last, computed in that order themselves."""
    for stage in reversed(workload.stages):
        if stage.name in workload.outputs or not workload.is_stage(stage.name):
            continue
        stage = workload.stage(stage.name)
        readers = _readers(workload, stage)
        if len(readers) != 1 or readers[0].reduction:
            continue
        order = _order(stage, readers[0])
        if order is None:
            continue
        body = readers[0].body
        if isinstance(body, Load) and body.tensor == stage.name:
            # nothing but the transpose, perhaps of the start: the stage itself takes its place
            part = tuple(replace(stage.axes[d], extent=a.extent) for d, a in zip(order, readers[0].axes))
            turned = replace(stage, name=readers[0].name, axes=part)
            kept = [turned if s.name == turned.name else s for s in workload.stages if s.name != stage.name]
        elif order != sorted(order):
            turned = replace(stage, axes=tuple(stage.axes[d] for d in order))
            reader = _reading_in_order(readers[0], stage.name, order)
            kept = [turned if s.name == turned.name else reader if s.name == reader.name else s for s in workload.stages]
        else:
            continue
        workload = Workload(workload.inputs, topological(kept), workload.outputs)
    return workload


def _order(stage: Stage, reader: Stage) -> list[int] | None:
    """order[d]: the axis of the stage that the reader's axis d runs along, if each runs along one and the last along the last."""
    places = _places(reader, stage)
    if len(places) != 1 or len(stage.axes) != len(reader.axes) or not stage.axes:
        return None
    (place,) = places
    names = [i.name if isinstance(i, Var) else None for i in place.indices]
    axes = [a.name for a in reader.axes]
    if sorted(map(str, names)) != sorted(axes) or names[-1] != axes[-1]:
        return None
    return [names.index(a) for a in axes]


def _reading_in_order(reader: Stage, name: str, order: list[int]) -> Stage:
    def in_order(e: Expr) -> Expr | None:
        if isinstance(e, Load) and e.tensor == name:
            return Load(name, tuple(e.indices[d] for d in order), e.dtype)
        return None

    return replace(reader, body=transform(reader.body, in_order))


def _split(workload: Workload) -> Workload:
    """Outputs computed from a stage with two axes for their last one (the groups of a convolution), computed with two axes as well.

    What is left is a change of shape, which costs nothing.
    """
    stages: list[Stage] = []
    for stage in workload.stages:
        width = _width(workload, stage) if stage.name in workload.outputs else None
        if width is None:
            stages.append(stage)
            continue
        *lead, last = stage.axes
        outer, inner = Axis(f"{last.name}_outer", last.extent // width), Axis(f"{last.name}_inner", width)
        body = substitute(stage.body, {last.name: Var(outer.name) * width + Var(inner.name)})
        parts = tidied(Stage(f"{stage.name}_parts", (*lead, outer, inner), body))
        place = (*(Var(a.name) for a in lead), Var(last.name) // width, Var(last.name) % width)
        stages += [parts, Stage(stage.name, stage.axes, Load(parts.name, place, stage.dtype))]
    return Workload(workload.inputs, tuple(stages), workload.outputs)


def _width(workload: Workload, stage: Stage) -> int | None:
    """The extent of the inner axis, where a stage does more than read a reduction at (.., c // width, c % width)."""
    if stage.reduction or isinstance(stage.body, Load) or not stage.axes:
        return None
    lead, last = tuple(Var(a.name) for a in stage.axes[:-1]), Var(stage.axes[-1].name)
    for read in stage.reads:
        if workload.is_stage(read.tensor) and workload.stage(read.tensor).reduction:
            width = workload.stage(read.tensor).shape[-1] if read.indices else 0
            if width and same(read.indices, (*lead, last // width, last % width)):
                return width
    return None
