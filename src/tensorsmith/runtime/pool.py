"""The thread pool that parallel regions of generated code run on, itself written in LLVM IR.

    void parallel_for(ptr pool, ptr body, ptr ctx, i64 count)
    void body(ptr ctx, i64 begin, i64 end, i64 thread)

`parallel_for` runs `body` over [0, count) and returns when all of it is done. The calling thread is thread 0 and takes
part. Workers are daemon Python threads that stay inside `worker` of `pool_ir`; ctypes has released the GIL for them.

Work: every thread owns a contiguous share of [0, count) and takes it in chunks from an atomic counter; a thread whose
share is used up takes chunks from the other shares.

Entering: workers are free to come late. A region opens a gate, and a worker that sees the gate open counts itself in.
When the caller finds no chunk left it closes the gate and waits only for those inside. So a sleeping or
descheduled worker never delays a region that the others can finish, and a tiny region costs one store and one check.

Serial: with one thread, `count` <= 1, or the pool in use (by another Python thread, or by the region this one is nested
in), the caller runs `body(ctx, 0, count, 0)` itself. Scratch memory indexed by `thread` is therefore safe as long as
calls that may overlap have their own; a nested region must not use its parent's.

Waiting: a worker polls the gate for some 50 microseconds, then sleeps on a futex; an idle pool uses no CPU time.

Placing: a thread that is woken may be put on the CPU of the one that wakes it, and it takes the kernel milliseconds to see
that this halves the speed of both. So whoever wakes workers first bars them from the CPU it is running on (Linux; only if it
came to another CPU since the last time, and only if there are CPUs enough).

The code is `pool_ir`'s, a part of the process's driver, so compiled and loaded executables share one pool.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import os
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from time import perf_counter

import numpy as np

from tensorsmith.errors import UserError
from tensorsmith.runtime.buffers import aligned_zeros
from tensorsmith.runtime.device import Loaded
from tensorsmith.runtime.driver import process_driver
from tensorsmith.runtime.pool_ir import AT, MASK_BYTES
from tensorsmith.targets.host import thread_count

_POLL_SECONDS = 50e-6
_WARM_UP_SECONDS = 20e-3


class Pool:
    """`threads` threads, the caller's included. Generated code gets `handle` and `parallel_for_address`."""

    def __init__(self, threads: int) -> None:
        if threads < 1:
            raise UserError(f"a pool needs at least 1 thread, {threads} asked for")
        self.threads = threads if _can_sleep() else 1
        self._code = process_driver()
        self._memory = aligned_zeros((AT["SHARES"] + 128 * self.threads,), "u1")
        self.handle: int = self._memory.ctypes.data
        self.parallel_for_address: int = self._code.address("parallel_for")
        self._field("THREADS").value = self.threads
        self._field("POLLS").value = _polls()
        self._place()
        self._workers = [
            threading.Thread(target=_work, args=(self._code, self._memory, n), name=f"tensorsmith-{n}", daemon=True)
            for n in range(1, self.threads)
        ]
        for worker in self._workers:
            worker.start()

    def close(self, timeout: float = 1.0) -> None:
        """Let the workers go; waits at most `timeout` seconds for each. Regions still run, on their caller alone."""
        _function(self._code, "stop", ctypes.c_void_p)(self.handle)
        for worker in self._workers:
            worker.join(timeout)

    def _place(self) -> None:
        """Says which CPUs there are, if workers are to be kept away from their caller's."""
        allowed = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        enough = 1 < self.threads <= len(allowed) and allowed[-1] < 8 * MASK_BYTES
        home = ctypes.c_int32.from_address(self.handle + AT["HOME"])
        home.value = -1 if enough else -2
        for cpu in allowed if enough else []:
            self._memory[AT["ALLOWED"] + cpu // 8] |= 1 << cpu % 8

    def _field(self, name: str) -> ctypes.c_int64:
        return ctypes.c_int64.from_address(self.handle + AT[name])


def shared(own: int | None = None) -> Pool:
    """The process-wide pool of so many threads, made when first used: as many as `with_threads` says; else an executable's `own`
    number; else `thread_count()`."""
    threads = wanted.get()
    if threads is None:
        threads = own
    pool = _pools.get(threads)
    return pool if pool is not None else _make_shared(threads)


@contextlib.contextmanager
def with_threads(threads: int | None) -> Iterator[Pool]:
    """Inside, this Python thread's regions use a pool of that many threads; None: whatever an executable says, or the default."""
    token = wanted.set(threads)
    try:
        yield shared()
    finally:
        wanted.reset(token)


#: How many threads this Python thread wants; None: it does not say.
wanted: ContextVar[int | None] = ContextVar("threads", default=None)
_pools: dict[int | None, Pool] = {}  # by their number of threads; None: of the default number
_addresses: dict[int | None, dict[int | None, int]] = {}
_making = threading.Lock()


def addresses(own: int | None) -> dict[int | None, int]:
    """The handles of the pools there are, by what `wanted` says, for compiled code that looks for the pool of an executable whose
    `own` number of threads this is. The dictionary lives as long as the process, and is kept up to date."""
    with _making:
        if own not in _addresses:
            _addresses[own] = {}
            for number, pool in _pools.items():
                _publish(number, pool)
        return _addresses[own]


def _publish(number: int | None, pool: Pool) -> None:
    for own, known in _addresses.items():
        if number is not None:
            known[number] = pool.handle
        if number == own:
            known[None] = pool.handle


def _make_shared(threads: int | None) -> Pool:
    with _making:
        number = thread_count() if threads is None else threads
        pool = _pools.get(number) or Pool(number)
        for key in (number, threads):
            _pools[key] = pool
            _publish(key, pool)
        return pool


def _after_fork() -> None:
    """In the child: the workers are gone, so the next region makes a new pool."""
    global _making
    _making = threading.Lock()  # another thread of the parent may have held it
    _pools.clear()
    for known in _addresses.values():
        known.clear()


def _at_exit() -> None:
    for pool in set(_pools.values()):
        pool.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)


def measure_region_overhead(threads: int | None = None, rounds: int = 50, regions: int = 200) -> float:
    """Seconds that a region with an empty body takes, start to join, when warm: the median over rounds.

    The caller may finish an empty region before any worker enters, so this is the cost to the caller, not the time
    until another thread starts. On a loaded machine a worker may not be running, and then the cost is lower still.
    """
    with with_threads(threads) as pool:
        run = _function(process_driver(), "empty_regions", ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
        warm = perf_counter() + _WARM_UP_SECONDS  # until new workers have started, on cores of their own
        while perf_counter() < warm:
            run(pool.handle, pool.threads, regions)
        times = []
        for _ in range(rounds):
            start = perf_counter()
            run(pool.handle, pool.threads, regions)
            times.append((perf_counter() - start) / regions)
        return sorted(times)[rounds // 2]


def _work(code: Loaded, memory: np.ndarray, number: int) -> None:
    """Body of a worker's Python thread. The arguments keep code and pool in memory for as long as it runs."""
    ctypes.c_int32.from_address(memory.ctypes.data + AT["SHARES"] + 128 * number + 16).value = threading.get_native_id()
    _function(code, "worker", ctypes.c_void_p, ctypes.c_int64)(memory.ctypes.data, number)


def _function(code: Loaded, name: str, *arguments: type) -> Callable[..., None]:
    return ctypes.CFUNCTYPE(None, *arguments)(code.address(name))


@functools.cache
def _polls() -> int:
    """How many polls make `_POLL_SECONDS`: a pause takes from 10 to 140 cycles, depending on the machine."""
    pauses = _function(process_driver(), "pauses", ctypes.c_int64)
    best = float("inf")
    for _ in range(5):
        start = perf_counter()
        pauses(1000)
        best = min(best, perf_counter() - start)
    return max(100, int(_POLL_SECONDS / best * 1000))


def _can_sleep() -> bool:
    return os.name == "posix"
