"""Blocks that are no contests: what calls cost, how long compiling takes, policies, bounds, the paper's figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from contest_blocks import notes
from figure_texts import mean, microseconds, number, table
from standing import OURS, Row

Result = Mapping[str, Any]
ANSOR = "our implementation of Ansor's policy on our code generator"


def steps(key: str, columns: Mapping[str, tuple[str, str, float]]) -> Callable[[Result], str]:
    """Of a file whose one case has a table of its own under `key`: heading: (figure, form, factor)."""

    def text(result: Result) -> str:
        lines: list[tuple[str, ...]] = [("", *columns)]
        for row in result["cases"].values():
            median = row.get("median_seconds", {})
            for name, one in row[key].items():
                own = {**one, "median": median.get(name)}
                lines.append((name, *(number(own.get(f) and own[f] * factor, form) for f, form, factor in columns.values())))
        return "\n".join([table(lines), "", *notes(result["cases"])])

    return text


def bf16(result: Result) -> str:
    """How many times as fast as the other."""
    lines: list[tuple[str, ...]] = [("layer", "to our f32", "the same by medians", "to f32 by Winograd", "to bf16 widened to f32")]
    for case, row in result["cases"].items():
        own, medians, mine = row["seconds"], row["median_seconds"], f"{OURS} bf16"
        f32, winograd, widened = (own.get(f"{OURS} {kind}") for kind in ("f32", "f32 winograd", "bf16 widened"))
        by_medians = medians[f"{OURS} f32"] / medians[mine]
        ratios = [number(None if other is None else other / own[mine]) for other in (f32, winograd, widened)]
        lines.append((case, ratios[0], number(by_medians), *ratios[1:]))
    return "\n".join([table(lines), "", *notes(result["cases"])])


def calls(result: Result) -> str:
    lines: list[tuple[str, ...]] = [("way of calling", "us, best", "us, median")]
    for case, row in result["cases"].items():
        if case.startswith("call: "):
            lines.append((case.removeprefix("call: "), microseconds(row["total"]), microseconds(row.get("median"))))
    return table(lines)


def compile_times(result: Result) -> str:
    phases = list(dict.fromkeys(p for row in result["cases"].values() for p in row.get("phases", {})))
    lines: list[tuple[str, ...]] = [("model", "nodes", "calls", "kernels", "CPU s", "wall s", *phases)]
    for case, row in result["cases"].items():
        if "error" in row:
            lines.append((case, row["error"][:60], *("",) * (4 + len(phases))))
            continue
        counts = (str(row[key]) for key in ("nodes", "calls", "kernels"))
        lines.append((case, *counts, number(row["cpu"]), number(row["wall"]), *(number(row["phases"].get(p)) for p in phases)))
    return table(lines)


def bounds(result: Result) -> str:
    """Of the kernels that hold 95 % of a network's time."""
    lines: list[tuple[str, ...]] = [
        ("network", "kernels that hold 95 % of the time", "of them at 90 % of their bound", "all at their bounds would take")
    ]
    for network, row in result["cases"].items():
        kernels = sorted(row["kernels"], key=lambda k: -k["seconds"])
        total, held, chosen = sum(k["seconds"] for k in kernels), 0.0, []
        for kernel in kernels:
            if held >= 0.95 * total:
                break
            held += kernel["seconds"]
            chosen.append(kernel)
        whole = sum(k["bound"] for k in kernels) / total
        lines.append((network, str(len(chosen)), str(sum(k["share"] >= 0.9 for k in chosen)), f"{whole:.2f} of the time"))
    return table(lines)


def no_trial(result: Result) -> str:
    rows = result["cases"].values()
    left = sum(row["schedule"] == "model" for row in rows)
    ratios = [row["against_default"] for row in rows]
    head = ("cases", "left the default schedule in", "speed to it, geometric mean", "at worst", "seconds for the choice, at most")
    most = max(row["choosing"] for row in rows)
    return table([head, (str(len(ratios)), str(left), f"{mean(ratios):.3f}", f"{min(ratios):.3f}", f"{most:.1f}")])


def policies(result: Result) -> str:
    """The geometric mean of speeds after so many trials, and on how many workloads ours is ahead or equal within 1 %."""
    rows: Mapping[str, Row] = result["cases"]
    trials = sorted({int(n) for row in rows.values() for n in row["speeds"]})
    lines: list[tuple[str, ...]] = [
        ("policy", *(f"after {n} trials" for n in trials), *(f"ours ahead, equal, behind after {n}" for n in trials))
    ]
    for name, row in rows.items():
        means = [mean(row["speeds"].get(str(n), {}).values()) for n in trials]
        against = [
            "" if name == OURS else _against(rows[OURS]["speeds"].get(str(n), {}), row["speeds"].get(str(n), {})) for n in trials
        ]
        title = f"`{name}`" + (f" ({ANSOR})" if name == "ansor" else "")
        lines.append((title, *(number(m, "{:.3f}") for m in means), *against))
    return table(lines)


def _against(ours: Mapping[str, float], theirs: Mapping[str, float]) -> str:
    ratios = [ours[w] / theirs[w] for w in ours if w in theirs]
    return f"{sum(r > 1.01 for r in ratios)}, {sum(abs(r - 1) <= 0.01 for r in ratios)}, {sum(r < 0.99 for r in ratios)}"


def paper(result: Result) -> str:
    """Each figure as a table."""
    parts = []
    for name, row in result["cases"].items():
        if "groups" in row:
            systems = list(dict.fromkeys(s for heights in row["groups"].values() for s in heights))
            titles = [f"{s}: {ANSOR}" if s == "ansor" and "paper" not in name else s for s in systems]
            lines = [("", *titles), *((g, *(number(h.get(s)) for s in systems)) for g, h in row["groups"].items())]
        else:
            lines = [tuple(row["columns"]), *map(tuple, row["rows"])]
        parts.append(f"Figure {row['figure']}: {row['title']} ({name.split(' ', 1)[1]}).\n\n{table(lines)}")
    return "\n\n".join(parts)
