"""A share of the machine's peak, as text: the one place that says it.

The operations that are counted are those of the definition. What computes fewer of them may be faster than the machine could be
with all of them, so that a share above 100 % has a reason, and is never shown without it.
"""

from __future__ import annotations

_DIRECT = "direct"


def share_of_peak(share: float, formulation: str = _DIRECT) -> str:
    """`36% of peak`; above 100 % with the reason. `formulation`: by which definition the outputs are computed."""
    text = f"{share:.0%} of peak"
    if share <= 1:
        return text if formulation == _DIRECT else f"{text}, of direct FLOPs: it is {formulation}"
    if formulation != _DIRECT:
        return f"{text}, of direct FLOPs: {formulation} computes fewer"
    return f"{text}: operations on padding are counted and skipped, or the machine was busy when the peak was measured"
