"""Numbers and times as pages show them."""

from __future__ import annotations

import statistics
from collections.abc import Iterable


def mean(values: Iterable[float]) -> float:
    """The geometric mean; NaN of nothing."""
    some = list(values)
    return statistics.geometric_mean(some) if some else float("nan")


def number(value: float | None, form: str = "{:.2f}") -> str:
    return "-" if value is None else form.format(value)


def times(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}x"


def milliseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1e3:.3g}" if seconds < 0.1 else f"{seconds * 1e3:.1f}"


def microseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1e6:.3g}" if seconds < 1e-3 else f"{seconds * 1e6:.0f}"


def time_text(seconds: float | None) -> str:
    return "" if seconds is None else f"{microseconds(seconds)} us" if seconds < 1e-3 else f"{milliseconds(seconds)} ms"


def table(lines: list[tuple[str, ...]]) -> str:
    """Markdown; the first line is the head."""
    head, *rest = lines
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ("---",) * len(head), *rest])
