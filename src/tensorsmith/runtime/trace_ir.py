"""The LLVM IR of a `parallel_for` that notes when each thread works, and the memory it notes it in.

    void traced_parallel_for(ptr notes, ptr body, ptr ctx, i64 count)

It takes the place of the pool's `parallel_for`, and `notes` that of the pool: kernels hand both on and look into neither. So code
that runs without a trace is not changed, and pays nothing.

`notes` is a header (`NOTES`) and a lane for each thread. The threads write to their own lanes alone. A lane begins with the number
of its entries, which counts on where the lane is full: whoever reads it sees how many there would have been. Chunks of one region
that a thread runs one after another are one entry.
"""

from __future__ import annotations

#: Bytes from the beginning of the notes; the lanes follow.
NOTES = {
    "POOL": 0,  # ptr
    "PARALLEL_FOR": 8,  # ptr, the pool's
    "CLOCK": 16,  # i32, libc's number
    "REGIONS": 24,  # i64: how many there were
    "ROOM": 32,  # i64: entries of a lane
    "LANE_BYTES": 40,  # i64
    "LANES": 64,
}
#: Bytes from the beginning of a lane; its entries follow at `ENTRIES`.
LANE = {"COUNT": 0, "ENTRIES": 64}
#: The words of an entry. The times are libc's `timespec`: seconds, nanoseconds.
ENTRY = {"REGION": 0, "BEGIN": 1, "END": 3, "ITEMS": 5, "CHUNKS": 6}
ENTRY_WORDS = 8


def trace_ir() -> str:
    """The text, for any machine."""
    text = _IR
    entry = {name: 8 * word for name, word in ENTRY.items()}
    for name, at in {**NOTES, **LANE, **entry, "ENTRY_BYTES": 8 * ENTRY_WORDS}.items():
        text = text.replace(f"${name}$", str(at))
    return text


_IR = """
declare i32 @clock_gettime(i32, ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define void @traced_parallel_for(ptr %notes, ptr %body, ptr %ctx, i64 %count) {
  %context = alloca [4 x i64], align 8
  %regions = getelementptr i8, ptr %notes, i64 $REGIONS$
  %region = atomicrmw add ptr %regions, i64 1 monotonic
  %ctx.at = getelementptr i8, ptr %context, i64 8
  %notes.at = getelementptr i8, ptr %context, i64 16
  %region.at = getelementptr i8, ptr %context, i64 24
  store ptr %body, ptr %context
  store ptr %ctx, ptr %ctx.at
  store ptr %notes, ptr %notes.at
  store i64 %region, ptr %region.at
  %pool = load ptr, ptr %notes
  %parallel_for.at = getelementptr i8, ptr %notes, i64 $PARALLEL_FOR$
  %parallel_for = load ptr, ptr %parallel_for.at
  call void %parallel_for(ptr %pool, ptr @traced_body, ptr %context, i64 %count)
  ret void
}

define internal void @traced_body(ptr %context, i64 %begin, i64 %end, i64 %thread) {
entry:
  %began = alloca [2 x i64], align 8
  %ended = alloca [2 x i64], align 8
  %body = load ptr, ptr %context
  %ctx.at = getelementptr i8, ptr %context, i64 8
  %ctx = load ptr, ptr %ctx.at
  %notes.at = getelementptr i8, ptr %context, i64 16
  %notes = load ptr, ptr %notes.at
  %region.at = getelementptr i8, ptr %context, i64 24
  %region = load i64, ptr %region.at
  %clock.at = getelementptr i8, ptr %notes, i64 $CLOCK$
  %clock = load i32, ptr %clock.at
  %told = call i32 @clock_gettime(i32 %clock, ptr %began)
  call void %body(ptr %ctx, i64 %begin, i64 %end, i64 %thread)
  %told.again = call i32 @clock_gettime(i32 %clock, ptr %ended)

  %items = sub i64 %end, %begin
  %lane.bytes.at = getelementptr i8, ptr %notes, i64 $LANE_BYTES$
  %lane.bytes = load i64, ptr %lane.bytes.at
  %lane.offset = mul i64 %thread, %lane.bytes
  %lanes = getelementptr i8, ptr %notes, i64 $LANES$
  %lane = getelementptr i8, ptr %lanes, i64 %lane.offset
  %known = load i64, ptr %lane
  %room.at = getelementptr i8, ptr %notes, i64 $ROOM$
  %room = load i64, ptr %room.at
  %entries = getelementptr i8, ptr %lane, i64 $ENTRIES$
  %fits.one = icmp ule i64 %known, %room
  %any = icmp ugt i64 %known, 0
  %has.last = and i1 %fits.one, %any
  br i1 %has.last, label %look, label %new

look:
  %last.number = sub i64 %known, 1
  %last.offset = mul i64 %last.number, $ENTRY_BYTES$
  %last = getelementptr i8, ptr %entries, i64 %last.offset
  %last.region = load i64, ptr %last
  %same = icmp eq i64 %last.region, %region
  br i1 %same, label %longer, label %new
longer:
  %its.items.at = getelementptr i8, ptr %last, i64 $ITEMS$
  %its.items = load i64, ptr %its.items.at
  %more.items = add i64 %its.items, %items
  store i64 %more.items, ptr %its.items.at
  %its.chunks.at = getelementptr i8, ptr %last, i64 $CHUNKS$
  %its.chunks = load i64, ptr %its.chunks.at
  %more.chunks = add i64 %its.chunks, 1
  store i64 %more.chunks, ptr %its.chunks.at
  %its.end = getelementptr i8, ptr %last, i64 $END$
  call void @llvm.memcpy.p0.p0.i64(ptr %its.end, ptr %ended, i64 16, i1 false)
  br label %done

new:
  %one.more = add i64 %known, 1
  store i64 %one.more, ptr %lane
  %fits = icmp ult i64 %known, %room
  br i1 %fits, label %note, label %done
note:
  %offset = mul i64 %known, $ENTRY_BYTES$
  %made = getelementptr i8, ptr %entries, i64 %offset
  store i64 %region, ptr %made
  %begin.at = getelementptr i8, ptr %made, i64 $BEGIN$
  call void @llvm.memcpy.p0.p0.i64(ptr %begin.at, ptr %began, i64 16, i1 false)
  %end.at = getelementptr i8, ptr %made, i64 $END$
  call void @llvm.memcpy.p0.p0.i64(ptr %end.at, ptr %ended, i64 16, i1 false)
  %items.at = getelementptr i8, ptr %made, i64 $ITEMS$
  store i64 %items, ptr %items.at
  %chunks.at = getelementptr i8, ptr %made, i64 $CHUNKS$
  store i64 1, ptr %chunks.at
  br label %done
done:
  ret void
}
"""
