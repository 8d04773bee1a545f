"""What all tunings of a run share."""

from __future__ import annotations

from dataclasses import dataclass, field

from tensorsmith.measure.runner import Runner
from tensorsmith.tuning.history.experience import Experience
from tensorsmith.tuning.history.journal import Journal
from tensorsmith.tuning.options import HowMeasured, Plugins


@dataclass(frozen=True)
class Shared:
    """Who measures, records, and how to search; and what the policy proposed, also in tunings that were closed meanwhile."""

    runner: Runner
    journal: Journal
    measured: HowMeasured
    plugins: Plugins
    experience: Experience
    seed: int = 0
    sizes: bool = False  # as in `RunOptions`
    fallback: bool = True  # likewise
    asked: dict[str, set[str]] = field(default_factory=dict)  # by workload: the candidates that the policy proposed in this run
