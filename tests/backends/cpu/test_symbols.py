"""What generated code may call: what it brings, and a short list of libc's and libm's; never what the process happens to have."""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.backends.cpu.other_user import LOOP, theirs
from tests.runtime.kernels import linked

import tensorsmith as ts
from tensorsmith.backends.cpu import machine_code, symbols
from tensorsmith.backends.cpu.link import link
from tensorsmith.errors import InternalError, UserError
from tensorsmith.targets.target import native

ROOT = Path(__file__).parents[3]

CALLS_GETPID = "declare i32 @getpid()\ndefine i32 @f() {\n  %y = call i32 @getpid()\n  ret i32 %y\n}\n"
GETPID = ctypes.cast(ctypes.CDLL(None).getpid, ctypes.c_void_p).value


def test_every_type_and_kind_of_operator_in_a_bare_process(tmp_path):
    command = [sys.executable, "-m", "tests.backends.cpu.every_kind", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "307 computations\n"


def test_what_the_process_has_and_the_list_has_not_is_refused():
    with pytest.raises(InternalError, match=r"functions that nobody brings: getpid$"):
        linked(CALLS_GETPID, native())


def test_functions_that_llvm_calls_by_itself_are_checked_too():
    """The IR names no function; LLVM has none for this conversion but a call of the compiler's run-time library."""
    text = "define fp128 @f(double %x) {\n  %y = fpext double %x to fp128\n  ret fp128 %y\n}\n"
    with pytest.raises(InternalError, match=r"nobody brings: __extenddftf2$"):
        linked(text, native())


def test_functions_of_the_list_are_found():
    text = "define double @f(double %x) {\n  %y = frem double %x, 4.0\n  ret double %y\n}\n"
    module = linked(text, native())
    assert ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(module.address("f"))(11.0) == 3.0


def test_functions_that_the_caller_gives_are_found():
    module = linked(CALLS_GETPID, native(), given={"getpid": GETPID})
    assert ctypes.CFUNCTYPE(ctypes.c_int)(module.address("f"))() == os.getpid()
    with pytest.raises(InternalError, match="getpid"):
        link(module.code)
    again = link(module.code, {"getpid": GETPID})
    assert ctypes.CFUNCTYPE(ctypes.c_int)(again.address("f"))() == os.getpid()


def test_an_address_of_the_list_wins_over_the_process(monkeypatch):
    """The process has a `usleep` of its own, which is not asked."""
    instead = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(lambda x: x + 1)
    monkeypatch.setattr(symbols, "outside", lambda: {"usleep": ctypes.cast(instead, ctypes.c_void_p).value})
    text = "declare i32 @usleep(i32)\ndefine i32 @f(i32 %x) {\n  %y = call i32 @usleep(i32 %x)\n  ret i32 %y\n}\n"
    module = linked(text, native())
    assert ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(module.address("f"))(1) == 2


def test_a_saved_executable_is_held_to_the_list(tmp_path, monkeypatch):
    a = ts.placeholder((8,), "f64", "A")
    executable = ts.compile([a, ts.compute((8,), lambda i: a[i] % 3.0, name="C")])
    executable.save(tmp_path / "saved.tsm")
    assert ts.load_executable(tmp_path / "saved.tsm")(np.full(8, 7.0))[0] == 1.0
    shorter = {name: address for name, address in symbols.outside().items() if name != "fmod"}
    monkeypatch.setattr(symbols, "outside", lambda: shorter)
    with pytest.raises(UserError, match=r"saved.tsm is damaged: generated code calls functions that nobody brings: fmod"):
        ts.load_executable(tmp_path / "saved.tsm")


def test_code_that_cannot_be_read_is_refused():
    whole = linked("define i32 @f() {\n  ret i32 1\n}\n", native()).code.data
    for code in (b"", b"\x7fELF", whole[:100], whole[:-70], b"x" * 200):
        with pytest.raises(InternalError, match="ELF object"):
            symbols.undefined(code)


def test_other_users_of_llvm_in_the_process_get_the_code_they_would_get_without_us():
    command = [sys.executable, "-m", "tests.backends.cpu.other_user"]
    alone = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True).stdout
    assert theirs() == alone
    ours = linked(LOOP, native(), passes="")
    assert theirs() == alone
    assert ours.code.source("asm")  # emitted again, when asked for
    assert theirs() == alone
    with pytest.raises(RuntimeError, match="no memory"), machine_code.without_strength_reduction():
        raise RuntimeError("no memory")
    assert theirs() == alone


def test_ours_is_emitted_without_strength_reduction(monkeypatch):
    ours = linked(LOOP, native(), passes="")
    text = ours.code.source("asm")
    monkeypatch.setattr(machine_code, "without_strength_reduction", contextlib.nullcontext)
    other = linked(LOOP, native(), passes="")
    assert other.code.data != ours.code.data and other.code.source("asm") != text
