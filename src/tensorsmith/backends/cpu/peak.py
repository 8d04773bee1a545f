"""What this machine can do, measured now: its FMA peak and its memory bandwidth."""

from __future__ import annotations

import ctypes
import functools
from time import perf_counter

import numpy as np

from tensorsmith.backends.cpu.link import link
from tensorsmith.backends.cpu.llvm import compile_ir
from tensorsmith.backends.cpu.target import CpuTarget
from tensorsmith.runtime.buffers import aligned_zeros
from tensorsmith.runtime.device import Loaded
from tensorsmith.runtime.pool import Pool, shared, with_threads
from tensorsmith.targets.target import Target

_ROUNDS = 10
_ROUND_SECONDS = 6e-3
_PARTS = 16  # of a thread's work, so that a thread that starts late holds up the others little
_COPY_ROUNDS = 6
_MAX_COPY_BYTES = 256 << 20  # per array; keeps a machine with a huge cache from taking seconds


def measure_peak() -> dict[str, float]:
    """FMA peak in f32 operations per second of all cores ("flops") and of one ("flops_one_core"), and memory
    bandwidth in bytes read plus written per second ("bytes"). Best of several interleaved rounds; below a second."""
    kernel = peak_kernel()
    cores = shared().threads
    one = every = 0.0
    for _ in range(_ROUNDS):
        one = max(one, kernel.run_once(1))
        every = max(every, kernel.run_once(cores))
    return {"flops": every, "flops_one_core": one, "bytes": _bandwidth()}


def _here() -> CpuTarget:
    target = Target.native()
    assert isinstance(target, CpuTarget)
    return target


@functools.cache
def peak_kernel() -> FmaPeak:
    """The FMA kernel of this machine, built once. Run it between other kernels to see the peak they could have had."""
    return FmaPeak(_here())


class FmaPeak:
    """Independent chains of vector fused multiply-adds, enough of them to keep all FMA units busy."""

    def __init__(self, target: CpuTarget) -> None:
        chains = 24 if target.vector_registers >= 32 else 12
        self._flops_per_step = 2 * target.lanes(4) * chains
        self._code = link(compile_ir(_fma_ir(target.lanes(4), chains), target))
        self._steps_per_second = self._calibrate()

    def run_once(self, threads: int, seconds: float = _ROUND_SECONDS) -> float:
        """f32 operations per second on that many threads, of one round that takes about that long."""
        steps = int(self._steps_per_second * seconds) + 1
        with with_threads(threads) as pool:
            self._run(pool, 1)  # wakes the workers
            took = self._run(pool, steps)
            return self._flops_per_step * steps * _PARTS * pool.threads / took

    def _calibrate(self) -> float:
        with with_threads(1) as pool:
            steps = 100
            while (seconds := min(self._run(pool, steps) for _ in range(3))) < _ROUND_SECONDS / 4:
                steps *= 2
            return steps / seconds

    def _run(self, pool: Pool, steps: int) -> float:
        return _parallel_for(pool, self._code, "fma", np.array([steps, 0, 0], np.int64), _PARTS * pool.threads)


def _bandwidth() -> float:
    target = _here()
    size = min(max(2 * target.l3_bytes, 32 << 20), _MAX_COPY_BYTES)  # two arrays: four times the cache
    parts = 64 * shared().threads
    size -= size % (parts * target.vector_bytes)
    source, destination = aligned_zeros((size,), "u1"), aligned_zeros((size,), "u1")
    source[::4096] = 1  # a page that was never written is the same page of zeros everywhere
    destination[::4096] = 1
    context = np.array([size // parts, source.ctypes.data, destination.ctypes.data], np.int64)
    code = _copy_code()
    return max(2 * size / _parallel_for(shared(), code, "copy", context, parts) for _ in range(_COPY_ROUNDS))


def _parallel_for(pool: Pool, code: Loaded, body: str, context: np.ndarray, count: int) -> float:
    """Seconds that the region takes."""
    run = _PARALLEL_FOR(pool.parallel_for_address)
    arguments = (pool.handle, code.address(body), context.ctypes.data, count)
    start = perf_counter()
    run(*arguments)
    return perf_counter() - start


_PARALLEL_FOR = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)


def _fma_ir(lanes: int, chains: int) -> str:
    """A region body: `steps` steps of one multiply-add in every chain, for each index. The factors come from memory and
    the sum of the chains goes there, so LLVM can neither compute nor drop anything."""
    vector = f"<{lanes} x float>"
    phis = "\n".join(f"  %a{c} = phi {vector} [ %start{c}, %entry ], [ %b{c}, %loop ]" for c in range(chains))
    starts = "\n".join(f"  %start{c} = fadd {vector} %zero, splat (float {c + 1}.0)" for c in range(chains))
    steps = "\n".join(
        f"  %b{c} = call {vector} @llvm.fmuladd.v{lanes}f32({vector} %a{c}, {vector} %x, {vector} %y)" for c in range(chains)
    )
    sums = "\n".join(f"  %s{c} = fadd {vector} {f'%s{c - 1}' if c else 'zeroinitializer'}, %b{c}" for c in range(chains))
    return f"""
define void @fma(ptr %ctx, i64 %begin, i64 %end, i64 %thread) {{
entry:
  %count = sub i64 %end, %begin
  %steps.each = load i64, ptr %ctx
  %steps = mul i64 %count, %steps.each
  %zero.at = getelementptr i64, ptr %ctx, i64 1
  %zero.one = load float, ptr %zero.at
  %zero.first = insertelement {vector} poison, float %zero.one, i64 0
  %zero = shufflevector {vector} %zero.first, {vector} poison, <{lanes} x i32> zeroinitializer
  %x = fadd {vector} %zero, splat (float 5.000000e-01)
  %y = fadd {vector} %zero, splat (float 1.000000e+00)
{starts}
  br label %loop
loop:
  %n = phi i64 [ 0, %entry ], [ %n.next, %loop ]
{phis}
{steps}
  %n.next = add i64 %n, 1
  %more = icmp ult i64 %n.next, %steps
  br i1 %more, label %loop, label %done
done:
{sums}
  %total = call float @llvm.vector.reduce.fadd.v{lanes}f32(float 0.0, {vector} %s{chains - 1})
  %out = getelementptr i64, ptr %ctx, i64 2
  store volatile float %total, ptr %out
  ret void
}}
"""


@functools.cache
def _copy_code() -> Loaded:
    """A region body that copies parts [begin, end): ctx is i64 bytes of a part, ptr source, ptr destination. The stores
    bypass the caches; ordinary ones would first read the lines they overwrite, unseen by the count of bytes."""
    target = _here()
    vector = f"<{target.vector_bytes} x i8>"
    text = f"""
define void @copy(ptr %ctx, i64 %begin, i64 %end, i64 %thread) {{
entry:
  %size = load i64, ptr %ctx
  %source.at = getelementptr i64, ptr %ctx, i64 1
  %destination.at = getelementptr i64, ptr %ctx, i64 2
  %source = load ptr, ptr %source.at
  %destination = load ptr, ptr %destination.at
  %first = mul i64 %begin, %size
  %last = mul i64 %end, %size
  br label %loop
loop:
  %n = phi i64 [ %first, %entry ], [ %n.next, %loop ]
  %from = getelementptr i8, ptr %source, i64 %n
  %to = getelementptr i8, ptr %destination, i64 %n
  %v = load {vector}, ptr %from, align {target.vector_bytes}
  store {vector} %v, ptr %to, align {target.vector_bytes}, !nontemporal !0
  %n.next = add i64 %n, {target.vector_bytes}
  %more = icmp ult i64 %n.next, %last
  br i1 %more, label %loop, label %done
done:
  fence seq_cst
  ret void
}}
!0 = !{{i32 1}}
"""
    return link(compile_ir(text, target))
