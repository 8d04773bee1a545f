"""Identifiers of our own making for what a model names, so that no name of a model is code.

A name of a model is a stranger's text. What is written into a file is `in_WORD`, `out_WORD` or `net_WORD`: a prefix that neither C,
nor its library, nor our own code uses, and what is left of the name when all but ASCII letters and digits is taken out. The name as
it was is data, a C string (`c_string`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

LONGEST = 48  # characters of a name that are kept: files are called so too, and systems allow 255 bytes

_KEYWORDS = (
    "alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class compl "
    "concept const consteval constexpr constinit const_cast continue co_await co_return co_yield decltype default delete do "
    "double dynamic_cast else enum explicit export extern false final float for friend goto if import inline int long module "
    "mutable namespace new noexcept not not_eq nullptr operator or or_eq override private protected public register "
    "reinterpret_cast requires restrict return short signed sizeof static static_assert static_cast struct switch template "
    "this thread_local throw true try typedef typeid typename typeof union unsigned using virtual void volatile wchar_t while "
    "xor xor_eq"
)
#: libraries whose header NAME.h or libNAME.so ours would hide
_HEADERS = (
    "aio arpa assert c complex cpio crypt ctype dirent dl dlfcn errno fcntl features fenv float fnmatch ftw glob grp iconv "
    "inttypes iso646 langinfo libgen limits locale m math memory monetary mqueue ndbm netdb nl_types poll pthread pwd regex "
    "rt sched search semaphore setjmp signal spawn stdalign stdarg stdatomic stdbit stdbool stdckdint stddef stdint stdio "
    "stdlib stdnoreturn string strings stropts syslog tar tgmath threads time trace uchar ucontext ulimit unistd utime utmpx "
    "wchar wctype wordexp"
)
#: words whose NAME_t, NAME_OK, NAME_create, NAME_run or NAME_destroy are the system's
_FAMILIES = (
    "blkcnt blksize caddr clock clockid cnd cpu_set dev div f float double fpos fsblkcnt fsfilcnt gid id idtype imaxdiv ino "
    "int int8 int16 int32 int64 intmax intptr jmp_buf key ldiv lldiv loff locale max_align mbstate mode mtx nlink off pid "
    "pthread_attr pthread_barrier pthread_cond pthread_key pthread_mutex pthread_once pthread_rwlock pthread_spin ptrdiff "
    "quad r register rlim sa_family sem sig_atomic siginfo sigset size socklen ssize stack suseconds thrd time timer tss "
    "u_int8 u_int16 u_int32 u_int64 uid uint uint8 uint16 uint32 uint64 uintmax uintptr useconds va_list w wchar wctrans "
    "wctype wint x"
)
#: names of targets of CMake's own, of our example, and what parameters begin with
_BUILDING = "all clean edit_cache help in install list_install_components main out package package_source rebuild_cache test"
_TAKEN = frozenset(f"{_KEYWORDS} {_HEADERS} {_FAMILIES} {_BUILDING}".split())


def word(text: str) -> str:
    """What of a text can be a part of an identifier, "" if nothing can."""
    return re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_")[:LONGEST].rstrip("_")


def library_name(text: str) -> str:
    """What a library is called whose network is called so."""
    return "_".join(filter(None, ("net", word(text))))


def is_free(name: str) -> bool:
    """Whether a library can be called so: C, C++ and CMake take the name, and everything that begins with it is ours."""
    lower = name.lower()
    plain = re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) is not None and "__" not in name and not name.endswith("_")
    return plain and len(name) <= LONGEST + len("net_") and lower not in _TAKEN and lower != "ts" and not lower.startswith("ts_")


def argument_names(inputs: Iterable[str], outputs: Iterable[str]) -> list[str]:
    """`in_image`, `out_scores`: an identifier for each, all different, whichever case they are written in."""
    found: list[str] = []
    taken: set[str] = set()
    for prefix, texts in (("in", inputs), ("out", outputs)):
        for n, text in enumerate(texts):
            name = first = f"{prefix}_{word(text) or n}"
            count = 1
            while name.upper() in taken:
                count += 1
                name = f"{first}_{count}"
            taken.add(name.upper())
            found.append(name)
    return found


def c_string(text: str) -> str:
    """A text as a C string, of UTF-8: all that is not a letter, a digit or harmless is written by its number."""
    data = text.encode("utf-8", "replace")
    return '"' + "".join(chr(b) if chr(b) in _HARMLESS else f"\\{b:03o}" for b in data) + '"'


_HARMLESS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 _-+.,:;()[]")
