"""A final as a race: who has a turn in the next round, until the order at the top is settled.

A turn back to back takes a millisecond or two, one after a pause some twenty. So all of them meet back to back first, and whoever
cannot win there any more drops out: behind the default schedule, equal to it, or clearly behind the first. Most finals are over by
then. The two that are left, if they surely win, meet the default schedule under the other conditions, too, until the first has won
there or lost.

What a kernel takes alone, which is what its record says, is timed in the first rounds only.

It is a function of the rounds so far and nothing else, so that a node of a fleet can hold the race for itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from tensorsmith.measure.conditions import Condition, deciding
from tensorsmith.measure.contest import Slots
from tensorsmith.measure.job import Rounds
from tensorsmith.tuning.finals.verdict import Margins, challengers, margin

LEAST = 8  # rounds back to back, of everybody: fewer say little of the noise
MOST = 80  # likewise at most; who is not sure to win by then does not
LEAST_ALONE = 4  # rounds of everybody alone, where that decides nothing: they make the seconds of its record
LEAST_ELSEWHERE, MOST_ELSEWHERE = 6, 24  # rounds under each of the other conditions
_HOPEFUL = 2  # that go on after the first rounds: the fewer they are, the sooner it is over


def next_round(rounds: Sequence[Rounds | None], conditions: Sequence[Condition], *, holder: int) -> Slots:
    """Who has a turn, by number, under which conditions; nobody: it is over. None: that program failed."""
    running = {n for n, r in enumerate(rounds) if r is not None}
    judged = deciding(conditions)
    main, *others = judged
    begin = {c for c, least in first_rounds(conditions).items() if any(len(r[c]) < least for r in rounds if r is not None)}
    if begin:
        return {c: running for c in conditions if c in begin}
    hopeful = _hopeful(rounds, holder, main)
    if not hopeful:
        return {}
    first, found = hopeful[0]
    if not found[main].sure:
        return {main: {n for n, _ in hopeful} | {holder}}
    if all(_settled(found, c, len((rounds[first] or {})[c])) for c in others):
        return {}
    return {c: {n for n, m in hopeful if m[main].sure} | {holder} for c in judged}


def first_rounds(conditions: Sequence[Condition]) -> dict[Condition, int]:
    """How many rounds everybody has, under which conditions, before anybody drops out."""
    main = deciding(conditions)[0]
    return {c: LEAST if c is main else LEAST_ALONE for c in conditions if c in (main, Condition.ALONE)}


def _hopeful(rounds: Sequence[Rounds | None], holder: int, main: Condition) -> list[tuple[int, Margins]]:
    """Who may still win, the first few of them; the one that is ahead by most is the first. Who has dropped out stays out: rounds
    are compared one by one, and it was not in the last ones."""
    found: list[tuple[int, Margins]] = []
    for n, margins in challengers(rounds, holder, main):
        own = (rounds[n] or {})[main]
        dropped = len(own) < len((rounds[holder] or {})[main])
        out = dropped or margins[main].hopeless or (len(own) >= MOST and not margins[main].sure)
        beaten = bool(found) and margin(own, (rounds[found[0][0]] or {})[main]).lost
        if not (out or beaten or _lost_elsewhere(rounds[n] or {}, margins, main)):
            found.append((n, margins))
    return found[:_HOPEFUL]


def _lost_elsewhere(own: Rounds, margins: Margins, main: Condition) -> bool:
    others = (c for c in margins if c not in (main, Condition.ALONE))
    return any(margins[c].lost and len(own[c]) >= LEAST_ELSEWHERE for c in others)


def _settled(found: Margins, condition: Condition, rounds: int) -> bool:
    """Whether more rounds under a condition would hardly change what comes out."""
    return rounds >= MOST_ELSEWHERE or (rounds >= LEAST_ELSEWHERE and found[condition].likely)
