"""Our policy without one of its parts, or with one that did not earn its place; `benchmarks/policies.py` compares them.

tensorsmith-noseeds        no hardware-aligned rows among the first; the default schedule stays
tensorsmith-noprior        no analytic estimate: scores are random until the trees know something, and the trees learn all of it
tensorsmith-notrees        the analytic estimate alone: nothing is learned
tensorsmith-noevolution    the best of the samples are measured as they are
tensorsmith-nodescent      no neighbours of the best at the end
tensorsmith-nopretrained   trees that know nothing at first
tensorsmith-notransfer     nothing of other workloads: neither their best programs nor a model that knows them
tensorsmith-crossover      the paper's crossover: children of two rows
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from tensorsmith.search.policies.tensorsmith import PRESET, SETTINGS, Settings, TensorsmithPolicy
from tensorsmith.search.policy import Preset


def _without(part: str, settings: Settings, **more: Any) -> Preset:
    return replace(PRESET, name=f"tensorsmith-no{part}", make=partial(TensorsmithPolicy, settings=settings), **more)


NO_SEEDS = _without("seeds", replace(SETTINGS, seeds=0))
#: what trees learned of other workloads is a correction of the prior, and worth nothing without it
NO_PRIOR = Preset("tensorsmith-noprior", partial(TensorsmithPolicy, settings=replace(SETTINGS, prior=False)), transfer=False)
NO_TREES = Preset("tensorsmith-notrees", partial(TensorsmithPolicy, settings=SETTINGS), model="prior")
NO_EVOLUTION = _without("evolution", replace(SETTINGS, generations=0))
NO_DESCENT = _without("descent", replace(SETTINGS, descent=False))
NO_PRETRAINED = _without("pretrained", SETTINGS, pretrained=False)
NO_TRANSFER = _without("transfer", replace(SETTINGS, hints=0), transfer=False)
CROSSOVER = replace(
    PRESET, name="tensorsmith-crossover", make=partial(TensorsmithPolicy, settings=replace(SETTINGS, crossover=True))
)
