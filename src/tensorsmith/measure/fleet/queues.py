"""Items that wait to be handed out, by group; in a group those first that came first."""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterator, Sequence

from tensorsmith.measure.fleet.members import Item, Member


class Queues:
    """Groups take turns: one that something was taken of comes behind the others."""

    def __init__(self, suspicious: int) -> None:
        """An item goes alone that so many nodes were lost with: it may be to blame, and no other shall be blamed for it."""
        self._suspicious = suspicious
        self._of: dict[int, deque[Item]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._of.values()))

    def __bool__(self) -> bool:
        return bool(self._of)

    def __iter__(self) -> Iterator[Item]:
        return (item for queue in self._of.values() for item in queue)

    def put(self, items: Sequence[Item], first: bool) -> None:
        """Behind the others, or before all."""
        groups: dict[int, list[Item]] = {}
        for item in items:
            groups.setdefault(item.group, []).append(item)
        for group, some in groups.items():
            queue = self._of.setdefault(group, deque())
            if first:
                queue.extendleft(reversed(some))
            else:
                queue.extend(some)
        if first:  # their groups come before all others
            self._of = {g: self._of[g] for g in groups} | self._of

    def keep(self, wanted: Container[int]) -> None:
        """Only items of these numbers."""
        self._of = {g: left for g, queue in self._of.items() if (left := deque(i for i in queue if i.number in wanted))}

    def take(self, member: Member, wanted: Container[int], room: int) -> tuple[Item, ...]:
        """Items of one group, of a weight up to `room`: of a group that the node is set up for, if there is one. Those not `wanted`
        are dropped, and those that the node has already stay."""
        for group in sorted(self._of, key=lambda g: g not in member.groups):
            queue, taken, passed = self._of[group], list[Item](), list[Item]()
            while queue and (not taken or self._fits(queue[0], taken, room)):
                item = queue.popleft()
                if item.number in wanted:
                    (passed if member.holds(item) else taken).append(item)
            queue.extendleft(reversed(passed))
            if not queue:
                del self._of[group]
            elif taken:
                self._of[group] = self._of.pop(group)  # behind the others now: all groups get on
            if taken:
                return tuple(taken)
        return ()

    def _fits(self, item: Item, taken: Sequence[Item], room: int) -> bool:
        alone = any(i.losses >= self._suspicious for i in (item, *taken))
        return not alone and sum(i.weight for i in taken) + item.weight <= room
