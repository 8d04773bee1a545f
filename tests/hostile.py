"""Names as a stranger's model might have them: those that would be code, and ordinary ones that are somebody else's already."""

from __future__ import annotations

#: end a comment, a string, a line or an identifier, or mean something to whoever prints them
HOSTILE = (
    "x**// __attribute__((constructor)) void pwn(void){} /*", "*/ int pwn(void); /*", "*/", "/*", "//", "x\\", "??/",
    "x ??/\nint pwn(void);", '"', 'x"); pwn("', "'", "\\", "\\0", "\\n", "x\nint pwn(void) { return 1; }\n",
    "x\r\n#define float double", "\n}\n", "#include <evil.h>", "$NAME$", "$UPPER$_OK", "$PARAMETERS$", "${CMAKE_COMMAND}",
    "$ENV{HOME}", "$(pwn)", "`pwn`", ";pwn", ")\nexecute_process(COMMAND pwn)\n", "[[x]]", "]==]", "%s%s%s%s", "%n", "%",
    "{name}", "{0}", "{", "}", "@entry", "@llvm.trap", "%t1", "!dbg", "asm(\"int3\")", "; ret void", "\x00", "x\x00y",
    "\x1b]0;pwn\x07", "\u202ex", "é", "größe", "图像", "🙂", "ｘ", "x" * 300, "é" * 300, "*/" * 300, " ", ".", "..", "../../pwn",
    "/tmp/pwn", "-", "--help", "_", "__", "a.b", "a_b", "A:B", "a__b", "a_.b", "a._b", "a*b", "a.2a.b", "1", "0x1", "1st",
)  # fmt: skip

#: words of C, C++ and the dialects of GPUs, functions and macros of their libraries, and names that our own code uses
ORDINARY = (
    "steps", "kernels", "places", "memcpy", "size_t", "count", "best", "words", "free", "take", "printf", "x", "r", "time",
    "clock", "size", "scratches", "entry", "model", "threads", "weights", "inputs", "outputs", "arguments", "code", "n", "main",
    "made", "pool", "block", "thread", "begin", "limits", "step", "place", "scratch", "names", "busy", "INPUT", "OUTPUT",
    "ARENA", "STEPS", "PLACES", "NULL", "stdin", "errno", "EOF", "assert", "unix", "linux", "INFINITY", "NAN", "int", "float",
    "double", "class", "new", "delete", "template", "this", "auto", "register", "restrict", "inline", "operator", "namespace",
    "kernel", "global", "local", "device", "half", "float4", "threadIdx", "blockIdx", "get_local_id", "oid", "olatile",
    "irtual", "load4", "store4", "A.buffer", "A_buffer", "ts_max_f32", "max", "min", "exp", "OK", "H", "BUSY", "SERIAL", "in_x",
    "out_x", "rank", "shape", "param", "C.param.0", "signal",
)  # fmt: skip

NAMES = HOSTILE + ORDINARY
