"""The paper's operators and subgraphs, tuned, against peers.

    python benchmarks/ops.py --batch 1 --trials 64 [--only C2D,GMM] [--peers torch,onnxruntime,openvino] [--db FILE] [--json FILE]

Every case is tuned with that many trials, then run side by side with every peer in its best layout, same threads, interleaved
in one process.
"""

from __future__ import annotations

import argparse
import time

import environment  # noqa: F401  before torch
import tensorsmith as ts
from contest import Settings, contest, quiet_machine
from report import Report
from tensorsmith.ops import catalogue
from tensorsmith.runtime.executable import Executable
from tensorsmith.target import native


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--only", default="", help="operators or cases, such as C2D,GMM-3-b1")
    parser.add_argument("--peers", default="torch")
    parser.add_argument("--seconds", type=float, default=1.0, help="of timing per case")
    parser.add_argument("--db", help="record file; without one every run starts afresh")
    parser.add_argument("--json")
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
            kernel = ts.tune(workload, trials=arguments.trials, database=arguments.db, on_progress=lambda p: None)
            searching = time.perf_counter() - start

            def built(kernel: Executable = kernel) -> Executable:
                return kernel

            row = contest(case, workload, built, settings, seconds_searching=searching, trials=arguments.trials)
            report.add(section, case.name, row)
            print(
                f"{case.name}: {row.get('ratio_to_best_peer', 0):.2f} of {row.get('best_peer')}, {searching:.1f} s searching",
                flush=True,
            )
    report.print(section)
    report.write(arguments.json)


if __name__ == "__main__":
    main()
