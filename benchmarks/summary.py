"""What rows say, in lines."""

from __future__ import annotations

from collections.abc import Mapping

from rows import Row, figures, geometric_mean, still_disturbed
from tables import MARK, disturbed_text, quartiles_text, time_text, untuned_text

SLOWER = 0.97  # of untuned: what tuning must not fall below


def summary(rows: Mapping[str, Row]) -> list[str]:
    """What the rows say together, in lines."""
    lines = []
    for what, key in (("", "ratio_to_best_peer"), ("by medians: ", "median_ratio_to_best_peer")):
        if ratios := figures(rows, key):
            lines.append(f"{what}{standing(ratios)}")
    if (untuned := figures(rows, "untuned_ratio_to_best_peer")) and any("tuned_to_untuned" in entry for entry in rows.values()):
        lines.append(f"untuned: {standing(untuned)}")
    return [*lines, *slower_than_untuned(rows), *still_disturbed_line(rows)]


def _by_medians(ratios: Mapping[str, float]) -> list[str]:
    if not ratios:
        return []
    slower = named({case: ratio for case, ratio in ratios.items() if ratio < SLOWER})
    return [f"by medians: geometric mean {geometric_mean(ratios.values()):.3f}; slower: {slower}"]


def slower_than_untuned(rows: Mapping[str, Row]) -> list[str]:
    """What tuning is worth, and the cases that it made slower; nothing where nothing was tuned."""
    ratios = figures(rows, "tuned_to_untuned")
    if not ratios:
        return []
    same = sum(bool(entry.get("same_program")) for entry in rows.values())
    kept = f"; the default schedule itself is what runs in {same} of {len(rows)}" if same else ""
    return [
        f"tuned to untuned: geometric mean {geometric_mean(ratios.values()):.3f}{kept}",
        f"slower than {SLOWER:g} of untuned: {named({case: ratio for case, ratio in ratios.items() if ratio < SLOWER})}",
        *_by_medians(figures(rows, "median_tuned_to_untuned")),
    ]


def still_disturbed_line(rows: Mapping[str, Row]) -> list[str]:
    marked = [case for case, entry in rows.items() if still_disturbed(entry)]
    return [f"still disturbed after retakes, not to be believed ({MARK}): {' '.join(marked)}"] if marked else []


def standing(ratios: Mapping[str, float]) -> str:
    """The geometric mean of ratios to the best peer, with and without the best row, and who is behind."""
    best = max(ratios, key=ratios.__getitem__)
    rest = [ratio for case, ratio in ratios.items() if case != best]
    without = f", {geometric_mean(rest):.3f} without its best row ({best} {ratios[best]:.2f})" if rest else ""
    behind = {case: ratio for case, ratio in ratios.items() if ratio < 1}
    mean = f"{geometric_mean(ratios.values()):.3f} times the best peer (geometric mean of {len(ratios)})"
    return f"{mean}{without}; behind: {named(behind)}"


def named(ratios: Mapping[str, float]) -> str:
    """How many, and which, the worst first."""
    if not ratios:
        return "none"
    return f"{len(ratios)} ({', '.join(f'{case} {ratios[case]:.3f}' for case in sorted(ratios, key=ratios.__getitem__))})"


def line(entry: Row) -> str:
    """A row in a line, and one more for each peer that took no part."""
    if "error" in entry:
        found = f"error: {entry['error'].splitlines()[0]}"
    elif "ratio_to_best_peer" in entry:
        found = f"{entry['ratio_to_best_peer']:.3f} times {entry['best_peer']} ({quartiles_text(entry)})"
        if untuned := untuned_text(entry):
            found += f", untuned {untuned}"
        if entry.get("disturbed"):
            found += f", disturbed {disturbed_text(entry)}"
        if "seconds_searching" in entry:
            found += f", {entry['seconds_searching']:.1f} s of search"
    else:
        found = ", ".join(f"{key} {_plain(value)}" for key, value in entry.items() if not isinstance(value, dict))
    return "\n".join([found, *(f"  without {name}: {why}" for name, why in entry.get("notes", {}).items())])


def _plain(value: object) -> str:
    return time_text(value) if isinstance(value, float) else str(value)
