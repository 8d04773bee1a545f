"""The LLVM IR of calls that ONNX Runtime makes; `tensorsmith.onnxruntime.compute` sets them up.

    OrtStatus *provider_compute(OrtNodeComputeInfo *part, void *state, OrtKernelContext *context)
    i64 provider_exchange(ptr part, ptr variants)      other variants for a part; gives how many calls may still read the old ones
    void provider_add(ptr frames, ptr frame)           one more frame, for one caller at a time

A *part* (`PART`) is a node that ONNX Runtime runs by us. It has a list of *variants* (`VARIANT`), each for one set of shapes of its
inputs: a number of them, then their addresses. A variant has a list of frames of `call_ir`: how many, then their addresses, 0 where
one is in use; and a word that calls set to 1. A call looks for its variant, takes a frame, lets ONNX Runtime make the outputs, and
runs the code. No Python is needed for that. Where the shapes are new or all frames are in use, the part's slow function does the
whole call; it gives a status as this function does, and writes 1 to `done` if it came to its end.

Lists are replaced, not changed, while calls read them: each call counts itself in and out, and whoever has replaced a list keeps
the old one until nobody is in.
"""

from __future__ import annotations

from tensorsmith.runtime.call_ir import FRAME, READERS

#: The words of a part. The first four are ONNX Runtime's; the ranks of the inputs follow.
PART = {
    "ORT_VERSION": 0,
    "CREATE_STATE": 1,
    "COMPUTE": 2,
    "RELEASE_STATE": 3,
    "SLOW": 4,  # address of OrtStatus *slow(part, context, i64 *done)
    "INSIDE": 5,  # how many calls read the variants now
    "VARIANTS": 6,  # address of the list
    "API": 7,  # address of the words of FUNCTIONS
    "PART_INPUTS": 8,  # how many
    "PART_OUTPUTS": 9,  # how many
    "SIZES": 10,  # dimensions of all inputs together
    "PART_CALLS": 11,  # how many calls needed no Python
    "RANKS": 12,
}

#: The words of a variant. The sizes of all inputs' dimensions follow, then for each input how many slots of a frame get its
#: address, and these; then for each output its rank, its shape, how many slots, and these.
VARIANT = {"VARIANT_ENTRY": 0, "VARIANT_POOL": 1, "PARALLEL_FOR": 2, "FRAMES": 3, "CALLED": 4, "WANTED_SIZES": 5}

#: Functions of ONNX Runtime, all of which give a status but the last, and what they take.
FUNCTIONS = {
    "KernelContext_GetInput": ("ptr", "i64", "ptr"),
    "KernelContext_GetOutput": ("ptr", "i64", "ptr", "i64", "ptr"),
    "GetTensorMutableData": ("ptr", "ptr"),
    "GetTensorTypeAndShape": ("ptr", "ptr"),
    "GetDimensionsCount": ("ptr", "ptr"),
    "GetDimensions": ("ptr", "ptr", "i64"),
    "ReleaseTensorTypeAndShapeInfo": ("ptr",),
    "CreateStatus": ("i32", "ptr"),
}

UNFINISHED = "Tensorsmith was interrupted"  # what a call says whose slow function did not come to its end

SYMBOLS = frozenset({"provider_compute", "provider_exchange", "provider_add"})


def provider_ir() -> str:
    """The text of a module of its own: only those who use ONNX Runtime need it."""
    words = {name: 8 * n for table in (PART, VARIANT, FRAME) for name, n in table.items()}
    text = _IR.replace("$LENGTH$", str(len(UNFINISHED) + 1)).replace("$UNFINISHED$", UNFINISHED)
    for name, at in words.items():
        text = text.replace(f"${name}$", str(at))
    return READERS + text + "".join(_function(n, name, takes) for n, (name, takes) in enumerate(FUNCTIONS.items()))


def _function(n: int, name: str, takes: tuple[str, ...]) -> str:
    """A function of ONNX Runtime, called by its address."""
    taken = "".join(f", {kind} %a{k}" for k, kind in enumerate(takes))
    gives = "void" if name.startswith("Release") else "ptr"
    call = f"call {gives} %address({taken[2:]})"
    body = f"  {call}\n  ret void" if gives == "void" else f"  %result = {call}\n  ret ptr %result"
    return f"""
define internal {gives} @ort_{name}(ptr %api{taken}) alwaysinline {{
  %address = call ptr @pointer_at(ptr %api, i64 {8 * n})
{body}
}}
"""


_IR = """
@provider_unfinished = private constant [$LENGTH$ x i8] c"$UNFINISHED$\\00"

define i64 @provider_exchange(ptr %part, ptr %variants) {
  %list.at = getelementptr i8, ptr %part, i64 $VARIANTS$
  %word = ptrtoint ptr %variants to i64
  %old = atomicrmw xchg ptr %list.at, i64 %word seq_cst
  %inside.at = getelementptr i8, ptr %part, i64 $INSIDE$
  %inside = load atomic i64, ptr %inside.at seq_cst, align 8
  ret i64 %inside
}

define void @provider_add(ptr %frames, ptr %frame) {
  %count = load i64, ptr %frames
  %slot = call ptr @word_of(ptr %frames, i64 8, i64 %count)
  store ptr %frame, ptr %slot
  %more = add i64 %count, 1
  store atomic i64 %more, ptr %frames release, align 8
  ret void
}

; Whether %count words are the same.
define internal i1 @same_words(ptr %one, ptr %other, i64 %count) {
entry:
  br label %next
next:
  %n = phi i64 [ 0, %entry ], [ %n.next, %compare ]
  %more = icmp ult i64 %n, %count
  br i1 %more, label %compare, label %yes
compare:
  %a.at = getelementptr i64, ptr %one, i64 %n
  %b.at = getelementptr i64, ptr %other, i64 %n
  %a = load i64, ptr %a.at
  %b = load i64, ptr %b.at
  %same = icmp eq i64 %a, %b
  %n.next = add i64 %n, 1
  br i1 %same, label %next, label %no
yes:
  ret i1 true
no:
  ret i1 false
}

; Writes an address to the slots of a frame that follow; gives what is behind them.
define internal ptr @fill_slots(ptr %frame, ptr %slots, ptr %address) {
entry:
  %count = load i64, ptr %slots
  br label %next
next:
  %n = phi i64 [ 0, %entry ], [ %n.next, %slot ]
  %more = icmp ult i64 %n, %count
  br i1 %more, label %slot, label %done
slot:
  %number.at = call ptr @word_of(ptr %slots, i64 8, i64 %n)
  %number = load i64, ptr %number.at
  %slot.at = call ptr @word_of(ptr %frame, i64 $ARGUMENTS$, i64 %number)
  store ptr %address, ptr %slot.at
  %n.next = add i64 %n, 1
  br label %next
done:
  %behind = call ptr @word_of(ptr %slots, i64 8, i64 %count)
  ret ptr %behind
}

define ptr @provider_compute(ptr %part, ptr %state, ptr %context) {
entry:
  %value.at = alloca ptr
  %info.at = alloca ptr
  %word.at = alloca i64
  %inputs = call i64 @word_at(ptr %part, i64 $PART_INPUTS$)
  %outputs = call i64 @word_at(ptr %part, i64 $PART_OUTPUTS$)
  %sizes.count = call i64 @word_at(ptr %part, i64 $SIZES$)
  %addresses = alloca ptr, i64 %inputs
  %sizes = alloca i64, i64 %sizes.count
  %api = call ptr @pointer_at(ptr %part, i64 $API$)
  %inside.at = getelementptr i8, ptr %part, i64 $INSIDE$
  %in = atomicrmw add ptr %inside.at, i64 1 seq_cst
  br label %next.input

next.input:
  %n = phi i64 [ 0, %entry ], [ %n.next, %input.read ]
  %at = phi i64 [ 0, %entry ], [ %at.next, %input.read ]
  %more.inputs = icmp ult i64 %n, %inputs
  br i1 %more.inputs, label %input, label %find
input:
  %got.input = call ptr @ort_KernelContext_GetInput(ptr %api, ptr %context, i64 %n, ptr %value.at)
  %input.failed = icmp ne ptr %got.input, null
  br i1 %input.failed, label %fail, label %input.there
input.there:
  %value = load ptr, ptr %value.at
  %left.out = icmp eq ptr %value, null
  br i1 %left.out, label %slow, label %input.value
input.value:
  %got.info = call ptr @ort_GetTensorTypeAndShape(ptr %api, ptr %value, ptr %info.at)
  %info.failed = icmp ne ptr %got.info, null
  br i1 %info.failed, label %fail, label %input.info
input.info:
  %info = load ptr, ptr %info.at
  %got.rank = call ptr @ort_GetDimensionsCount(ptr %api, ptr %info, ptr %word.at)
  %rank = load i64, ptr %word.at
  %wanted.rank.at = call ptr @word_of(ptr %part, i64 $RANKS$, i64 %n)
  %wanted.rank = load i64, ptr %wanted.rank.at
  %rank.failed = icmp ne ptr %got.rank, null
  br i1 %rank.failed, label %fail.info, label %input.rank
input.rank:
  %same.rank = icmp eq i64 %rank, %wanted.rank
  br i1 %same.rank, label %input.sizes, label %slow.info
input.sizes:
  %sizes.at = getelementptr i64, ptr %sizes, i64 %at
  %got.sizes = call ptr @ort_GetDimensions(ptr %api, ptr %info, ptr %sizes.at, i64 %rank)
  %sizes.failed = icmp ne ptr %got.sizes, null
  br i1 %sizes.failed, label %fail.info, label %input.data
input.data:
  call void @ort_ReleaseTensorTypeAndShapeInfo(ptr %api, ptr %info)
  %address.at = getelementptr ptr, ptr %addresses, i64 %n
  %got.data = call ptr @ort_GetTensorMutableData(ptr %api, ptr %value, ptr %address.at)
  %data.failed = icmp ne ptr %got.data, null
  br i1 %data.failed, label %fail, label %input.read
input.read:
  %n.next = add i64 %n, 1
  %at.next = add i64 %at, %rank
  br label %next.input

find:
  %list.at = getelementptr i8, ptr %part, i64 $VARIANTS$
  %list = load atomic ptr, ptr %list.at seq_cst, align 8
  %variants = load i64, ptr %list
  br label %next.variant
next.variant:
  %v = phi i64 [ 0, %find ], [ %v.next, %look ]
  %more.variants = icmp ult i64 %v, %variants
  br i1 %more.variants, label %look, label %slow
look:
  %variant.at = call ptr @word_of(ptr %list, i64 8, i64 %v)
  %variant = load ptr, ptr %variant.at
  %wanted.sizes = getelementptr i8, ptr %variant, i64 $WANTED_SIZES$
  %same.sizes = call i1 @same_words(ptr %sizes, ptr %wanted.sizes, i64 %sizes.count)
  %v.next = add i64 %v, 1
  br i1 %same.sizes, label %take, label %next.variant

take:
  %frames = call ptr @pointer_at(ptr %variant, i64 $FRAMES$)
  %frames.count = load atomic i64, ptr %frames acquire, align 8
  br label %next.frame
next.frame:
  %f = phi i64 [ 0, %take ], [ %f.next, %try ]
  %more.frames = icmp ult i64 %f, %frames.count
  br i1 %more.frames, label %try, label %slow
try:
  %frame.at = call ptr @word_of(ptr %frames, i64 8, i64 %f)
  %frame.word = atomicrmw xchg ptr %frame.at, i64 0 acquire
  %f.next = add i64 %f, 1
  %taken = icmp ne i64 %frame.word, 0
  br i1 %taken, label %fill, label %next.frame

fill:
  %frame = inttoptr i64 %frame.word to ptr
  %called.at = getelementptr i8, ptr %variant, i64 $CALLED$
  store atomic i64 1, ptr %called.at monotonic, align 8
  %first.slots = getelementptr i64, ptr %wanted.sizes, i64 %sizes.count
  br label %next.filled
next.filled:
  %i = phi i64 [ 0, %fill ], [ %i.next, %filled ]
  %slots = phi ptr [ %first.slots, %fill ], [ %behind, %filled ]
  %more.filled = icmp ult i64 %i, %inputs
  br i1 %more.filled, label %filled, label %next.output
filled:
  %given.at = getelementptr ptr, ptr %addresses, i64 %i
  %given = load ptr, ptr %given.at
  %behind = call ptr @fill_slots(ptr %frame, ptr %slots, ptr %given)
  %i.next = add i64 %i, 1
  br label %next.filled

next.output:
  %o = phi i64 [ 0, %next.filled ], [ %o.next, %output.filled ]
  %output = phi ptr [ %slots, %next.filled ], [ %output.behind, %output.filled ]
  %more.outputs = icmp ult i64 %o, %outputs
  br i1 %more.outputs, label %make, label %run
make:
  %output.rank = load i64, ptr %output
  %shape = getelementptr i8, ptr %output, i64 8
  %made = call ptr @ort_KernelContext_GetOutput(ptr %api, ptr %context, i64 %o, ptr %shape, i64 %output.rank, ptr %value.at)
  %make.failed = icmp ne ptr %made, null
  br i1 %make.failed, label %fail.frame, label %output.made
output.made:
  %output.value = load ptr, ptr %value.at
  %got.output = call ptr @ort_GetTensorMutableData(ptr %api, ptr %output.value, ptr %info.at)
  %output.failed = icmp ne ptr %got.output, null
  br i1 %output.failed, label %fail.frame, label %output.filled
output.filled:
  %output.address = load ptr, ptr %info.at
  %output.slots = getelementptr i64, ptr %shape, i64 %output.rank
  %output.behind = call ptr @fill_slots(ptr %frame, ptr %output.slots, ptr %output.address)
  %o.next = add i64 %o, 1
  br label %next.output

run:
  %code = call ptr @pointer_at(ptr %variant, i64 $VARIANT_ENTRY$)
  %pool = call ptr @pointer_at(ptr %variant, i64 $VARIANT_POOL$)
  %for = call ptr @pointer_at(ptr %variant, i64 $PARALLEL_FOR$)
  %arguments = getelementptr i8, ptr %frame, i64 $ARGUMENTS$
  %scratch = call ptr @pointer_at(ptr %frame, i64 $SCRATCH$)
  call void %code(ptr %arguments, ptr %scratch, ptr %pool, ptr %for)
  %calls.at = getelementptr i8, ptr %part, i64 $PART_CALLS$
  %calls = atomicrmw add ptr %calls.at, i64 1 monotonic
  br label %leave.frame
fail.frame:
  %frame.status = phi ptr [ %made, %make ], [ %got.output, %output.made ]
  br label %leave.frame
leave.frame:
  %status = phi ptr [ null, %run ], [ %frame.status, %fail.frame ]
  store atomic i64 %frame.word, ptr %frame.at release, align 8
  %out = atomicrmw sub ptr %inside.at, i64 1 seq_cst
  ret ptr %status

fail.info:
  %info.status = phi ptr [ %got.rank, %input.info ], [ %got.sizes, %input.sizes ]
  call void @ort_ReleaseTensorTypeAndShapeInfo(ptr %api, ptr %info)
  br label %fail
fail:
  %failed = phi ptr [ %got.input, %input ], [ %got.info, %input.value ], [ %got.data, %input.data ], [ %info.status, %fail.info ]
  %out.failed = atomicrmw sub ptr %inside.at, i64 1 seq_cst
  ret ptr %failed

slow.info:
  call void @ort_ReleaseTensorTypeAndShapeInfo(ptr %api, ptr %info)
  br label %slow
slow:
  %out.slow = atomicrmw sub ptr %inside.at, i64 1 seq_cst
  store i64 0, ptr %word.at
  %slow.function = call ptr @pointer_at(ptr %part, i64 $SLOW$)
  %slow.status = call ptr %slow.function(ptr %part, ptr %context, ptr %word.at)
  %slow.failed = icmp ne ptr %slow.status, null
  br i1 %slow.failed, label %slow.end, label %check.done
check.done:
  %done = load i64, ptr %word.at
  %ended = icmp ne i64 %done, 0
  br i1 %ended, label %slow.end, label %unfinished
unfinished:
  %complaint = call ptr @ort_CreateStatus(ptr %api, i32 1, ptr @provider_unfinished)
  ret ptr %complaint
slow.end:
  ret ptr %slow.status
}
"""
