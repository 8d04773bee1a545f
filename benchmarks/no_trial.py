"""What the pre-trained model chooses without any trial, beside the default schedule and the result of a search.

    python benchmarks/no_trial.py [--batch 16] [--cases C2D-3-b16,GMM-2-b16] [--models resnet50.onnx,...] [--trials 64]
                                  [--drawn N] [--threads N] [--database FILE] [--seconds 2] [--json FILE]

Each case is compiled as it is (`ts.compile`), by the model (`effort="model"`), and tuned; the three run side by side in one
process, in an order drawn anew for every round (`tensorsmith.measure.referee`). Programs that are the same code run once. Columns:

    model / default     how many times as fast as the default schedule the model's choice is; must not be below 0.97
    model / tuned       the same against the result of the search: what a search would still have brought
    choosing            seconds that the choice took

The cases of batch 16 and all networks are held out by `collect.py`: the model has not seen them. `--models` takes all tasks of
networks, `--drawn` random workloads. On a machine that others use, `--threads 1` gives times that can be believed. With a
`--database` searches are kept, and a case that has its trials there is not tuned again. `--trials 0`: no search.
"""

from __future__ import annotations

import argparse
import itertools
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import tensorsmith as ts
from contest import Settings, check, hold, quiet_machine
from learning_draw import drawn
from ours import kernel, same_program
from rows import geometric_mean
from tensorsmith.lang.compare import random_inputs
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.lang.workload import Workload
from tensorsmith.measure.referee import Contestant
from tensorsmith.ops import catalogue
from tensorsmith.records.keys import Timing
from tensorsmith.records.store import Store
from tensorsmith.rewrites.formulations import formulations
from tensorsmith.runtime.buffers import aligned_copy
from tensorsmith.runtime.executable import Executable
from tensorsmith.runtime.pool import with_threads
from tensorsmith.targets.target import native

DEFAULT, MODEL, TUNED = "default", "model", "tuned"
_SEED = 77  # of random workloads: another one than that of `collect.py`
_MOST_FLOPS = 6e7  # of these


@dataclass(frozen=True)
class Row:
    """Seconds of a call by who made the program, and of choosing; `schedule` is what the model took."""

    default: float
    model: float
    tuned: float | None
    choosing: float
    schedule: str

    @property
    def against_default(self) -> float:
        return self.default / self.model

    @property
    def against_tuned(self) -> float | None:
        return None if self.tuned is None else self.tuned / self.model


def workloads(batch: int, cases: str | None, models: str | None, count: int = 0) -> Iterator[tuple[str, Workload]]:
    """What is asked about, by name."""
    if count:
        for number, (kind, workload) in enumerate(itertools.islice(drawn(_SEED, _MOST_FLOPS), count)):
            yield f"{kind} {number}: {workload.title}", workload
        return
    if models:
        for file in models.split(","):
            model = ts.load(file)
            for number, task in enumerate(t for t in model.tasks() if t.tunable):
                yield f"{Path(file).stem} {number} {task.name}", task.workload
        if not cases:
            return
    for name in cases.split(",") if cases else catalogue.cases(batch):
        yield name, catalogue.get(name).workload()


def tuned(workload: Workload, trials: int, database: str, seed: int) -> Executable:
    """The result of a search with so many trials, those of the database among them."""
    with Store.open(database) as store:
        timing = Timing("warm", native().cores)
        done = sum(len(store.history(f.workload, native(), timing)) for f in formulations(workload))
    if done < trials:
        ts.tune(workload, trials=trials - done, database=database, seed=seed, early_stop=False, on_progress=lambda _: None)
    return ts.compile(workload, database=database)


def measured(name: str, workload: Workload, trials: int, database: str, settings: Settings) -> Row:
    begun = time.perf_counter()
    made = {DEFAULT: ts.compile(workload)}
    between = time.perf_counter()
    made[MODEL] = ts.compile(workload, effort="model")
    choosing = max(0.0, time.perf_counter() - between - (between - begun))
    if trials:
        made[TUNED] = tuned(workload, trials, database, settings.seed)
    alike = {who: next(other for other in made if same_program(made[who], made[other])) for who in made}
    inputs = {n: aligned_copy(array) for n, array in random_inputs(workload).items()}
    want = evaluate(workload, inputs, precise=True)[workload.outputs[0]]
    with with_threads(settings.threads):
        kernels = {who: kernel(made[who], inputs, settings.threads) for who in set(alike.values())}
        check(workload, np.asarray(want), {who: one.output for who, one in kernels.items()})
        contestants: dict[str, Contestant] = {who: one.alone for who, one in kernels.items()}
        found = hold(contestants, tuple(contestants), name, settings)
    seconds = {who: found[alike[who]].best for who in made}
    (step,) = made[MODEL].network.kernels
    return Row(seconds[DEFAULT], seconds[MODEL], seconds.get(TUNED), choosing, step.schedule)


def summary(rows: dict[str, Row]) -> dict[str, float]:
    """The figures that are promised."""
    found = {
        "cases": float(len(rows)),
        "geomean_against_default": geometric_mean(r.against_default for r in rows.values()),
        "worst_against_default": min(r.against_default for r in rows.values()),
        "most_seconds_choosing": max(r.choosing for r in rows.values()),
        "chosen": float(sum(r.schedule == MODEL for r in rows.values())),
    }
    against = [r.against_tuned for r in rows.values() if r.against_tuned is not None]
    if against:
        found["geomean_against_tuned"] = geometric_mean(against)
        found["geomean_tuned_against_default"] = geometric_mean(r.default / r.tuned for r in rows.values() if r.tuned)
    return found


def table(rows: dict[str, Row]) -> Table:
    shown = Table("case", "default", "model", "tuned", "model / default", "model / tuned", "choosing", "schedule")
    for name, r in rows.items():
        times = [f"{s * 1e6:,.1f} us" if s else "" for s in (r.default, r.model, r.tuned)]
        against = "" if r.against_tuned is None else f"{r.against_tuned:.3f}"
        shown.add_row(name, *times, f"{r.against_default:.3f}", against, f"{r.choosing:.1f} s", r.schedule)
    return shown


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=16, help="of the catalogue's 48 cases")
    parser.add_argument("--cases", help="names of the catalogue instead")
    parser.add_argument("--models", help="ONNX files, whose tasks are taken instead")
    parser.add_argument("--trials", type=int, default=64, help="of the searches beside it; 0: none")
    parser.add_argument("--database", help="where the searches are kept")
    parser.add_argument("--drawn", type=int, default=0, help="so many random workloads instead")
    parser.add_argument("--threads", type=int, help="that programs run on; choices are for all cores, whatever this is")
    parser.add_argument("--seconds", type=float, default=2.0, help="of timing per case")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", help="write the figures to this file")
    given = parser.parse_args(arguments)
    settings = Settings(given.threads or native().cores, given.seconds, (), seed=given.seed)
    rows: dict[str, Row] = {}
    with quiet_machine(), tempfile.TemporaryDirectory() as folder:
        database = given.database or str(Path(folder) / "tune.db")
        for name, workload in workloads(given.batch, given.cases, given.models, given.drawn):
            rows[name] = measured(name, workload, given.trials, database, settings)
            r = rows[name]
            print(f"{name}: {r.against_default:.3f} of the default schedule, {r.schedule}, {r.choosing:.1f} s", flush=True)
            if given.json:
                found = {n: asdict(r) | {"against_default": r.against_default} for n, r in rows.items()}
                Path(given.json).write_text(json.dumps({"rows": found, "summary": summary(rows)}, indent=1))
    Console(width=140).print(table(rows))
    for word, value in summary(rows).items():
        print(f"{word.replace('_', ' ')}: {value:.3f}")


if __name__ == "__main__":
    main()
