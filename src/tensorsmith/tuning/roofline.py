"""The roofline: the least time that this machine allows a workload, so that nobody searches for what cannot be.

Only what is certain counts. Operations do where they all are of f32, without those that a program can skip (`needed.py`). Bytes do
as far as they exceed the caches, if those are warm. What a task is seen to reach raises the roof: the peak may have been measured
while the machine was busy.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.expr import Load, walk
from tensorsmith.lang.flops import flops
from tensorsmith.lang.workload import Workload
from tensorsmith.runtime.device import measure_peak
from tensorsmith.search.trial import Cache
from tensorsmith.targets.target import Target, native
from tensorsmith.tuning.needed import needed_flops

_OVERHEAD = 1e-6  # seconds that a call takes at least, in estimates
_NOMINAL_FLOPS, _NOMINAL_BYTES = 6e9, 1e10  # a second, of one lane of a core and of all of a machine that was not measured


@dataclass(frozen=True)
class Work:
    """What a workload has to do: operations, how many of them every program of it has to do, and bytes of memory to move."""

    flops: float
    needed_flops: float
    bytes: float


@functools.lru_cache(maxsize=1024)
def work(workload: Workload) -> Work:
    """The work of a workload."""
    written = sum(workload.buffers[name].bytes for name in workload.outputs)
    return Work(flops(workload), needed_flops(workload), written + _bytes_read(workload))


def _bytes_read(workload: Workload) -> float:
    """Of the inputs; no more than there are loads, since a gather reads a few rows of a large table."""
    loaded = dict.fromkeys((b.name for b in workload.inputs), 0)
    for stage in workload.stages:
        for e in walk(stage.body):
            if isinstance(e, Load) and e.tensor in loaded:
                loaded[e.tensor] += math.prod(a.extent for a in stage.all_axes)
    return sum(min(b.bytes, loaded[b.name] * dtype(b.dtype).bytes) for b in workload.inputs)


class Roofline:
    """What the machine can do at most: operations and bytes per second."""

    def __init__(self, target: Target, cache: Cache, peak: float, bandwidth: float, known: bool = True) -> None:
        """`known`: whether the machine was measured; else nothing is certain, and the two numbers only order tasks."""
        self._cached = 0 if cache == "cold" else target.shared_cache_bytes
        self.peak, self.bandwidth, self.known = peak, bandwidth, known

    @staticmethod
    def measured(target: Target, cache: Cache) -> Roofline:
        """That of this machine, measured once per process, in less than a second."""
        found = _peak()
        share = min(1.0, target.cores / native().cores)  # of the threads that the whole machine was measured with
        return Roofline(target, cache, max(share * found["flops"], target.cores * found["flops_one_core"]), found["bytes"])

    @staticmethod
    def unknown(target: Target, cache: Cache) -> Roofline:
        """That of a machine elsewhere: a core of some GHz with multiply-adds, and memory as of a board."""
        return Roofline(target, cache, target.cores * target.lanes() * _NOMINAL_FLOPS, _NOMINAL_BYTES, known=False)

    def estimate(self, workload: Workload) -> float:
        """Seconds, rough: good for an order of tasks before anything is measured."""
        w = work(workload)
        return max(w.flops / self.peak, w.bytes / self.bandwidth, _OVERHEAD)

    def bound(self, workload: Workload) -> float:
        """Seconds that no program of a workload can beat."""
        w = work(workload)
        return max(w.needed_flops / self.peak, self._from_memory(w) / self.bandwidth) if self.known else 0.0

    def raise_to(self, workload: Workload, seconds: float) -> bool:
        """A program took so long: the machine can do that. Whether that is news."""
        w = work(workload)
        peak, bandwidth = max(self.peak, w.needed_flops / seconds), max(self.bandwidth, self._from_memory(w) / seconds)
        news = (peak, bandwidth) != (self.peak, self.bandwidth)
        self.peak, self.bandwidth = peak, bandwidth
        return news

    def _from_memory(self, w: Work) -> float:
        return max(0.0, w.bytes - self._cached)


@functools.cache
def _peak() -> dict[str, float]:
    return measure_peak()
