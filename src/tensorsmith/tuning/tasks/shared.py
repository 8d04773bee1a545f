"""What all tunings of a run share."""

from __future__ import annotations

from dataclasses import dataclass

from tensorsmith.measure.workshop import Workshop
from tensorsmith.tuning.history.experience import Experience
from tensorsmith.tuning.history.journal import Journal
from tensorsmith.tuning.options import HowMeasured, Plugins


@dataclass(frozen=True)
class Shared:
    """Workers, records, and how to search."""

    workshop: Workshop
    journal: Journal
    measured: HowMeasured
    plugins: Plugins
    experience: Experience
    seed: int = 0
    sizes: bool = False  # as in `RunOptions`
