"""Features of candidates: each structure is lowered once for all its candidates, and each of its kernels is a row for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tensorsmith.backends.gpu.features.columns import columns
from tensorsmith.backends.gpu.features.kernel import Told
from tensorsmith.backends.gpu.features.schema import SCHEMA
from tensorsmith.backends.gpu.target import GpuTarget
from tensorsmith.learn.features.rows import Batch, FeatureRows, Section
from tensorsmith.program.ir import own_block
from tensorsmith.program.lower import lower_decisions


def extract_rows(batches: Sequence[Batch], target: GpuTarget, pragmas: Sequence[Any] = ()) -> FeatureRows:
    """The features of all candidates of all batches, kernel by kernel.

    `pragmas`: for code that is not ours, one for each batch, how many statements the compiler was asked to lay out at most
    (TVM's `auto_unroll_max_step`). Ours lays out all results of a thread.
    """
    values, candidate, sections = [np.empty((0, len(SCHEMA)), np.float32)], [np.empty(0, np.int64)], []
    rows = candidates = 0
    for number, (sketch, decisions) in enumerate(batches):
        size = max((np.size(v) for v in decisions.values()), default=1)
        laid_out = {n.stage: pragmas[number] for n in sketch.nests} if pragmas else {}
        program = lower_decisions(sketch, decisions)
        first = []
        for root in program.body:
            values.append(columns(Told(program, root, size, target, laid_out).told(), size, target))
            candidate.append(np.arange(candidates, candidates + size))
            first.append(rows)
            rows += size
        sections.append(Section(tuple(own_block(root).stage.name for root in program.body), tuple(first), size))
        candidates += size
    return FeatureRows(np.concatenate(values), np.concatenate(candidate), candidates, tuple(sections), SCHEMA)
