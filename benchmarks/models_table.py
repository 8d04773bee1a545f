"""Cost models side by side, on the same programs of a record file.

    python benchmarks/models_table.py tune.db [--models trees,mlp,halide,prior,random] [--split programs|workloads] [--seed 0]
    [--json FILE]

Each model learns from some records and is asked about others. `--split programs`: two thirds of the programs of each workload, and
the other third of the same workload, as in a search that goes on. `--split workloads`: every third workload is left out of
learning, as at the beginning of a search.

Three figures, the mean over the workloads that are tested, of 1 at best: the share of pairs of programs in the right order, the
share of the best 30 programs that are among the 30 with the highest scores, and the R2 of a straight line through scores and
throughputs.

Nothing is measured here: tune something first (`tensorsmith tune ... --db tune.db`), for this machine or with `--target`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from tensorsmith.backends import backend_of
from tensorsmith.learn.features.sets import wanted
from tensorsmith.learn.models.accuracy import pairwise_accuracy, r2, recall
from tensorsmith.learn.models.model import Array, CostModel, Samples
from tensorsmith.learn.models.registry import MODELS, as_model
from tensorsmith.records.keys import Timing
from tensorsmith.records.store import Store
from tensorsmith.search.transfer import described, feature_rows
from tensorsmith.search.trial import Trial
from tensorsmith.targets.target import Target, given_or_native

NAMES = tuple(name for name in MODELS.names() if name != "treegru")  # which needs PyTorch, and learns for minutes
BEST = 30  # that recall is about
_LEAST = 24  # programs of a workload, below which there is nothing to compare
_WORKLOADS, _MOST = 200, 20_000  # of a record file


@dataclass(frozen=True)
class Programs:
    """Programs of one workload, with their throughputs relative to the best."""

    key: str
    trials: list[Trial]
    rows: list[Array]  # features of their statements
    base: Array  # log2 of the speed that the prior gives
    throughput: Array

    def __len__(self) -> int:
        return len(self.trials)

    def some(self, numbers: Array) -> Programs:
        at = numbers.tolist()
        return Programs(
            self.key, [self.trials[n] for n in at], [self.rows[n] for n in at], self.base[numbers], self.throughput[numbers]
        )


def read(store: Store, target: Target) -> list[Programs]:
    """The programs of all workloads that have enough of them."""
    records = store.sample(target, Timing("warm", target.cores), _WORKLOADS, _MOST)
    by_workload: dict[str, list[Trial]] = {}
    for record in records:
        by_workload.setdefault(record.trial.candidate.sketch.workload.canonical_key, []).append(record.trial)
    found = []
    for key, trials in by_workload.items():
        known = described([t.candidate for t in trials], target)
        ran = [(trials[n], rows, prior) for n, rows, prior in known if trials[n].seconds]
        if len(ran) >= _LEAST:
            seconds = np.array([t.seconds for t, _, _ in ran], float)
            rows_of, base = [rows for _, rows, _ in ran], np.array([prior for _, _, prior in ran])
            found.append(Programs(key, [t for t, _, _ in ran], rows_of, base, seconds.min() / seconds))
    return found


def divided(programs: Sequence[Programs], split: str, seed: int) -> tuple[list[Programs], list[Programs]]:
    """To learn from, and to be tested on."""
    rng = np.random.default_rng(seed)
    if split == "workloads":
        order = rng.permutation(len(programs)).tolist()
        tested = set(order[: max(1, len(programs) // 3)])
        return [p for n, p in enumerate(programs) if n not in tested], [p for n, p in enumerate(programs) if n in tested]
    learned, tested_parts = [], []
    for p in programs:
        order = rng.permutation(len(p))
        cut = len(p) * 2 // 3
        learned.append(p.some(np.sort(order[:cut])))
        tested_parts.append(p.some(np.sort(order[cut:])))
    return learned, tested_parts


def scores(model: CostModel, programs: Programs, target: Target) -> Array:
    """What a model says of programs, one by one: they may differ in structure."""
    rows, prior, order = feature_rows([t.candidate for t in programs.trials], target, model)
    found = np.empty(len(programs))
    found[order] = model.predict(rows, prior)
    return found


def seen_by(model: CostModel, p: Programs, target: Target) -> Iterator[tuple[Array, float, float]]:
    """Features, throughput and the prior's logarithm of the speed of programs, as a model learns them."""
    if wanted(model) is None:
        yield from zip(p.rows, p.throughput.tolist(), p.base.tolist())
    else:
        for n, rows, prior in described([t.candidate for t in p.trials], target, model):
            yield rows, float(p.throughput[n]), prior


def figures(name: str, learned: Sequence[Programs], tested: Sequence[Programs], target: Target, split: str) -> dict[str, float]:
    """One model: of programs, one that learns each workload alone; of workloads, one that learns all of them."""
    found: list[tuple[float, float, float]] = []
    for n, test in enumerate(tested):
        samples = Samples()
        model = as_model(name, backend_of(target).schema).fork(0)
        for p in learned if split == "workloads" else [learned[n]]:
            for rows, throughput, base in seen_by(model, p, target):
                samples.add(rows, throughput, p.key, base)
        model.update(samples)
        if not model.ready():
            continue
        score = scores(model, test, target)
        found.append((pairwise_accuracy(score, test.throughput), recall(score, test.throughput, BEST), r2(score, test.throughput)))
    means = np.mean(found, axis=0) if found else [np.nan] * 3
    return {"pairwise": float(means[0]), "recall_at_30": float(means[1]), "r2": float(means[2]), "workloads": float(len(found))}


def table(report: Mapping[str, Mapping[str, float]]) -> Table:
    found = Table("model", "pairwise", "recall at 30", "R2", "workloads")
    for name, row in report.items():
        cells = [f"{row[figure]:.3f}" for figure in ("pairwise", "recall_at_30", "r2")]
        found.add_row(name, *cells, f"{row['workloads']:.0f}")
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("database", help="file of records")
    parser.add_argument("--models", default=",".join(NAMES), help='names, or "module:Name" of one of your own')
    parser.add_argument("--split", choices=("programs", "workloads"), default="programs")
    parser.add_argument("--target", help="whose records; this machine's unless told otherwise")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", help="write the figures to this file")
    given = parser.parse_args(arguments)
    if not Path(given.database).is_file():
        parser.error(f"there is no file {given.database}; tune something first, with --db {given.database}")
    target = given_or_native(given.target)
    with Store.open(given.database) as store:
        programs = read(store, target)
    if len(programs) < (3 if given.split == "workloads" else 1):
        parser.error(f"{given.database} has {len(programs)} workloads with {_LEAST} timed programs or more on {target.name}")
    learned, tested = divided(programs, given.split, given.seed)
    report = {name: figures(name, learned, tested, target, given.split) for name in given.models.split(",")}
    count = sum(map(len, tested))
    title = f"cost models on {count} programs of {len(tested)} workloads, learned from {sum(map(len, learned))}"
    print(title)
    Console(width=120).print(table(report))
    if given.json:
        Path(given.json).write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
