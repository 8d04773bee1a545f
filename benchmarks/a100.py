"""How well prior and trees order programs that Ansor measured on an A100. Nothing is measured here.

    python benchmarks/a100.py --data a100-matmul.csv [--first 64] [--only prior,trees] [--json FILE]

`prior`: the analytic estimate, on the first programs of each search (which are drawn at random) and on all of each. `trees`:
several forests of our trees (`learn/models/ensemble.py`), learned from all searches but those of one shape, on that shape. Of each:
Spearman's rank correlation with the measured times, and how near the best of the programs chosen comes to the best of all (of as
many drawn at random: the median of 300 draws).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from a100_data import Array, Search, matrix, read
from tensorsmith.backends.gpu.named import NAMED
from tensorsmith.backends.gpu.prior import estimate_seconds
from tensorsmith.learn.models.ensemble import EnsembleModel, EnsembleSettings
from tensorsmith.learn.models.model import Samples
from tensorsmith.learn.models.trees import TreeSettings

TARGET = NAMED["a100"]
#: the model has to say something of shapes that it has not seen, so its trees are small and see few features each, and its members
#: have seen different searches
SETTINGS = EnsembleSettings(members=8, trees=TreeSettings(trees=120, leaves=10, rate=0.07, features=0.3, least_weight=0.01))
Row = dict[str, float]


def spearman(a: Array, b: Array) -> float:
    """Correlation of the ranks; equal ones share theirs."""
    first, second = _ranks(a), _ranks(b)
    if not np.ptp(first) or not np.ptp(second):
        return 0.0
    return float(np.corrcoef(first, second)[0, 1])


def _ranks(values: Array) -> Array:
    _, group, count = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(count) - (count - 1) / 2.0)[group]


def reached(seconds: Array, order: Array, count: int) -> float:
    """The share of the best speed that the best of the first `count` in that order has."""
    return float(seconds.min() / seconds[order[:count]].min())


def at_random(seconds: Array, count: int, draws: int = 300) -> float:
    """The same of as many drawn at random, in the median."""
    rng = np.random.default_rng(0)
    best = [seconds[rng.choice(len(seconds), min(count, len(seconds)), replace=False)].min() for _ in range(draws)]
    return float(seconds.min() / np.median(best))


def compared(seconds: Array, expected: Array, top: int) -> Row:
    """How good an order of expected times is."""
    order = np.argsort(expected, kind="stable")
    return {
        "programs": float(len(seconds)),
        "spearman": spearman(seconds, expected),
        f"top{top}": reached(seconds, order, top),
        f"random{top}": at_random(seconds, top),
    }


def prior(searches: Sequence[Search], first: int) -> dict[str, Row]:
    """The analytic estimate, on the first programs and on all."""
    found = {}
    for search in searches:
        early, late = search.first(first), search.first(1 << 60)
        row = compared(early.seconds, estimate_seconds(matrix(early, TARGET), TARGET), 5)
        whole = spearman(late.seconds, estimate_seconds(matrix(late, TARGET), TARGET))
        found[search.name] = {**row, "whole": whole}
    return found


def trees(searches: Sequence[Search], settings: EnsembleSettings = SETTINGS) -> dict[str, Row]:
    """Trees on each search, learned from those of other shapes, of both types."""
    known = {s.name: _samples(s.first(1 << 60)) for s in searches}
    found: dict[str, Row] = {}
    for shape in dict.fromkeys(_shape(name) for name in known):
        samples = Samples()
        for name, (rows, speed, scores, _) in known.items():
            if _shape(name) != shape:
                for one, relative, score in zip(rows, speed, scores):
                    samples.add(one, relative, name, score)
        model = EnsembleModel(settings)
        model.update(samples)
        for name, (features, _, base, seconds) in known.items():
            if _shape(name) == shape and model.ready():
                row = compared(seconds, -model.predict(features, base), 10)
                found[name] = {**row, "prior": spearman(seconds, -base)}
    return {name: found[name] for name in known if name in found}


def _shape(name: str) -> str:
    return name.split()[1]


def _samples(search: Search) -> tuple[Array, Array, Array, Array]:
    """Features, relative speeds, the prior's scores and the seconds."""
    features = matrix(search, TARGET)
    base = -np.log2(estimate_seconds(features, TARGET))
    return features.values, search.seconds.min() / search.seconds, base, search.seconds


def table(title: str, rows: dict[str, Row]) -> str:
    """For people, with means by type and the least of each column."""
    names = list(next(iter(rows.values())))
    lines = [title, f"{'':<22}" + "".join(f"{n:>10}" for n in names)]

    def line(name: str, values: Sequence[float]) -> str:
        return f"{name:<22}" + "".join(f"{v:>10.0f}" if n == "programs" else f"{v:>10.3f}" for n, v in zip(names, values))

    lines += [line(name, [row[n] for n in names]) for name, row in rows.items()]
    for dtype in dict.fromkeys(name.split()[0] for name in rows):
        chosen = [[row[n] for n in names] for name, row in rows.items() if name.startswith(dtype)]
        lines += [line(f"{dtype} mean", np.mean(chosen, axis=0)), line(f"{dtype} least", np.min(chosen, axis=0))]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="the file of programs, CSV or gzip of it")
    parser.add_argument("--first", type=int, default=64, help="programs of each search that count as drawn at random")
    parser.add_argument("--only", default="prior,trees", help="what to show")
    parser.add_argument("--json", help="a file for programs")
    options = parser.parse_args(arguments)
    searches = read(options.data)
    wanted: dict[str, Any] = {}
    if "prior" in options.only.split(","):
        wanted["prior"] = prior(searches, options.first)
        print(table(f"analytic prior on the first {options.first} programs of each search (whole: on all of it)", wanted["prior"]))
    if "trees" in options.only.split(","):
        wanted["trees"] = trees(searches)
        print(table("trees learned from the searches of other shapes, on all programs of this one", wanted["trees"]))
    if options.json:
        Path(options.json).write_text(json.dumps(wanted, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
