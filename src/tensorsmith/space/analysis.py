"""What the derivation rules and the default schedule want to know of a workload.

An access is *simple* if every index is a constant or a spatial axis plus a constant. A stage *needs tiling* if it reads some
tensor again and again: an axis of the stage that does not move through the tensor is an axis along which its elements are reused.
"""

from __future__ import annotations

from dataclasses import dataclass

from tensorsmith.lang.affine import affine, conjuncts
from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.expr import EXPENSIVE, Binary, Const, Expr, Load, Select, Unary, variables, walk
from tensorsmith.lang.flat import reads_in_order
from tensorsmith.lang.workload import Stage, Workload


@dataclass(frozen=True)
class Access:
    """Facts about one load. `axes` lists, per dimension, the spatial axis it follows (None for a constant)."""

    simple: bool
    axes: tuple[str | None, ...] = ()
    missing: bool = False  # some spatial axis is not used: a broadcast
    repeated: bool = False  # some is used twice: a diagonal
    in_order: bool = False  # axes appear in the stage's order
    shifted: bool = False  # some constant offset is not zero


def access(stage: Stage, load: Load) -> Access:
    """How a stage reads a tensor at one place."""
    order = {a.name: n for n, a in enumerate(stage.axes)}
    followed: list[str | None] = []
    shifted = False
    for index in load.indices:
        form = affine(index)
        if form is None or len(form.terms) > 1:
            return Access(False)
        if not form.terms:
            followed.append(None)
            continue
        ((name, coefficient),) = form.terms.items()
        if coefficient != 1 or name not in order:
            return Access(False)
        shifted = shifted or form.offset != 0
        followed.append(name)
    used = [n for n in followed if n is not None]
    positions = [order[n] for n in used]
    return Access(
        True,
        tuple(followed),
        missing=len(set(used)) < len(stage.axes),
        repeated=len(set(used)) < len(used),
        in_order=positions == sorted(positions),
        shifted=shifted,
    )


def is_expensive(e: Expr) -> bool:
    """Whether computing `e` costs many instructions."""
    return any(isinstance(x, (Unary, Binary)) and x.op in EXPENSIVE for x in walk(e))


def has_branch(e: Expr) -> bool:
    return any(isinstance(x, Select) for x in walk(e))


def is_strictly_inlinable(stage: Stage) -> bool:
    """Whether recomputing the stage in its readers costs next to nothing and disturbs no memory order."""
    if stage.reduction:
        return False
    if not stage.reads:
        return True
    if is_expensive(stage.body) or has_branch(stage.body):
        return False
    found = [access(stage, x) for x in stage.reads]
    return all(a.simple and a.in_order and not a.repeated for a in found)


def needs_tiling(stage: Stage) -> bool:
    """Whether the stage reuses what it reads along some axis, so that tiles pay."""
    missing = 0
    for tensor in dict.fromkeys(x.tensor for x in stage.reads):
        used: set[str] = set()
        for x in stage.reads:
            if x.tensor == tensor:
                used |= variables(x)
        if any(a.extent > 1 and a.name not in used for a in stage.axes):
            missing += 1
    return missing >= 2 or (missing >= 1 and stage.reduction is not None)


def elementwise_match(workload: Workload, producer: str, consumer: str) -> bool:
    """Whether the consumer reads the producer, and only it does, element by element at the very same place.

    A chain of such readers, each the only one of the stage before it, counts too.
    """
    readers = workload.consumers[producer]
    if len(readers) != 1 or producer in workload.outputs or not workload.is_stage(producer):
        return False
    stage = workload.stage(readers[0])
    if stage.shape != workload.stage(producer).shape:
        return False
    found = [access(stage, x) for x in stage.reads if x.tensor == producer]
    if not all(a.simple and a.in_order and not (a.missing or a.repeated or a.shifted) for a in found):
        return False
    return stage.name == consumer or elementwise_match(workload, stage.name, consumer)


def common_outer_axes(workload: Workload, producer: str, consumer: str) -> int:
    """How many leading axes a producer and a reader of it (perhaps through others) run through in step."""
    common = {consumer: len(workload.buffers[consumer].shape)}  # of each tensor on a way to the consumer
    for name in reversed(workload.buffers):  # readers first
        readers = [r for r in workload.consumers[name] if r in common]
        if readers and name != consumer:
            common[name] = min(min(common[r], _common_with_reader(workload, name, r)) for r in readers)
        if name == producer:
            break
    return common.get(producer, 0)


def _common_with_reader(workload: Workload, producer: str, reader: str) -> int:
    shape, stage = workload.buffers[producer].shape, workload.stage(reader)
    count = min(len(shape), len(stage.axes))
    for read in stage.reads:
        if read.tensor != producer:
            continue
        for n in range(count):
            form = affine(read.indices[n])
            same = form is not None and dict(form.terms) == {stage.axes[n].name: 1} and form.offset == 0
            if not same or shape[n] != stage.axes[n].extent:
                count = n
                break
    return count


def is_padding(stage: Stage) -> bool:
    """Whether the stage copies a tensor with a constant around it."""
    body = stage.body
    return (
        stage.reduction is None
        and isinstance(body, Select)
        and isinstance(body.a, Load)
        and not isinstance(body.b, Load)
        and not variables(body.b)
    )


def is_movement(stage: Stage) -> bool:
    """Whether the stage only moves elements, at affine indices (a transpose): reading it is reading what it reads."""
    return stage.reduction is None and isinstance(stage.body, Load) and all(affine(i) is not None for i in stage.body.indices)


def is_reshape(workload: Workload, stage: Stage) -> str | None:
    """The tensor whose elements the stage lists in the very same order under another shape, if it does only that."""
    if stage.reduction or not isinstance(stage.body, Load):
        return None
    source = workload.buffers[stage.body.tensor]
    return source.name if source.dtype == stage.dtype and reads_in_order(stage, stage.body, source.shape) else None


def element_bytes(stage: Stage) -> int:
    return dtype(stage.dtype).bytes


def reduces_constant(workload: Workload, stage: Stage) -> bool:
    """Whether the stage reduces a few elements against tensors that are computed from indices alone (Winograd's matrices)."""
    if not stage.reduction or any(a.extent > _CONSTANT_EXTENT for a in stage.reduce_axes):
        return False
    return bool(_constant_reads(workload, stage))


def constant_axes(workload: Workload, stage: Stage) -> frozenset[str]:
    """The short axes that choose elements of such constant tensors: laid out, they make these plain numbers."""
    used = {name for x in _constant_reads(workload, stage) for name in variables(x)}
    return frozenset(a.name for a in stage.all_axes if a.name in used and a.extent <= _CONSTANT_EXTENT)


def _constant_reads(workload: Workload, stage: Stage) -> list[Load]:
    return [x for x in stage.reads if workload.is_stage(x.tensor) and not workload.stage(x.tensor).reads]


def selecting_axes(stage: Stage) -> frozenset[str]:
    """The short axes by which a stage without reduction chooses an expression, as in `select(u == 0, a + b, select(u == 1, ...))`.

    Laid out, they make the choice beforehand (Winograd's transforms, one dimension at a time).
    """
    if stage.reduction or not stage.reads:
        return frozenset()
    short = {a.name for a in stage.axes if 1 < a.extent <= _CONSTANT_EXTENT}
    chosen: set[str] = set()
    e = stage.body
    while isinstance(e, Select) and isinstance(e.cond, Binary) and e.cond.op == "eq":
        form = affine(e.cond.a)
        if form is None or len(form.terms) != 1 or not isinstance(e.cond.b, Const):
            break
        chosen |= set(form.terms)
        e = e.b
    return frozenset(chosen & short)


_CONSTANT_EXTENT = 8


def lane_axis(stage: Stage) -> str | None:
    """The axis to run in lanes where a stage is not tiled: neighbours in memory, where it is read and where it is written."""
    spatial = [a for a in stage.axes if a.extent > 1]
    if not stage.reduction:
        return spatial[-1].name if spatial else None
    if spatial and spatial[-1] is stage.axes[-1] and _contiguous(stage, spatial[-1].name):
        return spatial[-1].name
    long = [a for a in stage.reduce_axes if a.extent > 1]
    if long:
        return long[-1].name
    return spatial[-1].name if spatial else None


def chooses_by(stage: Stage, axis: str) -> bool:
    """Whether an element depends on its place along an axis, as in a concatenation: if the code knows the place, most vectors are
    of one kind. Padding has other ways."""
    if stage.reduction or is_padding(stage):
        return False
    tested = (x.cond for x in walk(stage.body) if isinstance(x, Select))
    return any(axis in fact.terms for cond in tested for fact in conjuncts(cond))


def transposing_axis(stage: Stage) -> str | None:
    """The axis that runs through neighbours in memory where the lanes do not, in a stage that turns a tensor over.

    Some steps of it on the tile make squares, which are turned over in registers.
    """
    along = lane_axis(stage)
    if stage.reduction or along is None:
        return None
    for read in stage.reads:
        last = affine(read.indices[-1]) if read.indices else None
        if last is not None and along in variables(read) and along not in last.terms:
            for name, coefficient in last.terms.items():
                if coefficient == 1 and stage.axis(name).extent > 1:
                    return name
    return None


def _contiguous(stage: Stage, axis: str) -> bool:
    """Whether reads move along an axis, and all that do move from neighbour to neighbour."""
    moving = [x for x in stage.reads if axis in variables(x)]
    for read in moving:
        for n, index in enumerate(read.indices):
            if axis in variables(index):
                form = affine(index)
                if form is None or form.terms[axis] != 1 or n != len(read.indices) - 1:
                    return False
    return bool(moving)
