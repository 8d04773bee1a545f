"""The suite for cost models: ours pass it, and each promise is noticed when it is broken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensorsmith.learn.models.losses import LOSSES
from tensorsmith.learn.models.model import Samples
from tensorsmith.learn.models.registry import MODELS
from tensorsmith.learn.models.trees import TreeModel, TreeSettings
from tensorsmith.testing import BrokenPromise, check_cost_model


@pytest.mark.parametrize("model", [name for name in MODELS.names() if name != "treegru"])  # tests/baselines/test_treegru.py
def test_ours(model: str) -> None:
    check_cost_model(model)


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss(loss: str) -> None:
    check_cost_model(TreeModel(TreeSettings(loss=loss)))


class Base:
    """The mean of what it was told for a program's statement count, more or less: keeps all promises, with little work."""

    kind = "base"

    def __init__(self) -> None:
        self.weight: np.ndarray | None = None

    def predict(self, given: Any, base: Any) -> Any:
        return base + given.total(given.values @ self.weight)

    def update(self, samples: Samples) -> None:
        if len(samples) >= 12:
            x = np.stack([rows.sum(axis=0) for rows in samples.rows])
            self.weight = (x * np.array(samples.throughput)[:, None]).mean(axis=0) / (1 + np.abs(x).max())

    def ready(self) -> bool:
        return self.weight is not None

    def fork(self, seed: int = 0) -> Any:
        new = type(self)()
        new.weight = self.weight
        return new

    def save(self, path: str | Path, schema: Any) -> None:
        np.savetxt(path, self.weight)

    @classmethod
    def load(cls, path: str | Path, schema: Any) -> Any:
        new = cls()
        new.weight = np.loadtxt(path).astype(np.float64)
        return new


class Nameless(Base):
    kind = ""


class DiesOfNothing(Base):
    def update(self, samples: Samples) -> None:
        np.stack(samples.rows[:1])
        super().update(samples)


class DiesOfFailures(Base):
    def update(self, samples: Samples) -> None:
        if samples.throughput and not any(samples.throughput):
            raise ZeroDivisionError
        super().update(samples)


class Unsure(Base):
    def ready(self) -> Any:
        return None if self.weight is None else True


class NeverReady(Base):
    def ready(self) -> bool:
        return False


class PerStatement(Base):
    def predict(self, given: Any, base: Any) -> Any:
        return given.values @ self.weight


class Infinite(Base):
    def predict(self, given: Any, base: Any) -> Any:
        scores = super().predict(given, base)
        return np.where(scores == scores.max(), np.inf, scores)


class Fickle(Base):
    def predict(self, given: Any, base: Any) -> Any:
        return np.random.default_rng().random(given.candidates)


class ByOrder(Base):
    """Scores depend on the place of a row."""

    def predict(self, given: Any, base: Any) -> Any:
        return super().predict(given, base) + np.linspace(0, 1, given.candidates)


class Relative(Base):
    """Scores depend on the best of those that are asked about."""

    def predict(self, given: Any, base: Any) -> Any:
        scores = super().predict(given, base)
        return scores - scores[0]


class LosesDigits(Base):
    def save(self, path: str | Path, schema: Any) -> None:
        np.savetxt(path, self.weight, fmt="%.1f")


class SavesNothing(Base):
    def save(self, path: str | Path, schema: Any) -> None:
        pass


class ChangesItsKind(Base):
    @classmethod
    def load(cls, path: str | Path, schema: Any) -> Any:
        return Base.load(path, schema) if cls is Base else _of_another_kind(super().load(path, schema))


def _of_another_kind(model: Any) -> Any:
    model.kind = "other"
    return model


class SharesState(Base):
    """The weights of all forks are one array, which learning writes to."""

    def update(self, samples: Samples) -> None:
        before = self.weight
        super().update(samples)
        if before is not None and self.weight is not None:
            before[:] = self.weight
            self.weight = before


class IsItsOwnFork(Base):
    def fork(self, seed: int = 0) -> Any:
        return self if self.ready() else super().fork(seed)


class ForgetsWhenForked(Base):
    def fork(self, seed: int = 0) -> Any:
        return type(self)()


class ForksToOtherScores(Base):
    def fork(self, seed: int = 0) -> Any:
        new = super().fork(seed)
        if new.weight is not None:
            new.weight = 2 * new.weight
        return new


@pytest.mark.parametrize(
    ("model", "promise"),
    [
        (Nameless, "a model has a kind, the name that its files bear: kind is ''"),
        (DiesOfNothing, "update takes 0 programs, of which 0 ran: it raised ValueError"),
        (DiesOfFailures, "update takes 3 programs, of which 0 ran: it raised ZeroDivisionError"),
        (Unsure, "ready gives a bool: it gave None"),
        (NeverReady, "a model is ready when it has learned from 200 programs: it is not"),
        (PerStatement, "predict gives one score per program: shape"),
        (Infinite, "scores are finite: 1 are not"),
        (Fickle, "the same programs get the same scores: they differ by"),
        (ByOrder, "does not depend on the programs that it is asked about with: in another order, scores differ by"),
        (Relative, "does not depend on the programs that it is asked about with: in another order, scores differ by"),
        (LosesDigits, "a model that was loaded gives the same scores: they differ by"),
        (SavesNothing, "save writes a file at the path that it is given: there is none"),
        (ChangesItsKind, "a model that was loaded is of the same kind: it is 'other'"),
        (SharesState, "what a fork learns, the model does not: its scores changed by"),
        (IsItsOwnFork, "fork gives a copy: it gave the model itself"),
        (ForgetsWhenForked, "a fork knows what the model does: it is not ready"),
        (ForksToOtherScores, "a fork gives the same scores at first: they differ by"),
    ],
    ids=lambda x: getattr(x, "__name__", None),
)
def test_every_promise_is_checked(model: type, promise: str) -> None:
    with pytest.raises(BrokenPromise, match=promise):
        check_cost_model(model)


def test_the_simple_one_keeps_all_promises() -> None:
    check_cost_model(Base)
