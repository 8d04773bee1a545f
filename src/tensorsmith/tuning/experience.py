"""What a journal teaches about programs in general: the cost model that every search of a run begins with.

There is no model file: the records are enough, and cannot be out of date. The model is made when the first search begins, and anew
when the run has added twice as much as it had then; all searches begin with it, and each goes on learning by itself.
"""

from __future__ import annotations

import weakref

from tensorsmith.records.keys import Timing
from tensorsmith.search.ansor import Settings
from tensorsmith.search.transfer import Taught, learn
from tensorsmith.targets.target import Target
from tensorsmith.tuning.journal import Journal

_WORKLOADS = 12  # that are learned from, those tried last
_MOST = 144  # trials of them: some tenths of a second
_LEAST = 32  # trials from which on something general can be learned


class Experience:
    """Of one journal, for one target and timing."""

    def __init__(self) -> None:
        self._taught: Taught | None = None
        self._next = 0  # trials of this run from which on it is worth while to learn anew

    def taught(self, journal: Journal, target: Target, timing: Timing, settings: Settings) -> Taught | None:
        """What is known by now; None if that is too little."""
        if journal.added >= self._next:
            self._next = max(_LEAST, 2 * journal.added)
            trials = [r.trial for r in journal.sample(target, timing, _WORKLOADS, _MOST)]
            if len(trials) >= _LEAST:
                self._taught = learn(trials, target, settings.model)
        return self._taught


_known: weakref.WeakKeyDictionary[Journal, dict[tuple[Target, Timing], Experience]] = weakref.WeakKeyDictionary()


def experience(journal: Journal, target: Target, timing: Timing, settings: Settings) -> Taught | None:
    """What the records of a journal teach a search with these settings."""
    if not settings.transfer or settings.cost != "trees":
        return None
    one = _known.setdefault(journal, {}).setdefault((target, timing), Experience())
    return one.taught(journal, target, timing, settings)
