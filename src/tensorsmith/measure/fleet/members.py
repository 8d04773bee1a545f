"""What the dispatcher knows: candidates to be measured, leases of them, the nodes, and the rules."""

from __future__ import annotations

import enum
import statistics
from collections import deque
from dataclasses import dataclass, field

_RECENT = 5  # calibrations of a node that count


@dataclass(frozen=True)
class Rules:
    """All numbers of the dispatcher. Seconds."""

    batch: int = 8  # candidates of a lease at most: the calibration and the way there cost little beside so many
    ahead: int = 2  # leases that a node has: one that it is at, and one that is there when the first is done
    gather: float = 60.0  # as long, at first, nothing is handed out while nodes join: all are calibrated before any time counts
    silence: float = 30.0  # without a word: it hangs, or cannot be reached
    joining: float = 180.0  # until a node has to be there: its Python loads, perhaps from a card or under an emulator
    late: float = 4.0  # times the usual seconds of such a lease: another node is given the same candidates
    late_floor: float = 10.0
    spare: float = 2.0  # the same, while a node has nothing else to do: at the end of a run all wait for the last
    spare_floor: float = 2.0
    first: float = 120.0  # the same, while nothing is known of what is usual
    hopeless: float = 8.0  # times what is late: the node hangs, though it says that it lives
    unlike: float = 1.3  # times the calibration kernel's time on its peers, or less by that: times of one machine vary by a tenth
    doubts: int = 2  # calibrations in a row that are unlike: the node is set apart
    probation: float = 60.0  # between two calibrations of a node that is set apart
    back: int = 3  # calibrations in a row that are like the peers': it may work again
    losses: int = 3  # of nodes that had the same candidate at work: it is to blame
    restarts: int = 4  # of a node, in a row, without any result: it is given up
    pause: float = 1.0  # before the first of them; twice as long before each other one


class State(enum.Enum):
    """Of a node."""

    JOINING = "joining"  # it was called, and has not said anything yet, or is calibrated for the first time
    READY = "ready"
    APART = "set apart"  # its times are unlike its peers'
    LOST = "lost"  # it is going to be called again
    GONE = "given up"


@dataclass(eq=False)
class Item:
    """Something to be measured once. `group`: what a node has to be set up for; `weight`: how many candidates it counts for."""

    number: int
    group: int
    weight: int = 1
    trial: bool = True  # else it is a contest of candidates that have their trials
    losses: int = 0  # of nodes that were at it


@dataclass(eq=False)
class Lease:
    """Items that a node has; none: it is only to be calibrated."""

    number: int
    node: str
    items: tuple[Item, ...]
    begun: float | None = None  # when the node came to it, as far as is known here
    copied: bool = False  # it is late: others have its items too

    @property
    def weight(self) -> int:
        return sum(item.weight for item in self.items)


@dataclass(eq=False)
class Member:
    """A node."""

    name: str
    state: State = State.JOINING
    why: str = ""  # it is in that state
    since: float = 0.0  # when it was called, or was calibrated last while it is set apart
    heard: float = 0.0
    there: bool = False  # it has answered since it was called
    leases: list[Lease] = field(default_factory=list)  # in the order in which it does them
    calibrations: deque[float] = field(default_factory=lambda: deque(maxlen=_RECENT))
    doubts: int = 0  # calibrations in a row that were unlike its peers'
    good: int = 0  # in a row that were like them, since it was set apart
    kept: int = 0  # trials of it that count
    losses: int = 0  # since its last result
    garbled: int = 0  # answers that were none, since its last result that counts: a good calibration does not make up for them
    retry: float = 0.0  # when it is called again
    groups: set[int] = field(default_factory=set)  # that it is set up for

    @property
    def works(self) -> bool:
        """Whether it may be given something to measure."""
        return self.state is State.READY and not self.doubts

    @property
    def typical(self) -> float | None:
        """Seconds of the calibration kernel."""
        return statistics.median_low(self.calibrations) if self.calibrations else None

    def holds(self, item: Item) -> bool:
        return any(item in lease.items for lease in self.leases)


class Standing:
    """Nodes by what can be done with them, so that nobody has to look at all of a thousand for each lease."""

    def __init__(self, ahead: int) -> None:
        self.free: list[dict[str, Member]] = [{} for _ in range(ahead)]  # that may be given something, by the leases they have
        self.uncalibrated: dict[str, Member] = {}  # that are there and have to be calibrated
        self.joining: dict[str, Member] = {}
        self.apart: dict[str, Member] = {}
        self.lost: dict[str, Member] = {}
        self.hopeful: set[str] = set()  # that work, or may still come

    def note(self, member: Member) -> None:
        """Something about a node has changed."""
        name, state = member.name, member.state
        waits = (state is State.JOINING and member.there) or (state is State.READY and member.doubts > 0)
        for where, holds in (
            (self.uncalibrated, waits),
            (self.joining, state is State.JOINING),
            (self.apart, state is State.APART),
            (self.lost, state is State.LOST),
            *((free, member.works and len(member.leases) == n) for n, free in enumerate(self.free)),
        ):
            if not holds:
                where.pop(name, None)
            elif name not in where:
                where[name] = member
        (self.hopeful.discard if state in (State.APART, State.GONE) else self.hopeful.add)(name)
