"""Faults that happen to candidates in the order of their arrival; loaded by worker processes, see `faulty`.

`TEST_ARRIVALS` is a folder: the n-th candidate that is run leaves a file `n` there, with its key and the worker's process number.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from pathlib import Path

from tensorsmith.records.keys import candidate_key

SEGFAULT, ENDLESS, WRONG, KILLED = 1, 3, 5, 7
HANGS_AT = 20


def arrival(candidate) -> int:
    """The number of a candidate; the same if it comes again because its worker died."""
    folder, key = Path(os.environ["TEST_ARRIVALS"]), candidate_key(candidate)
    number = 0
    while True:
        try:
            with open(folder / f"{number}", "x") as file:
                file.write(f"{key} {os.getpid()}")
            return number
        except FileExistsError:
            if (folder / f"{number}").read_text().startswith(key):
                return number
        number += 1


def nothing(point, candidate, outputs):
    if point == "run":
        arrival(candidate)


def each_in_turn(point, candidate, outputs):
    """One candidate crashes, one never ends, one is wrong, one is killed by the system, as for want of memory."""
    if point not in ("run", "answer"):
        return
    number = arrival(candidate)
    if point == "answer" and number == WRONG:
        outputs[0].reshape(-1)[-1] += 1.0
    elif point == "run" and number == SEGFAULT:
        ctypes.string_at(0)
    elif point == "run" and number == KILLED:
        os.kill(os.getpid(), signal.SIGKILL)
    elif point == "run" and number == ENDLESS:
        while True:
            pass


def waits(point, candidate, outputs):
    """One candidate waits for the test to kill its worker."""
    if point == "run" and arrival(candidate) == KILLED:
        while True:
            time.sleep(0.01)


def hangs(point, candidate, outputs):
    """A run that does not get past one of its candidates."""
    if point == "run" and arrival(candidate) >= HANGS_AT:
        while True:
            time.sleep(0.01)
