"""The compiled loop that calls a network's kernels in order, and its version with a clock.

    void run(ptr table, ptr scratch, ptr pool, ptr parallel_for)
    void profile(ptr table, ptr scratch, ptr pool, ptr parallel_for, ptr times, i32 clock)
    void copy(ptr arguments, ptr scratch, ptr pool, ptr parallel_for)

`table` holds the number of steps, then for each the address of its code and of its arguments. `run` has the signature of a
kernel, so a network is run, repeated and timed as one. `profile` writes libc's `timespec` of that clock before the first step and
after each. `copy` is a kernel: from where, to where, how many bytes.
"""

from __future__ import annotations

import functools

from tensorsmith.runtime import jit
from tensorsmith.target import Target

SYMBOLS = frozenset({"run", "profile", "copy"})


@functools.cache
def driver(target: Target) -> jit.Module:
    """The driver's code for a target."""
    return jit.build(_IR, target)


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
"""
