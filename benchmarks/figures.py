"""Makes the figures of README and of the pages of evidence: runs the benchmarks, writes files of results, then the pages.

    python benchmarks/figures.py                    every table (`make figures`): about three hours on two cores
    python benchmarks/figures.py --readme           those of README: about an hour
    python benchmarks/figures.py --quick            a trial of the machinery with a few cases: ten minutes; nothing is published
    python benchmarks/figures.py --only drawn,torch these

A table is a command of this folder (`figure_tables.py`) and a file, docs/results/NAME.json (`results.py`). A table that has a file
of this very code and command is passed over, so that a run that was stopped goes on with the same words. Code that is not
committed is refused: a figure names the commit that it is of. `--dirty` measures it all the same, into build/figures, as does
`--quick`; such files are marked and never shown. In the end the pages are written anew from the files (docs/make/figures.py).
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import results
from figure_tables import TABLES, FigureTable, minutes, of_tier

HERE = Path(__file__).parent
WORK = results.ROOT / "build" / "figures"  # logs, unfinished files, and what is not published
PATIENCE = 6  # times the minutes of a table, for disturbed slots are taken again: then it is ended and counts as failed


def main(words: Sequence[str] | None = None) -> int:
    """The exit status: 1 if a table could not be made."""
    given = arguments(words)
    out = given.out or (results.RESULTS if not (given.quick or given.dirty) else WORK)
    tables = [TABLES[name] for name in given.only] if given.only else of_tier(given.tier)
    print(f"{len(tables)} tables, about {minutes(tables, given.quick):.0f} minutes on two cores; results in {out}", flush=True)
    failed = []
    for table in tables:
        try:
            problem = make(table, out, quick=given.quick, dirty=given.dirty)
        except results.NotCommitted as why:
            print(f"error: {why}", file=sys.stderr)
            return 2
        if problem:
            failed.append(table.name)
            print(f"{table.name}: {problem}", file=sys.stderr, flush=True)
    if out == results.RESULTS:
        subprocess.run([sys.executable, str(results.ROOT / "docs" / "make" / "figures.py")], check=True)
    if failed:
        print(f"not made: {', '.join(failed)}; the same command goes on with them", file=sys.stderr)
    return 1 if failed else 0


def make(table: FigureTable, out: Path, *, quick: bool = False, dirty: bool = False) -> str | None:
    """Makes a table's file unless it is there; None, or why it could not be made."""
    path = out / f"{table.name}.json"
    head = results.provenance(table.name, shown(table, quick), quick=quick, dirty=dirty)
    if results.is_done(path, head):
        print(f"{table.name}: there, of commit {head['commit'][:12]}", flush=True)
        return None
    work = WORK / "work" / table.name
    shutil.rmtree(work, ignore_errors=True)  # a search of other code must not be built upon
    work.mkdir(parents=True)
    print(f"{table.name}: $ {head['command']}", flush=True)
    start = time.perf_counter()
    status = run(table, work, quick)
    found = work / "found.json"
    if not found.exists():
        return f"{status}, without figures; see {work / 'log'}"
    cases = results.CASES[table.form](json.loads(found.read_text(encoding="utf-8")))
    if not cases or (status and "exit status 1" not in status):
        return f"{status or 'it ended'}; see {work / 'log'}"
    results.write(path, {**head, "seconds": round(time.perf_counter() - start), "cases": cases})
    print(f"{table.name}: {len(cases)} cases in {time.perf_counter() - start:.0f} s", flush=True)
    return None


def run(table: FigureTable, work: Path, quick: bool) -> str | None:
    """Runs the command; None, or how it ended. Exit status 1 says that a row has an error, which the row tells itself."""
    words = [
        sys.executable,
        str(HERE / table.script),
        *_filled(table.arguments(quick), str(work / "found.json"), str(work / "kept")),
    ]
    most = 60 * PATIENCE * (table.quick_minutes if quick else table.minutes)
    with (work / "log").open("w", encoding="utf-8") as log:
        try:
            done = subprocess.run(words, cwd=results.ROOT, stdout=log, stderr=subprocess.STDOUT, timeout=most, check=False)
        except subprocess.TimeoutExpired:
            return f"ended after {most / 60:.0f} minutes"
    return f"exit status {done.returncode}" if done.returncode else None


def shown(table: FigureTable, quick: bool) -> str:
    """The command as anyone can type it."""
    filled = _filled(table.arguments(quick), f"{table.name}.json", f"out/{table.name}")
    return shlex.join(["python", f"benchmarks/{table.script}", *filled])


def _filled(words: Sequence[str], file: str, work: str) -> list[str]:
    return [word.format(json=file, work=work) for word in words]


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    tier = parser.add_mutually_exclusive_group()
    tier.add_argument("--quick", action="store_true", help="a few cases of each, not to be published")
    tier.add_argument("--readme", action="store_true", help="the tables of README alone")
    parser.add_argument("--only", type=lambda text: tuple(filter(None, text.split(","))), default=(), help="tables, by name")
    parser.add_argument("--dirty", action="store_true", help="measure code that is not committed; not to be published")
    parser.add_argument("--out", type=Path, help="folder for the files of results (default: docs/results)")
    given = parser.parse_args(words)
    for name in given.only:
        if name not in TABLES:
            parser.error(f"there is no table {name!r}; there are {', '.join(TABLES)}")
        if given.quick and TABLES[name].quick is None:
            parser.error(f"the table {name!r} has no quick form")
    given.tier = "quick" if given.quick else "readme" if given.readme else "all"
    return given


if __name__ == "__main__":
    raise SystemExit(main())
