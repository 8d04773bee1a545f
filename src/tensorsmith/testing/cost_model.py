"""The promises of a cost model (`tensorsmith.learn.models.model`), each checked on its own."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from tensorsmith.backends import backend_of, space_of
from tensorsmith.learn.features.sets import schema_for
from tensorsmith.learn.models.model import Array, CostModel, Samples
from tensorsmith.learn.models.registry import GivenModel, as_model
from tensorsmith.search.scores import describe
from tensorsmith.space.population.population import Population
from tensorsmith.space.population.sampling import sample
from tensorsmith.targets.target import Target, native
from tensorsmith.testing.promise import calling, demand, matmul

_PROGRAMS = 200


def check_cost_model(model: GivenModel, *, target: Target | None = None) -> None:
    """Raises `BrokenPromise` if a cost model breaks a promise; `model` is what `ts.tune(model=...)` takes. The `target` is this
    machine, unless one is given.

        check_cost_model(MyModel())
    """
    suite = _Suite(model, target or native())
    for check in (
        suite.is_called_something,
        suite.bears_little,
        suite.learns,
        suite.scores_programs_one_by_one,
        suite.comes_back_from_a_file,
        suite.forks,
    ):
        check()


class _Suite:
    """Programs of one workload, with a throughput that the prior has half of: there is something to learn."""

    def __init__(self, given: GivenModel, target: Target) -> None:
        self.given, self.own = given, backend_of(target).schema
        asked = self.new()
        self.schema, self.asked = schema_for(asked, self.own), asked  # with which features it is asked
        self.space = space_of(matmul(), target)
        self.populations = sample(self.space, _PROGRAMS, np.random.default_rng(0))
        self.features, self.base, order = describe(self.space, self.populations, asked)
        rows = [one for matrix in self.features.matrices() for one in matrix.values]
        speed = 2.0 ** (0.5 * (self.base - self.base.max())) * np.array([1.0 / (1.0 + abs(float(r.sum())) % 3) for r in rows])
        self.programs = list(zip(rows, (speed / speed.max()).tolist(), self.base.tolist()))
        self.order = order

    def new(self) -> CostModel:
        """One that has learned nothing, or what it was given with."""
        return as_model(self.given, self.own).fork(seed=1)

    def learned(self) -> CostModel:
        model = self.new()
        calling("update takes samples", model.update, self.samples())
        return model

    def samples(self, count: int = _PROGRAMS, failed: int = 5, reverse: bool = False) -> Samples:
        """The first programs; every so many-th of them failed."""
        found = Samples()
        for n, (rows, speed, base) in enumerate(self.programs[:count]):
            right = 0.0 if failed and n % failed == 0 else (1.1 - speed if reverse else speed)
            found.add(rows, right, self.space.workload.canonical_key, base)
        return found

    def scores(self, model: CostModel) -> Array:
        found = calling("predict gives a score per program", model.predict, self.features, self.base)
        demand(isinstance(found, np.ndarray), "predict gives an array", f"it gave {type(found).__name__}")
        shape = (len(self.base),)
        demand(found.shape == shape, "predict gives one score per program", f"shape {found.shape}, expected {shape}")
        demand(bool(np.isfinite(found).all()), "scores are finite", f"{int((~np.isfinite(found)).sum())} are not")
        return np.array(found, float)

    # -- promises ------------------------------------------------------------------------------------------------------------

    def is_called_something(self) -> None:
        kind = getattr(self.new(), "kind", None)
        demand(isinstance(kind, str) and bool(kind), "a model has a kind, the name that its files bear", f"kind is {kind!r}")

    def bears_little(self) -> None:
        for samples in (Samples(), self.samples(1, 0), self.samples(3, 1), self.samples(40, 1), self.samples(2, 0)):
            model = self.new()
            what = f"{len(samples)} programs, of which {sum(t > 0 for t in samples.throughput)} ran"
            calling(f"update takes {what}", model.update, samples)
            ready = calling("ready says whether scores are worth something", model.ready)
            demand(isinstance(ready, bool), "ready gives a bool", f"it gave {ready!r}")
            if ready:
                self.scores(model)

    def learns(self) -> None:
        model = self.learned()
        demand(model.ready(), f"a model is ready when it has learned from {_PROGRAMS} programs", "it is not")
        first, second = self.scores(model), self.scores(model)
        demand(_alike(first, second), "the same programs get the same scores", f"they differ by {_apart(first, second):.2g}")

    def scores_programs_one_by_one(self) -> None:
        model = self.learned()
        whole = dict(zip(self.order, self.scores(model).tolist()))
        promise = "the score of a program does not depend on the programs that it is asked about with"
        for what, chosen in (("in another order", slice(None, None, -1)), ("with others left out", slice(0, None, 3))):
            some = [(p, np.arange(len(p))[chosen]) for p in self.populations]
            features, base, order = describe(self.space, [Population(p.plan, p.matrix[rows]) for p, rows in some], self.asked)
            got = calling(promise, model.predict, features, base)
            want = np.array([whole[number, int(some[number][1][row])] for number, row in order])
            demand(_alike(np.asarray(got), want), promise, f"{what}, scores differ by {_apart(np.asarray(got), want):.2g}")

    def comes_back_from_a_file(self) -> None:
        model = self.learned()
        want = self.scores(model)
        with tempfile.TemporaryDirectory(prefix="tensorsmith-") as folder:
            path = Path(folder) / "model"
            calling("save writes a file", model.save, path, self.schema)
            demand(path.is_file(), "save writes a file at the path that it is given", "there is none")
            loaded = calling("load reads what save wrote", type(model).load, path, self.schema)
        demand(loaded.ready(), "a model that was loaded is ready", "it is not")
        got = self.scores(loaded)
        demand(_alike(got, want), "a model that was loaded gives the same scores", f"they differ by {_apart(got, want):.2g}")
        demand(loaded.kind == model.kind, "a model that was loaded is of the same kind", f"it is {loaded.kind!r}")

    def forks(self) -> None:
        model = self.learned()
        want = self.scores(model)
        fork = calling("fork gives a copy", model.fork, seed=1)
        demand(fork is not model, "fork gives a copy", "it gave the model itself")
        demand(fork.ready(), "a fork knows what the model does", "it is not ready")
        got = self.scores(fork)
        demand(_alike(got, want), "a fork gives the same scores at first", f"they differ by {_apart(got, want):.2g}")
        fork.update(self.samples(reverse=True))
        after = self.scores(model)
        demand(_alike(after, want), "what a fork learns, the model does not", f"its scores changed by {_apart(after, want):.2g}")
        other = model.fork(seed=1)
        model.update(self.samples(reverse=True))
        got = self.scores(other)
        demand(_alike(got, want), "what the model learns, a fork does not", f"its scores changed by {_apart(got, want):.2g}")


def _apart(a: Array, b: Array) -> float:
    return float(np.abs(a - b).max()) if a.shape == b.shape else float("inf")


def _alike(a: Array, b: Array) -> bool:
    """But for rounding: sums over statements may be taken in another order."""
    return a.shape == b.shape and bool(np.allclose(a, b, rtol=1e-5, atol=1e-6))
