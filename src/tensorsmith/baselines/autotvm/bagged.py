"""AutoTVM's trees with a doubt: several of them, each grown on samples drawn with replacement, and what a point promises by that.

    ei    how much better than the best so far a point is expected to be: (m - best) Phi(z) + s phi(z), z = (m - best) / s
    ucb   what it may come to: m + kappa s

where m and s are the mean and the standard deviation of what the members say (spec: baselines.md, section 1.6, uncertainty). The
paper tries both and finds neither better than the mean alone, which `template_model.py` has; the released code has none of it.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from tensorsmith.baselines.autotvm.template_model import TemplateModel, TemplateSettings
from tensorsmith.errors import UserError
from tensorsmith.learn.features.rows import FeatureRows
from tensorsmith.learn.features.schema import Schema
from tensorsmith.learn.models.file import read, write
from tensorsmith.learn.models.model import Array, Samples
from tensorsmith.learn.models.trees import TreeModel, TreeSettings

ACQUISITIONS = ("ei", "ucb")


@dataclass(frozen=True)
class Doubt:
    """What is made of several opinions. The paper says neither how many there are nor what a doubt is worth (spec: [I])."""

    acquisition: str = "ei"
    members: int = 5
    kappa: float = 1.0  # what a standard deviation is worth to `ucb`
    seed: int = 0


_SETTINGS, _DOUBT = TemplateSettings(), Doubt()


class BaggedModel(TemplateModel):
    """Several trees of one template; nothing of other workloads."""

    kind = "bagged"

    def __init__(self, settings: TemplateSettings = _SETTINGS, doubt: Doubt = _DOUBT) -> None:
        super().__init__(settings)
        if doubt.acquisition not in ACQUISITIONS:
            raise UserError(f"unknown acquisition {doubt.acquisition!r}; known are {', '.join(ACQUISITIONS)}")
        self.doubt = doubt
        self.members = [TreeModel(replace(settings.trees, seed=settings.trees.seed + n)) for n in range(doubt.members)]
        self.best = 0.0  # throughput of the samples

    def opinions(self, given: FeatureRows | Array) -> Array:
        """What each member says of each program: [members, programs]."""
        return np.stack([m.predict(given) for m in self.members if m.ready()])

    def predict(self, given: FeatureRows | Array, base: Array | float = 0.0) -> Array:
        opinions = self.opinions(given)
        mean, spread = opinions.mean(axis=0), opinions.std(axis=0)
        if self.doubt.acquisition == "ucb":
            return np.asarray(mean + self.doubt.kappa * spread)
        return expected_improvement(mean, spread, self.best)

    def update(self, samples: Samples) -> None:
        self.samples, self.best = len(samples), max(samples.throughput, default=0.0)
        for n, member in enumerate(self.members):
            drawn = np.random.default_rng((self.doubt.seed, n)).integers(0, max(1, len(samples)), len(samples))
            member.update(samples.some(drawn))

    def ready(self) -> bool:
        return any(m.ready() for m in self.members)

    def fork(self, seed: int = 0) -> BaggedModel:
        new = BaggedModel(self.settings, replace(self.doubt, seed=seed))
        new.members = [m.fork(seed) for m in self.members]
        new.template, new.samples, new.best = self.template, self.samples, self.best
        return new

    def save(self, path: str | Path, schema: Schema) -> None:
        if not self.ready():
            raise UserError("there is nothing to save: this model has not learned anything yet")
        known = {"samples": self.samples, "template": self.template, "best": self.best}
        head = {"settings": asdict(self.settings), "doubt": asdict(self.doubt), **known}
        write(path, schema, self.kind, head, json.dumps([m.text() if m.ready() else "" for m in self.members]))

    @staticmethod
    def load(path: str | Path, schema: Schema) -> BaggedModel:
        head, text = read(path, schema, BaggedModel.kind)
        try:
            given = dict(head["settings"])
            settings = TemplateSettings(trees=TreeSettings(**given.pop("trees")), **given)
            model = BaggedModel(settings, Doubt(**head["doubt"]))
            model.samples, model.template, model.best = int(head["samples"]), str(head["template"]), float(head["best"])
            texts = list(json.loads(text))
        except (KeyError, TypeError, ValueError) as problem:
            raise UserError(f"{path} is damaged: {problem!r}") from problem
        model.members = [TreeModel.of_text(path, t, m.settings) if t else m for t, m in zip(texts, model.members)]
        return model


def expected_improvement(mean: Array, spread: Array, best: float) -> Array:
    """By how much a normal variable is expected to be above the best; where there is no doubt, by how much the mean is."""
    ahead = mean - best
    z = ahead / np.maximum(spread, 1e-12)
    below = 0.5 * (1.0 + np.array([math.erf(x / math.sqrt(2.0)) for x in z.tolist()]))
    density = np.exp(-0.5 * np.minimum(z * z, 1e3)) / math.sqrt(2.0 * math.pi)
    return np.where(spread > 1e-12, ahead * below + spread * density, np.maximum(ahead, 0.0))
