"""AutoTVM's trees: on features of its own, of one template, with what was learned from other workloads as a margin that fades.

(spec: baselines.md, sections 1.5 and 1.7.) A policy with templates asks them with its own features; `features` says which. A
margin is worth half as much after every 64 samples of this workload, and is dropped when it is worth less than a twentieth.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from tensorsmith.errors import UserError
from tensorsmith.learn.features.rows import FeatureRows
from tensorsmith.learn.features.schema import Schema
from tensorsmith.learn.models.file import read, write
from tensorsmith.learn.models.model import Array, Samples
from tensorsmith.learn.models.trees import TreeModel, TreeSettings

#: `xgboost_cost_model.py`: the library here grows by leaves, of which a tree of depth 3 has eight
TREES = TreeSettings(
    loss="regression", trees=8000, rate=0.3, depth=3, leaves=8, gain=1e-4, l2=1.0, least_weight=1.0, least_in_leaf=1, features=1.0,
    warm=1, stop="recall", patience=20, best=64, margin=True,
)  # fmt: skip


@dataclass(frozen=True)
class TemplateSettings:
    """Constants of the source."""

    features: str = "itervar"  # or "curve", "knob": `baselines/autotvm/loop_features.py`
    trees: TreeSettings = TREES
    plan: int = 64  # samples after which a margin is worth half as much
    least: float = 0.05  # a margin below this is dropped: from 277 samples on
    base_trees: int = 400  # of what was learned from other workloads
    base_patience: int = 100


class TemplateModel:
    """Trees of this workload on top of trees of others."""

    kind = "template"

    def __init__(self, settings: TemplateSettings = TemplateSettings()) -> None:
        self.settings = settings
        self.local = TreeModel(settings.trees)
        self.bases: dict[str, TreeModel] = {}  # by template: of other workloads
        self.template = ""  # that it is asked about now
        self.samples = 0

    @property
    def features(self) -> str:
        return self.settings.features

    @property
    def margin(self) -> float:
        """What the trees of other workloads are worth."""
        return discount(self.samples, self.settings)

    def predict(self, given: FeatureRows | Array, base: Array | float = 0.0) -> Array:
        margins = self._margins(given)
        return margins if self.local.booster is None else self.local.predict(given, margins)

    def _margins(self, given: FeatureRows | Array) -> Array:
        base = self.bases.get(self.template)
        if base is None or base.booster is None or not self.margin:
            return np.zeros(given.candidates if isinstance(given, FeatureRows) else len(given))
        return np.asarray(self.margin * base.predict(_as_wide(given, base.booster.num_feature())))

    def update(self, samples: Samples) -> None:
        self.samples = len(samples)
        margins = [float(self._margins(rows[None])[0]) for rows in samples.rows]
        self.local.update(Samples(samples.rows, samples.throughput, samples.group, margins))

    def teach(self, template: str, samples: Samples) -> None:
        """Learns from other workloads of a template."""
        s = self.settings
        base = TreeModel(replace(s.trees, trees=s.base_trees, patience=s.base_patience, best=2 * s.plan, margin=False))
        base.update(samples)
        if base.ready():
            self.bases[template] = base

    def ready(self) -> bool:
        return self.local.ready() or self.template in self.bases

    def fork(self, seed: int = 0) -> TemplateModel:
        new = TemplateModel(self.settings)
        new.local, new.bases, new.template, new.samples = self.local.fork(seed), dict(self.bases), self.template, self.samples
        return new

    def of(self, template: str, seed: int = 0) -> TemplateModel:
        """A fork to be asked about a template."""
        new = self.fork(seed)
        new.template = template
        return new

    def save(self, path: str | Path, schema: Schema) -> None:
        if not self.ready() and not self.bases:
            raise UserError("there is nothing to save: this model has not learned anything yet")
        head = {"settings": asdict(self.settings), "samples": self.samples, "template": self.template}
        texts = {"": self.local, **self.bases}
        write(path, schema, self.kind, head, json.dumps({n: m.booster.model_to_string() for n, m in texts.items() if m.booster}))

    @staticmethod
    def load(path: str | Path, schema: Schema) -> TemplateModel:
        head, text = read(path, schema, TemplateModel.kind)
        try:
            given = dict(head["settings"])
            trees = TreeSettings(**given.pop("trees"))
            model = TemplateModel(TemplateSettings(trees=trees, **given))
            model.samples, model.template = int(head["samples"]), str(head["template"])
            texts = dict(json.loads(text))
        except (KeyError, TypeError, ValueError) as problem:
            raise UserError(f"{path} is damaged: {problem!r}") from problem
        for name, one in texts.items():
            if name:
                model.bases[name] = TreeModel.of_text(path, str(one), replace(trees, margin=False))
            else:
                model.local = TreeModel.of_text(path, str(one), trees)
        return model


def _as_wide(given: FeatureRows | Array, features: int) -> FeatureRows | Array:
    """With as many features as trees of other workloads know; missing ones are 0."""
    values = given.values if isinstance(given, FeatureRows) else given
    lacking = features - values.shape[-1]
    if lacking > 0:
        values = np.concatenate([values, np.zeros((*values.shape[:-1], lacking), values.dtype)], axis=-1)
    values = values[..., :features]
    return replace(given, values=values) if isinstance(given, FeatureRows) else values


def discount(samples: int, settings: TemplateSettings = TemplateSettings()) -> float:
    """What a margin is worth after so many samples."""
    worth = float(2.0 ** (-samples / settings.plan))
    return worth if worth >= settings.least else 0.0
