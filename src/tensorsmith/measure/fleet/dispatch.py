"""The dispatcher: which node measures what. It is asked and told, has no I/O, and is given the time.

    d.submit(items)                  to be measured once each
    d.joined(node, now)              a node is there
    d.next(now)                      a lease to send; None: nothing to hand out just now
    d.returned(lease, ...)           what counts of what came back
    d.lost(node, why, now)           a node died: its items are the next to be handed out
    d.overdue(now)                   nodes that hang; the caller ends them and says `lost`

An item is *open* until a result of it was accepted, and the first one is: whatever comes later is ignored, so nothing is counted
twice. An item that is open is in a queue or in a lease, so nothing is lost: a node that dies, or hangs, gives its items back; the
items of one that is only late go to another node as well.

Every lease ends with the calibration kernel. Its time is compared with the same kernel's on the other nodes, and the results count
only if it is alike: a node that has become slow is found before any of its times is believed.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from tensorsmith.errors import InternalError
from tensorsmith.measure.fleet.calibration import Calibration
from tensorsmith.measure.fleet.members import Item, Lease, Member, Rules, Standing, State
from tensorsmith.measure.fleet.queues import Queues

_RECENT = 64  # leases that say what is usual
_LOOK = 0.5  # seconds between two looks at all nodes


@dataclass(frozen=True)
class Outcome:
    """Of something told: items whose results count, items that are given up, and what people should know."""

    accepted: tuple[int, ...] = ()
    given_up: tuple[int, ...] = ()
    said: tuple[str, ...] = ()


class Dispatcher:
    """Hands items to nodes."""

    def __init__(self, rules: Rules | None = None) -> None:
        self.rules = rules or Rules()
        self.members: dict[str, Member] = {}
        self._open: dict[int, Item] = {}
        self._queues = Queues(self.rules.losses - 1)
        self._leases: dict[int, Lease] = {}
        self._numbers = itertools.count(1)
        self._standing, self._calibration = Standing(self.rules.ahead), Calibration(self.rules)
        self._checked = -math.inf  # when nodes were last looked at
        self._begun = False  # whether anything was handed out
        self._usual: deque[float] = deque(maxlen=_RECENT)  # seconds of a lease for each candidate of it

    # -- items ---------------------------------------------------------------------------------------------------------------

    def submit(self, items: Iterable[Item], first: bool = False) -> None:
        """Items to be measured; before all others, if they are to be the `first`."""
        items = list(items)
        self._open |= {item.number: item for item in items}
        self._queues.put(items, first)

    def drop(self, numbers: Iterable[int]) -> None:
        """Items that nobody wants any more; what comes of them is ignored."""
        for number in numbers:
            self._open.pop(number, None)
        self._queues.keep(self._open)

    @property
    def open(self) -> int:
        """Items without a result."""
        return len(self._open)

    @property
    def queued(self) -> int:
        """Of those, about as many as no node has: some may have got a result from a node that was late."""
        return len(self._queues)

    # -- nodes ---------------------------------------------------------------------------------------------------------------

    def called(self, node: str, now: float) -> None:
        """A node was asked to join, for the first time or again."""
        member = self.members.setdefault(node, Member(node))
        member.state, member.why, member.since, member.heard, member.there = State.JOINING, "", now, now, False
        self._standing.note(member)

    def joined(self, node: str, now: float) -> None:
        """A node is there, and knows nothing yet. It is calibrated before it is given anything."""
        member = self.members.setdefault(node, Member(node, since=now))
        member.heard, member.there = now, True
        member.calibrations.clear()
        member.groups.clear()
        self._standing.note(member)

    def heard(self, node: str, now: float) -> None:
        """A node has said something."""
        self.members[node].heard = now

    def lost(self, node: str, why: str, now: float, for_good: bool = False, blame: bool = True) -> Outcome:
        """A node died, or was ended: what it had is handed out again. It is called again, unless it is lost `for_good`. `blame`:
        what it was at may be the cause."""
        member = self.members[node]
        if member.state in (State.LOST, State.GONE):
            return Outcome()
        at_work, given_up = member.leases[: 1 if blame else 0], []
        for item in (item for lease in at_work for item in lease.items):
            item.losses += 1
            if item.losses >= self.rules.losses and self._open.pop(item.number, None) is not None:
                given_up.append(item.number)
        leases, member.leases = member.leases, []
        back = [item for lease in leases for item in lease.items if item.number in self._open]
        for lease in leases:
            del self._leases[lease.number]
        self._queues.put(self._unassigned(back), first=True)
        member.losses += 1
        member.garbled += not blame
        for_good = for_good or max(member.losses, member.garbled) > self.rules.restarts
        member.state, member.why = State.GONE if for_good else State.LOST, why
        member.retry = now + self.rules.pause * 2 ** (member.losses - 1)
        self._standing.note(member)
        again = f"its {len(back)} candidates are handed out again" if back else "it had nothing to do"
        news = back or member.losses == 1 or member.state is State.GONE  # that it does not come back yet is none
        return Outcome((), tuple(given_up), (f"{node} is {member.state.value}: {why}; {again}",) if news else ())

    def overdue(self, now: float) -> list[tuple[str, str]]:
        """Nodes that hang, and how that is known. Those whose leases are late are helped besides. Looks twice a second at most."""
        if now - self._checked < _LOOK:
            return []
        self._checked = now
        found = []
        for member in self.members.values():
            if member.state is State.JOINING and not member.there:
                if now - member.since > self.rules.joining:
                    found.append((member.name, f"it did not answer within {self.rules.joining:g} s"))
            elif member.state not in (State.LOST, State.GONE):
                if now - member.heard > self.rules.silence:
                    found.append((member.name, f"it hangs: it said nothing for {self.rules.silence:g} s"))
                elif member.leases:
                    found += self._look_at(member, member.leases[0], now)
        return found

    def to_call(self, now: float) -> list[str]:
        """Nodes that were lost and are to be called again now."""
        return [m.name for m in self._standing.lost.values() if now >= m.retry]

    @property
    def hopeless(self) -> bool:
        """Whether no node is left that works, or that may still come."""
        return not self._standing.hopeful

    # -- leases --------------------------------------------------------------------------------------------------------------

    def next(self, now: float) -> Lease | None:
        """A lease to send. To be asked again until there is none."""
        for member in (*self._standing.uncalibrated.values(), *self._standing.apart.values()):
            if not member.leases and (member.state is not State.APART or now - member.since >= self.rules.probation):
                member.since = now
                return self._lease(member, (), now)
        if not self._queues or not self._gathered(now):
            return None
        sharing = 0
        for free in self._standing.free:  # those first that have least to do
            sharing += len(free)
            for member in free.values():
                room = max(1, min(self.rules.batch, math.ceil(self.queued / sharing)))
                items = self._queues.take(member, self._open, room)
                if items:
                    return self._lease(member, items, now)
        return None

    def lease(self, number: int) -> Lease | None:
        """One that is out, by its number."""
        return self._leases.get(number)

    def returned(self, number: int, answered: Collection[int], calibration: float | None, now: float) -> Outcome:
        """What counts of a lease that came back with results of some items; those without one are handed out again."""
        lease = self._leases.pop(number, None)
        if lease is None:
            return Outcome()  # of a node that was given up since
        member = self.members[lease.node]
        member.leases.remove(lease)
        member.heard = now
        if member.leases:
            member.leases[0].begun = now
        judged = self._calibration.judge(member, calibration, self.members.values())
        for doubted in judged.doubted:
            self._standing.note(doubted)
        accepted = []
        for item in lease.items:
            if judged.believed and item.number in answered and self._open.pop(item.number, None) is not None:
                accepted.append(item.number)
                member.kept += item.trial
                member.garbled = 0
        self._standing.note(member)
        if judged.believed:
            member.losses = 0
            if lease.weight and lease.begun is not None:
                self._usual.append((now - lease.begun) / lease.weight)
        self._queues.put(self._unassigned(lease.items), first=True)
        return Outcome(tuple(accepted), (), judged.said)

    # -- small things ------------------------------------------------------------------------------------------------------------

    def _gathered(self, now: float) -> bool:
        """Whether all that were called at first are calibrated, or are waited for no longer. Nobody waits for later ones."""
        if not self._begun:
            self._begun = all(now - m.since >= self.rules.gather or m.losses for m in self._standing.joining.values())
        return self._begun

    def _lease(self, member: Member, items: tuple[Item, ...], now: float) -> Lease:
        lease = Lease(next(self._numbers), member.name, items, None if member.leases else now)
        member.leases.append(lease)
        self._leases[lease.number] = lease
        self._standing.note(member)
        return lease

    def _look_at(self, member: Member, lease: Lease, now: float) -> list[tuple[str, str]]:
        """A lease that is late has its items handed to others too; one that is hopelessly so means that its node hangs."""
        if lease.begun is None:
            raise InternalError("the first lease of a node has not begun")
        rules, weight, took = self.rules, max(1, lease.weight), now - lease.begun
        due = soon = rules.first * max(1, weight // rules.batch)
        if self._usual:
            usual = statistics.median(self._usual) * weight
            due, soon = max(rules.late_floor, rules.late * usual), max(rules.spare_floor, rules.spare * usual)
        if took > rules.hopeless * due:
            return [(member.name, f"it hangs: {weight} candidates took more than {took:.0f} s")]
        idle = not self._queues and any(other is not member for other in self._standing.free[0].values())
        if took > (soon if idle else due):
            for late in (each for each in member.leases if not each.copied):  # what waits behind it, too
                late.copied = True
                self._queues.put([item for item in late.items if item.number in self._open], first=True)
        return []

    def _unassigned(self, items: Sequence[Item]) -> list[Item]:
        """Those of some items that are open, and that neither a queue nor a node has."""
        left = [item for item in items if item.number in self._open]
        if not left:
            return []
        taken = set(self._queues)
        taken |= {item for lease in self._leases.values() for item in lease.items}
        return [item for item in left if item not in taken]
