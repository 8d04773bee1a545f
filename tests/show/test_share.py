"""Shares of the peak never stand above 100 % without their reason."""

from __future__ import annotations

import pytest

from tensorsmith.show.share import share_of_peak


@pytest.mark.parametrize(
    "share, formulation, said",
    [
        (0.364, "direct", "36% of peak"),
        (1.0, "direct", "100% of peak"),
        (5.03, "direct", "503% of peak: operations on padding are counted and skipped, or the machine was busy when the peak"),
        (1.31, "winograd-4", "131% of peak, of direct FLOPs: winograd-4 computes fewer"),
        (0.8, "winograd-2", "80% of peak, of direct FLOPs: it is winograd-2"),
    ],
)
def test_the_text(share: float, formulation: str, said: str) -> None:
    assert share_of_peak(share, formulation).startswith(said)
