"""The LLVM IR of a plain call; `call` says what that is, and sets it up.

PyObject *plain_call(PyObject *self, PyObject *const *given, Py_ssize_t count)      a METH_FASTCALL function of CPython

`given` is a tuple of the inputs, and the output or a tuple or list of several. What is returned is the output, or the tuple of
them; None if this is no plain call, and then nothing has happened.

`self` is an array of words of 8 bytes, the *table* of an executable (`TABLE`). It ends with a *specification* (`SPECIFICATION`) of
each input, then of each output. A call takes a *frame* (`FRAME`) and gives it back.
"""

from __future__ import annotations

#: Where NumPy keeps what is checked, in bytes from the beginning of an array; promised by its C interface, and tested by `call`.
ARRAY = {"TYPE": 8, "DATA": 16, "RANK": 24, "SHAPE": 32, "DESCR": 56, "FLAGS": 64}

#: The words of a table.
TABLE = {
    "PYTHON": 0,  # address of the words of PYTHON
    "INPUTS": 1,  # how many
    "OUTPUTS": 2,  # how many
    "ENTRY": 3,  # address of the code
    "FREE": 4,  # list of the addresses of frames that are not in use, as Python's integers
    "CALLS": 5,  # how many plain calls there were
    "SPECIFICATIONS": 6,
}

#: The words of a specification. The extents of the array follow, then the numbers of the slots its address goes to.
SPECIFICATION = {
    "WANTED_DESCR": 0,
    "WANTED_FLAGS": 1,  # those that must be set
    "BYTES": 2,
    "WANTED_RANK": 3,
    "SLOTS": 4,  # how many
    "WANTED_SHAPE": 5,
}

#: The words of a frame. Its slots follow, which are what the code gets as its arguments.
FRAME = {"FRAME_THREADS": 0, "SCRATCH": 1, "ARGUMENTS": 2}

#: Functions of CPython: what they give, and what they take.
FUNCTIONS = {
    "Py_IncRef": ("void", ("ptr",)),
    "Py_DecRef": ("void", ("ptr",)),
    "PyTuple_Size": ("i64", ("ptr",)),
    "PyTuple_GetItem": ("ptr", ("ptr", "i64")),
    "PySequence_Tuple": ("ptr", ("ptr",)),
    "PyList_Size": ("i64", ("ptr",)),
    "PyList_GetItem": ("ptr", ("ptr", "i64")),
    "PyList_SetSlice": ("i32", ("ptr", "i64", "i64", "ptr")),
    "PyList_Append": ("i32", ("ptr", "ptr")),
    "PyDict_GetItem": ("ptr", ("ptr", "ptr")),
    "PyLong_AsVoidPtr": ("ptr", ("ptr",)),
    "PyContextVar_Get": ("i32", ("ptr", "ptr", "ptr")),
    "PyEval_SaveThread": ("ptr", ()),
    "PyEval_RestoreThread": ("void", ("ptr",)),
}
#: Objects: None, three types, the context variable that says which pool is wanted, and the dictionary of the pools' addresses.
OBJECTS = ("None", "ndarray", "tuple", "list", "wanted", "addresses")
#: The words of what all tables share: addresses of those functions and objects. They come in a table, because generated code
#: is linked with nothing of Python.
PYTHON = {name: n for n, name in enumerate((*FUNCTIONS, *OBJECTS))}

SYMBOLS = frozenset({"plain_call"})


def call_ir(pool_threads_at: int) -> str:
    """`pool_threads_at`: where a pool's memory has the number of its threads."""
    words = {**TABLE, **SPECIFICATION, **FRAME, **{name: PYTHON[name] for name in OBJECTS}}
    text = READERS + _IR
    for name, at in {**ARRAY, **{name: 8 * n for name, n in words.items()}, "POOL_THREADS": pool_threads_at}.items():
        text = text.replace(f"${name}$", str(at))
    return text + "".join(_function(name, *signature) for name, signature in FUNCTIONS.items())


def _function(name: str, result: str, takes: tuple[str, ...]) -> str:
    """A function of CPython, called by its address."""
    taken = "".join(f", {kind} %a{n}" for n, kind in enumerate(takes))
    call = f"call {result} %address({taken[2:]})"
    body = f"  {call}\n  ret void" if result == "void" else f"  %result = {call}\n  ret {result} %result"
    return f"""
define internal {result} @{name}(ptr %python{taken}) alwaysinline {{
  %address = call ptr @pointer_at(ptr %python, i64 {8 * PYTHON[name]})
{body}
}}
"""


#: Reading words of memory, for this and other modules. The whole text is what files compare their own code of calls with.
READERS = """
define internal ptr @pointer_at(ptr %base, i64 %offset) alwaysinline {
  %at = getelementptr i8, ptr %base, i64 %offset
  %pointer = load ptr, ptr %at
  ret ptr %pointer
}

define internal i64 @word_at(ptr %base, i64 %offset) alwaysinline {
  %at = getelementptr i8, ptr %base, i64 %offset
  %word = load i64, ptr %at
  ret i64 %word
}

; A 32-bit integer; the arrays' are never negative.
define internal i64 @half_at(ptr %base, i64 %offset) alwaysinline {
  %at = getelementptr i8, ptr %base, i64 %offset
  %half = load i32, ptr %at
  %word = zext i32 %half to i64
  ret i64 %word
}

; The address of word n of an array of words that begins at %offset.
define internal ptr @word_of(ptr %base, i64 %offset, i64 %n) alwaysinline {
  %first = getelementptr i8, ptr %base, i64 %offset
  %at = getelementptr i64, ptr %first, i64 %n
  ret ptr %at
}
"""

_IR = """
; Whether an object is an array of exactly that type and shape, with those flags.
define internal i1 @meets(ptr %python, ptr %x, ptr %specification) {
  %type = call ptr @pointer_at(ptr %x, i64 $TYPE$)
  %ndarray = call ptr @pointer_at(ptr %python, i64 $ndarray$)
  %is.array = icmp eq ptr %type, %ndarray
  br i1 %is.array, label %array, label %no
array:
  %descr = call ptr @pointer_at(ptr %x, i64 $DESCR$)
  %wanted.descr = call ptr @pointer_at(ptr %specification, i64 $WANTED_DESCR$)
  %same.descr = icmp eq ptr %descr, %wanted.descr
  br i1 %same.descr, label %typed, label %no
typed:
  %flags = call i64 @half_at(ptr %x, i64 $FLAGS$)
  %wanted.flags = call i64 @word_at(ptr %specification, i64 $WANTED_FLAGS$)
  %set.flags = and i64 %flags, %wanted.flags
  %all.set = icmp eq i64 %set.flags, %wanted.flags
  br i1 %all.set, label %flagged, label %no
flagged:
  %rank = call i64 @half_at(ptr %x, i64 $RANK$)
  %wanted.rank = call i64 @word_at(ptr %specification, i64 $WANTED_RANK$)
  %same.rank = icmp eq i64 %rank, %wanted.rank
  br i1 %same.rank, label %ranked, label %no
ranked:
  %shape = call ptr @pointer_at(ptr %x, i64 $SHAPE$)
  br label %next
next:
  %n = phi i64 [ 0, %ranked ], [ %n.next, %compare ]
  %more = icmp ult i64 %n, %rank
  br i1 %more, label %compare, label %yes
compare:
  %extent.at = getelementptr i64, ptr %shape, i64 %n
  %extent = load i64, ptr %extent.at
  %wanted.at = call ptr @word_of(ptr %specification, i64 $WANTED_SHAPE$, i64 %n)
  %wanted = load i64, ptr %wanted.at
  %same = icmp eq i64 %extent, %wanted
  %n.next = add i64 %n, 1
  br i1 %same, label %next, label %no
yes:
  ret i1 true
no:
  ret i1 false
}

; Whether range %n of memory shares a byte with one before it. Empty ranges share none.
define internal i1 @overlaps(ptr %starts, ptr %ends, i64 %n) {
entry:
  %start.at = getelementptr i64, ptr %starts, i64 %n
  %end.at = getelementptr i64, ptr %ends, i64 %n
  %start = load i64, ptr %start.at
  %end = load i64, ptr %end.at
  br label %next
next:
  %m = phi i64 [ 0, %entry ], [ %m.next, %compare ]
  %more = icmp ult i64 %m, %n
  br i1 %more, label %compare, label %no
compare:
  %other.start.at = getelementptr i64, ptr %starts, i64 %m
  %other.end.at = getelementptr i64, ptr %ends, i64 %m
  %other.start = load i64, ptr %other.start.at
  %other.end = load i64, ptr %other.end.at
  %first = call i64 @llvm.umax.i64(i64 %start, i64 %other.start)
  %last = call i64 @llvm.umin.i64(i64 %end, i64 %other.end)
  %shared = icmp ult i64 %first, %last
  %m.next = add i64 %m, 1
  br i1 %shared, label %yes, label %next
yes:
  ret i1 true
no:
  ret i1 false
}

; The specification behind this one.
define internal ptr @behind(ptr %specification) alwaysinline {
  %rank = call i64 @word_at(ptr %specification, i64 $WANTED_RANK$)
  %slots = call i64 @word_at(ptr %specification, i64 $SLOTS$)
  %words = add i64 %rank, %slots
  %behind = call ptr @word_of(ptr %specification, i64 $WANTED_SHAPE$, i64 %words)
  ret ptr %behind
}

; Writes the arrays' addresses to the slots of a frame.
define internal void @point(ptr %frame, ptr %first.specification, ptr %starts, i64 %arrays) {
entry:
  br label %next
next:
  %n = phi i64 [ 0, %entry ], [ %n.next, %pointed ]
  %specification = phi ptr [ %first.specification, %entry ], [ %behind, %pointed ]
  %more = icmp ult i64 %n, %arrays
  br i1 %more, label %array, label %done
array:
  %start.at = getelementptr i64, ptr %starts, i64 %n
  %start = load i64, ptr %start.at
  %rank = call i64 @word_at(ptr %specification, i64 $WANTED_RANK$)
  %slots = call i64 @word_at(ptr %specification, i64 $SLOTS$)
  br label %next.slot
next.slot:
  %s = phi i64 [ 0, %array ], [ %s.next, %slot ]
  %more.slots = icmp ult i64 %s, %slots
  br i1 %more.slots, label %slot, label %pointed
slot:
  %word = add i64 %rank, %s
  %number.at = call ptr @word_of(ptr %specification, i64 $WANTED_SHAPE$, i64 %word)
  %number = load i64, ptr %number.at
  %slot.at = call ptr @word_of(ptr %frame, i64 $ARGUMENTS$, i64 %number)
  store i64 %start, ptr %slot.at
  %s.next = add i64 %s, 1
  br label %next.slot
pointed:
  %behind = call ptr @behind(ptr %specification)
  %n.next = add i64 %n, 1
  br label %next
done:
  ret void
}

; The pool that this Python thread wants, null if there is none yet.
define internal ptr @wanted_pool(ptr %python) alwaysinline {
  %wanted.at = alloca ptr
  store ptr null, ptr %wanted.at
  %variable = call ptr @pointer_at(ptr %python, i64 $wanted$)
  %found = call i32 @PyContextVar_Get(ptr %python, ptr %variable, ptr null, ptr %wanted.at)  ; cannot fail: there is a default
  %wanted = load ptr, ptr %wanted.at
  %addresses = call ptr @pointer_at(ptr %python, i64 $addresses$)
  %address = call ptr @PyDict_GetItem(ptr %python, ptr %addresses, ptr %wanted)
  call void @Py_DecRef(ptr %python, ptr %wanted)
  %known = icmp ne ptr %address, null
  br i1 %known, label %yes, label %no
yes:
  %pool = call ptr @PyLong_AsVoidPtr(ptr %python, ptr %address)
  ret ptr %pool
no:
  ret ptr null
}

define ptr @plain_call(ptr %self, ptr %given, i64 %count) {
entry:
  %table = call ptr @pointer_at(ptr %self, i64 $DATA$)
  %python = call ptr @pointer_at(ptr %table, i64 $PYTHON$)
  %inputs = call i64 @word_at(ptr %table, i64 $INPUTS$)
  %outputs = call i64 @word_at(ptr %table, i64 $OUTPUTS$)
  %specifications = getelementptr i8, ptr %table, i64 $SPECIFICATIONS$
  %arrays = add i64 %inputs, %outputs
  %starts = alloca i64, i64 %arrays
  %ends = alloca i64, i64 %arrays
  %args = call ptr @pointer_at(ptr %given, i64 0)
  %out = call ptr @pointer_at(ptr %given, i64 8)
  %inputs.given = call i64 @PyTuple_Size(ptr %python, ptr %args)
  %all.inputs = icmp eq i64 %inputs.given, %inputs
  br i1 %all.inputs, label %look.at.out, label %refuse

look.at.out:  ; from here on a reference to the result is held, and with it to every output
  %single = icmp eq i64 %outputs, 1
  br i1 %single, label %one, label %several
one:
  call void @Py_IncRef(ptr %python, ptr %out)
  br label %check.arrays
several:
  %out.type = call ptr @pointer_at(ptr %out, i64 $TYPE$)
  %tuple.type = call ptr @pointer_at(ptr %python, i64 $tuple$)
  %list.type = call ptr @pointer_at(ptr %python, i64 $list$)
  %is.tuple = icmp eq ptr %out.type, %tuple.type
  %is.list = icmp eq ptr %out.type, %list.type
  %is.sequence = or i1 %is.tuple, %is.list
  br i1 %is.sequence, label %sequence, label %refuse
sequence:
  %tuple = call ptr @PySequence_Tuple(ptr %python, ptr %out)
  %no.tuple = icmp eq ptr %tuple, null
  br i1 %no.tuple, label %no.memory, label %count.outputs
no.memory:
  ret ptr null
count.outputs:
  %outputs.given = call i64 @PyTuple_Size(ptr %python, ptr %tuple)
  %all.outputs = icmp eq i64 %outputs.given, %outputs
  br i1 %all.outputs, label %check.arrays, label %refuse.result

check.arrays:
  %result = phi ptr [ %out, %one ], [ %tuple, %count.outputs ]
  br label %next
next:
  %n = phi i64 [ 0, %check.arrays ], [ %n.next, %apart ]
  %specification = phi ptr [ %specifications, %check.arrays ], [ %behind, %apart ]
  %more = icmp ult i64 %n, %arrays
  br i1 %more, label %pick, label %checked
pick:
  %is.input = icmp ult i64 %n, %inputs
  br i1 %is.input, label %pick.input, label %pick.output
pick.input:
  %input = call ptr @PyTuple_GetItem(ptr %python, ptr %args, i64 %n)
  br label %check
pick.output:
  br i1 %single, label %check, label %pick.item
pick.item:
  %m = sub i64 %n, %inputs
  %item = call ptr @PyTuple_GetItem(ptr %python, ptr %result, i64 %m)
  br label %check
check:
  %x = phi ptr [ %input, %pick.input ], [ %result, %pick.output ], [ %item, %pick.item ]
  %meets = call i1 @meets(ptr %python, ptr %x, ptr %specification)
  br i1 %meets, label %range, label %refuse.result
range:
  %start = call i64 @word_at(ptr %x, i64 $DATA$)
  %bytes = call i64 @word_at(ptr %specification, i64 $BYTES$)
  %end = add i64 %start, %bytes
  %start.at = getelementptr i64, ptr %starts, i64 %n
  %end.at = getelementptr i64, ptr %ends, i64 %n
  store i64 %start, ptr %start.at
  store i64 %end, ptr %end.at
  br i1 %is.input, label %apart, label %look.for.overlap
look.for.overlap:
  %overlaps = call i1 @overlaps(ptr %starts, ptr %ends, i64 %n)
  br i1 %overlaps, label %refuse.result, label %apart
apart:
  %behind = call ptr @behind(ptr %specification)
  %n.next = add i64 %n, 1
  br label %next

checked:
  %pool = call ptr @wanted_pool(ptr %python)
  %no.pool = icmp eq ptr %pool, null
  br i1 %no.pool, label %refuse.result, label %find.frame
find.frame:
  %free = call ptr @pointer_at(ptr %table, i64 $FREE$)
  %frames = call i64 @PyList_Size(ptr %python, ptr %free)
  %no.frame = icmp eq i64 %frames, 0
  br i1 %no.frame, label %refuse.result, label %last.frame
last.frame:
  %last = sub i64 %frames, 1
  %address = call ptr @PyList_GetItem(ptr %python, ptr %free, i64 %last)
  %frame = call ptr @PyLong_AsVoidPtr(ptr %python, ptr %address)
  %frame.threads = call i64 @word_at(ptr %frame, i64 $FRAME_THREADS$)
  %pool.threads = call i64 @word_at(ptr %pool, i64 $POOL_THREADS$)
  %too.small = icmp ult i64 %frame.threads, %pool.threads
  br i1 %too.small, label %refuse.result, label %take.frame
take.frame:  ; between the list's size and here no other Python thread runs: the GIL is held
  call void @Py_IncRef(ptr %python, ptr %address)
  %taken = call i32 @PyList_SetSlice(ptr %python, ptr %free, i64 %last, i64 %frames, ptr null)
  %not.taken = icmp ne i32 %taken, 0
  br i1 %not.taken, label %fail, label %run

run:
  call void @point(ptr %frame, ptr %specifications, ptr %starts, i64 %arrays)
  %code = call ptr @pointer_at(ptr %table, i64 $ENTRY$)
  %arguments = getelementptr i8, ptr %frame, i64 $ARGUMENTS$
  %scratch = call ptr @pointer_at(ptr %frame, i64 $SCRATCH$)
  %calls.at = getelementptr i8, ptr %table, i64 $CALLS$
  %calls = load i64, ptr %calls.at
  %calls.more = add i64 %calls, 1
  store i64 %calls.more, ptr %calls.at
  %thread = call ptr @PyEval_SaveThread(ptr %python)
  call void %code(ptr %arguments, ptr %scratch, ptr %pool, ptr @parallel_for)
  call void @PyEval_RestoreThread(ptr %python, ptr %thread)
  %returned = call i32 @PyList_Append(ptr %python, ptr %free, ptr %address)
  %not.returned = icmp ne i32 %returned, 0
  br i1 %not.returned, label %fail, label %done
done:
  call void @Py_DecRef(ptr %python, ptr %address)
  ret ptr %result

fail:  ; Python has its exception
  call void @Py_DecRef(ptr %python, ptr %address)
  call void @Py_DecRef(ptr %python, ptr %result)
  ret ptr null
refuse.result:
  %held = phi ptr [ %tuple, %count.outputs ], [ %result, %check ], [ %result, %look.for.overlap ],
                  [ %result, %checked ], [ %result, %find.frame ], [ %result, %last.frame ]
  call void @Py_DecRef(ptr %python, ptr %held)
  br label %refuse
refuse:
  %none = call ptr @pointer_at(ptr %python, i64 $None$)
  call void @Py_IncRef(ptr %python, ptr %none)
  ret ptr %none
}
"""
