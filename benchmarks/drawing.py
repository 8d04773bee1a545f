"""Pictures of `paper_figures.py`, in the manner of the paper's: SVG and PNG. The data is there before; nothing is computed here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from paper_figures import Bars, Curves

#: one colour for a system, in all pictures
COLOURS = {
    "torch": "#8c8c8c",
    "tensorflow": "#b9a281",
    "halide": "#4c72b0",
    "halide-wheel": "#2a4a80",
    "flextensor": "#55a868",
    "autotvm": "#dd8452",
    "ansor": "#8172b3",
    "tvm-wheel": "#937860",
    "tensorsmith": "#c44e52",
    "tensorsmith untuned": "#e8a7a9",
}
_MORE = ("#64b5cd", "#da8bc3", "#ccb974", "#4c4c4c", "#a1d99b", "#fdae6b")  # for those that have none


class NoLibrary(Exception):
    """Matplotlib is not installed."""


def colours(systems: Sequence[str]) -> dict[str, str]:
    rest = iter(_MORE * len(systems))
    return {system: COLOURS.get(system) or next(rest) for system in systems}


def draw_bars(panels: Sequence[Sequence[Bars]], path: Path) -> list[Path]:
    """Panels in rows: each a figure of bars."""
    systems = list(dict.fromkeys(s for row in panels for bars in row for s in bars.systems))
    paint = colours(systems)
    widest = max(len(bars.groups) for row in panels for bars in row)
    figure = _figure((max(5.0, 1.1 * widest) * len(panels[0]), 2.6 * len(panels)))
    axes = figure.subplots(len(panels), len(panels[0]), squeeze=False)
    for n, row in enumerate(panels):
        for m, bars in enumerate(row):
            _bars(axes[n][m], bars, paint)
    _legend(figure, axes, systems)
    return _save(figure, path)


def _bars(axes: Any, bars: Bars, paint: dict[str, str]) -> None:
    width = 0.8 / len(bars.systems)
    for n, system in enumerate(bars.systems):
        heights = [bars.of(group).get(system) for group in bars.groups]
        places = [x + width * (n - (len(bars.systems) - 1) / 2) for x in range(len(heights))]
        axes.bar(places, [h or 0.0 for h in heights], width, label=system, color=paint[system])
        for x, height in zip(places, heights):
            if height is None:  # as in the paper: nothing there, and a mark that says so
                axes.text(x, 0.02, "x", ha="center", va="bottom", fontsize=6, color=paint[system])
    axes.set_xticks(range(len(bars.groups)), bars.groups, fontsize=7)
    axes.set_ylim(0, 1.08)
    axes.set_ylabel("speed, best is 1", fontsize=8)
    axes.set_title(bars.title, fontsize=9, loc="left")


def draw_curves(curves: Curves, path: Path) -> list[Path]:
    """A row for each panel: against trials, and against seconds."""
    systems = list(dict.fromkeys(line.system for lines in curves.panels.values() for line in lines))
    paint = colours(systems)
    figure = _figure((10.0, 3.2 * len(curves.panels)))
    axes = figure.subplots(len(curves.panels), 2, squeeze=False, sharey="row")
    for (name, lines), (by_trials, by_seconds) in zip(curves.panels.items(), axes):
        speeds = curves.speeds(name)
        for line in lines:
            how = {"label": line.system, "color": paint[line.system], "drawstyle": "steps-post"}
            by_trials.plot(line.trials, speeds[line.system], **how)
            by_seconds.plot(line.seconds, speeds[line.system], **how)
        by_trials.set_xlabel("measured programs", fontsize=8)
        by_seconds.set_xlabel("seconds", fontsize=8)
        by_trials.set_ylabel(f"speed; 1 is {curves.what}", fontsize=8)
        by_trials.set_title(f"{curves.title}: {name}", fontsize=9, loc="left")
        by_trials.set_ylim(bottom=0)
    _legend(figure, axes, systems)
    return _save(figure, path)


def _figure(size: tuple[float, float]) -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise NoLibrary("pictures need matplotlib: pip install '.[bench]'; the data is written") from None
    return Figure(figsize=size, layout="constrained")


def _legend(figure: Any, axes: Any, systems: Sequence[str]) -> None:
    found = {label: handle for one in axes.flat for handle, label in zip(*one.get_legend_handles_labels())}
    shown = [s for s in systems if s in found]
    columns = max(1, min(len(shown), int(figure.get_figwidth() / 1.6)))  # as many as fit
    figure.legend([found[s] for s in shown], shown, loc="outside upper center", ncols=columns, frameon=False, fontsize=8)


def _save(figure: Any, path: Path) -> list[Path]:
    """As SVG and PNG; the same data gives the same SVG."""
    import matplotlib

    path.parent.mkdir(parents=True, exist_ok=True)
    made = [path.with_suffix(".svg"), path.with_suffix(".png")]
    with matplotlib.rc_context({"svg.hashsalt": "tensorsmith", "svg.fonttype": "none"}):
        figure.savefig(made[0], metadata={"Date": None})
        figure.savefig(made[1], dpi=150)
    return made
