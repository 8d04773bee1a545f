"""What an executable was compiled from, so that it can be compiled once more for another machine.

Executables live long, and models and weights are large, so neither is kept for this: where they are gone by then, that is said.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tensorsmith.errors import UserError
from tensorsmith.targets.target import Target

if TYPE_CHECKING:
    from tensorsmith.runtime.executable import Executable


@dataclass(frozen=True)
class Origin:
    """`computation` gives what was compiled, or None if it is gone; `compile` makes an executable of it for a target.

    `constants` are the arrays that were bound since, in the same way.
    """

    computation: Callable[[], Any]
    compile: Callable[[Any, Target], Executable]
    constants: Mapping[str, Callable[[], Any]] = field(default_factory=dict)

    def bound(self, constants: Mapping[str, Any]) -> Origin:
        """Where more constants were bound."""
        return replace(self, constants={**self.constants, **{name: unkept(x) for name, x in constants.items()}})


def unkept(thing: Any) -> Callable[[], Any]:
    """What gives a thing as long as somebody else keeps it."""
    try:
        return weakref.ref(thing)
    except TypeError:  # a small one: a number, a list
        return lambda: thing


def remade(name: str, origin: Origin | None, target: Target, called: str) -> Executable:
    """The executable for another machine, which whoever asks has called so."""
    instead = f"use ts.compile(..., target={called!r}) and export that"
    if origin is None:
        raise UserError(f"{name} does not know what it was compiled from; {instead}")
    computation = origin.computation()
    if computation is None:
        raise UserError(f"the model of {name} is gone; keep it while it may be exported for another machine, or {instead}")
    arrays = {n: x() for n, x in origin.constants.items()}
    gone = [n for n, x in arrays.items() if x is None]
    if gone:
        raise UserError(f"the array that {gone[0]} of {name} was bound to is gone; keep it, or {instead}")
    made = origin.compile(computation, target)
    return made.bind(**arrays) if arrays else made
