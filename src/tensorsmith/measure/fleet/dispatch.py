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
from tensorsmith.measure.fleet.members import Item, Lease, Member, Peers, Rules, Standing, State

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
        self._queues: dict[int, deque[Item]] = {}  # by group, those first that came first
        self._leases: dict[int, Lease] = {}
        self._numbers = itertools.count(1)
        self._standing, self._peers = Standing(self.rules.ahead), Peers()
        self._checked = -math.inf  # when nodes were last looked at
        self._begun = False  # whether anything was handed out
        self._usual: deque[float] = deque(maxlen=_RECENT)  # seconds of a lease for each candidate of it

    # -- items ---------------------------------------------------------------------------------------------------------------

    def submit(self, items: Iterable[Item], first: bool = False) -> None:
        """Items to be measured; before all others, if they are to be the `first`."""
        items = list(items)
        self._open |= {item.number: item for item in items}
        self._enqueue(items, first)

    def drop(self, numbers: Iterable[int]) -> None:
        """Items that nobody wants any more; what comes of them is ignored."""
        for number in numbers:
            self._open.pop(number, None)
        self._queues = {g: left for g, q in self._queues.items() if (left := deque(i for i in q if i.number in self._open))}

    @property
    def open(self) -> int:
        """Items without a result."""
        return len(self._open)

    @property
    def queued(self) -> int:
        """Of those, about as many as no node has: some may have got a result from a node that was late."""
        return sum(map(len, self._queues.values()))

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

    def lost(self, node: str, why: str, now: float, for_good: bool = False) -> Outcome:
        """A node died, or was ended: what it had is handed out again. It is called again, unless it is lost `for_good`."""
        member = self.members[node]
        if member.state in (State.LOST, State.GONE):
            return Outcome()
        at_work, given_up = member.leases[:1], []
        for item in (item for lease in at_work for item in lease.items):
            item.losses += 1
            if item.losses >= self.rules.losses and self._open.pop(item.number, None) is not None:
                given_up.append(item.number)
        leases, member.leases = member.leases, []
        back = [item for lease in leases for item in lease.items if item.number in self._open]
        for lease in leases:
            del self._leases[lease.number]
        self._enqueue(self._unassigned(back), first=True)
        member.losses += 1
        for_good = for_good or member.losses > self.rules.restarts
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
                items = self._take(member, sharing)
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
        believed, said = self._judge(member, calibration, now)
        accepted = []
        for item in lease.items:
            if believed and item.number in answered and self._open.pop(item.number, None) is not None:
                accepted.append(item.number)
                member.kept += item.trial
        self._standing.note(member)
        if believed:
            member.losses = 0
            if lease.weight and lease.begun is not None:
                self._usual.append((now - lease.begun) / lease.weight)
        self._enqueue(self._unassigned(lease.items), first=True)
        return Outcome(tuple(accepted), (), tuple(said))

    # -- calibration -----------------------------------------------------------------------------------------------------------

    def _judge(self, member: Member, calibration: float | None, now: float) -> tuple[bool, list[str]]:
        """Whether a node's times can be believed, by the calibration that came with them."""
        if member.state is State.JOINING:
            member.state = State.READY
        if calibration is None:
            return member.works, []
        ratio = calibration / self._peers.usual(member.name, calibration)
        alike = self._alike(ratio)
        new = not member.calibrations
        member.calibrations.append(calibration)
        believed = alike and member.state is State.READY
        said = self._act(member, alike, ratio)
        self._peers.put(member.name, None if member.state is State.APART else member.typical)
        if new:
            self._look_around()
        return believed, said

    def _alike(self, ratio: float) -> bool:
        return 1 / self.rules.unlike <= ratio <= self.rules.unlike

    def _act(self, member: Member, alike: bool, ratio: float) -> list[str]:
        how = f"{ratio:.2g} times the time of its peers" if ratio > 1 else f"{1 / ratio:.2g} times as fast as its peers"
        if member.state is State.APART:
            member.good = member.good + 1 if alike else 0
            if member.good < self.rules.back:
                return []
            member.state, member.why, member.doubts = State.READY, "", 0
            return [f"{member.name} is like its peers again, and measures again"]
        member.doubts = 0 if alike else member.doubts + 1
        if member.doubts < self.rules.doubts:
            return []
        member.state, member.good, member.why = State.APART, 0, f"the calibration kernel took {how}"
        before = f"; {member.kept} trials of it were kept before that" if member.kept else ""
        return [f"{member.name} is set apart: {member.why}{before}"]

    def _look_around(self) -> None:
        """What a new node says of the others: one that stood alone so far may turn out to be the one that is off."""
        usual = self._peers.usual()
        for member in self.members.values():
            if member.works and member.typical is not None and not self._alike(member.typical / usual):
                member.doubts = 1  # it is calibrated again before it is given anything else
                self._standing.note(member)

    # -- small things ------------------------------------------------------------------------------------------------------------

    def _gathered(self, now: float) -> bool:
        """Whether all that were called at first are calibrated, or are waited for no longer. Nobody waits for later ones."""
        if not self._begun:
            self._begun = all(now - m.since >= self.rules.gather or m.losses for m in self._standing.joining.values())
        return self._begun

    def _take(self, member: Member, sharing: int) -> tuple[Item, ...]:
        """Items of one group: one that the node knows, if there is any in a queue. `sharing`: nodes that have as little to do."""
        room = max(1, min(self.rules.batch, math.ceil(self.queued / sharing)))
        for group in sorted(self._queues, key=lambda g: g not in member.groups):
            queue, taken, passed = self._queues[group], list[Item](), list[Item]()
            while queue and (not taken or self._fits(queue[0], taken, room)):
                item = queue.popleft()
                if item.number in self._open:
                    (passed if member.holds(item) else taken).append(item)
            queue.extendleft(reversed(passed))
            if not queue:
                del self._queues[group]
            elif taken:
                self._queues[group] = self._queues.pop(group)  # behind the others now: all groups get on
            if taken:
                return tuple(taken)
        return ()

    def _fits(self, item: Item, taken: Sequence[Item], room: int) -> bool:
        """Whether an item can go with others. One that may be to blame for lost nodes goes alone, so that no other is blamed."""
        alone = any(i.losses >= self.rules.losses - 1 for i in (item, *taken))
        return not alone and sum(i.weight for i in taken) + item.weight <= room

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
                self._enqueue([item for item in late.items if item.number in self._open], first=True)
        return []

    def _unassigned(self, items: Sequence[Item]) -> list[Item]:
        """Those of some items that are open, and that neither a queue nor a node has."""
        left = [item for item in items if item.number in self._open]
        if not left:
            return []
        taken = {item for queue in self._queues.values() for item in queue}
        taken |= {item for lease in self._leases.values() for item in lease.items}
        return [item for item in left if item not in taken]

    def _enqueue(self, items: Sequence[Item], first: bool) -> None:
        if not items:
            return
        groups: dict[int, list[Item]] = {}
        for item in items:
            groups.setdefault(item.group, []).append(item)
        for group, some in groups.items():
            queue = self._queues.setdefault(group, deque())
            if first:
                queue.extendleft(reversed(some))
            else:
                queue.extend(some)
        if first:  # their groups come before all others
            self._queues = {g: self._queues[g] for g in groups} | self._queues
