"""What trials of other workloads teach: a cost model that a search begins with, instead of nothing (AutoTVM's transfer).

Features do not say which workload a statement is of, and throughputs are relative to the best of their own workload, so what is
learned of some carries over to others. Every search begins with a fork of what was learned here, and goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorsmith.lang.workload import Workload
from tensorsmith.learn.features.rows import Batch, FeatureRows
from tensorsmith.learn.models.model import CostModel, Samples
from tensorsmith.search.scores import features_for
from tensorsmith.search.trial import Trial
from tensorsmith.space.sketch.sketch import Candidate, Sketch
from tensorsmith.targets.target import Target

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Taught:
    """What was learned, and of which workloads (by canonical key)."""

    model: CostModel
    workloads: frozenset[str]

    def model_for(self, workload: Workload, seed: int = 0) -> CostModel | None:
        """A model of its own to begin a search with; None if that very workload alone was learned from, whose records it gets."""
        return None if self.workloads <= {workload.canonical_key} else self.model.fork(seed)


@dataclass(frozen=True)
class Teaching:
    """How a policy's model learns from records of other workloads, where that is not by `learn`."""

    learn: Callable[[Sequence[Trial], Target, CostModel], Taught | None]
    workloads: int  # that are learned from, those tried last
    most: int  # trials of them
    least: int  # trials from which on something can be learned


def learn(trials: Sequence[Trial], target: Target, model: CostModel) -> Taught | None:
    """What a fork of a model can learn of trials of any workloads, if anything. Candidates that can no longer be lowered are
    passed over."""
    ran = [(t.candidate, t.seconds) for t in trials if t.seconds is not None]
    best: dict[str, float] = {}
    for candidate, seconds in ran:
        key = candidate.sketch.workload.canonical_key
        best[key] = min(seconds, best.get(key, seconds))
    samples = Samples()
    for n, features, prior in described([c for c, _ in ran], target, model):
        key = ran[n][0].sketch.workload.canonical_key
        samples.add(features, best[key] / ran[n][1], key, prior)
    taught = model.fork()
    taught.update(samples)
    return Taught(taught, frozenset(samples.group)) if taught.ready() else None


def described(candidates: Sequence[Candidate], target: Target, model: CostModel | None = None) -> list[tuple[int, Array, float]]:
    """Of each candidate: its number, features [statements, features] as the model is asked with, and the logarithm of the speed
    that the prior gives it."""
    numbers, batches = _batches(candidates)
    try:
        found = [(numbers, *features_for(model, batches, target))]
    except Exception:  # one that an older version wrote spoils it for all; without it
        found = []
        for ns, batch in zip(numbers, batches):
            try:
                found.append(([ns], *features_for(model, [batch], target)))
            except Exception:
                continue
    return [one for ns, rows, prior in found for one in _by_candidate(ns, rows, prior)]


def feature_rows(
    candidates: Sequence[Candidate], target: Target, model: CostModel | None = None
) -> tuple[FeatureRows, Array, Array]:
    """Features of candidates as a model is asked with them, the prior's scores, and the number of each candidate of the rows among
    those given."""
    numbers, batches = _batches(candidates)
    return *features_for(model, batches, target), np.array([n for ns in numbers for n in ns], np.int64)


def _batches(candidates: Sequence[Candidate]) -> tuple[list[list[int]], list[Batch]]:
    """Candidates of one structure together: their numbers, and their decisions as columns."""
    groups: dict[int, list[int]] = {}
    for n, candidate in enumerate(candidates):
        groups.setdefault(id(candidate.sketch), []).append(n)
    numbers = list(groups.values())
    return numbers, [(candidates[ns[0]].sketch, _columns(candidates[ns[0]].sketch, [candidates[n] for n in ns])) for ns in numbers]


def _columns(sketch: Sketch, candidates: Sequence[Candidate]) -> dict[str, Array]:
    return {hole: np.array([c.decisions[hole] for c in candidates], np.int64) for hole in sketch.holes}


def _by_candidate(numbers: Sequence[Sequence[int]], rows: FeatureRows, prior: Array) -> list[tuple[int, Array, float]]:
    features = [one for matrix in rows.matrices() for one in matrix.values]
    order = [n for ns in numbers for n in ns]
    return list(zip(order, features, prior.tolist()))
