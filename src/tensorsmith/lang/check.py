"""What has to hold of a workload: names are clear, loads are in bounds, of the right rank and type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensorsmith.errors import UserError
from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.expr import REDUCTIONS, Expr, Load, Reduce, Var, depth, walk
from tensorsmith.lang.in_bounds import out_of_bounds
from tensorsmith.lang.stage import Buffer, Stage
from tensorsmith.show.line import many

DEEPEST = 256  # nodes of a body that stand inside each other: what goes through it calls itself for each


def check(inputs: Sequence[Buffer], stages: Sequence[Stage], outputs: Sequence[str]) -> None:
    """Raises `UserError` where names clash or a load is out of bounds, of the wrong rank or type."""
    buffers: dict[str, Buffer] = {}
    for buffer in (*inputs, *(s.buffer() for s in stages)):
        if buffer.name in buffers:
            raise UserError(f"two tensors are called {buffer.name!r}; give each a name of its own")
        buffers[buffer.name] = buffer
        if any(n < 0 for n in buffer.shape):
            raise UserError(f"{buffer.name} has a negative extent: {list(buffer.shape)}")
    _check_order(inputs, stages)
    for stage in stages:
        _check_stage(buffers, stage)
    computed = {s.name for s in stages}
    for name in outputs:
        if name not in computed:
            raise UserError(f"output {name!r} is not computed by any stage")
        if outputs.count(name) > 1:
            raise UserError(f"{name!r} is an output more than once; give each output once")


def _check_order(inputs: Sequence[Buffer], stages: Sequence[Stage]) -> None:
    computed = {s.name for s in stages}
    seen = {b.name for b in inputs}
    for stage in stages:
        for read in stage.reads:
            if read.tensor not in seen and read.tensor in computed:
                raise UserError(f"stage {stage.name} reads {read.tensor}, which is not computed before it")
        seen.add(stage.name)


def _check_stage(buffers: Mapping[str, Buffer], stage: Stage) -> None:
    if stage.reduction not in (None, *REDUCTIONS):
        raise UserError(f"stage {stage.name}: unknown reduction {stage.reduction!r}; known are {', '.join(REDUCTIONS)}")
    if bool(stage.reduction) != bool(stage.reduce_axes):
        raise UserError(f"stage {stage.name}: a reduction needs reduce axes, and they a reduction")
    names = [a.name for a in stage.all_axes]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"stage {stage.name}: the axis name {name!r} is used twice; give the reduce axis another name")
    for a in stage.all_axes:
        if a.extent < 0:
            raise UserError(f"stage {stage.name}: axis {a.name} has the negative extent {a.extent}")
    if stage.reduction and dtype(stage.dtype).kind == "b":
        raise UserError(f"stage {stage.name}: cannot reduce bool by {stage.reduction}; use any() or all(), or cast to i32 first")
    if any(a.extent == 0 for a in stage.all_axes):
        return  # nothing is ever read
    for e in walk(stage.body):
        _check_node(buffers, stage, e)
    check_depth(stage.name, stage.body)
    problem = out_of_bounds(stage.body, stage.bounds(), {name: b.shape for name, b in buffers.items()})
    if problem is not None:
        e, position, low, high = problem
        last = buffers[e.tensor].shape[position] - 1
        raise UserError(
            f"stage {stage.name}: `{e}` reads dimension {position} of {e.tensor} at `{e.indices[position]}`, which takes values "
            f"{low}..{high}; allowed are 0..{last}. Guard it with select(), or mend the shape"
        )


def _check_node(buffers: Mapping[str, Buffer], stage: Stage, e: Expr) -> None:
    if isinstance(e, Reduce):
        raise UserError(f"stage {stage.name}: a reduction must be the whole body; put `{e}` in a stage of its own")
    axes = [a.name for a in stage.all_axes]
    if isinstance(e, Var) and e.name not in axes:
        known = ", ".join(axes) or "none"
        why = "a reduce axis is known inside of its reduction only"
        raise UserError(f"stage {stage.name}: unknown axis {e.name!r}; this stage has {known}, and {why}")
    if isinstance(e, Load):
        _check_load(buffers, stage, e)


def _check_load(buffers: Mapping[str, Buffer], stage: Stage, e: Load) -> None:
    buffer = buffers.get(e.tensor)
    if buffer is None:
        raise UserError(f"stage {stage.name} reads {e.tensor!r}, which is neither an input nor a stage")
    if len(e.indices) != len(buffer.shape):
        raise UserError(
            f"stage {stage.name}: `{e}` has {len(e.indices)} indices; "
            f"{e.tensor} has {many(len(buffer.shape), 'dimension')} {list(buffer.shape)}"
        )
    if e.dtype != buffer.dtype:
        raise UserError(f"stage {stage.name}: `{e}` is read as {e.dtype}, {e.tensor} is {buffer.dtype}")


def check_depth(name: str, body: Expr) -> None:
    """Raises `UserError` where a body is too deep to be worked with."""
    if depth(body) > DEEPEST:
        raise UserError(
            f"stage {name}: {depth(body)} operations of its body stand inside each other, at most {DEEPEST} may; "
            "put some of them in a stage of their own"
        )
