"""Where a program's intermediate tensors lie: in memory that all threads share, in memory of each thread, or on its stack.

Those that no root nest needs at the same time may share memory. A tensor lives from the first root nest that touches it to the
last. The largest is placed first, each as low as those placed before it and alive at the same time allow. So the temporaries of a
chain of transforms take the memory of two of them, not of all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tensorsmith.program.ir import Node, Program, blocks
from tensorsmith.program.layout import Layout


@dataclass(frozen=True)
class Room:
    """What a machine asks of the memory of its programs, in bytes."""

    stack: int  # attached buffers up to this size live on the stack
    slack: int  # behind every buffer of our own: how far a vector may reach past its end
    alignment: int


@dataclass(frozen=True)
class Places:
    """Offsets by buffer, and bytes in all. What is attached and has no place here lives on the stack."""

    shared: Mapping[str, int]
    shared_bytes: int
    local: Mapping[str, int]  # in the memory of each thread
    local_bytes: int


def places(program: Program, layouts: Mapping[str, Layout], room: Room) -> Places:
    """Where the buffers of a program whose extents are numbers lie."""

    def sizes(kind: str) -> dict[str, int]:
        bytes_of = {b.name: int(layouts[b.name].bytes) for b in program.buffers.values() if b.kind == kind}
        off_stack = {name: size for name, size in bytes_of.items() if kind != "local" or size > room.stack}
        return {name: -(-(size + room.slack) // room.alignment) * room.alignment for name, size in off_stack.items()}

    shared, shared_bytes = place(program, sizes("scratch"))
    local: dict[str, int] = {}
    local_bytes = 0
    for name, size in sizes("local").items():
        local[name] = local_bytes
        local_bytes += size
    return Places(shared, shared_bytes, local, local_bytes)


def touched(node: Node) -> set[str]:
    """The tensors that a root nest reads or writes."""
    return {x.tensor for b in blocks(node) for x in b.stage.reads} | {b.stage.name for b in blocks(node)}


def place(program: Program, sizes: Mapping[str, int]) -> tuple[dict[str, int], int]:
    """The offset of each of these tensors, and how many bytes they take together; `sizes` are multiples of the alignment."""
    nests = [touched(node) for node in program.body]
    lives = {name: [n for n, names in enumerate(nests) if name in names] for name in sizes}
    offsets: dict[str, int] = {}
    for name in sorted(sizes, key=lambda name: -sizes[name]):
        at = 0
        for other in sorted(offsets, key=offsets.__getitem__):
            if _meet(lives[name], lives[other]) and offsets[other] < at + sizes[name]:
                at = max(at, offsets[other] + sizes[other])
        offsets[name] = at
    return offsets, max((offsets[name] + size for name, size in sizes.items()), default=0)


def _meet(one: list[int], other: list[int]) -> bool:
    """Whether two tensors live at the same time; one that nothing touches never does."""
    return bool(one and other) and one[0] <= other[-1] and other[0] <= one[-1]
