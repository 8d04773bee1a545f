"""Kernels with one fault each: a barrier or a wait left out, a bound off by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tensorsmith.backends.gpu.simt.ir import Barrier, For, If, Kernel, Statement, Wait, walk
from tensorsmith.lang.expr import Binary, Const

Change = Callable[[Statement], Statement | None]


def faults(kernel: Kernel) -> Iterator[tuple[str, Kernel]]:
    """Every such fault, with words for it."""
    everything = list(walk(kernel.body))
    for kind in (Barrier, Wait):
        for n in range(sum(isinstance(s, kind) for s in everything)):
            yield f"{kind.__name__} {n} of {kernel.name}", _changed(kernel, kind, n, lambda s: None)
    bounds = [s for s in everything if isinstance(s, If)]
    for n, s in enumerate(bounds):
        if isinstance(s.condition, Binary) and s.condition.op == "lt" and isinstance(s.condition.b, Const):
            yield f"bound {n} of {kernel.name}: {s.condition}", _changed(kernel, If, n, _looser)


def _looser(s: Statement) -> Statement:
    assert isinstance(s, If) and isinstance(s.condition, Binary) and isinstance(s.condition.b, Const)
    return replace(s, condition=Binary("lt", s.condition.a, Const(int(s.condition.b.value) + 1, "i64")))


def _changed(kernel: Kernel, kind: type, number: int, change: Change) -> Kernel:
    left = number

    def inside(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        nonlocal left
        found: list[Statement] = []
        for s in body:
            new: Statement | None = s
            if isinstance(s, kind):
                left -= 1
                new = change(s) if left == -1 else s
            if new is not None:
                found.append(replace(new, body=inside(new.body)) if isinstance(new, (For, If)) else new)
        return tuple(found)

    return replace(kernel, body=inside(kernel.body))
