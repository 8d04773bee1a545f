"""Ansor's features of many candidates: one lowering for all candidates of a structure, whose counts are arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tensorsmith.learn.features.ansor.accesses import Regions
from tensorsmith.learn.features.ansor.schema import SCHEMA
from tensorsmith.learn.features.ansor.values import store_values
from tensorsmith.learn.features.rows import Array, Batch, FeatureRows, stacked
from tensorsmith.program.linear import Num
from tensorsmith.program.lower import lower_decisions
from tensorsmith.program.stores import stores
from tensorsmith.space.sketch.sketch import Sketch

_SCALED = np.array([f.scaled for f in SCHEMA.features])


def extract_rows(batches: Sequence[Batch]) -> FeatureRows:
    """The features of all candidates of all batches."""
    return stacked([_of_batch(sketch, decisions) for sketch, decisions in batches], SCHEMA)


def _of_batch(sketch: Sketch, decisions: Mapping[str, Num]) -> tuple[tuple[str, ...], Array]:
    """(stages that the rows are of, values [candidates, stages, features])"""
    size = max((len(v) for v in decisions.values() if isinstance(v, np.ndarray) and v.ndim), default=1)
    regions = Regions()
    rows: dict[str, Array] = {}
    for store in stores(lower_decisions(sketch, decisions), size, decisions):
        if store.initial:  # shares the row of what is computed next, which overwrites it; its value takes no operation
            regions.add(store)
            continue
        row = rows[store.stage.name] = np.zeros((size, len(SCHEMA)))
        for name, value in store_values(store, regions).items():
            row[:, SCHEMA.index[name]] = value
    values = np.stack(list(rows.values()), axis=1)
    return tuple(rows), np.where(_SCALED, np.sign(values) * np.log2(np.abs(values) + 1.0), values).astype(np.float32)
