"""Features that are not a backend's own, by name: those of other systems, for models that are made after theirs.

A cost model says which it wants by its attribute `features`; one without it is asked with those of the backend. They are worked out
on loop programs alone, so they are the same for every kind of machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tensorsmith.learn.features import loops
from tensorsmith.learn.features.ansor import schema as ansor_schema
from tensorsmith.learn.features.ansor.extract import extract_rows as ansor_rows
from tensorsmith.learn.features.rows import Batch, FeatureRows
from tensorsmith.learn.features.schema import Schema


@dataclass(frozen=True)
class FeatureSet:
    """What the columns mean, and how rows are made."""

    schema: Schema
    extract_rows: Callable[[Sequence[Batch]], FeatureRows]


SETS = {"ansor": FeatureSet(ansor_schema.SCHEMA, ansor_rows), "loops": FeatureSet(loops.SCHEMA, loops.extract_rows)}


def wanted(model: object) -> FeatureSet | None:
    """The features that a model, or the class of one, is asked with; None: those of the backend."""
    return SETS.get(getattr(model, "features", ""))


def schema_for(model: object, own: Schema) -> Schema:
    """The schema of the features that a model is asked with, where `own` is the backend's."""
    found = wanted(model)
    return own if found is None else found.schema
