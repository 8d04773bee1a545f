"""Whole networks side by side with peers.

    python benchmarks/networks.py [--models resnet50,mobilenet_v2,...] [--batch 1] [--trials N] [--seconds S] [--untuned]
                                  [--peers torch,torch.compile,onnxruntime,openvino] [--db FILE] [--profile] [--memory] [--overhead]
                                  [--json FILE] [--plot FILE]

Every network is tuned with N trials or S seconds, whichever ends first, then run untuned, tuned and by every peer: same inputs,
same threads, interleaved in one process, outputs checked against ONNX Runtime's. `--trials 0` searches nothing and takes what
the database has; `--untuned` does not look into it. Of a network that is behind, its costliest kernels are shown. The JSON file is
written after every network.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
from collections.abc import Iterable

import models
from contest import Settings, quiet_machine
from frameworks import FRAMEWORKS
from network_contest import UNTUNED_TO_REFERENCE, Entry
from network_memory import memory
from network_overhead import overhead
from network_report import is_tuned, memory_table, overhead_text, plot, profile_table, ratios_table, times_table, verdict
from ours_networks import Budget
from peers_networks import REFERENCE
from report import Report
from rows import Row
from tables import disturbed_text, quartiles_text
from tensorsmith.runtime.profile import Profile
from tensorsmith.targets.target import native

COSTLIEST = 10  # kernels that are shown of a network that is behind
SLOW_START = 5.0  # seconds from which on it is worth a word how long a peer took to compile a network


def main(words: list[str] | None = None) -> int:
    """The exit status: 1 if a row has an error."""
    given = arguments(words)
    settings = Settings(native().cores, given.timing, given.peers, patience=given.patience)
    budget = None if given.untuned else Budget(given.trials, given.seconds, given.db)
    networks = [models.get(name, given.batch) for name in given.models]  # exports what is missing, before anything is timed
    report = Report()
    report.begin()
    section = f"networks, batch {given.batch}, {settings.threads} threads"
    with quiet_machine():
        if given.overhead:
            report.add("overhead", "overhead", overhead(settings), overhead_text)
        for network in networks:
            entry = Entry(network, settings)
            entry.prepare(budget)
            row = entry.measure()
            if given.memory and entry.ours is not None:
                row["memory"] = memory(network, entry.ours, settings.threads)
            case = f"{network.name}-b{given.batch}"
            report.add(section, case, row, summary)
            report.write(given.json)
            for name, profile in _profiles(entry, row, given.profile):
                most = None if given.profile else COSTLIEST
                report.console.print(profile_table(f"{case}, {name}", profile, row.get("peak_flops"), most))
            del entry
            gc.collect()
    rows = report.sections.get(section, {})
    if rows:
        report.console.print(times_table(section, rows, given.peers))
        report.console.print(ratios_table("ratios; above 1 we are faster", rows))
        print(verdict(rows))
    if given.memory and rows:
        report.console.print(memory_table(rows))
    report.write(given.json)
    if given.plot:
        plot(given.plot, rows, given.peers)
    return 1 if report.errors else 0


def _profiles(entry: Entry, row: Row, everyone: bool) -> Iterable[tuple[str, Profile]]:
    """Of whatever is behind; of every network of ours if they are all asked for."""
    return [(name, entry.profile(name)) for name in entry.executables] if everyone else entry.profiles(row)


def arguments(words: list[str] | None) -> argparse.Namespace:
    """Checked: what cannot work fails before anything is measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=_names, default=models.PAPER, help=f"of {', '.join(models.MODELS)}, or all, or none")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--trials", type=int, help="of tuning per network")
    parser.add_argument("--seconds", type=float, help="of tuning per network")
    parser.add_argument("--untuned", action="store_true", help="default schedules only")
    parser.add_argument("--peers", type=_names, default=tuple(FRAMEWORKS), help=", ".join(FRAMEWORKS))
    parser.add_argument("--timing", type=float, default=10.0, help="seconds of timing per network")
    parser.add_argument("--patience", type=float, default=0.0, help="seconds to wait for a quiet machine before each network")
    parser.add_argument("--db", help="record file; without one every run starts afresh")
    parser.add_argument("--profile", action="store_true", help="all kernels of all networks; else the costliest of those behind")
    parser.add_argument("--memory", action="store_true", help="peak resident memory, of ours and of ONNX Runtime")
    parser.add_argument("--overhead", action="store_true", help="time per kernel beyond its work")
    parser.add_argument("--json")
    parser.add_argument("--plot", help="file for the tuning curves")
    given = parser.parse_args(words)
    if given.models in (("all",), ("none",)):
        given.models = tuple(models.MODELS) if given.models == ("all",) else ()
    for kind, wanted, known in (("network", given.models, models.MODELS), ("peer", given.peers, FRAMEWORKS)):
        for name in wanted:
            if name not in known:
                parser.error(f"there is no {kind} {name!r}; there are {', '.join(known)}")
    if given.batch < 1:
        parser.error(f"--batch is 1 or more, {given.batch} given")
    if given.untuned and (given.trials is not None or given.seconds is not None):
        parser.error("--untuned searches nothing: leave out --trials and --seconds")
    for name, value in (("--trials", given.trials), ("--seconds", given.seconds)):
        if value is not None and value < 0:
            parser.error(f"{name} is 0 or more, {value} given")
    if given.plot and not given.trials and not given.seconds:
        parser.error("--plot draws the tuning curves: give the search --trials or --seconds")
    if not given.untuned and given.models and given.trials is None and given.seconds is None:
        parser.error("say how long to search with --trials or --seconds, or --untuned")
    if given.trials == 0 and not given.db:
        parser.error("--trials 0 takes what the record file has: give it with --db, or say --untuned")
    if given.plot and importlib.util.find_spec("matplotlib") is None:
        parser.error("--plot needs matplotlib: pip install '.[bench]'")
    return given


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(",") if name)


def summary(row: Row) -> str:
    """A network in a line or some."""
    parts = []
    if "ratio_to_best_peer" in row:
        parts.append(f"{row['ratio_to_best_peer']:.3f} times {row['best_peer']} ({quartiles_text(row)})")
    if is_tuned(row) and "untuned_ratio_to_best_peer" in row:
        parts.append("untuned: the same" if row.get("same_program") else f"untuned {row['untuned_ratio_to_best_peer']:.3f}")
    if UNTUNED_TO_REFERENCE in row:
        parts.append(f"untuned {row[UNTUNED_TO_REFERENCE]:.3f} times {REFERENCE}")
    if row.get("seconds_searching"):
        parts.append(f"{row['trials']} trials in {row['seconds_searching']:.0f} s")
    if row.get("disturbed"):
        parts.append(f"disturbed {disturbed_text(row)}")
    slow = {name: took for name, took in row.get("seconds_preparing", {}).items() if took >= SLOW_START}
    if slow:
        parts.append("prepared: " + ", ".join(f"{name} {took:.0f} s" for name, took in slow.items()))
    if row.get("difference"):
        worst = max(row["difference"], key=row["difference"].__getitem__)
        parts.append(f"largest difference {row['difference'][worst]:.1e} ({worst})")
    notes = [f"  without {name}: {why}" for name, why in row.get("notes", {}).items()]
    errors = [f"  ERROR: {row['error']}"] if "error" in row else []
    return "\n".join([", ".join(parts) or "nothing to compare", *notes, *errors])


if __name__ == "__main__":
    raise SystemExit(main())
