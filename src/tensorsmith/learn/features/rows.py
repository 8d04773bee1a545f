"""Features of candidates as numbers: by candidate and statement, or statement by statement for a whole population."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorsmith.learn.features.schema import Schema
from tensorsmith.program.linear import Num
from tensorsmith.space.sketch.sketch import Sketch

Array = np.ndarray[Any, np.dtype[Any]]

Batch = tuple[Sketch, Mapping[str, Num]]  # candidates of one structure: an array or a number per hole


@dataclass(frozen=True)
class FeatureMatrix:
    """Features of N candidates of one structure: `values[candidate, statement, feature]`, float32."""

    values: Array
    stages: tuple[str, ...]  # that the statements compute, in the order they run
    schema: Schema

    def column(self, name: str) -> Array:
        """A feature as it is stored, shape (candidates, statements)."""
        return self.values[:, :, self.schema.index[name]]

    def raw(self, name: str) -> Array:
        """A feature in its unit, scaling undone (to about six digits), float64."""
        values = self.column(name).astype(np.float64)
        return np.exp2(values) - 1.0 if self.schema.features[self.schema.index[name]].scaled else values


@dataclass(frozen=True)
class Section:
    """Where the candidates of one structure are among the rows of a population."""

    stages: tuple[str, ...]  # that the statements compute
    first_rows: tuple[int, ...]  # of each statement; those of the other candidates follow
    candidates: int


@dataclass(frozen=True)
class FeatureRows:
    """Features of the statements of many candidates, in no particular order: `values[statement, feature]`, float32; the values of a
    feature are neighbours in memory."""

    values: Array
    candidate: Array  # by row: the number of the candidate, over all sections in order
    candidates: int
    sections: tuple[Section, ...]
    schema: Schema

    def total(self, scores: Array) -> Array:
        """What the statements of each candidate come to."""
        return np.bincount(self.candidate, weights=scores, minlength=self.candidates)

    def matrices(self) -> list[FeatureMatrix]:
        """The rows by structure, candidate and statement."""
        found = []
        for x in self.sections:
            values = np.empty((x.candidates, len(x.stages), self.values.shape[1]), np.float32)
            for n, row in enumerate(x.first_rows):
                values[:, n] = self.values[row : row + x.candidates]
            found.append(FeatureMatrix(values, x.stages, self.schema))
        return found


def stacked(groups: Sequence[tuple[tuple[str, ...], Array]], schema: Schema) -> FeatureRows:
    """Rows of groups of candidates, each of one structure: the stages of its rows, and `values[candidate, row, feature]`."""
    parts: list[Array] = [np.empty((0, len(schema)), np.float32)]
    numbers: list[Array] = [np.empty(0, np.int64)]
    sections = []
    row = candidates = 0
    for stages, values in groups:
        count, each = values.shape[:2]
        parts.append(np.swapaxes(values, 0, 1).reshape(count * each, -1))
        numbers.append(np.tile(np.arange(candidates, candidates + count), each))
        sections.append(Section(stages, tuple(row + n * count for n in range(each)), count))
        row, candidates = row + count * each, candidates + count
    return FeatureRows(np.concatenate(parts), np.concatenate(numbers), candidates, tuple(sections), schema)
