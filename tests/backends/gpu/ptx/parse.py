"""PTX text to kernels: instructions in order, labels, parameters, arrays in shared memory and constant ones."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field


class PtxError(Exception):
    """What a kernel does wrong, or what this interpreter does not know."""


@dataclass(frozen=True)
class Instruction:
    """`@!p add.s32 d, a, b` as its predicate, the words of its operation and its operands."""

    predicate: str | None
    negated: bool
    words: tuple[str, ...]
    operands: tuple[str, ...]
    text: str

    @functools.cached_property
    def type(self) -> str:
        """The last type that its operation names."""
        return next((w for w in reversed(self.words) if re.fullmatch(r"[usbf]\d+(x2)?|pred", w)), "")


@dataclass
class Kernel:
    """One entry of a module."""

    name: str
    parameters: tuple[tuple[str, int], ...]  # name and bytes
    code: list[Instruction]
    labels: dict[str, int]
    shared: dict[str, int]  # where each array begins
    shared_bytes: int
    constants: dict[str, bytes] = field(default_factory=dict)
    threads: int | None = None  # `.maxntid`


_BYTES = {"8": 1, "16": 2, "32": 4, "64": 8}


def parse(text: str) -> dict[str, Kernel]:
    """The entries of a module by name."""
    text = re.sub(r"/\*.*?\*/", "", re.sub(r"//[^\n]*", "", text), flags=re.S)
    found = {}
    for match in re.finditer(r"\.entry\s+([\w$]+)\s*\((.*?)\)([^{;]*)\{", text, re.S):
        name, parameters, directives = match.groups()
        body = text[match.end() : _closing(text, match.end())]
        shared, size = _arrays(re.sub(r"\.entry.*?\{", "{", text[: match.start()], flags=re.S) + body)
        code, labels = _code(body)
        limit = re.search(r"\.(?:maxntid|reqntid)\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?", directives)
        threads = None if limit is None else int(limit[1]) * int(limit[2] or 1) * int(limit[3] or 1)
        found[name] = Kernel(name, _parameters(parameters), code, labels, shared, size, _constants(text), threads)
    if not found:
        raise PtxError("there is no entry in this text")
    return found


def _closing(text: str, start: int) -> int:
    """The brace that closes the one before `start`."""
    depth = 1
    for match in re.compile(r"[{}]").finditer(text, start):
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            return match.start()
    raise PtxError("a brace is not closed")


def _parameters(text: str) -> tuple[tuple[str, int], ...]:
    found = []
    for one in filter(None, (x.strip() for x in text.split(","))):
        match = re.fullmatch(r"\.param\s+(?:\.align\s+\d+\s+)?\.[busf](\d+)(?:\s+\.ptr)?(?:\s+\.\w+(?:\s+\d+)?)*\s+([\w$]+)", one)
        if match is None:
            raise PtxError(f"parameter {one!r} is not known here")
        found.append((match[2], _BYTES[match[1]]))
    return tuple(found)


def _arrays(text: str) -> tuple[dict[str, int], int]:
    """Arrays in shared memory, one behind the other."""
    found, end = {}, 0
    for align, bits, name, count in re.findall(r"\.shared\s+\.align\s+(\d+)\s+\.[busf](\d+)\s+([\w$.]+)(?:\[(\d+)\])?\s*;", text):
        end = -(-end // int(align)) * int(align)
        found[name] = end
        end += int(count or 1) * _BYTES[bits]
    return found, end


def _constants(text: str) -> dict[str, bytes]:
    """Arrays with given values in constant or global memory."""
    found = {}
    pattern = r"\.(?:const|global)\s+\.align\s+\d+\s+\.[bu](\d+)\s+([\w$.]+)\[(\d+)\]\s*=\s*\{([^}]*)\}"
    for bits, name, count, values in re.findall(pattern, text):
        size = _BYTES[bits]
        data = b"".join((int(v, 0) % (1 << 8 * size)).to_bytes(size, "little") for v in values.split(","))
        found[name] = data.ljust(int(count) * size, b"\0")
    return found


def _code(body: str) -> tuple[list[Instruction], dict[str, int]]:
    code: list[Instruction] = []
    labels: dict[str, int] = {}
    for piece in re.split(r";|(?<=:)(?=\s)", body):
        text = " ".join(piece.split()).lstrip("{} ")
        while match := re.match(r"([\w$]+):\s*(.*)", text):
            labels[match[1]] = len(code)
            text = match[2]
        text = text.lstrip("{} ")
        if not text or text.startswith("."):
            continue
        predicate, negated, rest = None, False, text
        if rest[0] == "@":
            guard, rest = rest[1:].split(" ", 1)
            predicate, negated = guard.lstrip("!"), guard[0] == "!"
        operation, _, operands = rest.partition(" ")
        found = tuple(x.strip() for x in re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,\s][^,]*", operands))
        code.append(Instruction(predicate, negated, tuple(operation.split(".")), found, text))
    return code, labels
