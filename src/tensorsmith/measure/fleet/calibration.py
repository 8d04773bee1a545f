"""Whether a node's times can be believed: the calibration kernel's time is compared with the same kernel's on the other nodes."""

from __future__ import annotations

import bisect
from collections.abc import Iterable
from dataclasses import dataclass

from tensorsmith.measure.fleet.members import Member, Rules, State


@dataclass(frozen=True)
class Judgement:
    """Of a calibration: whether the times that came with it count, what people should know, and nodes that are in doubt now."""

    believed: bool
    said: tuple[str, ...] = ()
    doubted: tuple[Member, ...] = ()


class Calibration:
    """What is usual, and who is off."""

    def __init__(self, rules: Rules) -> None:
        self.rules, self.peers = rules, Peers()

    def judge(self, member: Member, seconds: float | None, others: Iterable[Member]) -> Judgement:
        """A node that took so long for the kernel, or was not asked to run it. `others`: all nodes, itself too."""
        if member.state is State.JOINING:
            member.state = State.READY
        if seconds is None:
            return Judgement(member.works)
        ratio = seconds / self.peers.usual(member.name, seconds)
        alike = self._alike(ratio)
        new = not member.calibrations
        member.calibrations.append(seconds)
        believed = alike and member.state is State.READY
        said = self._act(member, alike, ratio)
        self.peers.put(member.name, None if member.state is State.APART else member.typical)
        return Judgement(believed, said, self._doubted(others) if new else ())

    def _alike(self, ratio: float) -> bool:
        return 1 / self.rules.unlike <= ratio <= self.rules.unlike

    def _act(self, member: Member, alike: bool, ratio: float) -> tuple[str, ...]:
        how = f"{ratio:.2g} times the time of its peers" if ratio > 1 else f"{1 / ratio:.2g} times as fast as its peers"
        if member.state is State.APART:
            member.good = member.good + 1 if alike else 0
            if member.good < self.rules.back:
                return ()
            member.state, member.why, member.doubts = State.READY, "", 0
            return (f"{member.name} is like its peers again, and measures again",)
        member.doubts = 0 if alike else member.doubts + 1
        if member.doubts < self.rules.doubts:
            return ()
        member.state, member.good, member.why = State.APART, 0, f"the calibration kernel took {how}"
        before = f"; {member.kept} trials of it were kept before that" if member.kept else ""
        return (f"{member.name} is set apart: {member.why}{before}",)

    def _doubted(self, members: Iterable[Member]) -> tuple[Member, ...]:
        """What a new node says of the others: one that stood alone so far may turn out to be the one that is off."""
        usual = self.peers.usual()
        found = [m for m in members if m.works and m.typical is not None and not self._alike(m.typical / usual)]
        for member in found:
            member.doubts = 1  # it is calibrated again before it is given anything else
        return tuple(found)


class Peers:
    """Calibrations of nodes that are to be alike, one of each, in their order."""

    def __init__(self) -> None:
        self._of: dict[str, float] = {}
        self._sorted: list[float] = []

    def put(self, node: str, seconds: float | None) -> None:
        """What is typical of a node from now on; None: it does not count."""
        before = self._of.pop(node, None)
        if before is not None:
            del self._sorted[bisect.bisect_left(self._sorted, before)]
        if seconds is not None:
            self._of[node] = seconds
            bisect.insort(self._sorted, seconds)

    def usual(self, node: str = "", seconds: float | None = None) -> float:
        """The lower median of all, with `seconds` in place of what is typical of a node. Of two nodes that differ the slower is the
        one that is off: what disturbs only adds time."""
        if seconds is None:
            return self._sorted[(len(self._sorted) - 1) // 2]
        before = self._of.get(node)
        self.put(node, seconds)
        found = self.usual()
        self.put(node, before)
        return found
