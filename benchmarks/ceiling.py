"""How far there is to go: for each case of the paper and each task of its networks the bound of this machine (`bound.py`), what our
default schedule reaches, and what a search reaches.

    python benchmarks/ceiling.py --trials 64 --out out/ceiling [--batch 1] [--networks resnet50,...|none] [--only C2D,GMM-3-b1]
    python benchmarks/ceiling.py --trials 10000 --only GMM-3-b1,C2D-4-b1,DEP-1-b1 --networks none --out out/ceiling     # a night
    python benchmarks/ceiling.py --db tune.db --out out/ceiling             # searches nothing: the programs of a record file

Tuned and untuned run side by side, and the machine's rates are measured anew for each row, so that a share refers to the same
seconds. The table is sorted by what is left, the most first. `at 64`, `at 1000`, ... are the best of the search after so many
trials, by its own timing, relative to its last: how much a longer search brings.

Everything is kept under `--out`: a run that is stopped goes on with the same command, and a larger number of trials goes on from
the smaller one's records.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import about
import models
import ours_networks
import tensorsmith as ts
from bound import Bound, Rates, bound, measure_rates
from contest import Settings, contest, quiet_machine
from resume import Log, Tell, ending_at_ctrl_c, kept, write_whole
from rows import ALONE, OURS, UNTUNED, geometric_mean
from tensorsmith.lang.workload import Workload
from tensorsmith.ops import catalogue
from tensorsmith.ops.catalogue import Case
from tensorsmith.targets.target import native

SHOWN = (64, 256, 1000, 10_000)  # trials
NEAR = 0.97  # of the bound: within 3 % of what this machine allows


@dataclass(frozen=True)
class Subject:
    """A workload by name; `calls` of it in a network."""

    name: str
    workload: Workload
    calls: int = 1


@dataclass(frozen=True)
class Row:
    """What is known of one workload: the bound in seconds by part, and the seconds of our programs; the best after trials."""

    name: str
    arithmetic: float
    bytes: float
    level: str
    call: float
    untuned: float | None = None
    tuned: float | None = None
    alone: float | None = None  # tuned, without Python's call
    trials: int = 0
    reached: Mapping[str, float] = field(default_factory=dict)  # seconds after so many trials
    note: str = ""

    @property
    def bound(self) -> Bound:
        return Bound(self.arithmetic, self.bytes, self.level, self.call)

    @property
    def best(self) -> float | None:
        """The least time there is of it."""
        return min((s for s in (self.untuned, self.tuned, self.alone) if s is not None), default=None)

    @property
    def share(self) -> float | None:
        """Of the bound, by the best program: 1 is what the machine allows."""
        return None if self.best is None else self.bound.seconds / self.best

    @property
    def gain(self) -> float | None:
        """Tuned against untuned."""
        return self.untuned / self.tuned if self.untuned and self.tuned else None


def subjects(cases: Sequence[Case], networks: Sequence[str], batch: int) -> Iterator[Subject]:
    """Cases as they are, then the tunable tasks of networks, each workload once."""
    seen: set[str] = set()
    for case in cases:
        yield Subject(case.name, case.workload())
    for name in networks:
        for number, task in enumerate(t for t in ours_networks.load(models.get(name, batch)).tasks() if t.tunable):
            if task.workload.canonical_key not in seen:
                seen.add(task.workload.canonical_key)
                yield Subject(f"{name}-b{batch} {number}: {task.name}", task.workload, task.weight)


# -- one row ---------------------------------------------------------------------------------------------------------------


def search(subject: Subject, trials: int, place: Path) -> Log:
    """Tunes a workload, in full or for the rest of its trials."""
    log = Log(place.with_suffix(".log"))

    def go(left: int, tell: Tell) -> str | None:
        try:
            ts.tune(
                subject.workload,
                trials=left,
                database=place.with_suffix(".db"),
                early_stop=False,
                on_progress=lambda p: tell(p.trials, p.elapsed, p.best_seconds, 0.0),
            )
        except Exception as problem:
            return f"failed: {type(problem).__name__}: {(str(problem).splitlines() or [''])[0]}"
        return None

    log.search(trials, go)
    return log


def measured(subject: Subject, database: Path | None, log: Log | None, seconds: float) -> Row:
    """Its programs side by side, and the bound, both now."""
    rates = measure_rates()
    case = Case(subject.name, "task", (1,), list)
    build = lambda: ts.compile(subject.workload, database=database)  # noqa: E731
    with quiet_machine():
        row = contest(
            case, subject.workload, build, Settings(native().cores, seconds, ()), untuned=lambda: ts.compile(subject.workload)
        )
    times = row.get("seconds", {})
    found = bound(subject.workload, _faster(rates, row))
    tuned = times.get(OURS)
    said = [row["error"]] if "error" in row else []
    said += [log.outcome.note] if log is not None and log.outcome.note else []
    return Row(
        subject.name, found.arithmetic, found.bytes, found.level, found.call,
        times.get(UNTUNED, tuned), tuned, times.get(ALONE),
        log.outcome.trials if log is not None else 0,
        _reached(log), "; ".join(said),
    )  # fmt: skip


def _faster(rates: Rates, row: Mapping[str, Any]) -> Rates:
    """The peak was measured between the programs, too: the best of both counts."""
    return Rates(max(rates.flops, row.get("peak_flops", 0.0)), rates.levels, rates.call)


def _reached(log: Log | None) -> dict[str, float]:
    if log is None:
        return {}
    found = {str(n): log.outcome.at(n) for n in SHOWN if n <= log.outcome.trials}
    return {n: seconds for n, seconds in found.items() if seconds is not None}


# -- all of them -----------------------------------------------------------------------------------------------------------


def table(rows: Sequence[Row]) -> Table:
    """The farthest from its bound first."""
    shown = [n for n in SHOWN if any(str(n) in row.reached for row in rows)]
    result = Table(title="how far from the bound, the farthest first", title_justify="left")
    for heading in ("case", "bound us", "limited by", "untuned", "tuned", "share", "gain", *(f"at {n:,}" for n in shown), ""):
        result.add_column(heading, justify="left" if heading in ("case", "limited by", "") else "right")
    for row in sorted(rows, key=lambda r: r.share if r.share is not None else -1.0):
        last = list(row.reached.values())[-1:] or [math.nan]
        after = [f"{last[0] / row.reached[str(n)]:.3f}" if str(n) in row.reached else "-" for n in shown]
        cells = (_us(row.bound.seconds), row.bound.limit, _us(row.untuned), _us(row.tuned), _ratio(row.share), _ratio(row.gain))
        result.add_row(row.name, *cells, *after, row.note)
    return result


def verdict(rows: Sequence[Row]) -> list[str]:
    shares = [row.share for row in rows if row.share is not None]
    gains = [row.gain for row in rows if row.gain is not None]
    if not shares:
        return ["nothing was measured"]
    near = sum(share >= NEAR for share in shares)
    lines = [f"{geometric_mean(shares):.3f} of the bound (geometric mean of {len(shares)}); within 3 % of it: {near}"]
    if gains:
        lines.append(f"tuned to untuned: {geometric_mean(gains):.3f}; if all reached their bounds: {_possible(rows):.3f}")
    return lines


def _possible(rows: Sequence[Row]) -> float:
    """The gain over the default schedules if every program were as fast as its bound."""
    return geometric_mean(row.untuned / row.bound.seconds for row in rows if row.untuned)


def _us(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1e6:,.1f}"


def _ratio(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.3f}"


# -- the command -----------------------------------------------------------------------------------------------------------


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, help="of each workload")
    parser.add_argument("--db", type=Path, help="record file to take programs from; nothing is searched")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--only", type=_names, default=(), help="operators or cases (networks are then left out unless named)")
    parser.add_argument("--networks", type=_names, help=f"of {','.join(models.MODELS)}, or none (default: the paper's)")
    parser.add_argument("--timing", type=float, default=2.0, help="seconds of timing per workload")
    parser.add_argument("--out", type=Path, required=True, help="folder for everything; what is there is built upon")
    given = parser.parse_args(words)
    if (given.trials is None) == (given.db is None):
        parser.error("say how long to search with --trials, or give a record file with --db")
    if given.trials is not None and given.trials < 0:
        parser.error(f"--trials is 0 or more, {given.trials} given")
    if given.db is not None and not given.db.is_file():
        parser.error(f"there is no file {given.db}")
    every = catalogue.cases(given.batch)
    known = {*every, *(case.operator for case in every.values())}
    for name in given.only:
        if name not in known:
            parser.error(f"there is no case or operator {name!r} at batch {given.batch}; there are {', '.join(sorted(known))}")
    given.cases = [c for c in every.values() if not given.only or {c.name, c.operator} & set(given.only)]
    if given.networks is None:
        given.networks = () if given.only else models.PAPER
    given.networks = () if given.networks == ("none",) else given.networks
    for name in given.networks:
        if name not in models.MODELS:
            parser.error(f"there is no network {name!r}; there are {', '.join(models.MODELS)}")
    return given


def main(words: Sequence[str] | None = None) -> int:
    given = arguments(words)
    console = Console(width=190, soft_wrap=True)
    run = about.about()
    console.print(about.text(run), markup=False, highlight=False)
    rows: list[Row] = []
    with ending_at_ctrl_c(given.out):
        for subject in subjects(given.cases, given.networks, given.batch):
            form = kept(given.out / "rows" / f"{_file(subject)}.json", _of(given), lambda s=subject: asdict(_row(s, given)))
            rows.append(Row(**form))
            write_whole(given.out / "ceiling.json", {"run": run, "rows": [_form(row) for row in rows]})
            last = rows[-1]
            said = f"{subject.name}: {_ratio(last.share)} of {_us(last.bound.seconds)} us ({last.bound.limit})"
            console.print(said, markup=False, highlight=False)
    console.print(table(rows))
    for line in verdict(rows):
        console.print(line, markup=False, highlight=False)
    return 0


def _row(subject: Subject, given: argparse.Namespace) -> Row:
    if given.db is not None:
        return measured(subject, given.db, None, given.timing)
    place = given.out / "records" / _file(subject)
    place.parent.mkdir(parents=True, exist_ok=True)
    log = search(subject, given.trials, place) if given.trials else None
    return measured(subject, place.with_suffix(".db") if given.trials else None, log, given.timing)


def _of(given: argparse.Namespace) -> dict[str, object]:
    return {"trials": given.trials, "db": None if given.db is None else str(given.db), "timing": given.timing}


def _form(row: Row) -> dict[str, Any]:
    return {**asdict(row), "bound": row.bound.seconds, "limit": row.bound.limit, "share": row.share, "gain": row.gain}


def _file(subject: Subject) -> str:
    """A name for files: a task's is its network's, its number, and its key."""
    name, _, rest = subject.name.partition(": ")
    return f"{name.replace(' ', '-')}-{subject.workload.key[:8]}" if rest else name


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(",") if name)


if __name__ == "__main__":
    raise SystemExit(main())
