"""Tables of PyTorch modules, from the rows alone: for people, and for a Markdown page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rich.table import Table

from rows import OURS, Row, figures, geometric_mean, still_disturbed
from summary import standing, still_disturbed_line
from tables import MARK, number, quartiles_text
from torch_contest import FROM_TORCH, PEERS, RATIO_TO_PLAIN, TOLERANCE

Cell = Callable[[Row], str]


def _milliseconds(names: Sequence[str]) -> Cell:
    """The best of some contestants."""

    def cell(entry: Row) -> str:
        found = [seconds for name, seconds in entry.get("seconds", {}).items() if name in names]
        return number(min(found) * 1e3, "{:.2f}") if found else ""

    return cell


def _prepared(name: str) -> Cell:
    return lambda entry: number(entry.get("seconds_preparing", {}).get(name), "{:.1f}")


def left_text(entry: Row) -> str:
    """What of a module runs in PyTorch, though it was given to us."""
    if "left_whole" in entry:
        return f"{len(entry['left_whole'])} of {entry['graphs']} graphs"
    listed = ", ".join(f"{name} x{count}" for name, count in entry.get("left", {}).items())
    return listed or "none"


#: heading: cell; those that nobody has a figure for are left out
CHECKED: dict[str, Cell] = {
    "parameters": lambda entry: number(entry.get("parameters", 0) / 1e6, "{:.1f} M"),
    "graphs": lambda entry: str(entry["graphs"]),
    "kernels": lambda entry: str(entry["kernels"]),
    "left to PyTorch": left_text,
    "difference from eager": lambda entry: number(entry.get("difference", {}).get(OURS), "{:.0e}"),
}
TIMED: dict[str, Cell] = {
    "ours, ms": _milliseconds([OURS]),
    "from_torch": _milliseconds([FROM_TORCH]),
    "eager": _milliseconds(["eager", "eager last"]),
    "inductor": _milliseconds(["inductor", "inductor last"]),
    "inductor frozen": _milliseconds(["inductor frozen", "inductor autotuned"]),
    "to eager and inductor": lambda entry: number(entry.get(RATIO_TO_PLAIN), "{:.2f}"),
    "to the best of all": lambda entry: number(entry.get("ratio_to_best_peer"), "{:.2f}"),
    "medians": lambda entry: number(entry.get("median_ratio_to_best_peer"), "{:.2f}"),
    "quartiles": quartiles_text,
    "compiled in s: ours": _prepared(OURS),
    "by inductor": _prepared("inductor"),
    "frozen": _prepared("inductor frozen"),
    "autotuned": _prepared("inductor autotuned"),
}
_MEANS = {
    "to eager and inductor": RATIO_TO_PLAIN,
    "to the best of all": "ratio_to_best_peer",
    "medians": "median_ratio_to_best_peer",
}


def lines(rows: Mapping[str, Row], columns: Mapping[str, Cell]) -> list[list[str]]:
    """A head, a line per architecture and, where ratios are, their geometric means; without columns that are empty."""
    cells = {heading: [cell(entry) for entry in rows.values()] for heading, cell in columns.items()}
    shown = {heading: column for heading, column in cells.items() if any(column)}
    names = [f"{name} {MARK}" if still_disturbed(entry) else name for name, entry in rows.items()]
    found = [["architecture", *shown], *map(list, zip(names, *shown.values()))]
    means = {heading: figures(rows, key) for heading, key in _MEANS.items() if heading in shown}
    if means:
        found.append(
            ["geometric mean", *(number(geometric_mean(means[h].values()), "{:.2f}") if h in means else "" for h in shown)]
        )
    return found


def table(title: str, rows: Mapping[str, Row], columns: Mapping[str, Cell]) -> Table:
    head, *rest = lines(rows, columns)
    made = Table(title=title, title_justify="left")
    for n, heading in enumerate(head):
        made.add_column(heading, justify="right" if n else "left", no_wrap=not n)
    for line in rest:
        made.add_row(*line)
    return made


def markdown(rows: Mapping[str, Row], columns: Mapping[str, Cell]) -> str:
    head, *rest = lines(rows, columns)
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *rest])


def verdict(rows: Mapping[str, Row]) -> str:
    """The figures in lines: who is right, who falls back, who is ahead."""
    right = [name for name, entry in rows.items() if entry.get("difference", {}).get(OURS, 1.0) <= TOLERANCE]
    whole = [name for name, entry in rows.items() if "left" not in entry and "left_whole" not in entry and entry["graphs"]]
    found = [
        f"within {TOLERANCE:g} of eager: {len(right)} of {len(rows)}",
        f"without anything left to PyTorch: {len(whole)} of {len(rows)}",
    ]
    for what, key in (
        ("eager and inductor as they come", RATIO_TO_PLAIN),
        (f"the best of {', '.join(PEERS)}", "ratio_to_best_peer"),
    ):
        if ratios := figures(rows, key):
            found.append(f"ahead of {what}: {sum(r > 1 for r in ratios.values())} of {len(ratios)}; {standing(ratios)}")
    failed = [name for name, entry in rows.items() if "error" in entry]
    return "\n".join([*found, *still_disturbed_line(rows), *([f"with errors: {', '.join(failed)}"] if failed else [])])
