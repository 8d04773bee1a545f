"""Trains the model that comes with the package, and says what it is worth on workloads that it has not seen.

    python benchmarks/train.py records.db [more.db ...] [--out FILE] [--splits 4] [--models prior,trees,mlp] [--json FILE]

The records are those of `collect.py`, of any machines; facts of the machine are among the features. Without `--out` the file of the
package is written, `src/tensorsmith/learn/pretrained/cpu.model`: that is the recipe by which the one there was made.

Two tables are printed, both of workloads that are left out of learning, every `splits`-th in turn:

* **order**: the share of pairs in the right order, recall at 30 and R2 (as `models_table.py`), of the ensemble beside other models
  that learn from the same records;
* **without a trial**: what the schedule that the ensemble is sure of takes in comparison with the default schedule, for several
  doubts and margins; "best" is the best of all programs measured, which nobody knows beforehand. The doubt and the margin that are
  stored are the ones with the greatest geometric mean among those whose 2nd percentile is above 0.97, or, if there are none that
  gain anything worth it, the most careful ones.

In the second table the model chooses among the programs that were measured, some dozens of each workload, and not among thousands.
`no_trial.py` measures what it chooses among thousands.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from models_table import BEST
from tensorsmith.backends import backend_of
from tensorsmith.backends.backend import backend_named
from tensorsmith.errors import Refusal
from tensorsmith.learn.features.schema import Schema
from tensorsmith.learn.models.accuracy import pairwise_accuracy, r2, recall
from tensorsmith.learn.models.ensemble import EnsembleModel, EnsembleSettings, Sure
from tensorsmith.learn.models.model import Array, CostModel, Samples
from tensorsmith.learn.models.registry import as_model
from tensorsmith.learn.pretrained import path_of
from tensorsmith.records.keys import Timing
from tensorsmith.records.record import Record
from tensorsmith.records.store import Store
from tensorsmith.search.transfer import described
from tensorsmith.space.population.embed import Programs
from tensorsmith.targets.target import Target

_LEAST = 12  # programs of a workload that ran
_DOUBTS, _MARGINS = (0.5, 1.0, 2.0, 3.0), (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1.0)
_NEVER_BELOW = 0.97  # of the default schedule
_WORTH_IT = 1.01  # of its speed, in the geometric mean: less is no reason to leave it without a trial


@dataclass(frozen=True)
class Known:
    """Programs of one workload on one machine, of one file: their times can be compared."""

    key: str
    workload: str  # its canonical key: the same in all files
    rows: list[Array]
    base: Array
    seconds: Array
    default: int | None  # the number of the default schedule

    @property
    def throughput(self) -> Array:
        return np.asarray(self.seconds.min() / self.seconds)


def read(path: str) -> list[Known]:
    """All workloads of a file that have enough programs, of all machines."""
    found = []
    with Store.open(path, read_only=True) as store:
        for target in targets(store):
            records = store.sample(target, Timing("warm", target.cores), 100_000, 10_000_000)
            by_workload: dict[str, list[Record]] = {}
            for record in records:
                by_workload.setdefault(record.workload.key, []).append(record)
            found += [
                one for key, some in by_workload.items() if (one := _known(f"{path} {target.key} {key}", some, target)) is not None
            ]
    return found


def targets(store: Store) -> list[Target]:
    """The machines that a file has records of."""
    return [summary.target for summary in {s.target.key: s for s in store.workloads()}.values()]


def _known(key: str, records: Sequence[Record], target: Target) -> Known | None:
    """Each program once, with its least time."""
    programs = Programs()
    least: dict[object, tuple[Record, float]] = {}
    for record in records:
        if record.seconds is None:
            continue
        name = programs.key(record.candidate)
        if name not in least or record.seconds < least[name][1]:
            least[name] = record, record.seconds
    if len(least) < _LEAST:
        return None
    try:
        default = programs.key(backend_of(target).default_candidate(records[0].workload, target))
    except Refusal:
        default = None
    names = list(least)
    candidates = [least[name][0].candidate for name in names]
    known = described(candidates, target)
    at = [names[n] for n, _, _ in known]
    seconds = np.array([least[name][1] for name in at])
    place = at.index(default) if default in at else None
    return Known(
        key,
        records[0].workload.canonical_key,
        [rows for _, rows, _ in known],
        np.array([base for _, _, base in known]),
        seconds,
        place,
    )


def samples_of(known: Sequence[Known]) -> Samples:
    samples = Samples()
    for one in known:
        for rows, throughput, base in zip(one.rows, one.throughput.tolist(), one.base.tolist()):
            samples.add(rows, throughput, one.key, base)
    return samples


def _asked(model: CostModel, one: Known, what: str) -> Array:
    """Scores, or opinions, of the programs of a workload; structures differ in how many statements they have."""
    found: Array | None = None
    counts = np.array([len(rows) for rows in one.rows])
    for count in np.unique(counts):
        at = np.flatnonzero(counts == count)
        values = np.stack([one.rows[n] for n in at.tolist()])
        said = np.asarray(getattr(model, what)(values, one.base[at]))
        if found is None:
            found = np.empty((*said.shape[:-1], len(counts)))
        found[..., at] = said
    assert found is not None
    return found


def order(model: CostModel, tested: Sequence[Known]) -> list[tuple[float, float, float]]:
    """Pairwise accuracy, recall and R2 of each workload."""
    rows = []
    for one in tested:
        score = one.base if model.kind == "prior" else _asked(model, one, "predict")
        rows.append((pairwise_accuracy(score, one.throughput), recall(score, one.throughput, BEST), r2(score, one.throughput)))
    return rows


def chosen(ensemble: EnsembleModel, one: Known, opinions: Array, sure: Sure) -> float:
    """Seconds of the default schedule by those of the choice; 1 where that is the default schedule."""
    assert one.default is not None
    asked = EnsembleModel(ensemble.settings, sure)
    gains = asked.gains(opinions, one.base, one.default)
    best = int(np.argmax(gains))
    return float(one.seconds[one.default] / one.seconds[best]) if gains[best] >= sure.margin else 1.0


def split(known: Sequence[Known], splits: int, seed: int) -> list[tuple[list[Known], list[Known]]]:
    """Workloads to learn from and others to be tested on, each once, whatever machines they were measured on."""
    names = sorted({k.workload for k in known})
    place = dict(zip(names, np.random.default_rng(seed).permutation(len(names)) % splits))
    return [([k for k in known if place[k.workload] != n], [k for k in known if place[k.workload] == n]) for n in range(splits)]


def evaluate(
    known: Sequence[Known], splits: int, others: Sequence[str], schema: Schema, settings: EnsembleSettings, seed: int
) -> tuple[dict[str, dict[str, float]], dict[tuple[float, float], Array], Array]:
    """The figures of both tables: by model; by doubt and margin the ratios of all workloads; and the best ratios there were."""
    figures: dict[str, list[tuple[float, float, float]]] = {}
    ratios: dict[tuple[float, float], list[float]] = {(d, m): [] for d in _DOUBTS for m in _MARGINS}
    best = []
    for learned, tested in split(known, splits, seed):
        samples = samples_of(learned)
        ensemble = EnsembleModel(settings)
        ensemble.update(samples)
        figures.setdefault("ensemble", []).extend(order(ensemble, tested))
        for name in others:
            model = as_model(name, schema).fork(seed)
            model.update(samples)
            figures.setdefault(name, []).extend(order(model, tested))
        for one in tested:
            if one.default is None:
                continue
            opinions = _asked(ensemble, one, "opinions")
            best.append(float(one.seconds[one.default] / one.seconds.min()))
            for (doubt, margin), found in ratios.items():
                found.append(chosen(ensemble, one, opinions, Sure(doubt, margin)))
    means = {name: np.mean(rows, axis=0) for name, rows in figures.items()}
    table = {name: {"pairwise": float(m[0]), "recall_at_30": float(m[1]), "r2": float(m[2])} for name, m in means.items()}
    return table, {rule: np.array(found) for rule, found in ratios.items()}, np.array(best)


def geometric_mean(values: Array) -> float:
    return float(np.exp(np.log(values).mean())) if len(values) else 1.0


def rule(ratios: Mapping[tuple[float, float], Array]) -> Sure:
    """The doubt and the margin to be stored; see the module's text."""
    careful = {r: x for r, x in ratios.items() if len(x) and np.percentile(x, 2) >= _NEVER_BELOW and geometric_mean(x) >= _WORTH_IT}
    if not careful:
        return Sure(max(_DOUBTS), max(_MARGINS))
    return Sure(*max(careful, key=lambda r: geometric_mean(careful[r])))


def show(
    console: Console, figures: Mapping[str, Mapping[str, float]], ratios: Mapping[tuple[float, float], Array], best: Array
) -> None:
    table = Table("model", "pairwise", "recall at 30", "R2", title="order, on workloads not learned from")
    for name, row in figures.items():
        table.add_row(name, *(f"{row[word]:.3f}" for word in ("pairwise", "recall_at_30", "r2")))
    console.print(table)
    title = f"without a trial: the default schedule's seconds by the choice's, {len(best)} workloads not learned from"
    table = Table("doubt", "margin", "geometric mean", "worst", "2nd percentile", "not the default", title=title)
    for (doubt, margin), found in ratios.items():
        cells = (geometric_mean(found), found.min(), np.percentile(found, 2), float((found != 1).mean()))
        table.add_row(str(doubt), str(margin), *(f"{cell:.3f}" for cell in cells))
    table.add_row("best", "", f"{geometric_mean(best):.3f}", "", "", "")
    console.print(table)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("databases", nargs="+", help="record files of collect.py")
    parser.add_argument("--out", help="the model to write; the package's unless told otherwise")
    parser.add_argument(
        "--splits", type=int, default=4, help="parts of the workloads, each of which is left out once; 0: no tables"
    )
    parser.add_argument("--models", default="prior,trees,mlp", help="other models for the first table")
    parser.add_argument("--members", type=int, default=EnsembleSettings().members)
    parser.add_argument("--trees", type=int, default=EnsembleSettings().trees.trees)
    parser.add_argument("--sure", help="DOUBT,MARGIN to be stored, as no_trial.py found them, instead of those of the table")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", help="write the figures to this file")
    given = parser.parse_args(arguments)
    known = [one for path in given.databases for one in read(path)]
    if len(known) < max(2, 2 * given.splits):
        parser.error(f"{', '.join(given.databases)}: {len(known)} workloads with {_LEAST} programs or more; collect more first")
    schema = backend_named("cpu").schema
    base = EnsembleSettings()
    settings = replace(base, members=given.members, trees=replace(base.trees, trees=given.trees), seed=given.seed)
    console = Console(width=120)
    print(f"{sum(len(k.rows) for k in known)} programs of {len(known)} workloads")
    sure, report = Sure(), {}
    if given.splits:
        others = given.models.split(",") if given.models else []
        figures, ratios, best = evaluate(known, given.splits, others, schema, settings, given.seed)
        show(console, figures, ratios, best)
        sure = Sure(*map(float, given.sure.split(","))) if given.sure else rule(ratios)
        print(f"stored: doubt {sure.doubt}, margin {sure.margin}")
        taken = ratios[sure.doubt, sure.margin] if (sure.doubt, sure.margin) in ratios else np.ones(1)
        report = {
            "models": figures,
            "sure": [sure.doubt, sure.margin],
            "geomean": geometric_mean(taken),
            "worst": float(taken.min()),
        }
    model = EnsembleModel(settings, sure)
    model.update(samples_of(known))
    out = Path(given.out) if given.out else path_of(schema)
    model.save(out, schema)
    print(f"{out.name}: {out.stat().st_size / 2**20:.2f} MiB")
    if given.json:
        Path(given.json).write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
