"""What a timed run finds when it begins. Programs are called in more than one way, and the fastest in one is not so in another.

A search runs a kernel *alone*: again and again from compiled code, on arguments that stay in place. Nobody calls it so. Whoever
calls an executable from Python has arrays where NumPy puts them, gets a fresh array for every result, and runs some microseconds
of Python in between. For a program of five microseconds that is another contest, so the other conditions are calls as users make
them (`calls.py`).

A pause of some milliseconds is enough for the threads to sleep, and for others to use the caches meanwhile: calls after it take
several times as long as calls back to back, and programs that are equal back to back differ there.
"""

from __future__ import annotations

import enum
import functools
import time
from collections.abc import Sequence

import numpy as np

from tensorsmith.build import build_default, kernel_alone
from tensorsmith.lang.define import compute, placeholder, workload
from tensorsmith.measure.calls import Calls
from tensorsmith.measure.timing import Plan, Rounds, time_rounds
from tensorsmith.runtime.executable import executable
from tensorsmith.runtime.running import Prepared
from tensorsmith.targets.target import Target

_PAUSE = 0.02  # seconds


class Condition(enum.Enum):
    """How a program is called."""

    ALONE = "alone"  # the kernel again and again, with no Python in between: what a trial's seconds are
    BACK_TO_BACK = "back to back"  # called again and again: the threads are awake, the caches as its last call left them
    PAUSED = "after a pause"  # called when the threads sleep
    COLD = "caches cold"  # called when the threads are awake, and the caches full of other things


def deciding(conditions: Sequence[Condition]) -> tuple[Condition, ...]:
    """Those that a program has to win under, the first of them surely: those of callers. A step of a network has no caller."""
    return tuple(c for c in conditions if c is not Condition.ALONE) or (Condition.ALONE,)


def one_call(calls: Calls, condition: Condition, target: Target, plan: Plan) -> Rounds:
    """A round of a program that is called under a condition: one call, or as many as the plan says where they come back to back."""
    if condition is Condition.BACK_TO_BACK:
        return time_rounds(calls.seconds, plan)
    if condition is Condition.PAUSED:
        time.sleep(_PAUSE)
    else:
        _sweep(target, calls.threads).repeat(1)
    return Rounds((calls.seconds(1),), False)


@functools.lru_cache(maxsize=1)
def _sweep(target: Target, threads: int) -> Prepared:
    """A program that leaves nothing else in the caches of all threads."""
    size = max(target.shared_cache_bytes, threads * target.core_cache_bytes) // 4  # of f32, to be read; as many are written
    x = placeholder((size,), name="X")
    sweep = workload([x, compute((size,), lambda i: x[i] + 1.0, name="Y")])
    kernel, _ = build_default(sweep, target)
    return executable(kernel_alone(sweep, kernel)).prepare(np.zeros(size, np.float32), threads=threads)
