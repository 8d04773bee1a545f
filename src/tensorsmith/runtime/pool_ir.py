"""The LLVM IR of the thread pool; `pool` says how it works, and runs it.

void parallel_for(ptr pool, ptr body, ptr ctx, i64 count)      a region
void worker(ptr pool, i64 thread)                              a worker's life
void stop(ptr pool)                                            workers are to return
void empty_regions(ptr pool, i64 count, i64 regions)           for measuring what a region costs
void pauses(i64 count)                                         for measuring how long a poll takes
"""

from __future__ import annotations

#: Layout of the pool in memory, in bytes; `$NAME$` in the IR below. What different threads write lies 128 bytes apart,
#: because x86 fetches cache lines in pairs.
AT = {
    "GATE": 0,  # i64: (number of the region << 32) | (open << 31) | workers inside; its upper half is the futex
    "SLEEPERS": 128,  # i32: workers asleep or about to be
    "BUSY": 256,  # i32: a region is running
    "STOP": 260,  # i32: workers are to return
    "REGION": 384,  # ptr body, ptr ctx, i64 chunk
    "THREADS": 408,  # i64: threads, the caller's included
    "POLLS": 416,  # i64: how often a waiting thread looks before it sleeps
    "HOME": 424,  # i32: the CPU the last caller was on when it woke the workers; -1: none yet, -2: workers go where they like
    "ALLOWED": 512,  # 128 bytes: the CPUs this process may use, a bit each
    "SHARES": 640,  # per thread, 128 bytes apart: i64 next, i64 end, i32 the kernel's number of the thread
}
MASK_BYTES = 128

SYMBOLS = frozenset({"parallel_for", "worker", "stop", "empty_regions", "pauses"})


def pool_ir(pause: str, futex: int | None) -> str:
    """The text for a machine whose instruction for waiting is `pause`, and whose system has the futex call of that number."""
    text = _IR + (_SLEEP_FUTEX + _BAR if futex else _SLEEP_TIMED)
    for name, value in {**AT, "FUTEX": futex, "PAUSE": pause}.items():
        text = text.replace(f"${name}$", str(value))
    return text


_IR = """
declare i32 @sched_yield()

define void @parallel_for(ptr %pool, ptr %body, ptr %ctx, i64 %count) {
entry:
  %threads.at = getelementptr i8, ptr %pool, i64 $THREADS$
  %threads = load i64, ptr %threads.at
  %more.work = icmp sgt i64 %count, 1
  %more.threads = icmp sgt i64 %threads, 1
  %worth.it = and i1 %more.work, %more.threads
  br i1 %worth.it, label %claim, label %serial

claim:
  %busy = getelementptr i8, ptr %pool, i64 $BUSY$
  %was.busy = atomicrmw xchg ptr %busy, i32 1 acquire
  %free = icmp eq i32 %was.busy, 0
  br i1 %free, label %share.out, label %serial

serial:
  %any = icmp sgt i64 %count, 0
  br i1 %any, label %alone, label %done
alone:
  call void %body(ptr %ctx, i64 0, i64 %count, i64 0)
  br label %done

share.out:
  %up = add i64 %count, %threads
  %up.less = sub i64 %up, 1
  %share = udiv i64 %up.less, %threads
  %eighth = lshr i64 %share, 3
  %chunk = call i64 @llvm.umax.i64(i64 %eighth, i64 1)
  %region = getelementptr i8, ptr %pool, i64 $REGION$
  %region.ctx = getelementptr i8, ptr %region, i64 8
  %region.chunk = getelementptr i8, ptr %region, i64 16
  store ptr %body, ptr %region
  store ptr %ctx, ptr %region.ctx
  store i64 %chunk, ptr %region.chunk
  br label %shares
shares:
  %t = phi i64 [ 0, %share.out ], [ %t.next, %shares ]
  %begin = mul i64 %t, %share
  %begin.share = add i64 %begin, %share
  %end = call i64 @llvm.umin.i64(i64 %begin.share, i64 %count)
  %slot.offset = shl i64 %t, 7
  %slots = getelementptr i8, ptr %pool, i64 $SHARES$
  %slot = getelementptr i8, ptr %slots, i64 %slot.offset
  %slot.end = getelementptr i8, ptr %slot, i64 8
  store atomic i64 %begin, ptr %slot monotonic, align 8
  store i64 %end, ptr %slot.end
  %t.next = add i64 %t, 1
  %more.shares = icmp ult i64 %t.next, %threads
  br i1 %more.shares, label %shares, label %open

open:  ; next region number, open, nobody inside; a worker that goes to sleep now either sees this or is seen here
  %opened = atomicrmw add ptr %pool, i64 6442450944 seq_cst
  %sleepers.at = getelementptr i8, ptr %pool, i64 $SLEEPERS$
  %sleepers = load atomic i32, ptr %sleepers.at seq_cst, align 4
  %anyone.asleep = icmp sgt i32 %sleepers, 0
  br i1 %anyone.asleep, label %wake, label %work
wake:
  call void @wake(ptr %pool)
  br label %work
work:
  call void @work(ptr %pool, i64 0)
  %closing = atomicrmw and ptr %pool, i64 -2147483649 acq_rel
  %closing.inside = and i64 %closing, 2147483647
  %empty = icmp eq i64 %closing.inside, 0
  br i1 %empty, label %joined, label %join

join:
  %polls.at = getelementptr i8, ptr %pool, i64 $POLLS$
  %polls = load i64, ptr %polls.at
  br label %poll
poll:
  %n = phi i64 [ 0, %join ], [ %n.next, %again ]
  $PAUSE$
  %gate = load atomic i64, ptr %pool acquire, align 8
  %inside = and i64 %gate, 2147483647
  %all.left = icmp eq i64 %inside, 0
  br i1 %all.left, label %joined, label %wait
wait:
  %long = icmp ugt i64 %n, %polls
  br i1 %long, label %yield, label %again
yield:  ; more threads than cores, perhaps: let the others run
  %ignored = call i32 @sched_yield()
  br label %again
again:
  %n.next = add i64 %n, 1
  br label %poll

joined:
  store atomic i32 0, ptr %busy release, align 4
  br label %done
done:
  ret void
}

; Take chunks, of the own share first, until none is left anywhere.
define internal void @work(ptr %pool, i64 %thread) {
entry:
  %threads.at = getelementptr i8, ptr %pool, i64 $THREADS$
  %threads = load i64, ptr %threads.at
  %region = getelementptr i8, ptr %pool, i64 $REGION$
  %region.ctx = getelementptr i8, ptr %region, i64 8
  %region.chunk = getelementptr i8, ptr %region, i64 16
  %body = load ptr, ptr %region
  %ctx = load ptr, ptr %region.ctx
  %chunk = load i64, ptr %region.chunk
  br label %victims

victims:
  %v = phi i64 [ 0, %entry ], [ %v.next, %exhausted ]
  %sum = add i64 %thread, %v
  %wraps = icmp uge i64 %sum, %threads
  %wrapped = sub i64 %sum, %threads
  %victim = select i1 %wraps, i64 %wrapped, i64 %sum
  %slot.offset = shl i64 %victim, 7
  %slots = getelementptr i8, ptr %pool, i64 $SHARES$
  %slot = getelementptr i8, ptr %slots, i64 %slot.offset
  %slot.end = getelementptr i8, ptr %slot, i64 8
  %end = load i64, ptr %slot.end
  br label %look
look:
  %seen = load atomic i64, ptr %slot monotonic, align 8
  %left = icmp slt i64 %seen, %end
  br i1 %left, label %take, label %exhausted
take:
  %begin = atomicrmw add ptr %slot, i64 %chunk monotonic
  %got = icmp slt i64 %begin, %end
  br i1 %got, label %run, label %exhausted
run:
  %begin.chunk = add i64 %begin, %chunk
  %stop = call i64 @llvm.umin.i64(i64 %begin.chunk, i64 %end)
  call void %body(ptr %ctx, i64 %begin, i64 %stop, i64 %thread)
  br label %look

exhausted:
  %v.next = add i64 %v, 1
  %more = icmp ult i64 %v.next, %threads
  br i1 %more, label %victims, label %done
done:
  ret void
}

; A worker's life: wait for a region it has not seen, enter if the gate is open, work, leave.
define void @worker(ptr %pool, i64 %thread) {
entry:
  %polls.at = getelementptr i8, ptr %pool, i64 $POLLS$
  %polls = load i64, ptr %polls.at
  %stop.at = getelementptr i8, ptr %pool, i64 $STOP$
  br label %wait
wait:
  %last = phi i64 [ 0, %entry ], [ %number, %arrived ], [ %number, %inside ]
  br label %poll
poll:
  %n = phi i64 [ 0, %wait ], [ %n.next, %idle ], [ 0, %sleep ], [ 0, %enter ]
  %gate = load atomic i64, ptr %pool acquire, align 8
  %number = lshr i64 %gate, 32
  %new = icmp ne i64 %number, %last
  br i1 %new, label %news, label %idle
idle:
  $PAUSE$
  %n.next = add i64 %n, 1
  %short = icmp ult i64 %n.next, %polls
  br i1 %short, label %poll, label %sleep
sleep:
  %last.word = trunc i64 %last to i32
  call void @sleep_unless_changed(ptr %pool, i32 %last.word)
  br label %poll
news:
  %stop = load atomic i32, ptr %stop.at acquire, align 4
  %stopping = icmp ne i32 %stop, 0
  br i1 %stopping, label %done, label %arrived
arrived:
  %open.bit = and i64 %gate, 2147483648
  %open = icmp ne i64 %open.bit, 0
  br i1 %open, label %enter, label %wait
enter:
  %one.more = add i64 %gate, 1
  %try = cmpxchg ptr %pool, i64 %gate, i64 %one.more acquire monotonic
  %entered = extractvalue { i64, i1 } %try, 1
  br i1 %entered, label %inside, label %poll
inside:
  call void @work(ptr %pool, i64 %thread)
  %left = atomicrmw sub ptr %pool, i64 1 release
  br label %wait
done:
  ret void
}

define void @stop(ptr %pool) {
  %stop.at = getelementptr i8, ptr %pool, i64 $STOP$
  store atomic i32 1, ptr %stop.at seq_cst, align 4
  %numbered = atomicrmw add ptr %pool, i64 4294967296 seq_cst
  call void @wake(ptr %pool)
  ret void
}

define internal void @empty_body(ptr %ctx, i64 %begin, i64 %end, i64 %thread) {
  ret void
}

define void @empty_regions(ptr %pool, i64 %count, i64 %regions) {
entry:
  br label %loop
loop:
  %n = phi i64 [ 0, %entry ], [ %n.next, %loop ]
  call void @parallel_for(ptr %pool, ptr @empty_body, ptr null, i64 %count)
  %n.next = add i64 %n, 1
  %more = icmp ult i64 %n.next, %regions
  br i1 %more, label %loop, label %done
done:
  ret void
}

define void @pauses(i64 %count) {
entry:
  br label %loop
loop:
  %n = phi i64 [ 0, %entry ], [ %n.next, %loop ]
  $PAUSE$
  %n.next = add i64 %n, 1
  %more = icmp ult i64 %n.next, %count
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""

# FUTEX_WAIT_PRIVATE is 128, FUTEX_WAKE_PRIVATE 129. The kernel sleeps only if the region number is still the one seen.
_SLEEP_FUTEX = """
declare i64 @syscall(i64, ...)

define internal void @sleep_unless_changed(ptr %pool, i32 %number) {
  %sleepers = getelementptr i8, ptr %pool, i64 $SLEEPERS$
  %word = getelementptr i8, ptr %pool, i64 4
  %in = atomicrmw add ptr %sleepers, i32 1 seq_cst
  %slept = call i64 (i64, ...) @syscall(i64 $FUTEX$, ptr %word, i32 128, i32 %number, ptr null, ptr null, i32 0)
  %out = atomicrmw sub ptr %sleepers, i32 1 seq_cst
  ret void
}

declare i32 @sched_getcpu()
declare i32 @sched_setaffinity(i32, i64, ptr)

define internal void @wake(ptr %pool) {
entry:
  %home.at = getelementptr i8, ptr %pool, i64 $HOME$
  %home = load i32, ptr %home.at
  %placed = icmp sge i32 %home, -1
  br i1 %placed, label %look, label %now
look:
  %cpu = call i32 @sched_getcpu()
  %known = icmp sge i32 %cpu, 0
  %other = icmp ne i32 %cpu, %home
  %moved = and i1 %known, %other
  br i1 %moved, label %bar, label %now
bar:
  store i32 %cpu, ptr %home.at
  call void @bar_workers(ptr %pool, i32 %cpu)
  br label %now
now:
  %word = getelementptr i8, ptr %pool, i64 4
  %woken = call i64 (i64, ...) @syscall(i64 $FUTEX$, ptr %word, i32 129, i32 2147483647, ptr null, ptr null, i32 0)
  ret void
}
"""

# The workers may use all CPUs that the process may use, but one.
_BAR = """
define internal void @bar_workers(ptr %pool, i32 %cpu) noinline {
entry:
  %mask = alloca [128 x i8], align 8
  %allowed = getelementptr i8, ptr %pool, i64 $ALLOWED$
  call void @llvm.memcpy.p0.p0.i64(ptr %mask, ptr %allowed, i64 128, i1 false)
  %number = zext i32 %cpu to i64
  %byte.number = lshr i64 %number, 3
  %byte.at = getelementptr i8, ptr %mask, i64 %byte.number
  %low = and i32 %cpu, 7
  %bit = shl i32 1, %low
  %others = xor i32 %bit, 255
  %keep = trunc i32 %others to i8
  %byte = load i8, ptr %byte.at
  %left = and i8 %byte, %keep
  store i8 %left, ptr %byte.at
  %threads.at = getelementptr i8, ptr %pool, i64 $THREADS$
  %threads = load i64, ptr %threads.at
  br label %workers
workers:
  %t = phi i64 [ 1, %entry ], [ %t.next, %next ]
  %offset = shl i64 %t, 7
  %slots = getelementptr i8, ptr %pool, i64 $SHARES$
  %slot = getelementptr i8, ptr %slots, i64 %offset
  %id.at = getelementptr i8, ptr %slot, i64 16
  %id = load i32, ptr %id.at
  %there = icmp sgt i32 %id, 0
  br i1 %there, label %set, label %next
set:
  %ignored = call i32 @sched_setaffinity(i32 %id, i64 128, ptr %mask)
  br label %next
next:
  %t.next = add i64 %t, 1
  %more = icmp ult i64 %t.next, %threads
  br i1 %more, label %workers, label %done
done:
  ret void
}
"""

# Where there is no futex, a waiting worker looks again every 0.1 ms.
_SLEEP_TIMED = """
declare i32 @usleep(i32)

define internal void @sleep_unless_changed(ptr %pool, i32 %number) {
  %slept = call i32 @usleep(i32 100)
  ret void
}

define internal void @wake(ptr %pool) {
  ret void
}
"""
