"""The paper's operators and subgraphs, tuned, against peers.

    python benchmarks/ops.py --batch 1 --trials 64 [--only C2D,GMM] [--peers torch,onnxruntime,openvino] [--db FILE] [--json FILE]
                             [--plot FILE]

Every case is tuned with that many trials, then run side by side with every peer in its best layout, same threads, interleaved
in one process. The plot is in the manner of the paper's figures 6 and 8: for each operator the geometric mean of everyone's
speed, relative to the fastest.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import Counter

from rich.table import Table

import environment  # noqa: F401  before torch
import tensorsmith as ts
from contest import Settings, contest, quiet_machine
from harness import geometric_mean
from report import Report, Row
from tensorsmith.ops import catalogue
from tensorsmith.runtime.executable import Executable
from tensorsmith.target import native
from tensorsmith.tuning.progress import Progress


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--only", default="", help="operators or cases, such as C2D,GMM-3-b1")
    parser.add_argument("--peers", default="torch")
    parser.add_argument("--seconds", type=float, default=1.0, help="of timing per case")
    parser.add_argument("--db", help="record file; without one every run starts afresh")
    parser.add_argument("--json")
    parser.add_argument("--plot", help="picture of the speed per operator, of everyone (needs matplotlib)")
    arguments = parser.parse_args()
    wanted = [w for w in arguments.only.split(",") if w]
    settings = Settings(threads=native().cores, seconds=arguments.seconds, frameworks=tuple(arguments.peers.split(",")))
    report = Report()
    section = f"batch {arguments.batch}, {arguments.trials} trials"
    with quiet_machine():
        for case in catalogue.cases(arguments.batch).values():
            if wanted and case.operator not in wanted and case.name not in wanted:
                continue
            workload = case.workload()
            start = time.perf_counter()
            progress: list[Progress] = []
            kernel = ts.tune(workload, trials=arguments.trials, database=arguments.db, on_progress=progress.append)
            searching = time.perf_counter() - start
            spent = {k: round(v, 3) for k, v in progress[-1].times.items()} if progress else {}

            def built(kernel: Executable = kernel) -> Executable:
                return kernel

            row = contest(
                case, workload, built, settings, seconds_searching=searching, trials=arguments.trials, spent=spent,
                operator=case.operator,
            )  # fmt: skip
            report.add(section, case.name, row)
            print(
                f"{case.name}: {row.get('ratio_to_best_peer', 0):.2f} of {row.get('best_peer')}, {searching:.1f} s searching",
                flush=True,
            )
    report.print(section)
    summary(report)
    report.write(arguments.json)
    if arguments.plot:
        plot(report.rows(), arguments.plot)


#: operators whose speed is limited by arithmetic; of GMM the cases of 512 and 1024
DENSE = ("C1D", "C2D", "C3D", "GRP", "DIL")
DENSE_GMM = ("GMM-3", "GMM-4")


def summary(report: Report) -> None:
    """Per operator, and over everything: how often behind, how near the peak, how long the searches took and what for."""
    rows = {case: entry for case, entry in report.rows().items() if "ratio_to_best_peer" in entry}
    if not rows:
        return
    table = Table("operator", "ratio", "behind", "of peak", "seconds of search", title="per operator", title_justify="left")
    for operator in dict.fromkeys(entry["operator"] for entry in rows.values()):
        own = [entry for entry in rows.values() if entry["operator"] == operator]
        table.add_row(
            operator,
            f"{_mean(own, 'ratio_to_best_peer'):.2f}",
            str(sum(entry["ratio_to_best_peer"] < 1 for entry in own)),
            f"{_mean(own, 'share_of_peak'):.0%}",
            f"{statistics.median(entry['seconds_searching'] for entry in own):.1f}",
        )
    report.console.print(table)
    ratios = [entry["ratio_to_best_peer"] for entry in rows.values()]
    behind = [case for case, entry in rows.items() if entry["ratio_to_best_peer"] < 1]
    report.console.print(
        f"{geometric_mean(ratios):.2f} times the best peer; behind in {len(behind)} of {len(rows)} {' '.join(behind)}"
    )
    dense = [entry for case, entry in rows.items() if entry["operator"] in DENSE or case.startswith(DENSE_GMM)]
    if dense:
        report.console.print(f"dense cases: {_mean(dense, 'share_of_peak'):.1%} of the FMA peak of all cores")
    seconds = [entry["seconds_searching"] for entry in rows.values()]
    report.console.print(f"seconds of search per case: median {statistics.median(seconds):.1f}, total {sum(seconds):.0f}")
    total: Counter[str] = Counter()
    for entry in rows.values():
        total.update(entry["spent"])
    report.console.print("where they went: " + ", ".join(f"{name} {value:.0f} s" for name, value in total.items()))


def _mean(rows: list[Row], key: str) -> float:
    return geometric_mean([entry[key] for entry in rows if key in entry])


def plot(rows: dict[str, Row], path: str) -> None:
    """Bars per operator: the geometric mean of each contestant's speed, the fastest of the operator being 1."""
    try:
        import matplotlib
    except ImportError:
        raise SystemExit("the plot needs matplotlib: pip install 'tensorsmith[report]'") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    contestants = ("tensorsmith", "torch", "onnxruntime", "openvino")
    operators = list(dict.fromkeys(entry["operator"] for entry in rows.values()))
    figure, axes = pyplot.subplots(figsize=(12, 3.2), layout="constrained")
    for n, contestant in enumerate(contestants):
        heights = []
        for operator in operators:
            speeds = {c: _speed([e for e in rows.values() if e["operator"] == operator], c) for c in contestants}
            heights.append(speeds[contestant] / max(speeds.values()))
        axes.bar([x + 0.2 * (n - 1.5) for x in range(len(operators))], heights, 0.2, label=contestant)
    axes.set_xticks(range(len(operators)), operators)
    axes.set_ylabel("speed relative to the fastest")
    axes.legend(ncols=4, loc="upper center", bbox_to_anchor=(0.5, 1.18), frameon=False)
    figure.savefig(path, dpi=150)


def _speed(rows: list[Row], contestant: str) -> float:
    """Geometric mean over cases of the speed of a contestant in its best layout; 0 where it took no part."""
    best = [min((t for name, t in e["seconds"].items() if name.split()[0] == contestant), default=0.0) for e in rows]
    return 1 / geometric_mean(best) if best and all(best) else 0.0


if __name__ == "__main__":
    main()
