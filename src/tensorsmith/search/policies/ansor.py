"""The paper's policy, as far as it is settings of ours: its rules, sampling, loss and epsilon, and nothing known beforehand.

What a row is, and how rows mutate and cross, is ours.
"""

from __future__ import annotations

from collections.abc import Sequence

from tensorsmith.learn.models.model import CostModel
from tensorsmith.learn.models.trees import TreeModel, TreeSettings
from tensorsmith.search.policies.tensorsmith import Settings, TensorsmithPolicy
from tensorsmith.search.policy import Preset
from tensorsmith.space.population.population import Space
from tensorsmith.space.sketch.sketch import Candidate

#: the source's constants: `sketch_policy.cc` of TVM
SETTINGS = Settings(
    population=2048,
    generations=4,
    sampling="uniform",  # every tuple of divisors of an extent is as likely
    known=False,  # neither default schedule nor seeds nor similar workloads
    parents=409,  # a fifth of the population
    random=0.05,  # epsilon
    per_structure=1.0,  # the best ones, however much alike
    apart=0.0,
)


class AnsorPolicy(TensorsmithPolicy):
    """Ours with the paper's settings, and without coordinate descent at the end."""

    def __init__(
        self,
        space: Space,
        *,
        seed: int = 0,
        hints: Sequence[Candidate] = (),
        model: CostModel | None = None,
        settings: Settings = SETTINGS,
    ) -> None:
        super().__init__(space, seed=seed, hints=hints, model=model, settings=settings)

    def finish(self, count: int) -> list[Candidate]:
        return []


PRESET = Preset("ansor", AnsorPolicy, rules="ansor", model=TreeModel(TreeSettings(loss="paper")), transfer=False)
