"""An executable whose calls are refused where an index that comes from data is out of bounds.

Before each call another executable runs, which finds the least and the largest index that each such dimension would be read at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tensorsmith.errors import UserError
from tensorsmith.runtime.arguments import in_order
from tensorsmith.runtime.executable import Executable


@dataclass(frozen=True)
class IndexLimit:
    """A dimension that is read at indices from data, and the text of a read."""

    stage: str
    tensor: str
    dimension: int
    extent: int
    text: str


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
        return CheckedExecutable(unchecked, furthest, self._limits)

    def save(self, path: str | Path) -> None:
        raise UserError(f"{self.name} checks indices, which a file cannot; compile it without check_indices to save it")

    def __reduce__(self) -> tuple[Any, ...]:
        return CheckedExecutable, (Executable(self.network, self._loaded), self._furthest, self._limits)

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
