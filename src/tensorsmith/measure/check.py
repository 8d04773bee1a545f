"""Is the answer right? `lang.compare.difference` decides; most answers are accepted by a cheaper test that is stricter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tensorsmith.lang.compare import difference, tolerance
from tensorsmith.lang.workload import Workload

Array = np.ndarray[Any, np.dtype[Any]]

_STRICTER = 0.9  # of the tolerance, so that rounding of the cheap test never accepts what `difference` would not


class Reference:
    """The right outputs of a workload, and what may be accepted in their place."""

    def __init__(self, workload: Workload, outputs: Mapping[str, Array], slack: float = 1.0) -> None:
        """`slack` widens the tolerance, for answers of another formulation, whose rounding is larger."""
        self.workload, self.slack = workload, slack
        self.outputs = dict(outputs)
        self._bounds = {name: self._bound(name, want) for name, want in outputs.items()}

    def problem(self, answers: Sequence[Array]) -> str | None:
        """What is wrong with the answers, in the order of the workload's outputs; None if nothing is."""
        for name, got in zip(self.workload.outputs, answers):
            if not self._obviously_right(name, got):
                found = difference(self.workload, name, got, self.outputs[name], self.slack)
                if found is not None:
                    return found
        return None

    def _bound(self, name: str, want: Array) -> Array | None:
        if want.dtype not in (np.float32, np.float64) or not want.size:
            return None
        wide = want.astype(np.float64)
        if not np.isfinite(wide).all():
            return None
        size = np.sqrt(np.mean(np.square(wide)))
        share = self.slack * tolerance(self.workload, name)
        return np.asarray(_STRICTER * share * (np.abs(wide) + size)).astype(want.dtype)

    def _obviously_right(self, name: str, got: Array) -> bool:
        bound, want = self._bounds[name], self.outputs[name]
        if bound is None or got.shape != want.shape or got.dtype != want.dtype:
            return False
        with np.errstate(all="ignore"):
            return bool((np.abs(got - want) <= bound).all())
