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

import hashlib

from tensorsmith.errors import InternalError
from tensorsmith.runtime.built import Code
from tensorsmith.runtime.call_ir import SYMBOLS as CALL_SYMBOLS
from tensorsmith.runtime.call_ir import call_ir
from tensorsmith.runtime.device import Driver, Loaded, device_of
from tensorsmith.runtime.pool_ir import AT, pool_ir
from tensorsmith.runtime.pool_ir import SYMBOLS as POOL_SYMBOLS
from tensorsmith.targets.target import Target, native

SYMBOLS = CALL_SYMBOLS | POOL_SYMBOLS | {"run", "profile", "copy", "repeat"}
_of_process: dict[None, Loaded] = {}  # one at most; a dictionary, because `setdefault` is atomic and survives a fork


def driver_ir(pause: str, futex: int | None) -> str:
    """The driver's text for a machine: its instruction for waiting, and the number of its system's futex call, if it has one."""
    return _IR + pool_ir(pause, futex) + call_ir(AT["THREADS"])


def driver_code(target: Target) -> Code | None:
    """The driver's code for a target, compiled; None for a kind that is no host."""
    made = device_of(target.kind).driver
    return None if made is None else made.compile(target)


def source_key(text: str) -> str:
    """Says which text a driver was compiled from: code from elsewhere must agree with this version about the pool's memory."""
    return hashlib.sha256(text.encode()).hexdigest()


def process_driver() -> Loaded:
    """The driver whose pool, `plain_call` and `repeat` serve everything in this process."""
    return _of_process.get(None) or adopt(device_of("cpu").link(_host().compile(native())))


def loaded_driver(code: Code | None) -> Loaded:
    """The driver that came with a network, in memory; the process's where none did. It becomes the process's if that has none."""
    if code is None:
        return process_driver()
    loaded = device_of("cpu").link(code)
    if code.made_from == source_key(_host().text(code.target)):
        adopt(loaded)
    return loaded


def adopt(driver: Loaded) -> Loaded:
    """Makes a driver that runs here the process's, unless there is one; gives the process's."""
    return _of_process.setdefault(None, driver)


def _host() -> Driver:
    made = device_of("cpu").driver
    if made is None:
        raise InternalError("CPUs are hosts, and have no driver")
    return made


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
