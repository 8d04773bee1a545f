"""A schedule for sizes that were never tuned, from the record of the nearest size that was.

Carried over to other extents (`space/population/adapt.py`) a record is a program that nobody has measured. So it is used only on
evidence, in two parts:

    measured     at its own size it is ahead of the default schedule, which was measured there too
    estimated    how the ratio of the two changes from that size to this one, by the analytic prior

Both in logarithms of speed: gain = measured there + (estimated here - estimated there). The prior is wrong about much that is the
same at both sizes, and that cancels out. Where the gain is not clear, the sizes are far apart, or anything is not known, there is
nothing to carry, and the default schedule is used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tensorsmith.backends import backend_of, space_of
from tensorsmith.errors import Refusal, UserError
from tensorsmith.lang.workload import Workload
from tensorsmith.records.keys import Timing
from tensorsmith.records.record import Record
from tensorsmith.records.store import Store
from tensorsmith.rewrites.formulations import Formulation, Options
from tensorsmith.space.population.adapt import adapt
from tensorsmith.space.population.embed import Programs
from tensorsmith.space.sketch.sketch import Candidate
from tensorsmith.targets.target import Target

_LEAST = math.log2(1.05)  # of the gain: five per cent, since a final asks for three of what was measured in its place
_FARTHEST = 4.0  # times as long, or as short: an axis of the size that the record is of

Found = tuple[Candidate, Formulation]


def carried(store: Store, target: Target, timing: Timing, options: Options) -> Found | None:
    """The best record of the nearest size in one of a task's formulations, carried over, where it is likely to be ahead of the
    default schedule here; else None."""
    best: tuple[float, Found] | None = None
    for formulation in options:
        found = _from_nearest(formulation.workload, store, target, timing)
        if found is not None and (best is None or found[0] > best[0]):
            best = found[0], (found[1], formulation)
    return None if best is None else best[1]


def _from_nearest(workload: Workload, store: Store, target: Target, timing: Timing) -> tuple[float, Candidate] | None:
    """The expected gain over the default schedule of this workload, in powers of 2, and the candidate."""
    record = next((r for r in store.similar(workload, target, timing, k=1) if _near(workload, r.workload)), None)
    if record is None or record.seconds is None:
        return None
    try:
        known = _measured_default(record, store, target, timing)
        if known is None or known.seconds is None:
            return None
        here = backend_of(target).default_candidate(workload, target)
        space = space_of(workload, target)
        rows = [space.plans[plan].candidate(row) for plan, row in adapt(space, record.candidate)]
        if not rows:
            return None
        measured = math.log2(known.seconds / record.seconds)
        there = _speed(record.candidate, target) - _speed(known.candidate, target)
        default = _speed(here, target)
        gain, chosen = max(((measured + _speed(c, target) - default - there, c) for c in rows), key=lambda pair: pair[0])
    except (Refusal, UserError):  # a record of an older version, a space that has nothing like it
        return None
    return (gain, chosen) if measured >= _LEAST and gain >= _LEAST else None


def _near(a: Workload, b: Workload) -> bool:
    """Whether no axis differs by more than some factor."""
    extents = [[x.extent for s in w.stages for x in s.all_axes] for w in (a, b)]
    if len(extents[0]) != len(extents[1]):
        return False
    return all(m and n and 1 / _FARTHEST <= m / n <= _FARTHEST for m, n in zip(*extents))


def _measured_default(record: Record, store: Store, target: Target, timing: Timing) -> Record | None:
    """What the default schedule took at the record's size, by its last timing; None if it was not measured, or is the record."""
    programs = Programs()
    wanted = programs.key(backend_of(target).default_candidate(record.workload, target))
    if programs.key(record.candidate) == wanted:
        return None
    ran = [r for r in store.history(record.workload, target, timing) if r.seconds is not None and not r.trial.at_least]
    return next((r for r in reversed(ran) if programs.key(r.candidate) == wanted), None)


def _speed(candidate: Candidate, target: Target) -> float:
    """The logarithm of the speed that the prior gives a candidate."""
    backend, sketch = backend_of(target), candidate.sketch
    columns = {hole: np.array([candidate.decisions[hole]], np.int64) for hole in sketch.holes}
    batches: Sequence[object] = [(sketch, columns)]
    return float(backend.prior_scores(backend.extract_rows(batches, target), target)[0])  # type: ignore[arg-type]
