"""A final as a race: who has a turn in the next round, until the order at the top is settled.

A turn back to back takes a millisecond or two, one after a pause some twenty. So all of them meet back to back first, and whoever
cannot win there any more drops out: behind the default schedule, equal to it, or clearly behind the first. Most finals are over by
then. The two that are left, if they surely win, meet the default schedule under the other conditions, too, until the first has won
there or lost.

It is a function of the rounds so far and nothing else, so that a node of a fleet can hold the race for itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from tensorsmith.measure.conditions import Condition
from tensorsmith.measure.contest import Slots
from tensorsmith.measure.job import Rounds
from tensorsmith.tuning.finals.verdict import Margins, challengers, margin

LEAST = 8  # rounds back to back, of everybody: fewer say little of the noise
MOST = 80  # likewise at most; who is not sure to win by then does not
LEAST_ELSEWHERE, MOST_ELSEWHERE = 6, 24  # rounds under each of the other conditions
_HOPEFUL = 2  # that go on after the first rounds: the fewer they are, the sooner it is over

_FIRST = Condition.BACK_TO_BACK


def next_round(rounds: Sequence[Rounds | None], conditions: Sequence[Condition], *, holder: int) -> Slots:
    """Who has a turn, by number, under which conditions; nobody: it is over. None: that program failed."""
    running = {n for n, r in enumerate(rounds) if r is not None}
    if any(len(r[_FIRST]) < LEAST for r in rounds if r is not None):
        return {_FIRST: running}
    hopeful = _hopeful(rounds, holder)
    if not hopeful:
        return {}
    first, found = hopeful[0]
    if not found[_FIRST].sure:
        return {_FIRST: {n for n, _ in hopeful} | {holder}}
    if all(_settled(found, c, len((rounds[first] or {})[c])) for c in conditions if c is not _FIRST):
        return {}
    return {c: {n for n, m in hopeful if m[_FIRST].sure} | {holder} for c in conditions}


def _hopeful(rounds: Sequence[Rounds | None], holder: int) -> list[tuple[int, Margins]]:
    """Who may still win, the first few of them; the one that is ahead by most is the first. Who has dropped out stays out: rounds
    are compared one by one, and it was not in the last ones."""
    found: list[tuple[int, Margins]] = []
    for n, margins in challengers(rounds, holder):
        own = (rounds[n] or {})[_FIRST]
        dropped = len(own) < len((rounds[holder] or {})[_FIRST])
        out = dropped or margins[_FIRST].hopeless or (len(own) >= MOST and not margins[_FIRST].sure)
        beaten = bool(found) and margin(own, (rounds[found[0][0]] or {})[_FIRST]).lost
        if not (out or beaten or _lost_elsewhere(rounds[n] or {}, margins)):
            found.append((n, margins))
    return found[:_HOPEFUL]


def _lost_elsewhere(own: Rounds, margins: Margins) -> bool:
    return any(m.lost and len(own[c]) >= LEAST_ELSEWHERE for c, m in margins.items() if c is not _FIRST)


def _settled(found: Margins, condition: Condition, rounds: int) -> bool:
    """Whether more rounds under a condition would hardly change what comes out."""
    return rounds >= MOST_ELSEWHERE or (rounds >= LEAST_ELSEWHERE and found[condition].likely)
