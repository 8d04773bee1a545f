"""PyTorch modules: `torch.compile(module, backend="tensorsmith")` side by side with eager and with inductor, untuned.

    python benchmarks/torch_models.py [--models resnet50,vit,...] [--peers eager,inductor,"inductor frozen"] [--timing S]
                                      [--patience S] [--db FILE] [--json FILE]
    python benchmarks/torch_models.py --check                 # no times: right answers, and what is left to PyTorch
    python benchmarks/torch_models.py --markdown FILE.json    # the tables of the docs, from an earlier run

Eighteen architectures with random weights at batch 1 (`zoo/architectures.py`), each with everyone in one process: same inputs, as
many threads as there are cores, outputs compared with eager's. The JSON file is written after every architecture.
"""

from __future__ import annotations

import argparse
import gc
import os
import tempfile
from collections.abc import Sequence

from contest import Settings, quiet_machine
from report import Report, read_json
from rows import Row
from tables import disturbed_text, quartiles_text
from tensorsmith.targets.target import native


def main(words: Sequence[str] | None = None) -> int:
    """The exit status: 1 if a row has an error."""
    given = arguments(words)
    if given.markdown:
        print_markdown(given.markdown)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", folder)  # nobody finds what an earlier run compiled
        return run(given)


def run(given: argparse.Namespace) -> int:
    from torch_contest import Entry, warm_up
    from torch_report import CHECKED, TIMED, table, verdict
    from zoo.architectures import get

    peers = () if given.check else given.peers
    settings = Settings(native().cores, given.timing, peers, patience=given.patience)
    report = Report()
    report.begin()
    section = f"PyTorch modules, batch 1, {settings.threads} threads"
    with quiet_machine():
        warm_up(peers)
        for name in given.models:
            entry = Entry(get(name), settings, given.db)
            report.add(section, name, entry.measure(timed=not given.check), summary)
            report.write(given.json)
            del entry
            gc.collect()
    rows = report.sections.get(section, {})
    report.console.print(table(section, rows, CHECKED))
    if not given.check:
        report.console.print(table("best times; ratios above 1: we are faster", rows, TIMED))
    print(verdict(rows))
    return 1 if report.errors else 0


def print_markdown(file: str) -> None:
    from torch_report import CHECKED, TIMED, markdown, verdict

    _, rows = read_json(file)
    timed = any("ratio_to_best_peer" in entry for entry in rows.values())
    print(markdown(rows, CHECKED), *([markdown(rows, TIMED)] if timed else []), verdict(rows), sep="\n\n")


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    """Checked: what cannot work fails before anything is measured."""
    from torch_contest import PEERS
    from zoo.architectures import names

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=_names, default=names(), help=", ".join(names()))
    parser.add_argument("--peers", type=_names, default=PEERS, help=", ".join(PEERS))
    parser.add_argument("--check", action="store_true", help="right answers and what is left to PyTorch; nothing is timed")
    parser.add_argument("--timing", type=float, default=10.0, help="seconds of timing per architecture")
    parser.add_argument("--patience", type=float, default=0.0, help="seconds to wait for a quiet machine before each architecture")
    parser.add_argument("--db", help="record file; without one the default schedules run")
    parser.add_argument("--json")
    parser.add_argument("--markdown", help="JSON file of an earlier run")
    given = parser.parse_args(words)
    for kind, wanted, known in (("architecture", given.models, names()), ("peer", given.peers, PEERS)):
        for name in wanted:
            if name not in known:
                parser.error(f"there is no {kind} {name!r}; there are {', '.join(known)}")
    return given


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(",") if name)


def summary(row: Row) -> str:
    """An architecture in a line or some."""
    from torch_contest import RATIO_TO_PLAIN
    from torch_report import left_text

    parts = [f"{row['graphs']} graphs, {row['kernels']} kernels, left to PyTorch: {left_text(row)}"]
    if "ratio_to_best_peer" in row:
        parts.append(f"{row['ratio_to_best_peer']:.3f} times {row['best_peer']} ({quartiles_text(row)})")
    if RATIO_TO_PLAIN in row:
        parts.append(f"{row[RATIO_TO_PLAIN]:.3f} times eager and inductor as they come")
    if row.get("difference"):
        worst = max(row["difference"], key=row["difference"].__getitem__)
        parts.append(f"largest difference {row['difference'][worst]:.1e} ({worst})")
    if row.get("disturbed"):
        parts.append(f"disturbed {disturbed_text(row)}")
    prepared = ", ".join(f"{name} {took:.1f} s" for name, took in row.get("seconds_preparing", {}).items())
    notes = [f"  without {name}: {why}" for name, why in row.get("notes", {}).items()]
    errors = [f"  ERROR: {row['error']}"] if "error" in row else []
    return "\n".join([", ".join(parts), f"  first result after: {prepared}", *notes, *errors])


if __name__ == "__main__":
    raise SystemExit(main())
