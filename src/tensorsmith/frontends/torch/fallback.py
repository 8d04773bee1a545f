"""What is said of a graph that we do not run, or not all of."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

from tensorsmith.show.line import plain


class FallbackWarning(UserWarning):
    """Something that `torch.compile` gave to us runs in PyTorch. `operators` are those that do, with how often each occurs; there
    are none where the whole graph does."""

    def __init__(self, what: str, operators: Mapping[str, int] | None = None) -> None:
        super().__init__(plain(f"torch.compile with the backend tensorsmith: {what}"))
        self.operators = dict(operators or {})


def say(what: str, operators: Mapping[str, int] | None = None) -> None:
    """Warns, as from the caller of whoever calls this."""
    warnings.warn(FallbackWarning(what, operators), stacklevel=3)
