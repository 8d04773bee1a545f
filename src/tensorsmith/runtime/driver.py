"""The compiled code that every executable needs besides its kernels: the call from Python, the loop over a network's steps, and
the thread pool.

    void run(ptr table, ptr scratch, ptr pool, ptr parallel_for)
    void profile(ptr table, ptr scratch, ptr pool, ptr parallel_for, ptr times, i32 clock)
    void copy(ptr arguments, ptr scratch, ptr pool, ptr parallel_for)
    void repeat(ptr entry, ptr arguments, ptr scratch, ptr pool, ptr parallel_for, i64 count)
    PyObject *plain_call(PyObject *self, PyObject *const *given, Py_ssize_t count)

`table` holds the number of steps, then for each the address of its code and of its arguments. `run` has the signature of a
kernel, so a network is run, repeated and timed as one. `profile` writes libc's `timespec` of that clock before the first step and
after each. `copy` is a kernel: from where, to where, how many bytes. `repeat` runs a kernel or a network `count` times, at least
once. `plain_call` is what Python calls, and is in `call_ir`; the pool's functions are in `pool_ir`.

A saved executable brings its driver along, so that nothing is compiled where it is loaded. The pool is one for the whole process,
and so is the driver that it runs on: the first that was loaded, or else one that is compiled when it is needed.
"""

from __future__ import annotations

import functools
import hashlib

from tensorsmith.runtime import jit
from tensorsmith.runtime.call_ir import SYMBOLS as CALL_SYMBOLS
from tensorsmith.runtime.call_ir import call_ir
from tensorsmith.runtime.pool_ir import AT, pool_ir
from tensorsmith.runtime.pool_ir import SYMBOLS as POOL_SYMBOLS
from tensorsmith.targets.target import Target, native

SYMBOLS = CALL_SYMBOLS | POOL_SYMBOLS | {"run", "profile", "copy", "repeat"}
_of_process: dict[None, jit.Module] = {}  # one at most; a dictionary, because `setdefault` is atomic and survives a fork


@functools.cache
def driver(target: Target) -> jit.Module:
    """The driver's code for a target."""
    return jit.build(_ir(target), target)


def source_key(target: Target) -> str:
    """Says which text a driver was compiled from: code from elsewhere must agree with this version about the pool's memory."""
    return hashlib.sha256(_ir(target).encode()).hexdigest()


def process_driver() -> jit.Module:
    """The driver whose pool, `plain_call` and `repeat` serve everything in this process."""
    return _of_process.get(None) or adopt(driver(native()))


def adopt(module: jit.Module) -> jit.Module:
    """Makes a driver that runs here the process's, unless there is one; gives the process's."""
    return _of_process.setdefault(None, module)


def _ir(target: Target) -> str:
    return _IR + pool_ir(target) + call_ir(AT["THREADS"])


_STEP = """
  %at = shl i64 %n, 4
  %step = getelementptr i8, ptr %table, i64 %at
  %entry.at = getelementptr i8, ptr %step, i64 8
  %arguments.at = getelementptr i8, ptr %step, i64 16
  %entry = load ptr, ptr %entry.at
  %arguments = load ptr, ptr %arguments.at
  call void %entry(ptr %arguments, ptr %scratch, ptr %pool, ptr %parallel_for)
  %n.next = add i64 %n, 1
"""

_IR = f"""
declare i32 @clock_gettime(i32, ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define void @run(ptr %table, ptr %scratch, ptr %pool, ptr %parallel_for) {{
start:
  %count = load i64, ptr %table
  br label %head
head:
  %n = phi i64 [ 0, %start ], [ %n.next, %body ]
  %more = icmp ult i64 %n, %count
  br i1 %more, label %body, label %done
body:{_STEP}
  br label %head
done:
  ret void
}}

define void @profile(ptr %table, ptr %scratch, ptr %pool, ptr %parallel_for, ptr %times, i32 %clock) {{
start:
  %count = load i64, ptr %table
  %begun = call i32 @clock_gettime(i32 %clock, ptr %times)
  br label %head
head:
  %n = phi i64 [ 0, %start ], [ %n.next, %body ]
  %more = icmp ult i64 %n, %count
  br i1 %more, label %body, label %done
body:{_STEP}
  %time.at = shl i64 %n.next, 4
  %time = getelementptr i8, ptr %times, i64 %time.at
  %told = call i32 @clock_gettime(i32 %clock, ptr %time)
  br label %head
done:
  ret void
}}

define void @copy(ptr %arguments, ptr %scratch, ptr %pool, ptr %parallel_for) {{
  %to.at = getelementptr i8, ptr %arguments, i64 8
  %bytes.at = getelementptr i8, ptr %arguments, i64 16
  %from = load ptr, ptr %arguments
  %to = load ptr, ptr %to.at
  %bytes = load i64, ptr %bytes.at
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %bytes, i1 false)
  ret void
}}

define void @repeat(ptr %entry, ptr %arguments, ptr %scratch, ptr %pool, ptr %parallel_for, i64 %count) {{
start:
  br label %loop
loop:
  %n = phi i64 [ 0, %start ], [ %n.next, %loop ]
  call void %entry(ptr %arguments, ptr %scratch, ptr %pool, ptr %parallel_for)
  %n.next = add i64 %n, 1
  %more = icmp ult i64 %n.next, %count
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""
