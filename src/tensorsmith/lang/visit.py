"""Ways through nodes that have operands, where a node may be an operand of several: each is visited once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

N = TypeVar("N", bound="HasOperands")

_LARGEST_TEXT = 4096  # nodes of an expression that is still written out


class HasOperands(Protocol):
    """A node; its hash is that of its identity."""

    @property
    def operands(self: N) -> tuple[N, ...]: ...


def walk(e: N) -> Iterator[N]:
    """Every node of `e` once, parents first."""
    seen: set[N] = set()
    todo = [e]
    while todo:
        x = todo.pop()
        if x not in seen:
            seen.add(x)
            yield x
            todo.extend(reversed(x.operands))


def operands_first(e: N) -> list[N]:
    """Every node of `e` once, each after its operands."""
    found: dict[N, None] = {}
    todo = [(e, False)]
    while todo:
        x, visited = todo.pop()
        if visited:
            found[x] = None
        elif x not in found:
            todo.append((x, True))
            todo.extend((c, False) for c in reversed(x.operands))
    return list(found)


def written_out(e: N, own: Callable[[N], int] = lambda x: 1) -> int:
    """How many nodes `e` has where each is written again for each of its uses; `own` may let some count for more."""
    size: dict[N, int] = {}
    for x in operands_first(e):
        size[x] = own(x) + sum(size[c] for c in x.operands)
    return size[e]


def depth(e: N) -> int:
    """The most nodes that stand inside each other."""
    found: dict[N, int] = {}
    for x in operands_first(e):
        found[x] = 1 + max((found[c] for c in x.operands), default=0)
    return found[e]


def uses(e: N) -> dict[N, int]:
    """How often each node of `e` is an operand, each after its own operands; `e` itself is used once, by whoever asks."""
    found = dict.fromkeys(operands_first(e), 0)
    for x in found:
        for c in x.operands:
            found[c] += 1
    found[e] += 1
    return found


def shared(e: N) -> list[N]:
    """The nodes with operands that `e` uses more than once, each after its operands."""
    return [x for x, times in uses(e).items() if times > 1 and x.operands]


def parts(e: N) -> list[N]:
    """What has to be written once, under a name, so that the text of an expression does not explode: nothing, of most of them."""
    return shared(e) if written_out(e) > _LARGEST_TEXT else []
