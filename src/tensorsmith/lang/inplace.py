"""Which input of a workload its output may overwrite."""

from __future__ import annotations

from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.expr import Const, Load, Var
from tensorsmith.lang.workload import Stage, Workload


def replaceable_inputs(workload: Workload) -> frozenset[str]:
    """The inputs whose memory the output may take, because element i of the output needs element i of them and no other.

    Only a workload of one stage without a reduction has any. Every element is computed once (tails are masked, not computed
    twice), so nothing reads an element after it was overwritten.
    """
    if len(workload.stages) != 1 or workload.stages[0].reduction:
        return frozenset()
    (stage,) = workload.stages
    size = dtype(stage.dtype).bytes
    found = {b.name for b in workload.inputs if not b.constant and b.shape == stage.shape and dtype(b.dtype).bytes == size}
    return frozenset(found - {x.tensor for x in stage.reads if not _is_here(x, stage)})


def _is_here(read: Load, stage: Stage) -> bool:
    """Whether a read of a tensor of the stage's shape is at the very point that is computed."""
    return all(
        index == Var(axis.name) or (axis.extent == 1 and isinstance(index, Const)) for index, axis in zip(read.indices, stage.axes)
    )
