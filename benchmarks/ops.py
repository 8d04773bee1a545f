"""The paper's operators and subgraphs, tuned, against peers.

    python benchmarks/ops.py --batch 1 --trials 64 [--only C2D,GMM-3-b1] [--peers torch,torch.compile,onnxruntime,openvino]
                             [--seconds S] [--timing T] [--db FILE] [--no-search] [--json FILE] [--plot FILE]

Every case is tuned with that many trials (or S seconds, whichever ends first), then called side by side with its default schedule
and with every peer in every form, same threads, interleaved in one process (`tensorsmith.measure.referee`). With `--db` the search
builds upon a record file; with `--no-search` the best programs of such a file are timed again and nothing is searched, so that
several contests of the same programs can be compared (`runs.py`). The JSON file is written after every case.

    python benchmarks/ops.py --peers none --only DEP,GMM --trials 64 --timing 2

asks one thing: is what the search gives faster than the default schedule for whoever calls it? Both are called from Python, in
turns, and the lines below the table name the cases in which it is slower, by their best times or by medians.

The plot is in the manner of the paper's figures 6 and 8: for each operator the geometric mean of everyone's speed, relative to the
fastest.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from rich.table import Table

import tensorsmith as ts
from contest import Settings, contest, quiet_machine
from frameworks import FRAMEWORKS
from ours import formulation
from report import Report
from rows import OURS, Row, figures, geometric_mean
from tensorsmith.lang.workload import Workload
from tensorsmith.ops import catalogue
from tensorsmith.ops.catalogue import Case
from tensorsmith.runtime.executable import Executable
from tensorsmith.targets.target import native
from tensorsmith.tuning.progress.workload import Progress


@dataclass
class Search:
    """What a search may take; of one that is done, what it took."""

    trials: int
    seconds: float | None
    database: str | None
    searching: bool = True
    took: float = 0.0
    spent: dict[str, float] = field(default_factory=dict)  # seconds by what for

    def __call__(self, workload: Workload) -> Executable:
        if not self.searching:
            return ts.compile(workload, database=self.database)
        start = time.perf_counter()
        progress: list[Progress] = []
        found = ts.tune(workload, trials=self.trials, seconds=self.seconds, database=self.database, on_progress=progress.append)
        self.took = time.perf_counter() - start
        self.spent = {what: round(value, 3) for what, value in progress[-1].times.items()} if progress else {}
        return found

    def figures(self) -> Row:
        return {"seconds_searching": self.took, "trials": self.trials, "spent": self.spent} if self.searching else {}


def main(words: Sequence[str] | None = None) -> int:
    """The exit status: 1 if a row has an error."""
    given = arguments(words)
    settings = Settings(native().cores, given.timing, given.peers)
    section = f"batch {given.batch}, " + ("programs of the record file" if given.no_search else f"{given.trials} trials")
    report = Report()
    report.begin()
    with quiet_machine():
        for case in given.cases:
            search = Search(given.trials, given.seconds, given.db, not given.no_search)
            report.add(section, case.name, row(case, search, settings))
            report.write(given.json)
    report.print(section)
    for line in closing(report.rows()):
        report.console.print(line, highlight=False)
    if given.plot:
        plot(report.rows(), given.plot, given.peers)
    return 1 if report.errors else 0


def row(case: Case, search: Search, settings: Settings) -> Row:
    workload = case.workload()
    tuned, untuned = search(workload), ts.compile(workload)
    more = {"operator": case.operator, "untuned_formulation": formulation(untuned, workload), **search.figures()}
    return contest(case, workload, lambda: tuned, settings, untuned=lambda: untuned, **more)


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    """Checked: what cannot work fails before anything is measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--seconds", type=float, help="of search per case, at most")
    parser.add_argument("--only", type=_names, default=(), help="operators or cases, such as C2D,GMM-3-b1")
    parser.add_argument(
        "--peers", type=_names, default=tuple(FRAMEWORKS), help=f"of {','.join(FRAMEWORKS)} (default: all), or none"
    )
    parser.add_argument("--timing", type=float, default=5.0, help="seconds of timing per case")
    parser.add_argument("--db", help="record file; without one every run starts afresh")
    parser.add_argument("--no-search", action="store_true", help="time the programs of the record file")
    parser.add_argument("--json")
    parser.add_argument("--plot", help="picture of the speed per operator, of everyone (needs matplotlib)")
    given = parser.parse_args(words)
    given.peers = () if given.peers == ("none",) else given.peers
    every = catalogue.cases(given.batch)
    known = {*every, *(case.operator for case in every.values())}
    for kind, names, there in (("case or operator", given.only, known), ("peer", given.peers, FRAMEWORKS)):
        for name in names:
            if name not in there:
                parser.error(f"there is no {kind} {name!r} at batch {given.batch}; there are {', '.join(sorted(there))}")
    if given.no_search and not given.db:
        parser.error("--no-search times the programs of a record file: give it with --db")
    given.cases = [case for case in every.values() if not given.only or {case.name, case.operator} & set(given.only)]
    return given


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(",") if name)


#: operators whose speed is limited by arithmetic; of GMM the cases of 512 and 1024
DENSE = ("C1D", "C2D", "C3D", "GRP", "DIL")
DENSE_GMM = ("GMM-3", "GMM-4")


def closing(rows: Mapping[str, Row]) -> list[Table | str]:
    """Per operator, how near the peak, how long the searches took and what for."""
    beside = {case: entry for case, entry in rows.items() if "ratio_to_best_peer" in entry}
    searched = {case: entry for case, entry in rows.items() if "seconds_searching" in entry}
    against: list[Table | str] = [_per_operator(beside), *_shares(beside)] if beside else []
    return [*against, *_searches(searched)]


def _per_operator(rows: Mapping[str, Row]) -> Table:
    table = Table("operator", "ratio", "untuned", "behind", title="per operator", title_justify="left")
    for operator in dict.fromkeys(entry["operator"] for entry in rows.values()):
        own = {case: entry for case, entry in rows.items() if entry["operator"] == operator}
        means = (geometric_mean(figures(own, key).values()) for key in ("ratio_to_best_peer", "untuned_ratio_to_best_peer"))
        table.add_row(
            operator, *(f"{mean:.3f}" for mean in means), str(sum(entry["ratio_to_best_peer"] < 1 for entry in own.values()))
        )
    return table


def _shares(rows: Mapping[str, Row]) -> list[str]:
    """Winograd's convolution does less arithmetic than is counted: it has no share of the peak in the sense of the others."""
    dense = {case: entry for case, entry in rows.items() if entry["operator"] in DENSE or case.startswith(DENSE_GMM)}
    shares = figures(dense, "share_of_peak")
    direct = {case: share for case, share in shares.items() if dense[case]["formulation"] == "direct"}
    found = []
    if direct:
        found.append(f"dense cases computed directly ({len(direct)}): {geometric_mean(direct.values()):.1%} of the FMA peak")
    if len(shares) > len(direct):
        others = " ".join(case for case in shares if case not in direct)
        found.append(
            f"with Winograd's ({others}), by the operations of the direct sum: {geometric_mean(shares.values()):.1%}, "
            "which is no share of a peak"
        )
    return found


def _searches(rows: Mapping[str, Row]) -> list[str]:
    seconds = figures(rows, "seconds_searching").values()
    if not seconds:
        return []
    total: Counter[str] = Counter()
    for entry in rows.values():
        total.update(entry["spent"])
    return [
        f"seconds of search per case: median {statistics.median(seconds):.1f}, total {sum(seconds):.0f}",
        "where they went: " + ", ".join(f"{what} {value:.0f} s" for what, value in total.items()),
    ]


def plot(rows: Mapping[str, Row], path: str, peers: Sequence[str]) -> None:
    """Bars per operator: the geometric mean of each contestant's speed, the fastest of the operator being 1."""
    try:
        import matplotlib
    except ImportError:
        raise SystemExit("the plot needs matplotlib: pip install '.[bench]'") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    contestants: dict[str, Callable[[str], bool]] = {OURS: lambda name: name == OURS}
    contestants |= {peer: lambda name, peer=peer: name.split()[0] == peer for peer in peers}
    operators = list(dict.fromkeys(entry["operator"] for entry in rows.values()))
    figure, axes = pyplot.subplots(figsize=(12, 3.2), layout="constrained")
    width = 0.8 / len(contestants)
    speeds = {
        o: {c: _speed([e for e in rows.values() if e["operator"] == o], is_it) for c, is_it in contestants.items()}
        for o in operators
    }
    for n, contestant in enumerate(contestants):
        heights = [speeds[operator][contestant] / max(speeds[operator].values()) for operator in operators]
        axes.bar([x + width * (n - (len(contestants) - 1) / 2) for x in range(len(operators))], heights, width, label=contestant)
    axes.set_xticks(range(len(operators)), operators)
    axes.set_ylabel("speed relative to the fastest")
    axes.legend(ncols=len(contestants), loc="upper center", bbox_to_anchor=(0.5, 1.18), frameon=False)
    figure.savefig(path, dpi=150)


def _speed(rows: Sequence[Row], is_it: Callable[[str], bool]) -> float:
    """Geometric mean over cases of the speed of a contestant in its best form; 0 where it took no part."""
    best = [min((seconds for name, seconds in entry["seconds"].items() if is_it(name)), default=0.0) for entry in rows]
    return 1 / geometric_mean(best) if best and all(best) else 0.0


if __name__ == "__main__":
    raise SystemExit(main())
