"""What a cost model is: it gives programs of one workload an order before they are measured, and learns from those that were.

    model.update(samples)         learn from everything measured so far
    model.ready()                 whether its scores are worth more than the prior's
    model.predict(rows, base)     a score for each program; higher is better
    model.fork(seed)              a copy that begins another search with what this one knows
    model.save(path, schema), Model.load(path, schema)

A model that is asked with other features than the backend's says so by an attribute `features` (`learn/features/sets.py`).

A policy is given one model and asks nothing else of it. A new model is a class with these methods: `registry.register_model`
gives it a name, `ts.tune(model=...)` takes the name, the class or an object, and `tensorsmith.testing.check_cost_model` tells
whether it keeps what is promised here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from tensorsmith.learn.features.rows import FeatureRows
from tensorsmith.learn.features.schema import Schema

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass
class Samples:
    """Measured programs: feature rows of all statements, which program each row is of, and per program its throughput and workload.

    A throughput is relative: the best time of the workload by the program's time, 0 for one that failed.
    """

    rows: list[Array] = field(default_factory=list)  # [statements, features] per program
    throughput: list[float] = field(default_factory=list)
    group: list[str] = field(default_factory=list)
    base: list[float] = field(default_factory=list)  # log2 of the speed that the prior gives

    def add(self, rows: Array, throughput: float, group: str, base: float = 0.0) -> None:
        """One program: the features of its statements, its speed relative to the best of its `group`, and the prior's logarithm
        of it."""
        self.rows.append(np.asarray(rows, np.float32))
        self.throughput.append(float(throughput))
        self.group.append(group)
        self.base.append(float(base))

    def some(self, numbers: Array) -> Samples:
        """Those of the numbers given, which may be there more than once."""
        at = numbers.tolist()
        return Samples(*([values[n] for n in at] for values in (self.rows, self.throughput, self.group, self.base)))

    def __len__(self) -> int:
        return len(self.rows)


class CostModel(Protocol):
    """Scores of programs of one workload can be compared, higher is better; those of different workloads cannot."""

    @property
    def kind(self) -> str:
        """The name that its files bear, and by which they are loaded again."""

    def predict(self, given: FeatureRows, base: Array) -> Array:
        """A finite score per program, the same whatever other programs are asked about with it.

        `given` has the feature rows of all statements of all programs; `given.total(x)` adds a number per row up to one per
        program. `base` is the logarithm (to base 2) of the speed that the prior gives each program. Called only where `ready()`.
        """

    def update(self, samples: Samples) -> None:
        """Learns from everything measured so far, instead of what the last update was given. What the model knew when it was
        loaded or forked it keeps in mind. Programs that failed have the throughput 0; there may be no others, or too few.
        """

    def ready(self) -> bool:
        """Whether it has learned enough to be believed. Until then a policy asks the prior."""

    def fork(self, seed: int = 0) -> CostModel:
        """A copy that knows what this one does; what either learns from now on, the other does not.

        `seed` is that of the search it is for, which matters to models that draw at random.
        """

    def save(self, path: str | Path, schema: Schema) -> None:
        """Writes a file that `load` reads; the schema is that of the features it learned from."""

    @staticmethod
    def load(path: str | Path, schema: Schema) -> CostModel:
        """A model that gives the scores of the one that was saved; raises `UserError` if that learned from other features."""
