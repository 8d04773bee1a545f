"""A candidate in the names of another workload that is the same computation.

Records are found by what a workload computes, whatever its tensors and axes are called; candidates speak of both by name. So a
candidate is translated, place by place: the first stage of one workload is the first of the other. Rewrites make stages and axes
with names of their own (`C.cache`, `B.pack`, `k_f`), so both workloads are rewritten step by step, and after each step places are
compared again. Nothing is read out of a name.
"""

from __future__ import annotations

from typing import Any

from tensorsmith.errors import UserError
from tensorsmith.lang.workload import Workload
from tensorsmith.space.sketch.rewrite import apply_rewrites, rewrite_from_json
from tensorsmith.space.sketch.sketch import Candidate, Sketch


def renamed(candidate: Candidate, workload: Workload) -> Candidate:
    """The candidate for a workload of the same computation. Raises where a name that a rewrite makes is taken there."""
    sketch, holes = renamed_sketch(candidate.sketch, workload)
    return Candidate(sketch, {holes[hole]: value for hole, value in candidate.decisions.items()})


def renamed_sketch(sketch: Sketch, workload: Workload) -> tuple[Sketch, dict[str, str]]:
    """The sketch for a workload of the same computation, and what its holes are called there."""
    form = sketch.to_json()
    here, there = sketch.workload, workload
    rewrites = []
    for rewrite in form["rewrites"]:
        rewrites.append(_Names(here, there).rewrite(rewrite))
        here = apply_rewrites(here, [rewrite_from_json(rewrite)])
        there = apply_rewrites(there, [rewrite_from_json(rewrites[-1])])
    names = _Names(here, there)
    found = Sketch.from_json(workload, {"rewrites": rewrites, "nests": [names.nest(n) for n in form["nests"]]})
    return found, dict(zip(sketch.holes, found.holes, strict=True))


class _Names:
    """What tensors and axes of one workload are called in another."""

    def __init__(self, here: Workload, there: Workload) -> None:
        self.tensors = dict(zip(here.buffers, there.buffers, strict=True))
        self.axes = {
            a.name: dict(zip((x.name for x in a.all_axes), (x.name for x in b.all_axes), strict=True))
            for a, b in zip(here.stages, there.stages, strict=True)
        }

    def rewrite(self, form: list[Any]) -> list[Any]:
        kind, stage, *rest = form
        if kind == "rfactor":
            axis, *numbers = rest
            return [kind, self.tensors[stage], self.axes[stage][axis], *numbers]
        if kind in ("cache_read", "fetch"):
            (tensor,) = rest
            return [kind, self.tensors[stage], self.tensors[tensor]]
        if rest:
            raise UserError(f"the rewrite {kind} cannot be told in other names")
        return [kind, self.tensors[stage]]

    def nest(self, form: dict[str, Any]) -> dict[str, Any]:
        stage = form["stage"]
        translate = {
            "stage": self.tensors.__getitem__,
            "loops": lambda loops: " ".join(loop if loop == "|" else self._loop(stage, loop) for loop in loops.split()),
            "vector": lambda loop: self._loop(stage, loop),
            "at": self._point,
            "packed": lambda tensors: [self.tensors[t] for t in tensors],
            "follows": self.tensors.__getitem__,
            "also": list,  # kinds of holes
            "group": lambda loop: self._loop(stage, loop),
        }
        unknown = set(form) - set(translate)
        if unknown:
            raise UserError(f"a nest with {', '.join(sorted(unknown))} cannot be told in other names")
        return {name: translate[name](value) for name, value in form.items()}

    def _loop(self, stage: str, loop: str) -> str:
        axis, _, part = loop.rpartition(".")
        return f"{self.axes[stage][axis]}.{part}"

    def _point(self, point: str) -> str:
        stage, _, depth = point.rpartition(":")
        return f"{self.tensors[stage]}:{depth}"
