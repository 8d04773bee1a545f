"""A schedule that nobody has measured, chosen by the pre-trained model among thousands: `ts.compile(x, effort="model")`.

The policy proposes as it would in a search that begins now: the default schedule, records of other sizes carried over, seeds, and
what a population comes to that evolves under the model. Then all members of the model are asked about the proposals, and about
the default schedule:

    gain = mean of (what they say of a proposal - what they say of the default schedule) - doubt * how much they differ

in powers of two. The proposal with the greatest gain is taken if the model is sure of it (`learn/models/ensemble.py`) and the
analytic prior does not take it for slower than the default schedule; else there is nothing to take, and that is used. Thousands of
programs always have some among them that the members are wrong about all alike. Measured on one thread beside the default
schedule, such choices took up to twice as long where the prior was not asked, and none of them was slower where it was.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tensorsmith.backends import backend_of, space_of
from tensorsmith.errors import Refusal, UserError
from tensorsmith.lang.workload import Workload
from tensorsmith.learn.models.ensemble import EnsembleModel
from tensorsmith.learn.pretrained import pretrained
from tensorsmith.records.keys import Timing
from tensorsmith.records.store import Store
from tensorsmith.rewrites.formulations import Formulation, Options, likely
from tensorsmith.search.policies.tensorsmith import TensorsmithPolicy
from tensorsmith.search.transfer import feature_rows
from tensorsmith.space.population.embed import Programs
from tensorsmith.space.sketch.sketch import Candidate
from tensorsmith.targets.target import Target

log = logging.getLogger(__name__)

Found = tuple[Candidate, Formulation]

_PROPOSED = 64  # of some thousands that the policy looks at: enough that the members of the model may disagree with its first one
_SEED = 0  # the same computation gets the same schedule on every call


@dataclass(frozen=True)
class Judged:
    """Candidates, the default schedule first, and by how much each is surely ahead of it, in powers of two."""

    candidates: tuple[Candidate, ...]
    gains: tuple[float, ...]

    def best(self, margin: float) -> Candidate | None:
        """The one that is furthest ahead, if that is by the margin."""
        first = max(range(len(self.gains)), key=lambda n: self.gains[n])
        return self.candidates[first] if first and self.gains[first] >= margin else None


def foresee(missing: Mapping[Workload, Options], store: Store | None, target: Target, timing: Timing) -> dict[Workload, Found]:
    """For workloads without a record, by their formulations: what the package's model is sure of. Records of other sizes that the
    `store` has are among what it chooses from."""
    model = pretrained(backend_of(target).schema)
    if model is None:
        warnings.warn(f"there is no pre-trained model for {target.name}, so the default schedule is used", stacklevel=3)
        return {}
    found: dict[Workload, Found] = {}
    for workload, options in missing.items():
        formulation = likely(workload, options)
        similar = [] if store is None else [r.candidate for r in store.similar(formulation.workload, target, timing)]
        one = predicted(formulation.workload, target, model, similar)
        if one is not None:
            found[workload] = one, formulation
    log.info("the model chose a schedule for %d of %d tasks", len(found), len(missing))
    return found


def predicted(workload: Workload, target: Target, model: EnsembleModel, similar: Sequence[Candidate] = ()) -> Candidate | None:
    """The candidate that the model is sure of; None: the default schedule. `similar` are good ones of other sizes."""
    try:
        return judged(workload, target, model, similar).best(model.sure.margin)
    except (Refusal, UserError):  # no default schedule, a space without programs
        return None


def judged(workload: Workload, target: Target, model: EnsembleModel, similar: Sequence[Candidate] = ()) -> Judged:
    """What the policy proposes, and what the model says of it."""
    default = backend_of(target).default_candidate(workload, target)
    policy = TensorsmithPolicy(space_of(workload, target), seed=_SEED, hints=similar, model=model.beginning())
    programs = Programs()
    known = programs.key(default)
    candidates = (default, *(c for c in policy.ask(_PROPOSED) if programs.key(c) != known))
    rows, prior, order = feature_rows(candidates, target, model)
    at = np.argsort(order)  # of each candidate among the rows
    opinions = model.opinions(rows, prior)[:, at]
    return Judged(candidates, tuple(model.gains(opinions, prior[at], than=0).tolist()))
