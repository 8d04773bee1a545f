"""Faults that happen to the candidate with the unroll factor 13; loaded by worker processes, see `Measurer(hook=...)`."""

from __future__ import annotations

import ctypes
import os
import signal
from pathlib import Path

import numpy as np

from tensorsmith.errors import Refusal

BAD = 13


def _at(point: str, wanted: str, candidate) -> bool:
    return point == wanted and candidate.decisions["C.unroll"] == BAD


def segfault_in_build(point, candidate, outputs):
    if _at(point, "build", candidate):
        ctypes.string_at(0)


def segfault_in_run(point, candidate, outputs):
    if _at(point, "run", candidate):
        ctypes.string_at(0)


def segfault_in_timing(point, candidate, outputs):
    if _at(point, "time", candidate):
        ctypes.string_at(0)


def killed_in_timing(point, candidate, outputs):
    if _at(point, "time", candidate):
        os.kill(os.getpid(), signal.SIGKILL)


def exit_in_run(point, candidate, outputs):
    if _at(point, "run", candidate):
        os._exit(3)


def _once() -> bool:
    """True for the first who asks; `TEST_MARK` is the file that says so."""
    try:
        os.close(os.open(os.environ["TEST_MARK"], os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def kills_the_node_once(point, candidate, outputs):
    """A worker's parent is the process that the tuner speaks to, where it measures elsewhere."""
    if _at(point, "run", candidate) and _once():
        os.kill(os.getppid(), signal.SIGKILL)


def stops_the_node_once(point, candidate, outputs):
    if _at(point, "run", candidate) and _once():
        os.kill(os.getppid(), signal.SIGSTOP)


def endless_build(point, candidate, outputs):
    while _at(point, "build", candidate):
        pass


def endless_run(point, candidate, outputs):
    if _at(point, "run", candidate):
        if "TEST_MARK" in os.environ:
            Path(os.environ["TEST_MARK"]).touch()
        while True:
            pass


def endless_timing(point, candidate, outputs):
    while _at(point, "time", candidate):
        pass


def wrong_number(point, candidate, outputs):
    if _at(point, "answer", candidate):
        outputs[0][3, 5] += 0.25


def forgets_an_element(point, candidate, outputs):
    """As if the kernel had not written it: then what was there before is still there."""
    if _at(point, "answer", candidate):
        outputs[0].reshape(-1).view(np.uint8)[:4] = 0xFF


def hog_in_build(point, candidate, outputs):
    if _at(point, "build", candidate):
        _hog()


def hog_in_run(point, candidate, outputs):
    if _at(point, "run", candidate):
        _hog()


def compiler_out_of_memory(point, candidate, outputs):
    if _at(point, "build", candidate):
        os.write(2, b"LLVM ERROR: out of memory\n")
        os.abort()


def error_in_build(point, candidate, outputs):
    if _at(point, "build", candidate):
        raise ValueError("no such instruction\nand a long story")


def refusal(point, candidate, outputs):
    if _at(point, "build", candidate):
        raise Refusal("tile too large", "some detail")


def prints(point, candidate, outputs):
    """Whatever is printed must not garble the replies."""
    print("hello" * 1000, flush=True)
    os.write(1, b"\xff" * 1000)


def log(point, candidate, outputs):
    """A line in the file `TEST_LOG` for every point; answers also go to the folder `TEST_ANSWERS`."""
    unroll = candidate.decisions["C.unroll"]
    if "TEST_LOG" in os.environ:
        with open(os.environ["TEST_LOG"], "a") as file:
            file.write(f"{os.getpid()} {point} {unroll}\n")
    if point == "answer" and "TEST_ANSWERS" in os.environ:
        np.save(Path(os.environ["TEST_ANSWERS"]) / f"{os.getpid()}-{unroll}.npy", outputs[0])


def log_and_die(point, candidate, outputs):
    log(point, candidate, outputs)
    segfault_in_timing(point, candidate, outputs)


def _hog() -> None:
    kept = []
    while True:
        kept.append(np.empty(1 << 22))  # address space is what is limited: no need to touch it
