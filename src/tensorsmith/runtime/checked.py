"""An executable whose calls are refused where an index that comes from data is out of bounds.

Before each call another executable runs, which finds the least and the largest index that each such dimension would be read at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tensorsmith.errors import UserError
from tensorsmith.runtime.arguments import in_order
from tensorsmith.runtime.buffers import round_up
from tensorsmith.runtime.built import ARENA, CONSTANT, INPUT, OUTPUT, Guard, Network, Place, Step
from tensorsmith.runtime.executable import Executable


@dataclass(frozen=True)
class IndexLimit:
    """A dimension that is read at indices from data, and the text of a read."""

    stage: str
    tensor: str
    dimension: int
    extent: int
    text: str


def guarded(network: Network, furthest: Network, extents: Sequence[int]) -> tuple[Network, Guard]:
    """Both networks as one: first the one that finds how far indices go, its outputs in the arena, then the other.

    Neither may have its scratch memory in the arena: they are single kernels.
    """
    assert not network.arena_threads and not furthest.arena_threads and not furthest.arena_bytes
    names = [a.name for a in network.inputs]
    at = round_up(network.arena_bytes)
    found = [at + n * round_up(8) for n in range(len(furthest.outputs))]

    def moved(place: Place) -> Place:
        if place.kind == INPUT:
            return Place(INPUT, names.index(furthest.inputs[place.at].name))
        if place.kind == OUTPUT:
            return Place(ARENA, found[place.at])
        return Place(CONSTANT, place.at + len(network.constants))

    def step(s: Step) -> Step:
        return replace(s, kernel=None if s.kernel is None else s.kernel + len(network.kernels), places=tuple(map(moved, s.places)))

    both = replace(
        network,
        kernels=(*network.kernels, *furthest.kernels),
        steps=(*map(step, furthest.steps), *network.steps),
        constants=(*network.constants, *furthest.constants),
        arena_bytes=at + len(found) * round_up(8),
        unbound={**network.unbound, **furthest.unbound},
    ).check()
    return both, Guard(len(furthest.steps), tuple(zip(found[::2], found[1::2], extents, strict=True)))


class CheckedExecutable(Executable):
    """Calls it checks; `prepare`, `benchmark` and `profile` run the code alone, which clamps.

    The outputs of `furthest` are the least and the largest index of each of the `limits`, in their order.
    """

    def __init__(self, unchecked: Executable, furthest: Executable, limits: Sequence[IndexLimit]) -> None:
        super().__init__(unchecked.network, unchecked._loaded)
        self._furthest, self._limits = furthest, tuple(limits)

    def __call__(self, *args: Any, out: Any = None, **named: Any) -> Any:
        args = in_order(self.name, self._input_names, args, named)
        self._check(dict(zip(self._input_names, args)))
        return super().__call__(*args, out=out)

    def bind(self, **constants: Any) -> Executable:
        checked = {a.name for a in self._furthest.inputs}
        unchecked = super().bind(**constants)
        furthest = self._furthest.bind(**{name: x for name, x in constants.items() if name in checked})
        made = CheckedExecutable(unchecked, furthest, self._limits)
        made.origin = unchecked.origin
        return made

    def save(self, path: str | Path) -> None:
        raise UserError(f"{self.name} checks indices, which a file cannot; compile it without check_indices to save it")

    def __reduce__(self) -> tuple[Any, ...]:
        return CheckedExecutable, (Executable(self.network, self._loaded), self._furthest, self._limits)

    def _exported(self) -> tuple[Network, Guard]:
        return guarded(self.network, self._furthest.network, [limit.extent for limit in self._limits])

    def _like(self, executable: Executable) -> Executable:
        return CheckedExecutable(executable, self._furthest, self._limits)

    def _check(self, inputs: dict[str, Any]) -> None:
        found = [int(x) for x in self._furthest(**{a.name: inputs[a.name] for a in self._furthest.inputs})]
        for limit, least, most in zip(self._limits, found[::2], found[1::2]):
            wrong = least if least < 0 else most
            if not 0 <= wrong < limit.extent and least <= most:
                raise UserError(
                    f"stage {limit.stage}: `{limit.text}` reads dimension {limit.dimension} of {limit.tensor} at {wrong}; "
                    f"allowed are 0..{limit.extent - 1}"
                )
