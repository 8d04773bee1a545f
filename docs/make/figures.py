"""Writes the figures of README and of the docs from the files of results, between markers, and README's picture.

    python docs/make/figures.py                            (`make figures-pages`)
    python docs/make/figures.py --results DIR --out DIR    from other files, into copies of the pages

    <!-- figures: NAME -->
    ... all of this is written anew ...
    <!-- /figures -->

NAME is a block of `figure_blocks.py`. A block whose files are not there says so. Files of one block must be of one commit. Each
block says of which commit it is, and how many commits ago that was when the page was written.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent))  # last: benchmarks have a `figures`, too

import picture
from figure_blocks import BLOCKS, MISSING

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
MARKED = re.compile(r"(<!-- figures: ([\w-]+) -->\n)(.*?)(<!-- /figures -->)", re.DOTALL)
AGO = re.compile(r", \d+ commits? before this page was made")
SHOWN = ("Python", "numpy", "llvmlite", "torch", "onnxruntime", "openvino", "halide", "apache-tvm", "C++ compiler")

Result = Mapping[str, Any]
Ago = Callable[[str], "int | None"]


class Unsound(Exception):
    """Figures that must not be shown."""


def read(folder: Path = RESULTS) -> dict[str, Result]:
    """All files of results, by table."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))}


def commits_ago(commit: str) -> int | None:
    """How many commits there are since; None where git does not know."""
    done = subprocess.run(["git", "rev-list", "--count", f"{commit}..HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return int(done.stdout) if done.returncode == 0 else None


def block(name: str, results: Mapping[str, Result], ago: Ago) -> str:
    """The text between the markers of a block."""
    if name not in BLOCKS:
        raise Unsound(f"there is no block {name!r}; there are {', '.join(BLOCKS)}")
    wanted = BLOCKS[name].files
    found = {file: results[file] for file in wanted if file in results}
    if not found or (len(found) < len(wanted) and name != "summary"):
        return f"\n{MISSING}\n\n"
    check(name, found)
    return f"\n{BLOCKS[name].text(found)}\n\n{made_by(found, ago)}\n\n"


def check(name: str, found: Mapping[str, Result]) -> None:
    """Raises `Unsound` where files of one block are of different commits or machines, or not to be published."""
    for what in ("commit", "machine"):
        if len({json.dumps(result[what], sort_keys=True) for result in found.values()}) > 1:
            listed = ", ".join(f"{file} {str(result[what])[:40]}" for file, result in found.items())
            raise Unsound(f"the files of {name} are of different {what}s: {listed}")
    for file, result in found.items():
        if result["dirty"] or result["quick"]:
            raise Unsound(f"{file} was made {'of code that is not committed' if result['dirty'] else 'with --quick'}")


def made_by(found: Mapping[str, Result], ago: Ago) -> str:
    """Commit, age, machine, versions and commands of a block."""
    first = next(iter(found.values()))
    since, machine, dates = ago(first["commit"]), first["machine"], sorted(result["date"] for result in found.values())
    age = "" if since is None else f", {since} commit{'' if since == 1 else 's'} before this page was made"
    memory = f"{machine['memory_bytes'] / 2**30:.0f} GiB"
    versions = ", ".join(f"{name} {v}" for name in SHOWN if (v := first["versions"].get(name)))
    commands = "; ".join(f"`{result['command']}`" for result in found.values())
    searched = any(row.get("trials") for result in found.values() for row in result["cases"].values() if isinstance(row, dict))
    search = " Searches start with an empty database and with the packaged cost model, which learned from " if searched else ""
    learned = f"{search}{first['search']['pretrained_model']['learned_from']}." if searched else ""
    return (
        f"Commit `{first['commit'][:12]}` of {dates[0].split()[0]}{age}. {machine['cpu']}, {machine['cores']} cores, {memory}, "
        f"{machine['system']}; {versions}.{learned} {commands}"
    )


def rendered(text: str, results: Mapping[str, Result], ago: Ago = commits_ago) -> str:
    """A page with all its blocks written anew."""
    return MARKED.sub(lambda m: m[1] + block(m[2], results, ago) + m[4], text)


def without_age(text: str) -> str:
    """A page without what changes with every commit."""
    return AGO.sub("", text)


def pages() -> list[Path]:
    """Those that have a block."""
    return [p for p in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))) if MARKED.search(p.read_text(encoding="utf-8"))]


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--out", type=Path, help="folder for the pages, instead of where they are")
    given = parser.parse_args(words)
    results = read(given.results)
    try:
        made = {page: rendered(page.read_text(encoding="utf-8"), results) for page in pages()}
        made[picture.PICTURE] = picture.made(results)
    except Unsound as why:
        print(f"error: {why}", file=sys.stderr)
        return 1
    for path, text in made.items():
        there = path if given.out is None else given.out / path.relative_to(ROOT)
        there.parent.mkdir(parents=True, exist_ok=True)
        there.write_text(text, encoding="utf-8")
        print(there)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
