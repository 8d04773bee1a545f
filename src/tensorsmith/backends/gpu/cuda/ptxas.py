"""NVIDIA's assembler, where it is installed: how many registers a kernel gets, what is spilled, how much shared memory it has.

It needs no GPU and no driver. It is found on PATH; without it these numbers are estimated.
"""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
from dataclasses import dataclass

from tensorsmith.errors import Refusal

TIME_LIMIT = 120.0  # seconds for one module


@dataclass(frozen=True)
class Compiled:
    """What the assembler says of one kernel. Bytes are a thread's, but for those of shared memory, which are a block's."""

    registers: int
    shared_bytes: int
    stack_bytes: int
    spilled_bytes: int  # stores of registers that were needed for something else


@functools.cache
def found() -> str | None:
    """Where the assembler is."""
    return shutil.which("ptxas")


@functools.cache
def knows(architecture: str) -> bool:
    """Whether it is there and compiles for an architecture: new versions have dropped old ones."""
    tool = found()
    if tool is None:
        return False
    empty = f".version 7.0\n.target {_least(architecture)}\n.address_size 64\n"
    return _run(tool, architecture, empty).returncode == 0


def compiled(text: str, architecture: str) -> dict[str, Compiled]:
    """The kernels of a module by name. Raises `Refusal` if the assembler does not take it."""
    tool = found()
    if tool is None:
        raise Refusal("no ptxas", "it is not on PATH")
    done = _run(tool, architecture, text)
    if done.returncode != 0:
        lines = [x.strip() for x in done.stderr.splitlines() if "error" in x or "fatal" in x]
        raise Refusal("ptxas", lines[0] if lines else f"ended with {done.returncode}")
    return read(done.stderr)


def read(report: str) -> dict[str, Compiled]:
    """The kernels in what `ptxas -v` says."""
    known: dict[str, Compiled] = {}
    name, stack, spilled = "", 0, 0
    for line in report.splitlines():
        if match := re.search(r"Compiling entry function '([^']+)'", line):
            name, stack, spilled = match[1], 0, 0
        elif match := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores", line):
            stack, spilled = int(match[1]), int(match[2])
        elif match := re.search(r"Used (\d+) registers", line):
            shared = re.search(r"(\d+) bytes smem", line)
            known[name] = Compiled(int(match[1]), int(shared[1]) if shared else 0, stack, spilled)
    return known


def _run(tool: str, architecture: str, text: str) -> subprocess.CompletedProcess[str]:
    command = [tool, "-v", f"-arch={architecture}", "-", "-o", "/dev/null"]
    try:
        return subprocess.run(command, input=text, capture_output=True, text=True, timeout=TIME_LIMIT, check=False)
    except subprocess.TimeoutExpired:
        raise Refusal("ptxas", f"has not ended after {TIME_LIMIT:g} seconds") from None


def _least(architecture: str) -> str:
    """Code for an older architecture, which every version takes, where the wanted one needs a newer version of PTX."""
    number = int(re.sub(r"\D", "", architecture) or 0)
    return architecture if number <= 80 else "sm_80"
