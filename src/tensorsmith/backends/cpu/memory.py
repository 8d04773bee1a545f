"""What CPUs ask of the memory of their programs."""

from __future__ import annotations

from tensorsmith.backends.cpu.target import CpuTarget
from tensorsmith.program.layout import Spacing
from tensorsmith.program.memory import Room

_SET_DISTANCE = 4096  # bytes from one line of a set of the first cache to the next; the size of a page nearly everywhere

ROOM = Room(
    stack=4096,  # a page: what is touched of the stack stays in the first cache
    slack=512,  # a vector of 64 bytes may be computed from 64 f64, some of them past the end
    alignment=64,  # a cache line, and the widest vector
)


def spacing(target: CpuTarget) -> Spacing:
    """A cache line that nobody uses keeps neighbours off one set of the first cache."""
    return Spacing(_SET_DISTANCE, target.line_bytes)
