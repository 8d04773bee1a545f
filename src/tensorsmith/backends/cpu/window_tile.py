"""The register tile of a stage that slides a small window over an image, channel by channel: a depthwise convolution.

Neighbouring results read the same values. With results of two rows and four columns on the tile, and all taps of the window written
out, a value is loaded once for all results and taps that use it, where each tap would load it again. Of a large window one row of
taps is written out, beside as many results of a row as leave registers for all values that they read.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter

from tensorsmith.backends.cpu.target import CpuTarget
from tensorsmith.lang.affine import affine
from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.expr import Axis, Load
from tensorsmith.lang.workload import Stage, Workload

_MOST_TAPS = 25  # of a window: more take long to compile, and registers for few of them
_FEW_TAPS = 9  # from more on a row of results is better, where neighbours read the same values
_MOST_TAPS_OF_A_ROW = 13  # beside it: they are written out for each result
_LEAST_RESULTS = 4  # of such a row
_TILES = ((8,), (2, 4), (1, 2, 4))  # results along each dimension of the image, for one, two and three dimensions


def is_window(stage: Stage, lanes: str) -> bool:
    """Whether few products of two operands are added up, both of which move with the axis that runs in lanes."""
    return 1 < _taps(stage) <= _MOST_TAPS and _slides_in_lanes(stage, lanes)


def _taps(stage: Stage) -> int:
    return math.prod(a.extent for a in stage.reduce_axes)


def _slides_in_lanes(stage: Stage, lanes: str) -> bool:
    return len(stage.reads) == 2 and all(_moves(x, lanes) for x in stage.reads)


def row_of_window(workload: Workload, stage: Stage, lanes: str, row: Axis, target: CpuTarget) -> tuple[int, str] | None:
    """Of a window that is too large to be written out: how many results of a row a tile has, and the tap that moves along it."""
    taps = {a.name for a in stage.reduce_axes if a.extent > 1}
    values = [x for x in stage.reads if not workload.buffers[x.tensor].constant]
    if _taps(stage) <= _FEW_TAPS or not _slides_in_lanes(stage, lanes) or len(values) != 1 or not target.folds_loads:
        return None
    slides = _slides(stage, values[0], taps) or {}
    if _taps(stage) <= _MOST_TAPS and any(stage.axis(name).extent < _LEAST_RESULTS for name in slides):
        return None  # most taps of so few rows are on padding: all of them are written out, and these left out
    tap, step, tap_step = slides.get(row.name, ("", 0, 0))
    if step != 1 or tap_step != 1 or stage.axis(tap).extent > _MOST_TAPS_OF_A_ROW:
        return None
    most = (target.vector_registers - stage.axis(tap).extent + 1) // 2  # results, and as many values and some more
    if most < _LEAST_RESULTS:
        return None
    tiles = -(-row.extent // most)
    return -(-row.extent // tiles), tap


def window_tile(workload: Workload, stage: Stage, lanes: str, target: CpuTarget) -> dict[str, int]:
    """How many results along each dimension of the image; nothing where the stage is not of this kind, or gains nothing."""
    taps = [a for a in stage.reduce_axes if a.extent > 1]
    values = [x for x in stage.reads if not workload.buffers[x.tensor].constant]
    if not is_window(stage, lanes) or len(values) != 1 or not target.folds_loads:
        return {}  # machines that want every value in a register have too few of them for all taps: see default_tile.py
    slides = _slides(stage, values[0], {a.name for a in taps})
    if slides is None or not 0 < len(slides) <= len(_TILES) or lanes in slides:
        return {}
    if len({tap for tap, _, _ in slides.values()}) != len(taps):
        return {}
    tile = dict(zip(slides, _TILES[len(slides) - 1]))
    if any(stage.axis(name).extent < size for name, size in tile.items()) or not _fits(
        workload, stage, values[0], slides, tile, target
    ):
        return {}
    return tile


#: by axis of the image: the tap beside it, how far a step of the axis, and of the tap, moves the read
Slides = dict[str, tuple[str, int, int]]


def _slides(stage: Stage, read: Load, taps: set[str]) -> Slides | None:
    """The axes whose index has a tap beside them; None where an index is of another kind."""
    found: Slides = {}
    for index in read.indices:
        form = affine(index)
        if form is None:
            return None
        inside = [name for name in form.terms if name in taps]
        if not inside:
            continue
        outside = [name for name in form.terms if name in {a.name for a in stage.axes}]
        if len(inside) != 1 or len(outside) != 1:
            return None
        found[outside[0]] = (inside[0], abs(form.terms[outside[0]]), abs(form.terms[inside[0]]))
    return found


def _moves(read: Load, axis: str) -> bool:
    return any((form := affine(index)) is not None and axis in form.terms for index in read.indices)


def _fits(workload: Workload, stage: Stage, read: Load, slides: Slides, tile: dict[str, int], target: CpuTarget) -> bool:
    """Whether all that the window of a tile reads finds room in the first cache, whose sets take few lines each."""
    buffer = workload.buffers[read.tensor]
    apart: list[list[int]] = []
    for place, index in enumerate(read.indices):
        form = affine(index)
        assert form is not None
        for name in form.terms.keys() & tile.keys():
            tap, step, tap_step = slides[name]
            stride = math.prod(buffer.shape[place + 1 :]) * dtype(buffer.dtype).bytes
            reads = {i * step + k * tap_step for i in range(tile[name]) for k in range(stage.axis(tap).extent)}
            apart.append([n * stride for n in reads])
    reach = target.l1_bytes // target.l1_ways
    sets = Counter(sum(place) % reach // target.line_bytes for place in itertools.product(*apart))
    return max(sets.values()) <= target.l1_ways
