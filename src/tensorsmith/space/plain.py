"""The plain schedule: every stage in a nest of its own, loops in the order of its axes. Always legal, never fast."""

from __future__ import annotations

from tensorsmith.lang.workload import Workload
from tensorsmith.space.sketch.nest import Nest
from tensorsmith.space.sketch.sketch import Candidate, Sketch


def plain_candidate(workload: Workload) -> Candidate:
    """What is left when everything else is refused."""
    nests = []
    for stage in workload.stages:
        outer = " ".join(f"{a.name}.0" for a in stage.axes)
        reduce = " ".join(f"{a.name}.0" for a in stage.reduce_axes)
        nests.append(Nest(stage.name, f"{outer} | {reduce}"))
    sketch = Sketch(workload, tuple(nests)).check()
    return Candidate(sketch, dict.fromkeys(sketch.holes, 1))
