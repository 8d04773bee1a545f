"""How messages go to nodes and back: what every transport has in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tensorsmith.measure.wire import Message

MOST_BYTES = 16 << 20  # of an answer: some hundred results with all their rounds are a hundredth of that


@dataclass(frozen=True)
class Event:
    """What came from a node: a message; or None, if the node is lost, and why."""

    node: str
    message: Message | None
    why: str = ""
    for_good: bool = False  # calling it again would be of no use


class Transport(Protocol):
    """Carries messages to any number of nodes. Nothing waits but `poll`."""

    silent_because: str  # why a node may not answer though nothing is wrong with it; "" if there is no such reason

    def find(self) -> list[str]:
        """The nodes there are by now; new ones may come at any time."""

    def call(self, node: str) -> None:
        """Let a node start, or start again after it was lost. What it answers to messages comes out of `poll`."""

    def send(self, node: str, message: Message) -> None: ...

    def end(self, node: str) -> None:
        """End a node at once, whatever it is doing."""

    def poll(self, seconds: float) -> list[Event]:
        """What has come; waits at most so long if that is nothing."""

    def close(self) -> None:
        """End all. Safe to call twice."""

    @property
    def processes(self) -> tuple[int, ...]:
        """Process numbers on this machine."""
