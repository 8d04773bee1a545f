"""Kernels with one fault each: a barrier or a wait left out, a bound off by one.

A bound is one condition, wherever it stands: what is fetched ahead has it twice, before the loop and in it. One that no value of
its loops reaches is no fault when it is off by one, and is left out: it stands before a loop, for the loop's first step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from tensorsmith.backends.gpu.simt.interpret import Wrong
from tensorsmith.backends.gpu.simt.ir import Barrier, For, If, Kernel, Statement, Wait, walk
from tensorsmith.lang.affine import Bounds, affine
from tensorsmith.lang.expr import Binary, Const, Expr

Change = Callable[[Statement], Statement | None]


def faults(kernel: Kernel) -> Iterator[tuple[str, Kernel]]:
    """Every such fault, with words for it."""
    everything = list(walk(kernel.body))
    for kind in (Barrier, Wait):
        for number in range(sum(isinstance(s, kind) for s in everything)):
            yield f"{kind.__name__} {number} of {kernel.name}", _without(kernel, kind, number)
    for condition in dict.fromkeys(s.condition for s in everything if isinstance(s, If)):
        known = isinstance(condition, Binary) and condition.op == "lt" and isinstance(condition.b, Const)
        if known and _reached(kernel, condition):
            yield f"bound of {kernel.name}: {condition}", _looser(kernel, condition)


def noticed(made: Sequence[Kernel], is_wrong: Callable[[list[Kernel]], object]) -> tuple[int, list[str]]:
    """Faults that were tried in kernels, and those after which nothing was wrong: no race, no access outside, no other answer."""
    tried, missed = 0, []
    for n, kernel in enumerate(made):
        for what, faulty in faults(kernel):
            tried += 1
            try:
                if not is_wrong([*made[:n], faulty, *made[n + 1 :]]):
                    missed.append(what)
            except Wrong:
                pass
    return tried, missed


def _reached(kernel: Kernel, condition: Expr) -> bool:
    """Whether what is compared can be the first that is not below the bound."""
    assert isinstance(condition, Binary) and isinstance(condition.b, Const)
    form, bound = affine(condition.a), int(condition.b.value)
    if form is not None:
        step = math.gcd(*(int(c) for c in form.terms.values()))
        if not step or (bound - int(form.offset)) % step:
            return False
    within = Bounds({name: (0, n - 1) for name, n in kernel.counts.items()}).range(condition.a)
    return within is None or within[1] >= bound


def _looser(kernel: Kernel, condition: Expr) -> Kernel:
    assert isinstance(condition, Binary) and isinstance(condition.b, Const)
    new = Binary("lt", condition.a, Const(int(condition.b.value) + 1, "i64"))
    return _changed(kernel, lambda s: replace(s, condition=new) if isinstance(s, If) and s.condition is condition else s)


def _without(kernel: Kernel, kind: type, number: int) -> Kernel:
    left = number

    def change(s: Statement) -> Statement | None:
        nonlocal left
        left -= isinstance(s, kind)
        return None if isinstance(s, kind) and left == -1 else s

    return _changed(kernel, change)


def _changed(kernel: Kernel, change: Change) -> Kernel:
    def inside(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        found = [new for s in body if (new := change(s)) is not None]
        return tuple(replace(s, body=inside(s.body)) if isinstance(s, (For, If)) else s for s in found)

    return replace(kernel, body=inside(kernel.body))
