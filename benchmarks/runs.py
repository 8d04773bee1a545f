"""Several runs of one benchmark side by side, from their JSON files: what holds in all of them.

    python benchmarks/runs.py ops-1.json ops-2.json ops-3.json
    python benchmarks/runs.py --markdown ops-1.json               # the table of the docs

A line per case with the ratio to the best peer and the ratio of tuned to untuned in every run; then, for each run, its figures over
all cases, and the cases that are behind, or slower than untuned, in every one.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

from rich.table import Table

import about
from report import console, read_json
from rows import Row, figures, still_disturbed
from summary import SLOWER, summary
from tables import MARK, number, page_table


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", help="JSON files that a benchmark wrote")
    parser.add_argument("--markdown", action="store_true", help="each run's table as the docs show it")
    given = parser.parse_args(words)
    found = [read_json(file) for file in given.files]
    runs = [rows for _, rows in found]
    screen = console()
    for n, (run, rows) in enumerate(found, 1):
        screen.print(
            f"run {n}", about.contest_text(run) if run else "", *summary(rows), "", sep="\n", markup=False, highlight=False
        )
    if given.markdown:
        print(*map(page_table, runs), sep="\n\n")
        return
    screen.print(table(runs))
    print(verdict(runs))


def table(runs: Sequence[Mapping[str, Row]]) -> Table:
    """Cases by runs."""
    result = Table(title="ratio to the best peer, and tuned to untuned, by run", title_justify="left")
    result.add_column("case", no_wrap=True)
    for key in ("ratio", "to untuned"):
        for n in range(1, len(runs) + 1):
            result.add_column(f"{key} {n}", justify="right")
    for case in dict.fromkeys(case for rows in runs for case in rows):
        entries = [rows.get(case, {}) for rows in runs]
        marks = [f" {MARK}" if still_disturbed(entry) else "" for entry in entries]
        ratios = [number(entry.get("ratio_to_best_peer"), "{:.3f}") + mark for entry, mark in zip(entries, marks)]
        result.add_row(case, *ratios, *map(_to_untuned, entries))
    return result


def _to_untuned(entry: Row) -> str:
    return "default" if entry.get("same_program") else number(entry.get("tuned_to_untuned"), "{:.3f}")


def verdict(runs: Sequence[Mapping[str, Row]]) -> str:
    """Who is behind, or slower than untuned, in all of the runs and in some of them."""
    lines = []
    for what, key, least in (
        ("behind the best peer", "ratio_to_best_peer", 1.0),
        (f"slower than {SLOWER:g} of untuned", "tuned_to_untuned", SLOWER),
    ):
        below = [{case for case, ratio in figures(rows, key).items() if ratio < least} for rows in runs]
        always, ever = set.intersection(*below), set.union(*below)
        lines.append(f"{what}: in every run {_list(always)}; in some {_list(ever - always)}")
    return "\n".join(lines)


def _list(cases: set[str]) -> str:
    return " ".join(sorted(cases)) or "none"


if __name__ == "__main__":
    main()
