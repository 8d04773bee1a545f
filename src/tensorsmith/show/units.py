"""Numbers with their units, for people."""

from __future__ import annotations


def time(seconds: float | None) -> str:
    """`12.3 us`, `1.53 ms`, `2.5 s`: three digits, so that it stays short; `-` where it is not known."""
    if seconds is None:
        return "-"
    for unit, scale in (("us", 1e6), ("ms", 1e3), ("s", 1.0)):
        text = f"{seconds * scale:.3g}"
        if float(text) < 1000:
            return f"{text} {unit}"
    return f"{seconds:,.0f} s"


def span(seconds: float) -> str:
    """`45s`, `4m05s`, `2h30m`: how long to wait, in at most six characters below a hundred hours."""
    minutes, rest = divmod(round(seconds), 60)
    if minutes >= 60:
        return f"{minutes // 60}h{minutes % 60:02}m"
    return f"{minutes}m{rest:02}s" if minutes else f"{rest}s"


def size(count: float) -> str:
    """`512 B`, `1.5 KiB`, `97.7 MiB`"""
    if count < 1024:
        return f"{count:.0f} B"
    if count < 1024**2:
        return f"{count / 1024:.1f} KiB"
    return f"{count / 1024**2:.1f} MiB" if count < 1024**3 else f"{count / 1024**3:,.1f} GiB"


def flops(count: float) -> str:
    """Operations, in millions."""
    return f"{count / 1e6:,.2f}" if count >= 1e5 or not count else f"{count / 1e6:.2g}"


def rate(count: float, seconds: float | None) -> str:
    """In GFLOP/s; `-` where nothing is known."""
    return f"{count / seconds / 1e9:,.1f}" if count and seconds else "-"
