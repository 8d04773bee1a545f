"""Parallel regions: every index exactly once, whatever the threads do; fork, exit and idling."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from tests.runtime.kernels import linked

from tensorsmith.errors import UserError
from tensorsmith.runtime import driver, pool
from tensorsmith.runtime.device import Loaded

# ctx points to a table of i64: entry i is incremented by 1 + (1 << 32) * thread of the thread that ran it.
# The nested body has a context (ptr pool, ptr parallel_for, ptr table) and runs 10 inner indices per outer one.
BODIES = """
define void @count(ptr %table, i64 %begin, i64 %end, i64 %thread) {
entry:
  %tag = shl i64 %thread, 32
  %more = add i64 %tag, 1
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %loop ]
  %at = getelementptr i64, ptr %table, i64 %i
  %old = load i64, ptr %at
  %new = add i64 %old, %more
  store i64 %new, ptr %at
  %next = add i64 %i, 1
  %again = icmp slt i64 %next, %end
  br i1 %again, label %loop, label %done
done:
  ret void
}

define void @nested(ptr %ctx, i64 %begin, i64 %end, i64 %thread) {
entry:
  %pool = load ptr, ptr %ctx
  %parallel_for.at = getelementptr ptr, ptr %ctx, i64 1
  %parallel_for = load ptr, ptr %parallel_for.at
  %table.at = getelementptr ptr, ptr %ctx, i64 2
  %table = load ptr, ptr %table.at
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %loop ]
  %offset = mul i64 %i, 10
  %part = getelementptr i64, ptr %table, i64 %offset
  call void %parallel_for(ptr %pool, ptr @count, ptr %part, i64 10)
  %next = add i64 %i, 1
  %again = icmp slt i64 %next, %end
  br i1 %again, label %loop, label %done
done:
  ret void
}

; ctx points to two i64. A worker says that it has begun, works for long, and says that it is done; the caller goes on to the end as
; soon as a worker has begun.
define void @slow_worker(ptr %ctx, i64 %begin, i64 %end, i64 %thread) {
entry:
  %finished = getelementptr i64, ptr %ctx, i64 1
  %is.caller = icmp eq i64 %thread, 0
  br i1 %is.caller, label %wait, label %work
wait:
  %begun = load atomic volatile i64, ptr %ctx acquire, align 8
  %waiting = icmp eq i64 %begun, 0
  br i1 %waiting, label %wait, label %done
work:
  store atomic volatile i64 1, ptr %ctx release, align 8
  br label %step
step:
  %n = phi i64 [ 0, %work ], [ %next, %step ]
  %looked = load volatile i64, ptr %ctx
  %next = add i64 %n, %looked
  %again = icmp slt i64 %next, 20000000
  br i1 %again, label %step, label %over
over:
  store atomic volatile i64 1, ptr %finished release, align 8
  br label %done
done:
  ret void
}
"""

PARALLEL_FOR = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)


@pytest.fixture(scope="module")
def bodies() -> Loaded:
    return linked(BODIES)


def run(where: pool.Pool, bodies: Loaded, table: np.ndarray, count: int) -> None:
    PARALLEL_FOR(where.parallel_for_address)(where.handle, bodies.address("count"), table.ctypes.data, count)


@pytest.mark.parametrize("threads", [1, 2, 3, 4])
def test_every_index_runs_once(threads, bodies):
    own = pool.Pool(threads)
    try:
        for count in [*range(34), 63, 64, 65, 1000, 100_003]:
            table = np.zeros(count + 1, np.int64)
            for _ in range(5):
                run(own, bodies, table, count)
            assert (table[:count] & 0xFFFFFFFF == 5).all() and table[count] == 0
            assert (table >> 32).max() <= 5 * (threads - 1)
    finally:
        own.close()


@pytest.mark.skipif(os.name != "posix", reason="needs workers")
def test_a_region_ends_when_the_last_worker_has(bodies):
    with pool.with_threads(2) as own:
        flags = np.zeros(2, np.int64)
        PARALLEL_FOR(own.parallel_for_address)(own.handle, bodies.address("slow_worker"), flags.ctypes.data, 2)
        assert flags.tolist() == [1, 1]


def test_many_regions_in_a_row(bodies):
    with pool.with_threads(3) as own:
        table = np.zeros(7, np.int64)
        for _ in range(5000):
            run(own, bodies, table, 7)
    assert (table & 0xFFFFFFFF == 5000).all()


def test_a_negative_count_is_no_work(bodies):
    table = np.zeros(4, np.int64)
    run(pool.shared(), bodies, table, -3)
    assert not table.any()


def test_regions_after_pauses_wake_the_workers(bodies):
    with pool.with_threads(2) as own:
        table = np.zeros(100, np.int64)
        for _ in range(20):
            time.sleep(0.001)  # long enough to fall asleep
            run(own, bodies, table, 100)
    assert (table & 0xFFFFFFFF == 20).all()


def test_several_python_threads_at_once(bodies):
    own = pool.shared()
    tables = [np.zeros(50, np.int64) for _ in range(4)]

    def loop(table: np.ndarray) -> None:
        for _ in range(500):
            run(own, bodies, table, 50)

    threads = [threading.Thread(target=loop, args=(table,)) for table in tables]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all((table & 0xFFFFFFFF == 500).all() for table in tables)


def test_nested_region(bodies):
    with pool.with_threads(3) as own:
        table = np.zeros(400, np.int64)
        ctx = (ctypes.c_uint64 * 3)(own.handle, own.parallel_for_address, table.ctypes.data)
        call = PARALLEL_FOR(own.parallel_for_address)
        for _ in range(50):
            call(own.handle, bodies.address("nested"), ctypes.addressof(ctx), 40)
    assert (table == 50).all()  # the inner regions are serial: thread 0


def test_a_closed_pool_still_runs(bodies):
    own = pool.Pool(2)
    own.close()
    own.close()
    table = np.zeros(30, np.int64)
    run(own, bodies, table, 30)
    assert (table == 1).all()
    assert not any(worker.is_alive() for worker in own._workers)


def test_closing_during_regions(bodies):
    for _ in range(20):
        own = pool.Pool(3)
        table = np.zeros(64, np.int64)

        def loop(own: pool.Pool = own, table: np.ndarray = table) -> None:
            for _ in range(200):
                run(own, bodies, table, 64)

        thread = threading.Thread(target=loop)
        thread.start()
        own.close()
        thread.join()
        assert (table & 0xFFFFFFFF == 200).all()


def test_shared_and_with_threads():
    assert pool.shared() is pool.shared()
    with pool.with_threads(3) as three:
        assert three.threads == 3 and pool.shared() is three
        with pool.with_threads(1):
            assert pool.shared().threads == 1
        assert pool.shared() is three
    assert pool.shared() is not three
    with pool.with_threads(None) as default:
        assert default is pool.shared()
    with pytest.raises(UserError, match="at least 1"):
        pool.Pool(0)


def test_with_threads_is_of_one_python_thread():
    seen = []
    with pool.with_threads(3):
        thread = threading.Thread(target=lambda: seen.append(pool.shared()))
        thread.start()
        thread.join()
    assert seen == [pool.shared()]


def test_region_overhead_is_a_time():
    assert 0 < pool.measure_region_overhead(2, rounds=5, regions=50) < 1


def test_an_idle_pool_uses_no_cpu():
    with pool.with_threads(4):
        pool.measure_region_overhead(4, rounds=2, regions=10)
        time.sleep(0.05)
        before = time.process_time()
        time.sleep(0.4)
        assert time.process_time() - before < 0.2  # three spinning workers would use twice the wall time


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_after_fork_the_child_has_its_own_pool(bodies):
    run(pool.shared(), bodies, np.zeros(10, np.int64), 10)
    parent = pool.shared()
    stop = threading.Event()

    def loop() -> None:
        table = np.zeros(1000, np.int64)
        while not stop.is_set():
            run(parent, bodies, table, 1000)

    busy = threading.Thread(target=loop)
    busy.start()
    try:
        for _ in range(10):
            child = os.fork()
            if child == 0:
                table = np.zeros(100, np.int64)
                run(parent, bodies, table, 100)  # the parent's pool, without workers, perhaps in use
                run(pool.shared(), bodies, table, 100)
                run(pool.shared(), bodies, table, 100)
                right = pool.shared() is not parent and (table & 0xFFFFFFFF == 3).all()
                os._exit(0 if right else 1)
            assert wait(child, seconds=300) == 0
    finally:
        stop.set()
        busy.join()


def wait(child: int, seconds: float) -> int:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(child, 9)
    os.waitpid(child, 0)
    raise AssertionError("the child hangs")


EXITS = {
    "after a region": "",
    "at once": "import os, sys; sys.exit(0)",
    "while another thread runs regions": """
import threading
def loop():
    while True:
        pool.measure_region_overhead(2, rounds=1, regions=10000)
threading.Thread(target=loop, daemon=True).start()
""",
    "with a region in an exit handler": """
import atexit
atexit.register(lambda: pool.measure_region_overhead(2, rounds=1, regions=10))
""",
    "with several pools": "pool.Pool(4); pool.Pool(3).close(); pool.measure_region_overhead(3)",
}


@pytest.mark.parametrize("how", EXITS)
def test_exit_neither_hangs_nor_crashes(how):
    script = "from tensorsmith.runtime import pool\npool.measure_region_overhead(2, rounds=3, regions=20)\n" + EXITS[how]
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=600, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2, reason="needs Linux and two CPUs")
def test_woken_workers_are_barred_from_the_callers_cpu():
    everywhere = os.sched_getaffinity(0)
    two = pool.Pool(2)
    try:
        seen = set()
        for cpu in sorted(everywhere)[:2]:
            os.sched_setaffinity(threading.get_native_id(), {cpu})
            time.sleep(0.05)  # the worker goes to sleep
            region = pool._function(driver.process_driver(), "empty_regions", ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
            region(two.handle, 2, 1)
            (worker,) = two._workers
            assert worker.native_id is not None
            allowed = os.sched_getaffinity(worker.native_id)
            assert allowed == everywhere - {cpu}
            seen.add(frozenset(allowed))
        assert len(seen) == 2
    finally:
        os.sched_setaffinity(threading.get_native_id(), everywhere)
        two.close()
