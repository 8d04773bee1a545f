"""Tables and pictures of whole networks, from the rows alone: those of this run, or of a JSON file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.markup import escape
from rich.table import Table

import models
from network_contest import NEAR_ENOUGH, UNTUNED_TO_REFERENCE
from peers_networks import REFERENCE
from rows import OURS, UNTUNED, Row, figures
from summary import slower_than_untuned, standing, still_disturbed_line
from tables import disturbed_text, number, quartiles_text
from tensorsmith.runtime.profile import Profile


def times_table(title: str, rows: Mapping[str, Row], frameworks: Sequence[str]) -> Table:
    """A line per network: our best times and those of every peer in its best form, all in milliseconds."""
    table = Table(title=title, title_justify="left")
    table.add_column("network, ms")
    for heading in ("untuned", "tuned", *frameworks, "of peak", "difference", "disturbed"):
        table.add_column(heading, justify="right")
    for case, entry in rows.items():
        best = best_of_frameworks(entry, frameworks)
        fastest = min(best.values(), default=None)
        seconds = entry.get("seconds", {})
        tuned = is_tuned(entry)
        table.add_row(
            case,
            "default" if tuned and entry.get("same_program") else _milliseconds(seconds.get(UNTUNED if tuned else OURS)),
            _milliseconds(seconds.get(OURS)) if tuned else "",
            *(f"[bold]{_milliseconds(t)}" if (t := best.get(f)) == fastest and t else _milliseconds(t) for f in frameworks),
            number(entry.get("share_of_peak"), "{:.1%}"),
            number(max(entry.get("difference", {}).values(), default=None), "{:.0e}"),
            disturbed_text(entry),
        )
    return table


def ratios_table(title: str, rows: Mapping[str, Row]) -> Table:
    """A line per network: how many times as fast as the best peer we are, tuned and not, and what the search took."""
    table = Table(title=title, title_justify="left")
    table.add_column("network")
    table.add_column("best peer")
    headings = ("tuned to best", "medians", "quartiles", "untuned to best", "tuned to untuned", f"untuned to {REFERENCE}")
    for heading in (*headings, "trials", "seconds"):
        table.add_column(heading, justify="right")
    for case, entry in rows.items():
        tuned = entry if is_tuned(entry) else {}
        same = tuned.get("same_program")
        table.add_row(
            case,
            entry.get("best_peer", ""),
            number(tuned.get("ratio_to_best_peer"), "{:.3f}"),
            number(tuned.get("median_ratio_to_best_peer"), "{:.3f}"),
            quartiles_text(tuned),
            "default" if same else number(entry.get("untuned_ratio_to_best_peer"), "{:.3f}"),
            "" if same else number(tuned.get("tuned_to_untuned"), "{:.3f}"),
            number(entry.get(UNTUNED_TO_REFERENCE), "{:.3f}"),
            number(tuned.get("trials"), "{}"),
            number(tuned.get("seconds_searching"), "{:.0f}"),
        )
    return table


def is_tuned(entry: Row) -> bool:
    """Whether a row is of records; else it is of default schedules alone."""
    return entry.get("trials", 0) > 0 or UNTUNED in entry.get("seconds", {})


def verdict(rows: Mapping[str, Row]) -> str:
    """The figures in lines: tuned and untuned against the best peer, over the paper's networks and over all; tuned against untuned;
    untuned against ONNX Runtime."""
    tuned = {case: entry for case, entry in rows.items() if is_tuned(entry)}
    lines = []
    for what, of, key in (
        ("tuned", tuned, "ratio_to_best_peer"),
        ("tuned, by medians", tuned, "median_ratio_to_best_peer"),
        ("untuned", rows, "untuned_ratio_to_best_peer"),
    ):
        ratios = figures(of, key)
        of_paper = {case: ratio for case, ratio in ratios.items() if case.rsplit("-b", 1)[0] in models.PAPER}
        lines += [f"{what}, the paper's networks: {standing(of_paper)}"] if of_paper else []
        lines += [f"{what}, all networks: {standing(ratios)}"] if len(ratios) > len(of_paper) else []
    lines += slower_than_untuned(tuned)
    reference = figures(rows, UNTUNED_TO_REFERENCE)
    if reference:
        far = [case for case, ratio in reference.items() if ratio < NEAR_ENOUGH]
        judgement = f"not within {1 / NEAR_ENOUGH:g}x: {', '.join(far)}" if far else f"all within {1 / NEAR_ENOUGH:g}x"
        lines.append(f"untuned against {REFERENCE}: {judgement}; {_slowest(reference)}")
    lines += still_disturbed_line(rows)
    failed = [case for case, entry in rows.items() if "error" in entry]
    return "\n".join([*lines, *([f"with errors: {', '.join(failed)}"] if failed else [])])


def _slowest(ratios: Mapping[str, float]) -> str:
    case = min(ratios, key=ratios.__getitem__)
    return f"the slowest {ratios[case]:.3f}x ({case})"


def profile_table(title: str, profile: Profile, peak: float | None, most: int | None = None) -> Table:
    """The kernels of a network, the costliest first, `most` of them at most; `peak` in operations per second."""
    table = Table(title=title, title_justify="left")
    for n, heading in enumerate(("kernel", "result", "calls", "µs", "share", "GFLOP/s", "of peak", "schedule")):
        table.add_column(heading, justify="right" if 2 <= n <= 6 else "left")
    kernels = profile.kernels[:most]
    for kernel in kernels:
        rate = kernel.flops / kernel.seconds if kernel.flops and kernel.seconds else None
        table.add_row(
            kernel.name,
            escape(kernel.result),
            str(kernel.calls),
            f"{kernel.seconds * 1e6:,.1f}",
            f"{kernel.share:.1%}",
            number(None if rate is None else rate / 1e9, "{:.1f}"),
            number(rate / peak if rate and peak else None, "{:.1%}"),
            kernel.schedule,
        )
    rest = profile.kernels[len(kernels) :]
    if rest:
        calls, seconds = (sum(k.calls for k in rest), sum(k.seconds for k in rest))
        table.add_row(f"{len(rest)} others", "", str(calls), f"{seconds * 1e6:,.1f}", f"{sum(k.share for k in rest):.1%}")
    return table


def overhead_text(entry: Row) -> str:
    """The row of `network_overhead` in words."""
    seconds = ", ".join(f"{name} {1e6 * t:.1f} µs" for name, t in entry["seconds"].items())
    return (
        f"{1e9 * entry['overhead_per_kernel']:.0f} ns per kernel beyond its work "
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
    """The tuning curves: the estimated latency over the seconds of searching, with whole networks measured in the end as lines."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullFormatter

    shown = {case: entry for case, entry in rows.items() if entry.get("curve")}
    if not shown:
        raise SystemExit("--plot has nothing to draw: nothing was measured, give the search more time")
    columns = min(3, len(shown))
    lines = math.ceil(len(shown) / columns)
    figure = Figure(figsize=(4.5 * columns, 3.2 * lines), layout="constrained")
    panels = figure.subplots(lines, columns, squeeze=False).ravel()
    for panel, (case, entry) in zip(panels, shown.items()):
        seconds, latency = zip(*entry["curve"], (entry["seconds_searching"], entry["curve"][-1][1]))
        panel.plot(seconds, [1e3 * t for t in latency], drawstyle="steps-post", label="tuned tasks, estimate")
        ours = {f"{name}, measured": entry.get("seconds", {}).get(name) for name in (OURS, UNTUNED)}
        measured = ours | best_of_frameworks(entry, frameworks)
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


def _milliseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1e3:.3f}"


def _mebibytes(size: int | None) -> str:
    return "" if size is None else f"{size / 2**20:.1f}"
