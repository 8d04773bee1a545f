"""From an object as LLVM writes it to what HIP loads: a linked code object.

AMD's library for that comes with ROCm, so it is there wherever HIP is; LLVM's linker does the same.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_uint64
from pathlib import Path
from typing import Any

from tensorsmith.errors import UserError

FOLDERS = ("/opt/rocm",)  # where ROCm is, unless it is where the system looks
_FILES = (
    ("amd_comgr_3.dll", "amd_comgr_2.dll", "amd_comgr.dll")
    if sys.platform == "win32"
    else ("libamd_comgr.so.3", "libamd_comgr.so.2", "libamd_comgr.so", *(f"{folder}/lib/libamd_comgr.so" for folder in FOLDERS))
)
_LINKERS = ("ld.lld", *(f"ld.lld-{version}" for version in range(30, 14, -1)), *(f"{f}/llvm/bin/ld.lld" for f in FOLDERS))

_LOG, _RELOCATABLE, _EXECUTABLE = 5, 7, 8  # amd_comgr.h, `amd_comgr_data_kind_t`
_LINK = 9  # `AMD_COMGR_ACTION_LINK_RELOCATABLE_TO_EXECUTABLE`
_OUT = POINTER(c_uint64)  # handles are structures of one number, which are given as such

FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "amd_comgr_create_data": (c_int, _OUT),
    "amd_comgr_set_data": (c_uint64, c_size_t, c_char_p),
    "amd_comgr_set_data_name": (c_uint64, c_char_p),
    "amd_comgr_get_data": (c_uint64, POINTER(c_size_t), c_char_p),
    "amd_comgr_release_data": (c_uint64,),
    "amd_comgr_create_data_set": (_OUT,),
    "amd_comgr_data_set_add": (c_uint64, c_uint64),
    "amd_comgr_destroy_data_set": (c_uint64,),
    "amd_comgr_create_action_info": (_OUT,),
    "amd_comgr_action_info_set_isa_name": (c_uint64, c_char_p),
    "amd_comgr_action_info_set_logging": (c_uint64, ctypes.c_bool),
    "amd_comgr_destroy_action_info": (c_uint64,),
    "amd_comgr_do_action": (c_int, c_uint64, c_uint64, c_uint64),
    "amd_comgr_action_data_get_data": (c_uint64, c_int, c_size_t, _OUT),
}


class Unlinked(Exception):
    """Why AMD's library did not link."""


def linked(code: bytes, architecture: str) -> bytes:
    """A code object of an object. Raises `UserError` where there is nothing that links, or where it fails."""
    comgr, linker = library(), found_linker()
    if comgr is None and linker is None:
        raise UserError(
            f"code for AMD's GPUs has to be linked: there is no {_FILES[0]} (of AMD's ROCm) and no ld.lld (of LLVM); install one"
        )
    problem = ""
    if comgr is not None:
        try:
            return by_comgr(comgr, code, architecture)
        except Unlinked as why:  # one that is older than the architecture, or than our LLVM
            problem = str(why)
    if linker is not None:
        return by_linker(linker, code)
    raise UserError(f"linking code for {architecture} failed: {problem}; install a newer ROCm, or LLVM's ld.lld")


@functools.cache
def library() -> Any:
    """AMD's library, None where there is none, or an old one."""
    for name in _FILES:
        try:
            found = ctypes.CDLL(name)
            for function, types in FUNCTIONS.items():
                entry = getattr(found, function)
                entry.argtypes, entry.restype = types, c_int
            return found
        except (OSError, AttributeError):
            continue
    return None


@functools.cache
def found_linker(names: Sequence[str] = _LINKERS) -> str | None:
    """LLVM's linker; the newest, where there are several with a version in their names."""
    return next(filter(None, map(shutil.which, names)), None)


def by_linker(linker: str, code: bytes) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        given, made = Path(folder, "code.o"), Path(folder, "code.so")
        given.write_bytes(code)
        done = subprocess.run([linker, "-shared", str(given), "-o", str(made)], capture_output=True, text=True)
        if done.returncode or not made.exists():
            said = done.stderr.strip().splitlines()
            raise UserError(f"{linker} cannot link code for AMD's GPUs: {said[0] if said else f'it ended with {done.returncode}'}")
        return made.read_bytes()


def by_comgr(comgr: Any, code: bytes, architecture: str) -> bytes:
    """By AMD's library. What it makes of things is given back to it, whatever happens."""
    held: list[tuple[str, int]] = []

    def do(function: str, *arguments: Any) -> None:
        if getattr(comgr, f"amd_comgr_{function}")(*arguments):
            raise Unlinked(f"AMD's library failed in amd_comgr_{function}")

    def new(function: str, *arguments: Any, end: str) -> int:
        handle = c_uint64()
        do(function, *arguments, ctypes.byref(handle))
        held.append((end, handle.value))
        return handle.value

    def text(made: int, kind: int) -> bytes:
        one = new("action_data_get_data", made, kind, 0, end="release_data")
        size = c_size_t()
        do("get_data", one, ctypes.byref(size), None)
        buffer = ctypes.create_string_buffer(size.value)
        do("get_data", one, ctypes.byref(size), buffer)
        return buffer.raw[: size.value]

    try:
        data = new("create_data", _RELOCATABLE, end="release_data")
        do("set_data", data, len(code), code)
        do("set_data_name", data, b"code.o")
        given, made = (new("create_data_set", end="destroy_data_set") for _ in range(2))
        do("data_set_add", given, data)
        how = new("create_action_info", end="destroy_action_info")
        do("action_info_set_isa_name", how, f"amdgcn-amd-amdhsa--{architecture}".encode())
        do("action_info_set_logging", how, True)
        try:
            do("do_action", _LINK, how, given, made)
        except Unlinked as problem:
            said: list[str] = []
            with contextlib.suppress(Unlinked):  # there is no log
                said = text(made, _LOG).decode(errors="replace").strip("\0 \n").splitlines()
            raise Unlinked(f"{problem} ({said[0]})" if said else str(problem)) from None
        return text(made, _EXECUTABLE)
    finally:
        for end, handle in reversed(held):
            getattr(comgr, f"amd_comgr_{end}")(handle)
