"""The schedule without a search: of the usual blocks of every sketch, made to fit, the one with the least estimated time."""

from __future__ import annotations

import numpy as np

from tensorsmith.backends.gpu.target import GpuTarget
from tensorsmith.lang.workload import Workload
from tensorsmith.space.sketch.sketch import Candidate


def default_candidate(workload: Workload, target: GpuTarget) -> Candidate:
    """A decent candidate from the target's facts; always legal."""
    # the tactics know this function
    from tensorsmith.backends.gpu.features.extract import extract_rows
    from tensorsmith.backends.gpu.prior import estimated_seconds
    from tensorsmith.backends.gpu.rules import DEFAULT
    from tensorsmith.backends.gpu.tactics import GpuTactics
    from tensorsmith.space.population.population import Space
    from tensorsmith.space.population.seeds import seed_rows

    plans = Space(workload, target, DEFAULT, GpuTactics(target)).plans
    found, batches = [], []
    for plan in plans:
        rows = seed_rows(plan)
        for group in plan.groups(rows):
            batches.append((group.sketch, group.decisions))
            found += [(plan, rows[n]) for n in group.rows]
    plan, row = found[int(np.argmin(estimated_seconds(extract_rows(batches, target), target)))]
    return plan.candidate(row)
