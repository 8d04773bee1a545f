"""The search in numbers: how fast it finds fast programs, and what each of its parts is worth.

    python benchmarks/search.py [--workload C2D-4-b16] [--trials 256] [--seeds 5] [--only full,random] [--database FILE]
                                [--replay] [--json FILE] [--plot FILE]
    python benchmarks/search.py --only model [--workload C2D-3-b1,GMM-2-b1] [--programs 300]

Best-so-far curves of the whole policy and of variants that lack a part, over several seeds, on the convolution of the paper's
figure 7 unless told otherwise. The table has medians over the seeds, as a ratio to the best time that anyone found (1.00 is
that best). Column `again`: the best candidate of each run timed once more, all of them in turns.

Runs share what was measured, and seconds are what each would have taken alone (`curves.py`).

`--replay` measures nothing: a model of everything in the database stands in for the machine. That is no evidence of anything,
but quick, repeatable and indifferent to what else the machine does, so it is the way to try settings.

`model` is the accuracy of the cost model: candidates of random search and of the policy, measured, the trees trained on two
thirds and tested on the rest, for each loss.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import about
from curves import FINISH, Curve, Machine, Measure, StandIn, median, run, samples_of, text
from report import RUN
from tensorsmith.backends import backend_of, space_of
from tensorsmith.backends.cpu.rules import ANSOR, DEFAULT
from tensorsmith.lang.workload import Workload
from tensorsmith.learn.models.accuracy import pairwise_accuracy, r2, recall
from tensorsmith.learn.models.losses import LOSSES
from tensorsmith.learn.models.model import Samples
from tensorsmith.learn.models.registry import as_model
from tensorsmith.learn.models.trees import TreeModel, TreeSettings
from tensorsmith.ops import catalogue
from tensorsmith.records.store import Store
from tensorsmith.search.policies.ansor import LIMITED_RULES
from tensorsmith.search.policies.random import RandomPolicy
from tensorsmith.search.policies.tensorsmith import SETTINGS, Settings, TensorsmithPolicy
from tensorsmith.search.policy import Policy
from tensorsmith.search.trial import Trial
from tensorsmith.space.rules.base import Rule
from tensorsmith.space.sketch.sketch import Candidate
from tensorsmith.targets.target import native

FIGURE_7 = "C2D-4-b16"  # N=16, H=W=7, CI=CO=512, 3x3, stride 1, padding 1
SHOWN = (16, 64, 128, 256)  # trials


@dataclass(frozen=True)
class Variant:
    """A policy to compare."""

    title: str
    settings: Settings | None = SETTINGS  # None: random search
    rules: Sequence[Rule] = DEFAULT
    finish: float = FINISH  # share of the trials for the neighbours of the best
    model: str = "trees"

    def policy(self, workload: Workload, seed: int) -> Policy:
        space = space_of(workload, native(), self.rules)
        if self.settings is None:
            return RandomPolicy(space, seed=seed)
        return TensorsmithPolicy(
            space, seed=seed, model=as_model(self.model, backend_of(native()).schema).fork(seed), settings=self.settings
        )


VARIANTS = {
    "full": Variant("the whole policy"),
    "random": Variant("random search: samples, as they come", None, finish=0.0),
    "no-evolution": Variant("no fine-tuning: samples that the model likes", replace(SETTINGS, generations=0), finish=0.0),
    "crossover": Variant("children of two rows", replace(SETTINGS, crossover=True)),
    "no-model": Variant("evolution with random scores", model="random"),
    "no-learning": Variant("the analytic prior alone", model="prior"),
    "no-start": Variant("without default schedule and seeds", replace(SETTINGS, known=False)),
    "uniform": Variant("sizes drawn as in the paper, no start", replace(SETTINGS, known=False, sampling="uniform")),
    "ansor-space": Variant("Ansor's rules", rules=ANSOR),
    "small-space": Variant("one level of tiles", rules=LIMITED_RULES),
}


def summary(curves: dict[str, list[Curve]], again: dict[str, float], shown: Sequence[int]) -> dict[str, dict[str, float]]:
    """By variant: the ratio of the best time of all to the median over seeds, after so many trials; seconds; and timed again."""
    least = min((c.best[-1] for runs in curves.values() for c in runs if c.best and c.best[-1] is not None), default=None)
    report: dict[str, dict[str, float]] = {}
    for name, runs in curves.items():
        row: dict[str, float] = {"runs": float(len(runs))}
        for n in shown:
            middle = median([c.at(n) for c in runs])
            if middle is not None and least is not None:
                row[f"ratio_at_{n}"] = least / middle
        final = median([c.at(len(c.best)) for c in runs])
        if final is not None:
            row["best_seconds"] = final
        second = median([again.get(text(c.winner)) if c.winner else None for c in runs])
        if second is not None and again:
            row["ratio_again"] = min(again.values()) / second
        row["seconds_searching"] = statistics.median([c.spent[-1] if c.spent else 0.0 for c in runs])
        row["trials"] = statistics.median([len(c.best) for c in runs])
        report[name] = row
    return report


def table(title: str, report: dict[str, dict[str, float]], shown: Sequence[int]) -> Table:
    found = Table("variant", "", *(f"at {n}" for n in shown), "again", "best us", "seconds", title=title)
    for name, row in report.items():
        cells = [f"{row[f'ratio_at_{n}']:.3f}" if f"ratio_at_{n}" in row else "-" for n in shown]
        again = f"{row['ratio_again']:.3f}" if "ratio_again" in row else "-"
        best = f"{row['best_seconds'] * 1e6:,.1f}" if "best_seconds" in row else "-"
        found.add_row(name, VARIANTS[name].title, *cells, again, best, f"{row['seconds_searching']:.0f}")
    return found


def plot(file: str, title: str, curves: dict[str, list[Curve]]) -> None:
    """Medians over seeds against trials and against seconds, as a share of the best of all."""
    from matplotlib.figure import Figure

    least = min(c.best[-1] for runs in curves.values() for c in runs if c.best and c.best[-1] is not None)
    figure = Figure(figsize=(11, 4.5), layout="constrained")
    by_trials, by_seconds = figure.subplots(1, 2, sharey=True)
    for name, runs in curves.items():
        length = min(len(c.best) for c in runs)
        points = [(n + 1, median([c.best[n] for c in runs]), statistics.median([c.spent[n] for c in runs])) for n in range(length)]
        good = [(n, least / b, s) for n, b, s in points if b is not None]
        if good:
            by_trials.plot([n for n, _, _ in good], [r for _, r, _ in good], label=name, drawstyle="steps-post")
            by_seconds.plot([s for _, _, s in good], [r for _, r, _ in good], label=name, drawstyle="steps-post")
    by_trials.set(xlabel="trials", ylabel="speed, relative to the best found", title=title)
    by_seconds.set(xlabel="seconds")
    by_trials.legend()
    figure.savefig(file, dpi=150)


# -- the model -----------------------------------------------------------------------------------------------------------


def accuracy(trials: Sequence[Trial], seed: int = 0) -> dict[str, float]:
    """How well the prior and models of each loss, trained on two thirds, order the remaining third."""
    order = np.random.default_rng(seed).permutation(len(trials))
    best = min(t.seconds for t in trials if t.seconds is not None)
    samples = samples_of([trials[n] for n in order], best)
    cut = len(trials) * 2 // 3
    throughput, base = np.array(samples.throughput)[cut:], np.array(samples.base)[cut:]
    figures = {"programs": float(len(trials)), **_figures("prior", base, 2.0 ** (base - base.max()), throughput)}
    known = Samples(samples.rows[:cut], samples.throughput[:cut], samples.group[:cut], samples.base[:cut])
    for loss in LOSSES:
        model = TreeModel(TreeSettings(loss=loss))
        model.update(known)
        scores = np.array([model.predict(rows[None], b)[0] for rows, b in zip(samples.rows[cut:], base)])
        figures |= _figures(loss, scores, scores if loss == "paper" else 2.0 ** (scores - scores.max()), throughput)
    return figures


def _figures(name: str, score: np.ndarray, speed: np.ndarray, throughput: np.ndarray) -> dict[str, float]:
    return {
        f"{name}_pairwise": pairwise_accuracy(score, throughput),
        f"{name}_recall_at_30": recall(score, throughput, 30),
        f"{name}_r2": r2(speed, throughput),
    }


def accuracy_table(found: dict[str, dict[str, float]]) -> Table:
    result = Table("workload", "programs", "model", "pairwise", "recall at 30", "R2", title="cost models, tested on a third")
    for workload, row in found.items():
        for name in ("prior", *LOSSES):
            cells = [f"{row[f'{name}_{figure}']:.3f}" for figure in ("pairwise", "recall_at_30", "r2")]
            result.add_row(workload, f"{row['programs']:.0f}", name, *cells)
    return result


# -- the command ---------------------------------------------------------------------------------------------------------


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", default=FIGURE_7, help="names of the catalogue, with commas")
    parser.add_argument("--trials", type=int, default=256)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", default=",".join(VARIANTS), help=f"of {', '.join(VARIANTS)}; or model")
    parser.add_argument("--programs", type=int, default=300, help="measured for `model`")
    parser.add_argument("--database", help="file of records to build upon")
    parser.add_argument("--replay", action="store_true", help="ask a model of the database instead of the machine")
    parser.add_argument("--json", help="write the figures to this file")
    parser.add_argument("--plot", help="draw the curves into this file")
    found = parser.parse_args(arguments)
    found.only = found.only.split(",")
    unknown = [name for name in found.only if name not in VARIANTS and name != "model"]
    if unknown:
        parser.error(f"--only: there is no {', '.join(unknown)}; known are {', '.join(VARIANTS)} and model")
    if found.replay and not found.database:
        parser.error("--replay needs a --database")
    if found.trials < 1 or found.seeds < 1 or found.programs < 90:
        parser.error("--trials and --seeds are 1 or more, --programs 90 or more")
    if found.plot:
        try:
            import matplotlib  # noqa: F401
        except ImportError:
            parser.error("--plot needs matplotlib: pip install '.[bench]'")
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    given = parse(arguments)
    console = Console(width=150)
    this_run = about.about()
    print(about.text(this_run), flush=True)
    report: dict[str, dict[str, object]] = {RUN: this_run}
    models: dict[str, dict[str, float]] = {}
    with Store.open(given.database) if given.database else Store.in_memory() as store:
        for name in given.workload.split(","):
            workload = catalogue.get(name).workload()
            machine = StandIn(workload, store) if given.replay else Machine(workload, store)
            try:
                if "model" in given.only:
                    models[name] = accuracy(measured_programs(workload, machine, given.programs))
                    report[name] = {"model": models[name]}
                variants = [v for v in given.only if v != "model"]
                if variants:
                    report.setdefault(name, {}).update(compare(console, name, workload, machine, variants, given))
            finally:
                machine.close()
    if models:
        console.print(accuracy_table(models))
    if given.json:
        Path(given.json).write_text(json.dumps(report, indent=1))


def measured_programs(workload: Workload, measure: Measure, count: int) -> list[Trial]:
    """Half of them by random search, half by the whole policy."""
    seen: dict[str, Trial] = {}

    def noting(candidates: Sequence[Candidate]) -> list[Trial]:
        trials = measure(candidates)
        seen.update({text(t.candidate): t for t in trials})
        return trials

    run(workload, VARIANTS["random"], count // 2, 0, noting)
    run(workload, VARIANTS["full"], count - len(seen), 0, noting)
    return list(seen.values())


def compare(
    console: Console, name: str, workload: Workload, machine: Machine | StandIn, variants: Sequence[str], given: argparse.Namespace
) -> dict[str, object]:
    """All variants with all seeds, seed by seed, so that what disturbs the machine disturbs all alike."""
    shown = [n for n in SHOWN if n < given.trials] + [given.trials]
    curves: dict[str, list[Curve]] = {v: [] for v in variants}
    for seed in range(given.seeds):
        for v in variants:
            curves[v].append(run(workload, VARIANTS[v], given.trials, seed, machine))
            last = curves[v][-1].at(given.trials)
            print(f"{name} seed {seed} {v}: {last * 1e6:,.1f} us" if last else f"{name} seed {seed} {v}: nothing", file=sys.stderr)
    winners = [c.winner for runs in curves.values() for c in runs if c.winner is not None]
    again = machine.again(winners) if isinstance(machine, Machine) and winners else {}
    report = summary(curves, again, shown)
    console.print(table(f"{name}: share of the best time found, median of {given.seeds} seeds", report, shown))
    if given.plot:
        plot(given.plot if "," not in given.workload else f"{name}-{given.plot}", name, curves)
    return {v: {**report[v], "curves": [{"best": c.best, "seconds": c.spent} for c in curves[v]]} for v in variants}


if __name__ == "__main__":
    main()
