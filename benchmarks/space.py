"""The space in numbers: how many candidates a second pass through it, and how well prior and model order measured ones.

    python benchmarks/space.py [--only speed,accuracy] [--json FILE] [--programs 300]

`speed` counts candidates per second on one core. `accuracy` measures random candidates of five workloads and prints the
rank correlation of the analytic prior with the measured times, and the pairwise accuracy of models trained on two
thirds and tested on the rest.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import about
from report import RUN
from tensorsmith.backends import backend_of, space_of
from tensorsmith.build import build
from tensorsmith.errors import Refusal
from tensorsmith.lang.compare import random_inputs
from tensorsmith.learn.features.rows import FeatureRows
from tensorsmith.learn.models.accuracy import pairwise_accuracy, recall
from tensorsmith.learn.models.losses import LOSSES
from tensorsmith.learn.models.model import Samples
from tensorsmith.learn.models.trees import TreeModel, TreeSettings
from tensorsmith.ops import catalogue
from tensorsmith.space.population.evolve import offspring
from tensorsmith.space.population.population import Plan, Population, Space
from tensorsmith.space.population.sampling import sample
from tensorsmith.targets.target import native

SPEED = {"conv2d+bn+relu": "ConvLayer-2-b1", "matmul": "GMM-3-b1", "TBS": "TBS-1-b1", "depthwise": "DEP-1-b1"}
ACCURACY = ("C2D-3-b1", "GMM-1-b1", "ConvLayer-3-b1", "DEP-1-b1", "TBS-1-b1")
POPULATION = 4096


def described(plan: Plan, matrix: np.ndarray) -> list[tuple[np.ndarray, float]]:
    """Of every candidate: its features [statements, features], and the seconds that it should take."""
    backend = backend_of(native())
    rows = backend.extract_rows([(g.sketch, g.decisions) for g in plan.groups(matrix)], native())
    features = [one for found in rows.matrices() for one in found.values]
    return list(zip(features, backend.estimated_seconds(rows, native()).tolist()))


def best_of(run: Callable[[], object], rounds: int = 3) -> float:
    """The least seconds a call takes."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def speed(name: str, seed: int = 0) -> dict[str, float]:
    """Candidates per second, one core."""
    space = space_of(catalogue.get(name).workload(), native())
    rng = np.random.default_rng(seed)
    populations = sample(space, POPULATION, rng)
    count = sum(len(p) for p in populations)
    model = _any_model(space, populations)

    def evolve() -> list[Population]:
        result = []
        for p in populations:
            plan = space.plans[p.plan]
            other = p.matrix[rng.permutation(len(p.matrix))]
            result.append(Population(p.plan, offspring(plan, p.matrix, other, rng)))
        return result

    def all_features() -> FeatureRows:
        groups = [(g.sketch, g.decisions) for p in populations for g in space.plans[p.plan].groups(p.matrix)]
        return backend_of(native()).extract_rows(groups, native())

    def predict() -> np.ndarray:
        return model.predict(all_features())

    def generations() -> None:
        nonlocal populations
        before = populations
        for _ in range(4):
            predict()
            populations = evolve()
        populations = before

    return {
        "sample_per_second": count / best_of(lambda: sample(space, POPULATION, rng)),
        "evolve_per_second": count / best_of(evolve),
        "features_per_second": count / best_of(all_features),
        "features_predict_per_second": count / best_of(predict),
        "four_generations_seconds": best_of(generations, 2),
        "structures": float(sum(len(space.plans[p.plan].groups(p.matrix)) for p in populations)),
    }


def _any_model(space: Space, populations: list[Population]) -> TreeModel:
    """A model of 100 trees, trained on the prior's opinion: its speed is what matters here."""
    samples = Samples()
    for p in populations:
        plan = space.plans[p.plan]
        some = described(plan, p.matrix[:64])
        for rows, seconds in some:
            samples.add(rows, min(t for _, t in some) / seconds, "any")
    model = TreeModel(TreeSettings(trees=100))
    model.update(samples)
    return model


def accuracy(name: str, programs: int, seed: int = 0) -> dict[str, float]:
    """Random candidates, measured, against the prior and against models trained on two thirds of them."""
    workload = catalogue.get(name).workload()
    space = space_of(workload, native())
    rng = np.random.default_rng(seed)
    inputs = random_inputs(workload, 0)
    constants = {b.name: inputs[b.name] for b in workload.inputs if b.constant}
    others = [inputs[b.name] for b in workload.inputs if not b.constant]
    rows, seconds, prior, refused = [], [], [], 0
    chosen = [(p, n) for p in sample(space, 4 * programs, rng) for n in range(len(p))]
    for p, n in (chosen[i] for i in rng.permutation(len(chosen))):
        plan = space.plans[p.plan]
        try:
            kernel = build(plan.candidate(p.matrix[n])).bind(**constants)
        except Refusal:
            refused += 1
            continue
        ((found, expected),) = described(plan, p.matrix[n : n + 1])
        rows.append(found)
        prior.append(expected)
        seconds.append(kernel.benchmark(*others, min_seconds=0.02, rounds=4).best)
        if len(rows) == programs:
            break
    times = np.array(seconds)
    throughput = times.min() / times
    cut = len(rows) * 2 // 3
    figures = {
        "programs": float(len(rows)),
        "refused": float(refused),
        "prior_rank_correlation": _rank_correlation(np.array(prior), times),
        "prior_pairwise": pairwise_accuracy(-np.array(prior), throughput),
    }
    base = -np.log2(np.array(prior))
    for loss in LOSSES:
        known = base if loss != "paper" else np.zeros_like(base)  # the paper's loss is not on a logarithm
        model = TreeModel(TreeSettings(loss=loss))
        samples = Samples()
        for r, y, b in zip(rows[:cut], throughput[:cut], known[:cut]):
            samples.add(r, float(y), name, float(b))
        model.update(samples)
        scores = np.array([model.predict(r[None], b)[0] for r, b in zip(rows[cut:], known[cut:])])
        figures[f"{loss}_pairwise"] = pairwise_accuracy(scores, throughput[cut:])
        figures[f"{loss}_recall_at_10"] = recall(scores, throughput[cut:], 10)
    return figures


def _rank_correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Spearman's."""
    ranks = [np.argsort(np.argsort(x)).astype(float) for x in (a, b)]
    return float(np.corrcoef(*ranks)[0, 1])


def _table(title: str, results: dict[str, dict[str, float]]) -> Table:
    columns = list(next(iter(results.values())))
    table = Table("workload", *(c.replace("_", " ") for c in columns), title=title)
    for name, row in results.items():
        table.add_row(name, *(f"{row[c]:,.0f}" if abs(row[c]) >= 10 else f"{row[c]:.3f}" for c in columns))
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="speed,accuracy")
    parser.add_argument("--programs", type=int, default=300, help="measured per workload")
    parser.add_argument("--json", help="write the figures to this file")
    arguments = parser.parse_args()
    console = Console(width=170)
    this_run = about.about()
    print(about.text(this_run), flush=True)
    report: dict[str, dict[str, Any]] = {RUN: this_run}
    if "speed" in arguments.only:
        found = {title: speed(name) for title, name in SPEED.items()}
        console.print(_table(f"candidates per second, one core, population {POPULATION}", found))
        report.update(found)
    if "accuracy" in arguments.only:
        measured = {}
        for name in ACCURACY:
            measured[name] = accuracy(name, arguments.programs)
            console.print(_table("order of measured candidates", {name: measured[name]}))
        console.print(_table("order of measured candidates", measured))
        for name, row in measured.items():
            report.setdefault(name, {}).update(row)
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(report, file, indent=1)


if __name__ == "__main__":
    main()
