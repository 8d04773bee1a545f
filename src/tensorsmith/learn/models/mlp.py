"""A small neural network as a cost model: every statement is embedded, embeddings are summed, and the sum is scored.

    features of a statement  ->  64 relu  ->  32 relu,  summed over the statements of a program  ->  a score, added to the prior's

It learns an order, as the trees do (`losses.py`, rank). What was loaded or forked is kept: every update begins with those weights
and is held near them, so that some tens of samples correct what thousands taught, instead of replacing it.
"""

from __future__ import annotations

import base64
import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from tensorsmith.errors import UserError
from tensorsmith.learn.features.rows import FeatureRows
from tensorsmith.learn.features.schema import Schema
from tensorsmith.learn.layers import Adam, Array, Layers
from tensorsmith.learn.models.file import read, write
from tensorsmith.learn.models.losses import LOSSES, OF_THROUGHPUTS, Loss
from tensorsmith.learn.models.model import Samples


@dataclass(frozen=True)
class MlpSettings:
    """Knobs of the network; small, because searches have some hundred samples and one core."""

    loss: str = "rank"
    hidden: int = 64
    embedding: int = 32
    epochs: int = 80
    batch: int = 128  # programs
    rate: float = 3e-3
    decay: float = 1e-3  # of the weights
    kept_decay: float = 0.02  # of weights that were kept, towards what they were
    warm: int = 12  # programs that ran, from which on something can be learned


class _Weights:
    """The two halves of the network, and what features are scaled by."""

    def __init__(self, embed: Layers, score: Layers, middle: Array, spread: Array) -> None:
        self.embed, self.score, self.middle, self.spread = embed, score, middle, spread

    @property
    def parameters(self) -> list[Array]:
        return [*self.embed.parameters, *self.score.parameters]

    def copy(self) -> _Weights:
        return _Weights(self.embed.copy(), self.score.copy(), self.middle, self.spread)

    def scaled(self, rows: Array) -> Array:
        return np.clip((rows - self.middle) / self.spread, -8, 8).astype(np.float32)


class MlpModel:
    """A network on statements; see the module's text."""

    kind = "mlp"

    def __init__(self, settings: MlpSettings = MlpSettings(), seed: int = 0) -> None:
        known = [loss for loss in LOSSES if loss not in OF_THROUGHPUTS]  # scores are added to the prior's, which are logarithms
        if settings.loss not in known:
            raise UserError(f"unknown loss {settings.loss!r}; known are {', '.join(known)}")
        self.settings, self.seed = settings, seed
        self.weights: _Weights | None = None
        self.kept: _Weights | None = None  # what it began with

    def update(self, samples: Samples) -> None:
        s = self.settings
        if sum(t > 0 for t in samples.throughput) < s.warm:
            return
        rng = np.random.default_rng(self.seed)
        rows = np.concatenate(samples.rows)
        pack = np.repeat(np.arange(len(samples)), [len(r) for r in samples.rows])
        new = self.kept.copy() if self.kept is not None else _fresh(rows, s, rng)
        inputs = new.scaled(rows)
        first = np.concatenate([[0], np.cumsum([len(r) for r in samples.rows])])
        loss = Loss(s.loss, pack, samples, self.seed, with_base=True)
        steps = Adam(new.parameters, s.rate)
        origin = None if self.kept is None else [p.copy() for p in self.kept.parameters]
        for _ in range(s.epochs):
            slope = loss.slope(loss.base + _totals(new, inputs, pack, len(samples)))[0]
            order = rng.permutation(len(samples))
            for at in range(0, len(order), s.batch):
                chosen = np.sort(order[at : at + s.batch])
                lines = np.concatenate([np.arange(first[n], first[n + 1]) for n in chosen.tolist()])
                local = np.repeat(np.arange(len(chosen)), np.diff(first)[chosen])
                gradients = _gradients(new, inputs[lines], local, slope[chosen], len(chosen))
                pull = s.decay if origin is None else s.kept_decay
                towards = origin or [np.zeros_like(p) for p in new.parameters]
                steps.apply([g + pull * (p - o) for g, p, o in zip(gradients, new.parameters, towards)])
        self.weights = new

    def predict(self, given: FeatureRows | Array, base: Array | float = 0.0) -> Array:
        """Scores of programs: of a population's rows, or of features [programs, statements, features]; and their base scores."""
        if self.weights is None:
            raise UserError("this model has not learned anything yet; call update() or load()")
        if isinstance(given, FeatureRows):
            rows, pack, count = given.values, given.candidate, given.candidates
        else:
            rows, count = given.reshape(-1, given.shape[-1]), len(given)
            pack = np.repeat(np.arange(count), given.shape[1])
        return np.asarray(_totals(self.weights, self.weights.scaled(rows), pack, count) + base, float)

    def ready(self) -> bool:
        return self.weights is not None

    def fork(self, seed: int = 0) -> MlpModel:
        new = MlpModel(self.settings, seed)
        new.kept = new.weights = self.weights
        return new

    def save(self, path: str | Path, schema: Schema) -> None:
        if self.weights is None:
            raise UserError("there is nothing to save: this model has not learned anything yet")
        w = self.weights
        arrays = [w.middle, w.spread, *w.parameters]
        text = json.dumps([{"shape": list(a.shape), "data": base64.b64encode(a.astype("<f4").tobytes()).decode()} for a in arrays])
        write(path, schema, self.kind, {"settings": asdict(self.settings), "seed": self.seed}, text)

    @staticmethod
    def load(path: str | Path, schema: Schema) -> MlpModel:
        head, text = read(path, schema, MlpModel.kind)
        try:
            model = MlpModel(MlpSettings(**head["settings"]), int(head["seed"]))
            arrays = [np.frombuffer(base64.b64decode(a["data"]), "<f4").reshape(a["shape"]).copy() for a in json.loads(text)]
            middle, spread, *parameters = arrays
            weights = _fresh(np.zeros((1, len(schema))), model.settings, np.random.default_rng(0))
            weights.middle, weights.spread = middle, spread
            if [p.shape for p in parameters] != [p.shape for p in weights.parameters] or len(middle) != len(schema):
                raise ValueError("the weights have other shapes than the header says")
        except UserError:
            raise
        except (KeyError, TypeError, ValueError) as problem:
            raise UserError(f"{path} is damaged: {problem}") from problem
        for mine, theirs in zip(weights.parameters, parameters):
            mine[...] = theirs
        model.kept = model.weights = weights
        return model


def _fresh(rows: Array, s: MlpSettings, rng: np.random.Generator) -> _Weights:
    spread = rows.std(axis=0)
    layers = Layers((rows.shape[1], s.hidden, s.embedding), rng), Layers((s.embedding, 1), rng)
    layers[1].parameters[0] *= 0.1  # at first the prior is all there is
    return _Weights(*layers, rows.mean(axis=0).astype(np.float32), np.where(spread > 1e-6, spread, 1.0).astype(np.float32))


def _totals(weights: _Weights, inputs: Array, pack: Array, count: int) -> Array:
    """The score of each program, without its base."""
    embedded = np.maximum(weights.embed.forward(inputs), 0)
    return np.bincount(pack, weights=weights.score.forward(embedded)[:, 0], minlength=count)


def _gradients(weights: _Weights, inputs: Array, pack: Array, slope: Array, count: int) -> list[Array]:
    """Of all weights, for the slopes of programs; the sum over statements hands each its program's slope."""
    embedded = weights.embed.forward(inputs, keep=True)
    weights.score.forward(np.maximum(embedded, 0), keep=True)
    per_row = (slope[pack] / count).astype(np.float32)[:, None]
    of_score, back = weights.score.backward(per_row)
    of_embed, _ = weights.embed.backward(back * (embedded > 0))
    return [*of_embed, *of_score]
