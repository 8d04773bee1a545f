"""What a model uses and we do not have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensorsmith.errors import Part, UserError


class UnsupportedOperators(UserError):
    """The model has operators that there is no handler for; `counts` has each with its version and how often it occurs.

    `advice` says what the user can do about it.
    """

    def __init__(self, model: str, counts: Mapping[str, int], advice: Sequence[Part] = ()) -> None:
        self.model, self.counts = model, dict(counts)
        listed = ", ".join(f"{kind} x{n}" for kind, n in sorted(counts.items(), key=lambda item: (-item[1], item[0])))
        super().__init__(f"{model} uses operators that are not supported: {listed}", *advice)
