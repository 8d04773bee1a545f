"""Halide's cost model (Adams et al. 2019): a network of 4264 weights gives the coefficients of cost terms that are written by hand.

    head 1:  8  = weights of what a stage computes               (280 numbers: how many of which operation, on which type)
    head 2:  24 = relu(weights of how it is scheduled)           (39 numbers, their logarithms)
    trunk:   32 = relu(weights of both)  =  c0 ... c31

    seconds of a stage = 1e-9 * (compute + load + store + malloc + parallel + working set), each a sum of c_n times quantities

(spec: baselines.md, section 3.1, cost model.) The 39 and 280 numbers are made of our features: those that have the same meaning as
one of ours are it, the others are 0, and a table below says which. The loss is the source's, on inverse times relative to the
fastest, and so are Adam's constants. Its coefficients begin with rough nanoseconds, not with what Halide
learned from thousands of pipelines.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tensorsmith.errors import UserError
from tensorsmith.learn.features.rows import FeatureRows
from tensorsmith.learn.features.schema import Schema
from tensorsmith.learn.layers import Adam, Array, product
from tensorsmith.learn.models.file import read, write
from tensorsmith.learn.models.model import Samples

OPERATIONS, TYPES = 40, 7
HEAD_1, HEAD_2, TRUNK = 8, 24, 32
TERMS = 28  # of the coefficients that have a meaning

#: how a stage is scheduled, in the source's order
SCHEDULE_NAMES = (
    "num_realizations", "num_productions", "points_computed_per_realization", "points_computed_per_production",
    "points_computed_total", "points_computed_minimum", "innermost_loop_extent", "innermost_pure_loop_extent",
    "unrolled_loop_extent", "inner_parallelism", "outer_parallelism", "bytes_at_realization", "bytes_at_production",
    "bytes_at_root", "innermost_bytes_at_realization", "innermost_bytes_at_production", "innermost_bytes_at_root", "inlined_calls",
    "unique_bytes_read_per_realization", "unique_lines_read_per_realization", "allocation_bytes_read_per_realization",
    "working_set",
    "vector_size", "native_vector_size", "num_vectors", "num_scalars", "scalar_loads_per_vector", "vector_loads_per_vector",
    "scalar_loads_per_scalar", "bytes_at_task", "innermost_bytes_at_task", "unique_bytes_read_per_vector",
    "unique_lines_read_per_vector", "unique_bytes_read_per_task", "unique_lines_read_per_task", "working_set_at_task",
    "working_set_at_production", "working_set_at_realization", "working_set_at_root",
)  # fmt: skip
SCHEDULE = len(SCHEDULE_NAMES)


@dataclass(frozen=True)
class HalideSettings:
    """Constants of the source's training (section 3.1)."""

    epochs: int = 32
    rate: float = 1e-4  # where it goes on from weights that it was given
    first_rate: float = 1e-2  # where it begins with random ones: they have further to go
    first_epochs: int = 64
    least: float = 1e-5  # Adam's
    negative: float = 1e-5  # of the sum of pre-activations of the trunk below 0
    floor: float = 1e-10  # of a predicted time
    warm: int = 8  # programs: a pipeline with fewer is passed over


#: the terms' quantities, from features in their units: what the name means there. Those of Halide's 39 that are not here are 0.
_Quantity = Callable[[Any], Array]
_QUANTITIES: dict[str, _Quantity] = {
    "num_realizations": lambda f: np.maximum(1.0, f["alloc_outer"]),
    "num_productions": lambda f: np.maximum(1.0, f["outer_runs"]),
    "points_computed_total": lambda f: f["points"],
    "innermost_loop_extent": lambda f: f["vec_len"],
    "unrolled_loop_extent": lambda f: f["unroll_prod"],
    "inner_parallelism": lambda f: np.maximum(1.0, f["parallel_steps"]),
    "bytes_at_realization": lambda f: f["alloc_bytes"],
    "bytes_at_production": lambda f: f["tile_bytes"],
    "bytes_at_root": lambda f: f["store_unique_bytes"],
    "unique_bytes_read_per_realization": lambda f: f["into_l3"] / np.maximum(1.0, f["alloc_outer"]),
    "unique_lines_read_per_realization": lambda f: f["into_l3"] / 64 / np.maximum(1.0, f["alloc_outer"]),
    "working_set": lambda f: f["program_bytes"],
    "vector_size": lambda f: f["vec_len"],
    "native_vector_size": lambda f: f["target_lanes"],
    "num_vectors": lambda f: np.where(f["vec_num"] > 0, f["vector_points"], 0.0),
    "num_scalars": lambda f: np.where(f["vec_num"] > 0, 0.0, f["points"]),
    "scalar_loads_per_vector": lambda f: f["step_loads"] * f["load_share_broadcast"] / np.maximum(1.0, f["tile_vectors"]),
    "vector_loads_per_vector": lambda f: f["step_loads"] * f["load_share_vector"] / np.maximum(1.0, f["tile_vectors"]),
    "scalar_loads_per_scalar": lambda f: f["step_loads"] * f["load_share_strided"] / np.maximum(1.0, f["tile_values"]),
    "bytes_at_task": lambda f: f["store_unique_bytes"] / np.maximum(1.0, f["parallel_steps"]),
    "innermost_bytes_at_task": lambda f: f["vec_len"] * 4,
    "unique_bytes_read_per_vector": lambda f: f["step_bytes"] / np.maximum(1.0, f["tile_vectors"]),
    "unique_lines_read_per_vector": lambda f: f["step_bytes"] / 64 / np.maximum(1.0, f["tile_vectors"]),
    "unique_bytes_read_per_task": lambda f: f["into_l2"] / np.maximum(1.0, f["parallel_steps"]),
    "unique_lines_read_per_task": lambda f: f["into_l2"] / 64 / np.maximum(1.0, f["parallel_steps"]),
}

#: rows of the pipeline's features that ours have, and their columns there: floats are the sixth type, integers the fourth
_FLOAT, _INT = 5, 3
_COUNTS = (
    ("float_addsub", 4, _FLOAT), ("float_mul", 7, _FLOAT), ("float_divmod", 8, _FLOAT), ("float_cmp", 9, _FLOAT),
    ("float_mad", 4, _FLOAT), ("float_mathfunc", 22, _FLOAT), ("int_addsub", 4, _INT), ("int_mul", 7, _INT), ("int_divmod", 8,
    _INT),
    ("int_mad", 4, _INT), ("int_cmp", 9, _INT), ("select_op", 18, _FLOAT),
)  # fmt: skip


#: the units of the coefficients, in nanoseconds: roughly what an element in a vector, a scalar, a line, a byte, ... takes
_UNITS = (
    0.02, 0.3, 0.0, 0.0, 0.0, 5.0, 0.05, 0.1, 0.5, 0.1, 0.005, 0.01, 0.2, 0.3, 0.02, 1.0,
    0.1, 0.1, 0.1, 0.01, 0.01, 0.01, 0.1, 1e-4, 50.0, 5.0, 0.5, 1e-3,
)  # fmt: skip


class HalideModel:
    """The network and its terms; see the module's text."""

    kind = "halide"

    def __init__(self, settings: HalideSettings = HalideSettings(), seed: int = 0) -> None:
        self.settings, self.seed = settings, seed
        self.weights: list[Array] | None = None
        self.kept: list[Array] | None = None
        self._samples: Samples | None = None  # to learn from, as soon as it is known what their features mean

    def predict(self, given: FeatureRows, base: Array) -> Array:
        """The logarithm of the speed."""
        self._learn(given.schema)
        if self.weights is None:
            raise UserError("this model has not learned anything yet; call update() or load()")
        seconds = given.total(_Pass(self.weights, Stages(given.values, given.schema)).seconds)
        return np.asarray(-np.log2(np.maximum(seconds, self.settings.floor)))

    def update(self, samples: Samples) -> None:
        if sum(t > 0 for t in samples.throughput) >= self.settings.warm:
            self._samples = samples

    def _learn(self, schema: Schema) -> None:
        samples, self._samples = self._samples, None
        if samples is None:
            return
        s = self.settings
        stages = Stages(np.concatenate(samples.rows), schema)
        pack = np.repeat(np.arange(len(samples)), [len(r) for r in samples.rows])
        weights = [w.copy() for w in self.kept] if self.kept is not None else fresh(np.random.default_rng(self.seed))
        steps = Adam(weights, s.rate if self.kept is not None else s.first_rate, least=s.least)
        wanted = np.array(samples.throughput)  # the inverse of the time, relative to the fastest
        group = np.unique(np.asarray(samples.group), return_inverse=True)[1]
        for _ in range(s.epochs if self.kept is not None else s.first_epochs):
            made = _Pass(weights, stages)
            seconds = np.bincount(pack, weights=made.seconds, minlength=len(samples))
            steps.apply(made.gradients(_slope(seconds, wanted, group, s)[pack], s.negative))
        self.weights = weights

    def ready(self) -> bool:
        return self.weights is not None or self._samples is not None

    def fork(self, seed: int = 0) -> HalideModel:
        new = HalideModel(self.settings, seed)
        new.weights = new.kept = self.weights
        new._samples = self._samples
        return new

    def save(self, path: str | Path, schema: Schema) -> None:
        self._learn(schema)
        if self.weights is None:
            raise UserError("there is nothing to save: this model has not learned anything yet")
        text = json.dumps([base64.b64encode(w.astype("<f8").tobytes()).decode() for w in self.weights])
        write(path, schema, self.kind, {"settings": asdict(self.settings), "seed": self.seed}, text)

    @staticmethod
    def load(path: str | Path, schema: Schema) -> HalideModel:
        head, text = read(path, schema, HalideModel.kind)
        try:
            model = HalideModel(HalideSettings(**head["settings"]), int(head["seed"]))
            shapes = [w.shape for w in fresh(np.random.default_rng(0))]
            arrays = [np.frombuffer(base64.b64decode(one), "<f8") for one in json.loads(text)]
            weights = [a.reshape(shape).copy() for a, shape in zip(arrays, shapes, strict=True)]
        except (KeyError, TypeError, ValueError) as problem:
            raise UserError(f"{path} is damaged: {problem}") from problem
        model.weights = model.kept = weights
        return model


class Stages:
    """Quantities of the statements of programs: what the network sees, and what its coefficients are of."""

    def __init__(self, rows: Array, schema: Schema) -> None:
        given = rows.astype(np.float64)
        zero = np.zeros(len(rows))
        self._features = _Raw(given, schema, zero)
        self.of = {name: np.nan_to_num(quantity(self._features)) for name, quantity in _QUANTITIES.items()}
        columns = [self.of.get(name, zero) for name in SCHEDULE_NAMES]
        self.schedule = np.log1p(np.maximum(0.0, np.stack(columns, axis=1)))  # [rows, 39]
        self.pipeline = np.zeros((len(rows), OPERATIONS * TYPES))
        points = np.maximum(1.0, self.of["points_computed_total"])
        for name, row, column in _COUNTS:
            self.pipeline[:, row * TYPES + column] += self._features[name] / points
        self.cores = np.maximum(1.0, self._features["target_cores"])
        self.final = self._features["is_root"]
        self.terms = _terms(self)  # [rows, 28]

    def __len__(self) -> int:
        return len(self.schedule)


class _Raw:
    """Features in their units, by name; those that the schema does not have are 0."""

    def __init__(self, rows: Array, schema: Schema, zero: Array) -> None:
        self.rows, self.schema, self.zero = rows, schema, zero

    def __getitem__(self, name: str) -> Array:
        number = self.schema.index.get(name)
        if number is None:
            return self.zero
        values = self.rows[:, number]
        return np.exp2(values) - 1.0 if self.schema.features[number].scaled else values


def _terms(stages: Stages) -> Array:
    """[rows, coefficients]: what each coefficient is multiplied by; a stage takes 1e-9 times their sum."""
    q, zero = stages.of, np.zeros(len(stages))
    vectors, scalars = q["num_vectors"], q["num_scalars"]
    inner = q["inner_parallelism"]
    shared = inner > 1
    tasks = np.maximum(1.0, inner) / stages.cores
    idle = np.ceil(tasks) / np.maximum(1.0, tasks)
    realized = q["num_realizations"]
    row_bytes = np.maximum(1.0, q["innermost_bytes_at_task"])
    stores = realized * inner * q["bytes_at_task"] / row_bytes
    kept = realized * q["bytes_at_realization"]
    last = ~shared & (stages.final > 0)
    rest = ~shared & ~last
    found = [
        q["vector_size"] * vectors * idle,  # c0
        scalars * idle,
        zero,  # c2, c3: of inlined stages, which are part of their readers here
        zero,
        zero,
        realized * q["unique_lines_read_per_realization"],  # c5
        realized * q["unique_bytes_read_per_realization"],
        vectors * q["scalar_loads_per_vector"],
        scalars * q["scalar_loads_per_scalar"],
        vectors * q["vector_loads_per_vector"],
        scalars * q["unique_bytes_read_per_vector"],  # c10
        vectors * q["unique_bytes_read_per_vector"],
        scalars * q["unique_lines_read_per_vector"],
        vectors * q["unique_lines_read_per_vector"],
        inner * q["unique_bytes_read_per_task"],
        inner * q["unique_lines_read_per_task"],  # c15
        2 * np.where(shared, stores, 0.0),
        2 * np.where(last, stores, 0.0),
        2 * np.where(rest, stores, 0.0),
        2 * np.where(shared, kept, 0.0),
        2 * np.where(last, kept, 0.0),  # c20
        2 * np.where(rest, kept, 0.0),
        2 * np.where(shared, (vectors + scalars) / row_bytes, 0.0),
        2 * q["bytes_at_production"] * np.minimum(inner, 4096 / row_bytes) * inner,
        realized,  # c24
        np.where(shared, q["num_productions"], 0.0),
        q["num_productions"] * (inner - 1),
        q["working_set"],
    ]
    return np.stack(found, axis=1) * np.array(_UNITS)


class _Pass:
    """The network on some stages, forwards; and backwards, by the slopes of their seconds."""

    def __init__(self, weights: list[Array], stages: Stages) -> None:
        self.weights, self.stages = weights, stages
        w1, b1, w2, b2, w3, b3 = weights
        self.squashed = 1.0 / (1.0 + np.exp(-w1))
        self.first = product(stages.pipeline, self.squashed.T) + b1
        self.second = product(stages.schedule, w2.T) + b2
        self.joined = np.concatenate([self.first, np.maximum(self.second, 0.0)], axis=1)
        self.before = product(self.joined, w3.T) + b3
        self.coefficients = np.maximum(self.before, 0.0)
        self.seconds = 1e-9 * (self.coefficients[:, :TERMS] * stages.terms).sum(axis=1)

    def gradients(self, slope: Array, negative: float) -> list[Array]:
        """Of all weights; `negative` holds coefficients off zero, where they would never come back from."""
        w3 = self.weights[4]
        back = np.zeros_like(self.before)
        back[:, :TERMS] = slope[:, None] * 1e-9 * self.stages.terms
        back *= self.before > 0
        back -= negative * (self.before < 0)
        joined = product(back, w3)
        first, second = joined[:, :HEAD_1], joined[:, HEAD_1:] * (self.second > 0)
        of_w1 = product(first.T, self.stages.pipeline) * self.squashed * (1.0 - self.squashed)
        return [
            of_w1,
            first.sum(axis=0),
            product(second.T, self.stages.schedule),
            second.sum(axis=0),
            product(back.T, self.joined),
            back.sum(axis=0),
        ]


def _slope(seconds: Array, wanted: Array, group: Array, s: HalideSettings) -> Array:
    """Of the loss, sum((1 / predicted - 1 / true) ** 2), both relative to the fastest's true time, by program's seconds.

    Times here are relative already; what the prediction of the fastest is, is what times are relative to.
    """
    found = np.zeros_like(seconds)
    for g in range(int(group.max()) + 1):
        mine = group == g
        unit = max(float(seconds[mine][np.argmax(wanted[mine])]), s.floor)
        relative = np.maximum(seconds[mine] / unit, 1e-2)
        found[mine] = 2 * (1 / relative - wanted[mine]) * (-1 / relative**2) / unit / max(1, int(mine.sum()))
    return found


def fresh(rng: np.random.Generator) -> list[Array]:
    """Filters and biases of both heads and the trunk: 4264 numbers."""
    shapes = ((HEAD_1, OPERATIONS * TYPES), (HEAD_2, SCHEDULE), (TRUNK, HEAD_1 + HEAD_2))
    w1, w2, w3 = (rng.normal(0, np.sqrt(1.0 / shape[1]), shape) for shape in shapes)
    return [w1, np.zeros(HEAD_1), w2, np.zeros(HEAD_2), 0.1 * w3, np.ones(TRUNK)]
