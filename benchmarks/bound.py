"""The least time that this machine allows a workload: its arithmetic, its bytes, and a call; all measured on the spot.

    arithmetic    operations that are left when taps on padding are not computed, of the formulation that needs fewest (of
                  Winograd's the products alone), at the FMA peak of the same minute
    bytes         inputs and results once, at the bandwidth of the cache level that holds all of them
    call          what a kernel takes that computes next to nothing

The bound is the largest of the three. No program of any of our formulations can be faster; a formulation that is not ours might.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import math
from dataclasses import dataclass
from time import perf_counter

import numpy as np

import tensorsmith as ts
from ours import kernel
from tensorsmith.backends.cpu.link import link
from tensorsmith.backends.cpu.llvm import compile_ir
from tensorsmith.backends.cpu.target import CpuTarget
from tensorsmith.lang.workload import Workload
from tensorsmith.runtime.buffers import aligned_zeros
from tensorsmith.runtime.device import Loaded, peak_round
from tensorsmith.runtime.pool import Pool, shared, with_threads
from tensorsmith.targets.target import native
from tensorsmith.tuning.roofline import work

_ROUNDS = 12
_ROUND_SECONDS = 4e-3
_PARTS = 8  # of a thread's share of an array
_CHAINS = 16  # loads that do not wait for each other


@dataclass(frozen=True)
class Level:
    """A level of the memory: what it holds, of all cores together, and the bytes per second that all of them read from it."""

    name: str
    holds: float
    bytes_per_second: float


@dataclass(frozen=True)
class Rates:
    """What the machine can do: f32 operations per second, levels of memory from the nearest on, seconds of a call."""

    flops: float
    levels: tuple[Level, ...]
    call: float


@dataclass(frozen=True)
class Bound:
    """Seconds at least, by what limits."""

    arithmetic: float
    bytes: float
    level: str  # that holds inputs and results
    call: float

    @property
    def seconds(self) -> float:
        return max(self.arithmetic, self.bytes, self.call)

    @property
    def limit(self) -> str:
        """What the bound is of: "FMA", the level of memory, or "call"."""
        parts = {"FMA": self.arithmetic, self.level: self.bytes, "call": self.call}
        return max(parts, key=parts.__getitem__)  # the first of equal ones


def bound(workload: Workload, rates: Rates, streamed: bool = False) -> Bound:
    """The bound of a workload whose inputs were used before: its caches are warm. `streamed`: its constants come from memory."""
    needs = work(workload)
    moved = needs.bytes
    level = next((one for one in rates.levels if moved <= one.holds), rates.levels[-1])
    seconds, name = moved / level.bytes_per_second, level.name
    constants = min(moved, sum(b.bytes for b in workload.inputs if b.constant)) / rates.levels[-1].bytes_per_second
    if streamed and constants > seconds:
        seconds, name = constants, rates.levels[-1].name
    return Bound(needs.needed_flops / rates.flops, seconds, name, rates.call)


# -- the machine -----------------------------------------------------------------------------------------------------------


def measure_rates(rounds: int = _ROUNDS) -> Rates:
    """Of this machine, now: the best of some rounds, in which levels, peak and call take turns. About a second."""
    target = native()
    assert isinstance(target, CpuTarget)
    cores = target.cores
    sizes = {
        "L1": (cores * target.l1_bytes, cores * target.l1_bytes // 2),
        "L2": (cores * target.l2_bytes, cores * target.l2_bytes // 2),
        "L3": (max(target.l3_bytes, 2 * cores * target.l2_bytes), max(target.l3_bytes // 2, cores * target.l2_bytes)),
        "memory": (math.inf, min(max(4 * target.l3_bytes, 64 << 20), 256 << 20)),
    }
    with with_threads(cores) as pool:
        readers = {name: _Reader(size, pool, target) for name, (_, size) in sizes.items()}
        call = _smallest_call()
        best = dict.fromkeys(readers, 0.0)
        peak, least = 0.0, math.inf
        for _ in range(rounds):
            for name, reader in readers.items():
                best[name] = max(best[name], reader.run_once())
            peak = max(peak, peak_round(cores))
            least = min(least, call())
    rates = list(itertools.accumulate(reversed(best.values()), max))[::-1]  # what is nearer is not slower
    levels = tuple(Level(name, sizes[name][0], rate) for name, rate in zip(best, rates))
    return Rates(peak, levels, least)


class _Reader:
    """Threads that read an array again and again, each its own part of it."""

    def __init__(self, size: int, pool: Pool, target: CpuTarget) -> None:
        self._pool, self._code = pool, _read_code()
        self._parts = _PARTS * pool.threads
        step = _CHAINS * target.vector_bytes
        self._each = max(step, size // self._parts // step * step)
        self._array = aligned_zeros((self._each * self._parts,), "u1")
        self._array[::64] = 1
        self._passes = 1
        while self._run() < _ROUND_SECONDS and self._passes < 1 << 20:
            self._passes *= 2

    def run_once(self) -> float:
        """Bytes per second."""
        return self._each * self._parts * self._passes / self._run()

    def _run(self) -> float:
        context = np.array([self._each, self._array.ctypes.data, self._passes, 0], np.int64)
        run = _PARALLEL_FOR(self._pool.parallel_for_address)
        arguments = (self._pool.handle, self._code.address("read"), context.ctypes.data, self._parts)
        start = perf_counter()
        run(*arguments)
        return perf_counter() - start


_PARALLEL_FOR = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)


@functools.cache
def _read_code() -> Loaded:
    """A region body that reads parts [begin, end) so many times: ctx is i64 bytes of a part, ptr, i64 passes, and a place for the
    sum, so that no load can be dropped."""
    target = native()
    assert isinstance(target, CpuTarget)
    width = target.vector_bytes
    vector = f"<{width // 4} x i32>"
    phis = "\n".join(f"  %a{c} = phi {vector} [ %o{c}, %pass ], [ %b{c}, %loop ]" for c in range(_CHAINS))
    outer = "\n".join(f"  %o{c} = phi {vector} [ zeroinitializer, %entry ], [ %b{c}, %passed ]" for c in range(_CHAINS))
    steps = "\n".join(
        f"  %p{c} = getelementptr i8, ptr %at, i64 {c * width}\n"
        f"  %v{c} = load volatile {vector}, ptr %p{c}, align {width}\n"
        f"  %b{c} = add {vector} %a{c}, %v{c}"
        for c in range(_CHAINS)
    )
    sums = "\n".join(f"  %s{c} = add {vector} {f'%s{c - 1}' if c else 'zeroinitializer'}, %b{c}" for c in range(_CHAINS))
    return link(
        compile_ir(
            f"""
define void @read(ptr %ctx, i64 %begin, i64 %end, i64 %thread) {{
entry:
  %size = load i64, ptr %ctx
  %array.at = getelementptr i64, ptr %ctx, i64 1
  %array = load ptr, ptr %array.at
  %passes.at = getelementptr i64, ptr %ctx, i64 2
  %passes = load i64, ptr %passes.at
  %first = mul i64 %begin, %size
  %last = mul i64 %end, %size
  br label %pass
pass:
  %t = phi i64 [ 0, %entry ], [ %t.next, %passed ]
{outer}
  br label %loop
loop:
  %n = phi i64 [ %first, %pass ], [ %n.next, %loop ]
{phis}
  %at = getelementptr i8, ptr %array, i64 %n
{steps}
  %n.next = add i64 %n, {_CHAINS * width}
  %more = icmp ult i64 %n.next, %last
  br i1 %more, label %loop, label %passed
passed:
  %t.next = add i64 %t, 1
  %again = icmp ult i64 %t.next, %passes
  br i1 %again, label %pass, label %done
done:
{sums}
  %total = call i32 @llvm.vector.reduce.add.v{width // 4}i32({vector} %s{_CHAINS - 1})
  %out = getelementptr i64, ptr %ctx, i64 3
  store volatile i32 %total, ptr %out
  ret void
}}
""",
            target,
        )
    )


def _smallest_call() -> functools.partial[float]:
    """Times a kernel that adds eight numbers, without Python between its calls."""
    a, b = (ts.placeholder((8,), name=name) for name in "ab")
    executable = ts.compile([a, b, ts.compute((8,), lambda i: a[i] + b[i], name="c")])
    inputs = {name: aligned_zeros((8,), np.float32) for name in "ab"}
    return functools.partial(_seconds, kernel(executable, inputs, shared().threads).alone.repeat)


def _seconds(repeat: object, count: int = 2000) -> float:
    start = perf_counter()
    repeat(count)  # type: ignore[operator]
    return (perf_counter() - start) / count
