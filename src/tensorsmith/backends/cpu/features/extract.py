"""Features of a batch of candidates of one structure, or of one program. What they mean is in `schema.py`.

`lower_decisions` gives one loop tree whose counts are arrays; it is walked once, and every quantity has an entry per candidate:

    accesses of each block  ->  what they touch at every loop  ->  what one step of each loop touches, all blocks together
    ->  reuse, traffic, registers, ...  ->  one row of numbers per block and candidate
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from tensorsmith.backends.cpu.features.analysis import Analysis
from tensorsmith.backends.cpu.features.nest import batch_size
from tensorsmith.backends.cpu.features.numbers import Array, Integer, Num
from tensorsmith.backends.cpu.features.schema import SCHEMA
from tensorsmith.backends.cpu.features.statement import Statement, statements
from tensorsmith.backends.cpu.memory import spacing
from tensorsmith.backends.cpu.rates import DEFAULT, Machine
from tensorsmith.backends.cpu.target import CpuTarget
from tensorsmith.learn.features.rows import FeatureMatrix
from tensorsmith.program.ir import Program
from tensorsmith.program.lower import lower_decisions
from tensorsmith.space.sketch.sketch import Sketch

_LOG2_E = np.float32(1 / np.log(2))
_COLUMNS = {f.name: (n, f.scaled) for n, f in enumerate(SCHEMA.features)}


def extract(
    program: Program,
    target: CpuTarget,
    n: int | None = None,
    decisions: Mapping[str, Integer] | None = None,
    machine: Machine = DEFAULT,
) -> FeatureMatrix:
    """The features of every candidate in a lowered batch, or of one program.

    `n` is the number of candidates where no array in the program tells it. A program does not say how many loops are parallel
    for each candidate of a batch (a loop is marked if it is for any); where that differs, give the `decisions` too.
    """
    size = n if n is not None else batch_size(program)
    found = analyse(program, target, decisions, machine)
    values = np.zeros((size, len(found), len(SCHEMA)), np.float32)
    for n, statement in enumerate(found):
        fill(values[:, n].T, statement.values)
    return FeatureMatrix(values, tuple(s.nested.stage for s in found), SCHEMA)


def fill(columns: Array, values: Mapping[str, Num], share: Array | None = None) -> None:
    """Writes features of a statement, those that are not zero: `columns[feature, candidate]`. With `share`, the values are of
    fewer candidates, and it tells which of them is like each."""
    some = None if share is None else np.empty(int(share.max()) + 1, np.float32)
    for name, value in values.items():
        number, scaled = _COLUMNS[name]
        column = columns[number]
        if some is None or share is None or np.ndim(value) == 0:
            _fill(column, value, scaled)
        else:
            _fill(some, value, scaled)
            some.take(share, out=column, mode="clip")


def _fill(column: Array, value: Num, scaled: bool) -> None:
    """Writes a feature of all candidates, scaled: log2(x + 1)."""
    if isinstance(value, float) or np.ndim(value) == 0:
        if value:
            column.fill(math.log2(float(value) + 1.0) if scaled else float(value))
    elif scaled:
        np.add(value, 1.0, out=column, casting="same_kind")
        np.log(column, out=column)
        np.multiply(column, _LOG2_E, out=column)
    else:
        column[:] = value


def extract_decisions(
    sketch: Sketch, decisions: Mapping[str, Integer], target: CpuTarget, machine: Machine = DEFAULT
) -> FeatureMatrix:
    """Lowers a batch of candidates of one sketch (an array or a number per hole) and extracts its features."""
    sizes = {len(v) for v in decisions.values() if isinstance(v, np.ndarray) and v.ndim} or {1}
    return extract(lower_decisions(sketch, decisions), target, max(sizes), decisions, machine)


def analyse(
    program: Program, target: CpuTarget, decisions: Mapping[str, Integer] | None = None, machine: Machine = DEFAULT
) -> list[Statement]:
    """The unscaled features of every block, and what they were made from."""
    found = statements(program, spacing(target), decisions)
    analysis = Analysis(target, machine)
    for s in found:
        analysis.footprints(s)
    bodies = analysis.bodies(found)
    for s in found:
        s.bodies = [bodies[""], *(bodies[level.name] for level in s.nested.levels)]
        analysis.describe(s)
        s.values |= analysis.traffic(s, s.bodies)
    return found
