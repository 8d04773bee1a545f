"""Several forests of trees that learned from different parts of the same samples: their mean is the score, and where they differ,
nobody knows.

The first member learns from everything. Each of the others leaves out a share of the workloads (of the programs, where there are
few workloads), so on something new the members differ about as much as the first may be wrong. `gains` makes use of that: by how
much is a program surely ahead of another one? The model in the package (`learn/pretrained/`) is one of these.
"""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np

from tensorsmith.errors import UserError
from tensorsmith.learn.features.rows import FeatureRows
from tensorsmith.learn.features.schema import Schema
from tensorsmith.learn.models.file import read, write
from tensorsmith.learn.models.model import Array, Samples
from tensorsmith.learn.models.trees import TreeModel, TreeSettings
from tensorsmith.show.line import line, many


@dataclass(frozen=True)
class Sure:
    """When a program counts as ahead of another, in powers of two: if the mean of what the members say, less `doubt` times their
    standard deviation, is `margin` or more, and the prior does not take it for the slower one. `benchmarks/train.py` finds both
    numbers on workloads that the members have not seen."""

    doubt: float = 1.0
    margin: float = 0.1


@dataclass(frozen=True)
class EnsembleSettings:
    """Knobs. The trees are more and larger than those of a search: there are thousands of samples, of hundreds of workloads."""

    members: int = 5
    trees: TreeSettings = field(default_factory=lambda: TreeSettings(trees=160, leaves=16, rate=0.08, least_in_leaf=20))
    seed: int = 0


class EnsembleModel:
    """Trees of several opinions; see the module's text."""

    kind = "ensemble"

    def __init__(self, settings: EnsembleSettings = EnsembleSettings(), sure: Sure = Sure()) -> None:
        if settings.members < 2:
            raise UserError(f"an ensemble of {settings.members}; opinions can differ where there are 2 members or more")
        self.settings, self.sure = settings, sure
        self.members = [TreeModel(replace(settings.trees, seed=settings.seed + n)) for n in range(settings.members)]

    def __repr__(self) -> str:
        return line(self, f"of {many(len(self.members), 'member')}; the first: {self.members[0]!r}")

    # -- as every cost model -------------------------------------------------------------------------------------------

    def update(self, samples: Samples) -> None:
        for n, member in enumerate(self.members):
            member.update(samples if n == 0 else samples.some(self._part(samples, n)))

    def predict(self, given: FeatureRows | Array, base: Array | float = 0.0) -> Array:
        return np.asarray(self.opinions(given, base).mean(axis=0))

    def ready(self) -> bool:
        return all(member.ready() for member in self.members)

    def fork(self, seed: int = 0) -> EnsembleModel:
        new = EnsembleModel(replace(self.settings, seed=seed), self.sure)
        new.members = [member.fork(seed + n) for n, member in enumerate(self.members)]
        return new

    def save(self, path: str | Path, schema: Schema) -> None:
        if not self.ready():
            raise UserError("there is nothing to save: this model has not learned anything yet")
        texts = [member.text() for member in self.members]
        packed = base64.b85encode(zlib.compress(json.dumps(texts).encode(), 9)).decode()
        write(path, schema, self.kind, {"settings": asdict(self.settings), "sure": asdict(self.sure)}, packed)

    @staticmethod
    def load(path: str | Path, schema: Schema) -> EnsembleModel:
        head, packed = read(path, schema, EnsembleModel.kind)
        try:
            given = dict(head["settings"])
            settings = EnsembleSettings(**{**given, "trees": TreeSettings(**given["trees"])})
            model = EnsembleModel(settings, Sure(**head["sure"]))
            texts = json.loads(zlib.decompress(base64.b85decode(packed)))
            if len(texts) != len(model.members):
                raise ValueError(f"{len(texts)} members, and {len(model.members)} by the header")
        except (KeyError, TypeError, ValueError, zlib.error) as problem:
            raise UserError(f"{path} is damaged: {problem}") from problem
        model.members = [TreeModel.of_text(path, text, member.settings) for text, member in zip(texts, model.members)]
        return model

    # -- what is known, and what not -----------------------------------------------------------------------------------

    def opinions(self, given: FeatureRows | Array, base: Array | float = 0.0) -> Array:
        """What each member says of each program: [members, programs]."""
        return np.stack([member.predict(given, base) for member in self.members])

    def gains(self, opinions: Array, base: Array, than: int) -> Array:
        """By how much each program is surely ahead of program `than`, in powers of two; of what the prior takes for slower nothing
        is sure. Among thousands of programs there are always some that all members are wrong about: those the prior knows."""
        ahead = opinions - opinions[:, than][:, None]
        return np.where(base >= base[than], ahead.mean(axis=0) - self.sure.doubt * ahead.std(axis=0), -np.inf)

    def beginning(self) -> TreeModel:
        """A model for a search to begin with: the trees of the first member, and those that a search adds."""
        new = TreeModel()
        new.kept = new.booster = self.members[0].booster
        return new

    def _part(self, samples: Samples, member: int) -> Array:
        """The numbers of the samples that a member learns from: all but every n-th workload, or program."""
        parts = max(2, len(self.members) - 1)
        groups = np.unique(np.asarray(samples.group), return_inverse=True)[1]
        count = int(groups.max()) + 1 if len(groups) else 0
        if count < 2 * parts:
            return np.flatnonzero(np.arange(len(samples)) % parts != member - 1)
        place = np.random.default_rng(self.settings.seed).permutation(count) % parts
        return np.flatnonzero(place[groups] != member - 1)
