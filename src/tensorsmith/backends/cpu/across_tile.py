"""The register tile of a stage whose lanes run along its reduction: products that give few numbers for each row.

The lanes of every result have to be added up at the end, which is done for several at once (`codegen/folding.py`). That is cheapest
where the results of a tile are neighbours in memory, and as many as make whole vectors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tensorsmith.backends.cpu.target import CpuTarget
from tensorsmith.lang.dtypes import is_float
from tensorsmith.lang.expr import Axis
from tensorsmith.lang.workload import Stage, Workload
from tensorsmith.space.analysis import elementwise_match, is_expensive

Tiles = Sequence[tuple[float, tuple[int, int]]]  # cycles of one step of all results; rows and columns of a tile

_MANY_ROWS = 8  # whose sums, in one vector each, keep the units busy
_FOLDED = 8  # results whose lanes are added up together, at most
_ALONE = 12  # cycles of an exponential or the like of one result: what follows on such a tile has no lanes


@dataclass(frozen=True)
class AcrossTile:
    """Rows of a tile, results of the last axis for each, and of axes between these two, of which it has all steps."""

    rows: int
    columns: int
    beside: dict[str, int] = field(default_factory=dict)


def across_lanes(axis: Axis, lanes: int, target: CpuTarget) -> int:
    """Lanes along a reduction: half of a vector's if the last one were half empty, where two halves take no longer than a whole."""
    left = axis.extent % lanes
    return lanes // 2 if target.halves_are_free and 0 < left <= lanes // 2 else lanes


def across_pays(workload: Workload, stage: Stage, lanes: Axis, width: int, target: CpuTarget) -> bool:
    """Whether lanes along a reduction take fewer cycles than lanes along the last axis, which does not fill them.

    Sums of few rows wait for each other along the last axis. Nobody has counted integers, which are multiplied in groups there, and
    cores that take instructions in their order, which have other tiles (`in_order.py`).
    """
    results = stage.axes[-1].extent if stage.axes else 1
    if math.prod(stage.shape) < _MANY_ROWS * results or not is_float(stage.dtype) or target.in_order:
        return True
    others = math.prod(a.extent for a in stage.reduce_axes if a is not lanes)
    along = others * lanes.extent * _cycles(1 << (results - 1).bit_length(), width, target)
    part = across_lanes(lanes, width, target)
    across = results * others * -(-lanes.extent // part) * _cycles(part, width, target)
    on_tile = [workload.stage(r) for r in workload.consumers[stage.name] if elementwise_match(workload, stage.name, r)]
    alone = _ALONE if any(is_expensive(reader.body) for reader in on_tile) else 0
    return across + results * (_folded(part) + alone) < along


def _cycles(lanes: int, width: int, target: CpuTarget) -> float:
    """Of a multiply-add of so many lanes of a vector."""
    return 0.5 if target.halves_are_free and 2 * lanes <= width else 1.0


def across_tile(stage: Stage, rows: Axis, lanes: Axis, width: int, tiles: Callable[[int], Tiles]) -> AcrossTile | None:
    """The best of the `tiles` with so many columns, if these are few: with all axes behind the rows, or with the last alone.

    The first has neighbours in memory for results, the second fewer of them, where registers are few. None where a tile cannot have
    all channels.
    """
    place = [a.name for a in stage.axes].index(rows.name) + 1
    *between, last = stage.axes[place:] or (None,)
    if last is None:
        return None
    steps = math.prod(a.extent for a in stage.reduce_axes if a is not lanes) * -(-lanes.extent // width)
    phases = math.prod(a.extent for a in between)
    found = []
    for beside in ({a.name: a.extent for a in between if a.extent > 1}, {}):
        columns = last.extent * math.prod(beside.values())
        apart = 0 if beside or phases == 1 else rows.extent * columns  # results that are stored one by one
        for cycles, tile in tiles(columns):
            if tile[1] == columns:
                whole = steps * cycles + _folding(rows.extent, tile[0], columns, width) + apart
                found.append((whole if beside else phases * whole, AcrossTile(tile[0], last.extent, beside)))
    return min(found, key=lambda one: one[0])[1] if found else None


def _folding(rows: int, size: int, columns: int, width: int) -> float:
    """Cycles in which the lanes of all results are added up, in tiles of so many rows."""
    together = min(width, _FOLDED)
    vectors = rows // size * -(-size * columns // together) + -(-(rows % size) * columns // together)
    return vectors * together * _folded(width)


def _folded(width: int) -> float:
    """Of each result, if they make whole vectors; twice as many if these have to be halved first."""
    return 1.0 if width <= _FOLDED else 2.0
