"""What a record is found by: the workload's canonical key, the target's key, and how the time was taken.

Each part is stored with what it was made of, so that a miss can be explained.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from dataclasses import dataclass
from typing import Any

from tensorsmith.errors import UserError
from tensorsmith.lang.workload import Workload
from tensorsmith.search.trial import CACHES as CACHES
from tensorsmith.search.trial import Cache as Cache
from tensorsmith.space.sketch.sketch import Candidate

#: The `cache` of times that were taken in a network: a run finds in the caches what the kernels before it have left there.
IN_NETWORK = "network"


@dataclass(frozen=True)
class Timing:
    """How a time was taken: what the runs found in the caches (`search.trial.Cache`, or `IN_NETWORK`), and on how many threads."""

    cache: str = "warm"
    threads: int = 1

    def __post_init__(self) -> None:
        if self.cache not in (*CACHES, IN_NETWORK):
            raise UserError(f"timing with a {self.cache!r} cache is not known; it is one of {', '.join((*CACHES, IN_NETWORK))}")
        if isinstance(self.threads, bool) or not isinstance(self.threads, int) or not 0 < self.threads < 1 << 31:
            raise UserError(f"timing with {self.threads!r} threads; give a whole number, at least 1")

    def __str__(self) -> str:
        where = "in a network" if self.cache == IN_NETWORK else f"{self.cache} cache"
        return f"{where}, {self.threads} thread{'s' if self.threads > 1 else ''}"


def canonical_json(data: Any) -> str:
    """One text for equal data; NumPy integers are written as integers."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), default=int)


def candidate_key(candidate: Candidate) -> str:
    """A stable identity of a candidate within its workload, in its names: 16 hex digits over sketch and decisions."""
    return _digest(canonical_json(candidate.to_json()))


def structure_key(workload: Workload) -> str:
    """What workloads that differ in their shapes and names alone have in common.

    Extents are left out, and so are the values of index constants, since bounds of padding and strides follow the shape.
    """
    data = workload.canonical.to_json()
    for b in data["inputs"]:
        b[1] = len(b[1])
    for stage in data["stages"]:
        stage["axes"] = [name for name, _ in stage["axes"]]
        if "reduce" in stage:
            stage["reduce"] = [stage["reduce"][0], [name for name, _ in stage["reduce"][1]]]
        for name in ("parts", "body"):
            if name in stage:
                stage[name] = _without_index_constants(stage[name])
    return _digest(canonical_json(data))


def shape_distance(a: Workload, b: Workload) -> float:
    """How far apart the shapes of two workloads of one structure are: the sum over axes of |log2 of the ratio|."""
    pairs = zip((x for s in a.stages for x in s.all_axes), (x for s in b.stages for x in s.all_axes))
    return sum(abs(math.log2(max(x.extent, 1) / max(y.extent, 1))) for x, y in pairs)


def timing_differences(here: Timing, there: Timing) -> list[str]:
    """`cache warm != cold`, `threads 1 != 2`"""
    parts = [(f.name, getattr(here, f.name), getattr(there, f.name)) for f in dataclasses.fields(Timing)]
    return [f"{name} {mine} != {other}" for name, mine, other in parts if mine != other]


def _without_index_constants(body: Any) -> Any:
    if not isinstance(body, list) or not body:
        return body
    if body[0] == "const" and body[2] == "i64":
        return ["const", "i64"]
    return [_without_index_constants(x) for x in body]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
