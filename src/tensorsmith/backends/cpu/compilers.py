"""More than one compiler at a time.

llvmlite lets Python go on while LLVM works, but lets only one thread into LLVM. So there are processes that do nothing but compile,
for as long as somebody has much to compile (`several`): they start in less than a tenth of a second, and import nothing of ours.
What cannot be had from one of them is compiled here: a process that dies, or a machine that starts none, costs time and no more.
"""

from __future__ import annotations

import contextlib
import functools
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import llvmlite

from tensorsmith.backends.cpu import machine_code
from tensorsmith.backends.cpu.machine_code import Compiler, Machine, Made
from tensorsmith.targets.host import thread_count

_WORTH_ANOTHER = 16  # kernels for each process: so many take LLVM half a second
_MOST = 3  # processes: one thread writes the texts for all of them

_here = threading.Lock()  # held by who compiles in this process
_idle: list[Helper] = []


class Helper:
    """A process that compiles."""

    def __init__(self) -> None:
        where = str(Path(llvmlite.__file__).parents[1])
        command = [sys.executable, "-I", "-S", machine_code.__file__, where]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)

    def compile(self, machine: Machine, ir_text: str, passes: str) -> Made | None:
        """None where it refuses. Raises `OSError` or `EOFError` if the process is gone."""
        assert self._process.stdin is not None and self._process.stdout is not None
        pickle.dump((tuple(machine), ir_text, passes), self._process.stdin)
        self._process.stdin.flush()
        answer = pickle.load(self._process.stdout)
        return None if answer is None else Made(*answer)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._process.communicate()  # it ends when it has read all there is


@contextlib.contextmanager
def several(kernels: int) -> Iterator[int]:
    """For the time that so many kernels are compiled, as many compilers as are worth it; gives how many can work at once."""
    helpers: list[Helper] = []
    is_python = Path(sys.executable or "").stem.startswith("python")  # not a program that has one inside
    with contextlib.suppress(OSError):
        while is_python and len(helpers) < min(thread_count() - 1, kernels // _WORTH_ANOTHER, _MOST):
            helpers.append(Helper())
    _idle.extend(helpers)
    try:
        yield 1 + len(helpers)
    finally:
        for helper in helpers:
            with contextlib.suppress(ValueError):  # it died, or is another thread's still
                _idle.remove(helper)
            helper.close()


def compiled(machine: Machine, ir_text: str, passes: str) -> Made:
    """By this process, or by another if this one is at it already."""
    if not _here.acquire(blocking=False):
        with contextlib.suppress(IndexError, OSError, EOFError, ValueError, pickle.UnpicklingError):
            helper = _idle.pop()
            made = helper.compile(machine, ir_text, passes)
            _idle.append(helper)
            if made is not None:
                return made
        _here.acquire()
    try:
        return compiler(machine).compile(ir_text, passes)
    finally:
        _here.release()


@functools.cache
def compiler(machine: Machine) -> Compiler:
    """This process's own."""
    return Compiler(machine)


def _forked() -> None:
    """In a process that was forked meanwhile: the pipes are the other's, and so is the thread that may have been compiling."""
    _idle.clear()
    _here.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_here.acquire, after_in_parent=_here.release, after_in_child=_forked)
