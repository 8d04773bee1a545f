"""What is known of a case: one entry of the JSON file."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from tensorsmith.measure.referee import Comparison

Row = dict[str, Any]
OURS = "tensorsmith"
UNTUNED = f"{OURS} untuned"  # the default schedule, where ours is another one
ALONE = f"{OURS} code alone"  # ours without Python's call
DISTURBED = 0.2  # share of disturbed slots above which a case is not to be believed


def row(comparison: Comparison, *, flops: float = 0, same_program: bool = False, **more: Any) -> Row:
    """One case's entry in the JSON file. What does not apply is left out, and so is every None in `more`.

    With `same_program` ours is the default schedule, so that it has been timed as untuned, too.
    """
    peer, quartiles = comparison.best_peer(), comparison.quartiles(OURS)
    untuned = OURS if same_program else UNTUNED
    result: Row = {
        "ratio_to_best_peer": comparison.ratio(OURS),
        "median_ratio_to_best_peer": comparison.median_ratio(OURS),
        "ratio_quartiles": None if quartiles is None else list(quartiles),
        "best_peer": peer,
        "untuned_ratio_to_best_peer": comparison.ratio(untuned),
        "tuned_to_untuned": _times_as_fast(comparison, OURS, untuned),
        "median_tuned_to_untuned": _median_times_as_fast(comparison, OURS, untuned),
        "same_program": same_program or None,
        "peak_flops": comparison.peak or None,
        "disturbed": comparison.disturbed,
        "retaken": comparison.retaken,
        "rounds": max((len(timing.slots) for timing in comparison.timings.values()), default=0),
        "dropped": list(comparison.dropped) or None,
        "seconds": {name: timing.best for name, timing in comparison.timings.items()},
        "median_seconds": {name: timing.median for name, timing in comparison.timings.items()},
        **more,
    }
    if flops and comparison.peak:
        share = {n: flops / t.best / comparison.peak for n, t in comparison.timings.items()}
        result |= {"share_of_peak": share.get(OURS), "peer_share_of_peak": share[peer] if peer else None}
    return {key: value for key, value in result.items() if value is not None}


def _times_as_fast(comparison: Comparison, one: str, other: str) -> float | None:
    there = one in comparison.timings and other in comparison.timings
    return comparison[other].best / comparison[one].best if there else None


def _median_times_as_fast(comparison: Comparison, one: str, other: str) -> float | None:
    there = one in comparison.timings and other in comparison.timings
    return comparison[other].median / comparison[one].median if there else None


def still_disturbed(entry: Row) -> bool:
    """Whether too many slots of a case were disturbed, however often they were taken again."""
    return entry.get("disturbed", 0) > DISTURBED


def figures(rows: Mapping[str, Row], key: str) -> dict[str, float]:
    """One figure of every row that has it."""
    return {case: entry[key] for case, entry in rows.items() if key in entry}


def geometric_mean(values: Iterable[float]) -> float:
    """NaN of nothing."""
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan
