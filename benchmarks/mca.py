"""The hot loops of the catalogue against the multiply-add rate of a CPU that is not here: simulated, by LLVM's model of it.

    python benchmarks/mca.py [--target neoverse-n1,cortex-a53] [--only C2D,GMM-3-b1] [--batch 1] [--json FILE]

Every case is compiled for the target under its default schedule. The loop with most multiply-adds is given to `llvm-mca`, and so is
a block of nothing but independent multiply-adds; the share is what the loop reaches of the latter's rate. Loops without any are
left out. `llvm-mca` knows no caches, and takes a branch inside of the loop as one that is not taken; and the loop with most
multiply-adds may not be the one that takes longest: the share says how well instructions are chosen and ordered, not how fast the
program is. Spills are those inside of the loop.
"""

from __future__ import annotations

import argparse
import functools
import json
import re
import shutil
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

import tensorsmith as ts
from tensorsmith.backends.cpu.target import CpuTarget
from tensorsmith.ops import catalogue
from tensorsmith.targets.target import Target

ITERATIONS = 200
_MULTIPLY_ADD = {"x86_64": r"\bvfn?m(?:add|sub)\w+[ps]s\b|\bmulps\b", "aarch64": r"\bfm(?:la|ls|ad|sb)\b"}
#: whole vectors stored on the stack; registers that a function has to keep for its caller are stored in other ways
_SPILL = {"x86_64": r"\s*v?mov\w+\s+%[xyz]mm\d+, .*\(%r[sb]p", "aarch64": r"\s*st[rp]\s+[qz]\d+,.*\[(?:sp|x29)"}
_LABEL = re.compile(r"^(\.?L\w+):")
_JUMP = {"x86_64": r"^\s*j\w+\s+(\.?L\w+)", "aarch64": r"^\s*(?:b\.?\w*|cbn?z|tbn?z)\s+.*?(\.?L\w+)\s*$"}


@dataclass(frozen=True)
class Loop:
    """Of one case: multiply-adds in its hot loop, cycles that the loop takes by the model, the share of the rate, spills."""

    multiply_adds: int
    cycles: float
    share: float
    spills: int


def hot_loop(assembly: str, machine: str, instruction: str = "") -> tuple[int, list[str]]:
    """The lines of the loop with most multiply-adds, or most of an instruction by its pattern, of those without a loop inside; how
    many there are."""
    pattern = instruction or _MULTIPLY_ADD[machine]
    lines = assembly.splitlines()
    at: dict[str, int] = {}
    best: tuple[int, list[str]] = (0, [])
    for number, line in enumerate(lines):
        if label := _LABEL.match(line):
            at[label[1]] = number
        jump = re.match(_JUMP[machine], line.split("#")[0].split("//")[0].rstrip())
        if jump and jump[1] in at:
            body = lines[at[jump[1]] + 1 : number + 1]
            if any(_goes_back(re.match(_JUMP[machine], text), body[:n]) for n, text in enumerate(body)):
                continue  # another loop lies inside
            count = sum(bool(re.search(pattern, text)) for text in body)
            best = max(best, (count, body), key=lambda found: found[0])
    return best


def _goes_back(jump: re.Match[str] | None, before: Sequence[str]) -> bool:
    """Whether a line, if it is a jump, goes to one of those before it."""
    return jump is not None and any(text.startswith(f"{jump[1]}:") for text in before)


def cycles(lines: Sequence[str], target: CpuTarget) -> float:
    """Of one round, by the model."""
    code = [text for text in lines if not re.match(r"\s*(?:[#.]|//)|\.?L\w+:", text)]
    command = [simulator(), f"-mtriple={target.triple}", f"-mcpu={target.cpu}", f"-iterations={ITERATIONS}"]
    done = subprocess.run(command, input="\n".join(code) + "\n", capture_output=True, text=True, check=False)
    found = re.search(r"Total Cycles:\s+(\d+)", done.stdout)
    if found is None:
        sys.exit(f"llvm-mca cannot simulate {target.cpu}: {(done.stderr.strip().splitlines() or ['no output'])[0]}")
    return int(found[1]) / ITERATIONS


@functools.cache
def rate(target: CpuTarget) -> float:
    """Multiply-adds per cycle of a block that waits for nothing."""
    registers = target.vector_registers - 2
    if target.scalable_bytes:
        block = [f"fmla z{n}.s, p0/m, z30.s, z31.s" for n in range(registers)]
    elif target.is_aarch64:
        block = [f"fmla v{n}.4s, v30.4s, v31.s[0]" for n in range(registers)]
    elif "+fma" in target.features:
        name = {16: "xmm", 32: "ymm", 64: "zmm"}[target.vector_bytes]
        block = [f"vfmadd231ps %{name}{registers}, %{name}{registers + 1}, %{name}{n}" for n in range(registers)]
    else:  # a product and a sum, of which the first overwrites an operand
        each = [("movaps", "%xmm14, %xmm13"), ("mulps", "%xmm15, %xmm13"), ("addps", "%xmm13, %xmm{n}")]
        block = [f"{name} {operands.format(n=n)}" for n in range(registers - 1) for name, operands in each]
        return (registers - 1) / cycles(block, target)
    return len(block) / cycles(block, target)


@functools.cache
def simulator() -> str:
    for name in ("llvm-mca-19", "llvm-mca"):
        if shutil.which(name):
            return name
    sys.exit("llvm-mca is not installed; it is in Debian's package llvm-19")


def measure(name: str, target: CpuTarget) -> Loop:
    exe = ts.compile(catalogue.get(name).tensors(), target=target)
    text = exe.assembly
    machine = target.triple.split("-")[0]
    count, lines = hot_loop(text, machine)
    spills = spilled(lines, machine)
    if count < 4:
        return Loop(count, 0.0, 0.0, spills)
    took = cycles(lines, target)
    return Loop(count, took, count / rate(target) / took, spills)


def spilled(lines: Sequence[str], machine: str) -> int:
    """Vectors that a loop stores on the stack."""
    return sum(bool(re.match(_SPILL[machine], line)) for line in lines)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="neoverse-n1,cortex-a53")
    parser.add_argument("--only", default="")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--json")
    given = parser.parse_args(words)
    targets = [Target.named(name) for name in given.target.split(",")]
    only = [part for part in given.only.split(",") if part]
    names = [n for n in catalogue.cases(given.batch) if not only or any(n == o or n.startswith(f"{o}-") for o in only)]
    found: dict[str, dict[str, Loop]] = {t.cpu: {} for t in targets}
    table = Table("case", *(t.cpu for t in targets), title="share of the multiply-add rate (simulated), spills")
    for name in names:
        row = []
        for target in targets:
            loop = measure(name, target)
            found[target.cpu][name] = loop
            row.append(f"{loop.share:.2f}" + (f", {loop.spills} spills" if loop.spills else "") if loop.cycles else "no loop")
        table.add_row(name, *row)
    console = Console()
    console.print(table)
    for cpu, loops in found.items():
        shares = sorted(loop.share for loop in loops.values() if loop.cycles)
        spilling = sum(bool(loop.spills) for loop in loops.values())
        good = sum(share >= 0.9 for share in shares)
        console.print(
            f"{cpu}: median {statistics.median(shares):.2f}, {good} of {len(shares)} at 0.9 or more, least {shares[0]:.2f}; "
            f"spills in {spilling} of {len(loops)} (simulated by {simulator()})",
            highlight=False,
        )
    if given.json:
        Path(given.json).write_text(
            json.dumps({cpu: {n: asdict(loop) for n, loop in loops.items()} for cpu, loops in found.items()})
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
