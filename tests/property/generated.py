"""What is in the LLVM IR of a program: loads and stores by buffer, operations, loops whose rounds are steps of a tile, memory."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tensorsmith.program.ir import Program
from tensorsmith.program.memory import touched

_ACCESS = re.compile(r"(?:= load |@llvm\.masked\.load[\w.]*\(|^store )")
_POINTER = re.compile(r"ptr (%[\w.]+)")
_ALLOCA = re.compile(r"alloca \[(\d+) x (\w+)\]")
_OPERATION = re.compile(r"= (?:fadd|fsub|fmul|call \S+(?: x \w+>)? @llvm\.fma)")
_BYTES = {"half": 2, "float": 4, "double": 8, "i8": 1, "i16": 2, "i32": 4, "i64": 8}


@dataclass
class Part:
    """Some of the instructions: of a nest, or of a basic block."""

    loads: Counter[str] = field(default_factory=Counter)  # by buffer
    stores: Counter[str] = field(default_factory=Counter)
    operations: int = 0  # arithmetic on floats
    results: int = 0  # values that a loop passes from round to round, its counter aside
    live: int = 0  # vectors that are wanted at the same time, at most, in the order of the text

    def add(self, other: Part) -> None:
        self.loads += other.loads
        self.stores += other.stores
        self.operations += other.operations
        self.results = max(self.results, other.results)


@dataclass
class Nest:
    """The code of a root nest."""

    whole: Part
    rounds: Part  # of the innermost loops that pass results on: their bodies, together
    loops: int  # how many such loops there are
    stack: dict[str, int]  # bytes of the buffers on the stack


def nests(program: Program, ir: str) -> list[Nest]:
    """Every root nest of a program, as it is in its IR."""
    arguments = [b.name for b in program.workload.inputs] + list(program.workload.outputs)
    found = []
    for number, node in enumerate(program.body):
        text = ir[ir.index(f"@work{number}(") :]
        names = touched(node)
        passed = [n for n in arguments if n in names]
        found.append(_nest(text[: text.index("\n}")], passed, sorted(names - set(passed))))
    return found


def _nest(text: str, passed: list[str], own: list[str]) -> Nest:
    lines = [line.strip() for line in text.splitlines()[1:]]
    made = dict(line.split(" = ", 1) for line in lines if line.startswith("%"))
    # memory of our own is addressed in the order of the buffers' names, before anything else
    bases = [v for v, how in made.items() if "alloca" in how or re.match(r"getelementptr i8, ptr %(scratch|local),", how)]
    bases.sort(key=lambda v: int(v[2:]))
    buffers = {f"%p{n}": name for n, name in enumerate(passed)} | dict(zip(bases, own, strict=True))

    def buffer(pointer: str) -> str:
        while pointer not in buffers:
            pointer = _POINTER.findall(made[pointer])[0]
        return buffers[pointer]

    def part(block: list[str]) -> Part:
        found = Part(live=_live(block))
        for line in block:
            if _ACCESS.search(line):
                found_in = buffer(_POINTER.findall(line)[-1 if line.startswith("store") else 0])
                (found.stores if line.startswith("store") else found.loads)[found_in] += 1
            found.operations += bool(_OPERATION.search(line))
            found.results += " = phi " in line and " = phi i64" not in line
        return found

    whole, rounds, loops = Part(), Part(), 0
    for label, block in _blocks(lines):
        inside = part(block)
        whole.add(inside)
        if f"label %{label}," in block[-1] and inside.results:
            rounds.add(inside)
            rounds.live = max(rounds.live, inside.live)
            loops += 1
    sizes = {v: _ALLOCA.search(how) for v, how in made.items()}
    stack = {buffers[v]: int(m[1]) * _BYTES[m[2]] for v, m in sizes.items() if m is not None}
    return Nest(whole, rounds, loops, stack)


def _blocks(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    label, block = "", list[str]()
    for line in lines:
        if re.fullmatch(r"\w+:", line):
            if block:
                yield label, block
            label, block = line[:-1], []
        elif line:
            block.append(line)
    if block:
        yield label, block


def _live(block: list[str]) -> int:
    """The most vectors that are wanted later at any point of a basic block."""
    wanted: set[str] = set()
    vectors = {
        line.split(" = ")[0]
        for line in block
        if re.search(r"= (?:phi|load|fadd|fsub|fmul|shufflevector|insertelement|call) <", line)
    }
    carried = {v for line in block if " = phi <" in line for v in re.findall(r"%t\d+", line.split(" = ", 1)[1])} & vectors
    wanted |= carried
    most = len(wanted)
    for line in reversed(block):
        if " = phi " in line:
            break
        name, _, rest = line.partition(" = ")
        wanted.discard(name)
        wanted |= set(re.findall(r"%t\d+", rest or line)) & vectors
        most = max(most, len(wanted))
    return most
