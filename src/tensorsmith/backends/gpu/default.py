"""The schedule without a search: the first sketch of Ansor's rules with a usual block, made to fit. Always legal."""

from __future__ import annotations

from tensorsmith.backends.gpu.target import GpuTarget
from tensorsmith.lang.workload import Workload
from tensorsmith.space.sketch.sketch import Candidate


def default_candidate(workload: Workload, target: GpuTarget) -> Candidate:
    """A decent candidate from the target's facts: rows of a block each where reductions are long, tiles where there is reuse."""
    # the tactics know this function
    from tensorsmith.backends.gpu.rules import DEFAULT
    from tensorsmith.backends.gpu.tactics import GpuTactics
    from tensorsmith.space.derive import derive
    from tensorsmith.space.population.population import Plan
    from tensorsmith.space.population.seeds import seed_rows

    sketches = derive(workload, target, DEFAULT)
    plain = [s for s in sketches if not s.choices]  # nothing split: that pays on some shapes only
    plan = Plan((plain or sketches)[0], GpuTactics(target))
    return plan.candidate(seed_rows(plan)[0])
