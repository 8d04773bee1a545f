"""Random draws for property tests: where they come from, and how Hypothesis runs them."""

from __future__ import annotations

from random import Random

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

# Draws that Hypothesis owns shrink well but are tame; those of a seeded generator are wild.
SOURCES = {"shrinking": st.randoms(use_true_random=False), "seeded": st.integers(0, 2**32).map(Random)}


def many(examples: int, repeatable: bool) -> settings:
    """So many examples, the same ones every time if `repeatable`, however long each takes."""
    return settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=repeatable,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )
