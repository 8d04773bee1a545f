"""Which input of a workload its output may overwrite."""

from __future__ import annotations

from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.expr import Const, Load, Var, same
from tensorsmith.lang.flat import reads_in_order
from tensorsmith.lang.workload import Stage, Workload


def replaceable_inputs(workload: Workload) -> frozenset[str]:
    """The inputs whose memory the output may take, because element i of the output needs element i of them and no other.

    They are read by the output itself, or by stages that it alone reads, element by element. Every element is computed once (tails
    are masked, not computed twice), and wherever those stages are computed, an element of theirs is computed before that of the
    output, and never again: nothing reads an element after it was overwritten.

    `workload` is what is compiled: the stages that a sketch's rewrites leave.
    """
    if len(workload.outputs) != 1:
        return frozenset()
    output = workload.stage(workload.outputs[0])
    if output.reduction:
        return frozenset()
    stages = {output.name}
    for stage in reversed(workload.stages):  # readers first
        if stage.reduction is None and stage.shape == output.shape and workload.consumers[stage.name]:
            readers = [workload.stage(r) for r in workload.consumers[stage.name]]
            if all(r.name in stages and _is_here(x, r) for r in readers for x in r.reads if x.tensor == stage.name):
                stages.add(stage.name)
    size, found = dtype(output.dtype).bytes, set()
    for b in workload.inputs:
        readers = [workload.stage(r) for r in workload.consumers[b.name]]
        if b.constant or dtype(b.dtype).bytes != size or not readers:
            continue
        if all(r.name in stages and reads_in_order(r, x, b.shape) for r in readers for x in r.reads if x.tensor == b.name):
            found.add(b.name)
    return frozenset(found)


def _is_here(read: Load, stage: Stage) -> bool:
    """Whether a read of a tensor of the stage's shape is at the very point that is computed."""
    return all(
        same(index, Var(axis.name)) or (axis.extent == 1 and isinstance(index, Const))
        for index, axis in zip(read.indices, stage.axes)
    )
