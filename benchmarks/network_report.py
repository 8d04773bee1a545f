"""Tables and pictures of whole networks, from the rows alone: those of this run, or of a JSON file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.table import Table

from harness import geometric_mean
from network_contest import UNTUNED
from report import OURS, Row


def networks_table(title: str, rows: Mapping[str, Row], frameworks: Sequence[str]) -> Table:
    """A line per network: our best times and those of every peer in its best form, all in milliseconds, and the ratios."""
    table = Table(title=title, title_justify="left")
    figures = ("ratio", "of medians", "ratio untuned", "of peak", "difference", "disturbed")
    table.add_column("network, ms")
    for heading in ("untuned", "tuned", *frameworks, *figures):
        table.add_column(heading, justify="right")
    for case, entry in rows.items():
        best = best_of_frameworks(entry, frameworks)
        fastest = min(best.values(), default=None)
        searched = entry.get("trials", 0) > 0 or UNTUNED in entry.get("seconds", {})
        ours = entry.get("seconds", {}).get(OURS)
        untuned = entry.get("seconds", {}).get(UNTUNED) if searched else ours
        table.add_row(
            case,
            _milliseconds(untuned),
            _milliseconds(ours) if searched else "",
            *(f"[bold]{_milliseconds(t)}" if (t := best.get(f)) == fastest and t else _milliseconds(t) for f in frameworks),
            _number(entry.get("ratio_to_best_peer"), "{:.3f}"),
            _number(entry.get("median_ratio_to_best_peer"), "{:.3f}"),
            _number(entry.get("untuned_ratio_to_best_peer"), "{:.3f}"),
            _number(entry.get("share_of_peak"), "{:.1%}"),
            _number(max(entry.get("difference", {}).values(), default=None), "{:.0e}"),
            _number(entry.get("disturbed"), "{:.0%}"),
        )
    return table


def means(rows: Mapping[str, Row]) -> str:
    """The geometric means, and of how many networks they are."""
    named = {
        "ratio to the best peer": "ratio_to_best_peer",
        "of medians": "median_ratio_to_best_peer",
        "untuned": "untuned_ratio_to_best_peer",
    }
    return "geometric mean: " + ", ".join(f"{name} {mean}" for name, key in named.items() if (mean := _mean(rows, key)))


def overhead_text(entry: Row) -> str:
    """The row of `network_overhead` in words."""
    seconds = ", ".join(f"{name} {1e6 * t:.1f} µs" for name, t in entry["seconds"].items())
    return (
        f"overhead: {1e9 * entry['overhead_per_kernel']:.0f} ns per kernel beyond its work "
        f"of {1e9 * entry['work_per_kernel']:.0f} ns, "
        f"{1e6 * entry['python_call']:.1f} µs per call from Python\n"
        f"  all {entry['kernels']} kernels: {seconds}"
    )


def best_of_frameworks(entry: Row, frameworks: Sequence[str]) -> dict[str, float]:
    """The seconds of each framework in the better of its forms: "torch last" is one of torch's."""
    found: dict[str, float] = {}
    for form, seconds in entry.get("seconds", {}).items():
        framework = form.split()[0]
        if framework in frameworks:
            found[framework] = min(seconds, found.get(framework, math.inf))
    return found


def memory_table(rows: Mapping[str, Row]) -> Table:
    """Peak resident memory in MiB: of the network, and of the library when it runs its first one."""
    names = (OURS, "onnxruntime")
    table = Table("network", *names, "share", *(f"{name} itself" for name in names), title="memory, MiB", title_justify="left")
    for case, entry in rows.items():
        found = entry.get("memory", {})
        ours, other = (found.get(name, {}).get("network") for name in names)
        libraries = (found.get(name, {}).get("library") for name in names)
        share = f"{ours / other:.2f}" if ours and other else ""
        table.add_row(case, _mebibytes(ours), _mebibytes(other), share, *map(_mebibytes, libraries))
    return table


def plot(file: str | Path, rows: Mapping[str, Row], frameworks: Sequence[str]) -> None:
    """The tuning curves: the estimated latency over the seconds of searching, with what was measured in the end as lines."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullFormatter

    shown = {case: entry for case, entry in rows.items() if entry.get("curve")}
    if not shown:
        raise SystemExit("--plot has nothing to draw: in no network was every task measured, give the search more time")
    columns = min(3, len(shown))
    lines = math.ceil(len(shown) / columns)
    figure = Figure(figsize=(4.5 * columns, 3.2 * lines), layout="constrained")
    panels = figure.subplots(lines, columns, squeeze=False).ravel()
    for panel, (case, entry) in zip(panels, shown.items()):
        seconds, latency = zip(*entry["curve"], (entry["seconds_searching"], entry["curve"][-1][1]))
        panel.plot(seconds, [1e3 * t for t in latency], drawstyle="steps-post", label="estimate while searching")
        measured = {OURS: entry.get("seconds", {}).get(OURS), **best_of_frameworks(entry, frameworks)}
        for n, (name, time) in enumerate(measured.items()):
            if time is not None:
                panel.axhline(1e3 * time, color=f"C{n + 1}", linestyle="--", linewidth=1, label=name)
        panel.set(title=case, xlabel="seconds of searching", ylabel="milliseconds", yscale="log")
        panel.set_xlim(left=0)
        panel.yaxis.set_major_formatter("{x:g}")
        panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        panel.yaxis.set_minor_formatter(NullFormatter())
        panel.legend(fontsize="small")
    for panel in panels[len(shown) :]:
        panel.set_axis_off()
    figure.savefig(file, dpi=150)


def _mean(rows: Mapping[str, Row], key: str) -> str:
    values = [entry[key] for entry in rows.values() if key in entry]
    return f"{geometric_mean(values):.3f} ({len(values)} of {len(rows)})" if values else ""


def _milliseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1e3:.3f}"


def _mebibytes(size: int | None) -> str:
    return "" if size is None else f"{size / 2**20:.1f}"


def _number(value: float | None, form: str) -> str:
    return "" if value is None else form.format(value)
