"""Where a program's intermediate tensors lie: those that no root nest needs at the same time may share memory.

A tensor lives from the first root nest that touches it to the last. The largest is placed first, each as low as those placed
before it and alive at the same time allow. So the temporaries of a chain of transforms take the memory of two of them, not of all.
"""

from __future__ import annotations

from collections.abc import Mapping

from tensorsmith.program.ir import Node, Program, blocks


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
