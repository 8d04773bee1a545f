"""Which values stay in registers between two stages."""

from __future__ import annotations

from tensorsmith.lang.affine import affine
from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.workload import Workload
from tensorsmith.program.grouping import lane_bytes
from tensorsmith.program.ir import Block, Loop, LoopVar, Node


def stays_in_registers(workload: Workload, block: Block, reader: Block) -> bool:
    """Whether a block that is computed on its reader's tile hands its values over without storing them.

    It does if it yields just the values, in just the lanes, that a tile of the reader reads. (Where the size of that tile is not
    known when the code is written, the code stores them all the same.)
    """
    stage = block.stage
    if block.outer_reduce or (reader.stage.reduction and reader.reduce):
        return False  # loops that run inside of the reader's tile would find one value of many
    lanes, read_lanes = _lanes(block), _lanes(reader)
    if (lanes is None) != (read_lanes is None):
        return False
    if lanes is not None and (lanes.reduce or dtype(stage.dtype).lane_bytes != lane_bytes(workload, reader.stage)):
        return False
    reads = [x for x in reader.stage.reads if x.tensor == stage.name]
    if workload.consumers[stage.name] != (reader.stage.name,) or len(reads) != 1:
        return False
    bounds = reader.stage.bounds()
    for axis, index in zip(stage.axes, reads[0].indices):
        form = affine(index)
        if form is None or any(c < 0 for c in form.terms.values()):
            return False
        low, high = bounds.affine_range(form)
        if low < 0 or high >= axis.extent:
            return False
        if lanes is None or read_lanes is None:
            continue
        if axis.name == lanes.axis and dict(form.terms) != {read_lanes.axis: 1}:
            return False
        if axis.name != lanes.axis and read_lanes.axis in form.terms:
            return False
    return True


def _lanes(block: Block) -> LoopVar | None:
    return block.loop(block.vector) if block.vector is not None else None


def loops_of_sums(node: Node) -> list[Loop] | None:
    """The reduction loops around a tile, from a node on, if they are all that it has and nothing else is computed in them: its sums
    stay in registers while they run."""
    loops = []
    while isinstance(node, Loop):
        if not node.var.reduce or len(node.body) != 1:
            return None
        loops.append(node)
        node = node.body[0]
    if not loops or node.reduce or len(loops) != len(node.outer_reduce) or (node.vector and node.loop(node.vector).reduce):
        return None
    return loops
