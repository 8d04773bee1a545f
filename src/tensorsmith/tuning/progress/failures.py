"""What failed in a run: how often, by cause, with one example each."""

from __future__ import annotations

import re
from collections import Counter

from tensorsmith.records.keys import candidate_key
from tensorsmith.search.trial import Status, Trial

_MOST = 8  # causes that a summary shows


class Failures:
    """Failed trials by status and cause. Numbers within a cause do not make it another one."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[Status, str]] = Counter()
        self.examples: dict[tuple[Status, str], Trial] = {}

    def add(self, trial: Trial) -> None:
        if trial.ok:
            return
        cause = "" if trial.status is Status.WRONG_ANSWER else re.sub(r"\d+", "#", trial.cause)
        self.counts[trial.status, cause] += 1
        self.examples.setdefault((trial.status, cause), trial)

    def include(self, other: Failures) -> None:
        """Adds what failed elsewhere."""
        self.counts.update(other.counts)
        for key, trial in other.examples.items():
            self.examples.setdefault(key, trial)

    def by_status(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for (status, _), count in self.counts.items():
            found[status.value] += count
        return found

    def __str__(self) -> str:
        """A line for each cause, the most frequent first; empty if nothing failed."""
        lines = []
        for key, count in self.counts.most_common(_MOST):
            trial = self.examples[key]
            lines.append(f"{count} {trial.status.value}: candidate {candidate_key(trial.candidate)}: {trial.cause}")
        if len(self.counts) > _MOST:
            lines.append(f"and {len(self.counts) - _MOST} other causes")
        return "\n".join(lines)
