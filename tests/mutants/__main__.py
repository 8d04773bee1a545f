"""`python -m tests.mutants`: applies every mutant to a copy of the source and runs the tests that have to notice it.

A mutant is noticed if each of its tests fails on it, and passes on the source as it is. The command fails if one survives, is out
of date, or cannot be run at all.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.mutants.mutant import ROOT, SOURCE, Change, Mutant, OutOfDate, applied, sources
from tests.mutants.table import MUTANTS

_AT_ONCE = 2
_LONGEST = 600  # seconds of one mutant's tests: one that never ends is no answer


def main(arguments: Sequence[str] | None = None) -> int:
    given = _parse(arguments)
    texts = sources()
    chosen = [m for m in MUTANTS if not given.only or m.name in given.only]
    try:
        changes = [applied(mutant, texts) for mutant in chosen]
    except OutOfDate as problem:
        print(problem)
        return 1
    if given.list:
        for mutant, change in zip(chosen, changes):
            print(f"{mutant.name:<36} {change.file}\n    " + "\n    ".join(mutant.tests))
        return 0
    begun = time.monotonic()
    if not _pass_as_they_are(chosen):
        return 1
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        survivors = 0
        for mutant, verdict in zip(chosen, pool.map(_verdict, chosen, changes)):
            survivors += verdict != "noticed"
            print(f"{mutant.name:<36} {verdict}", flush=True)
    print(f"{len(chosen) - survivors} of {len(chosen)} mutants noticed in {time.monotonic() - begun:.0f} s")
    return 1 if survivors else 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description="Are deliberate faults noticed by the tests?")
    parser.add_argument(
        "--only", action="append", metavar="NAME", choices=[m.name for m in MUTANTS], help="this one; may be repeated"
    )
    parser.add_argument("--list", action="store_true", help="print the mutants, what they change and who has to notice")
    return parser.parse_args(arguments)


def _pass_as_they_are(mutants: Sequence[Mutant]) -> bool:
    """Whether all tests pass without any mutant: otherwise their failing would say nothing."""
    tests = sorted({test for m in mutants for test in m.tests})
    with tempfile.TemporaryDirectory() as folder:
        done = _run(tests, Path(folder), None, "-n", str(_AT_ONCE))
    if done.returncode:
        print(done.stdout[-4000:] + done.stderr[-2000:] + "\nthe tests do not pass on the source as it is")
    return not done.returncode


def _verdict(mutant: Mutant, change: Change) -> str:
    """ "noticed", or what happened instead."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = _run(mutant.tests, Path(folder), change)
        except subprocess.TimeoutExpired:
            return f"NO ANSWER: its tests take more than {_LONGEST} s"
    if done.returncode < 0:  # ended by a signal: generated code went astray
        return "noticed"
    if done.returncode not in (0, 1):
        return f"BROKEN: its tests do not run\n{done.stdout[-2000:]}"
    failed = {line.partition("[")[0] for line in re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)}
    passed = [test for test in mutant.tests if test not in failed]
    return f"SURVIVED {', '.join(passed)}" if passed else "noticed"


def _run(tests: Sequence[str], folder: Path, change: Change | None, *options: str) -> subprocess.CompletedProcess[str]:
    """Tests on a copy of the source, which they and the processes they start import."""
    package = folder / "src" / SOURCE.name
    shutil.copytree(SOURCE, package)
    if change is not None:
        (package / change.file).write_text(change.text)
    environment = {**os.environ, "PYTHONPATH": str(package.parent), "HYPOTHESIS_STORAGE_DIRECTORY": str(folder / "hypothesis")}
    imported = [sys.executable, "-c", "import tensorsmith; print(tensorsmith.__file__)"]
    where = subprocess.run(imported, cwd=folder, env=environment, capture_output=True, text=True, check=True).stdout.strip()
    if Path(where).parent != package:
        raise SystemExit(f"the tests would import {where}, not the copy of the source in {package}")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--tb=no", "-rfE", *options, *tests]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=_LONGEST, check=False)


if __name__ == "__main__":
    sys.exit(main())
