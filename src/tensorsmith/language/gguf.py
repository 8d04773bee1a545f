"""GGUF files: a header, named values, and tensors, mapped into memory and read where they are wanted.

Little-endian. Nothing that a file says is believed: every length is compared with what is left of it before anything is made of it.
"""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tensorsmith.errors import UserError
from tensorsmith.language.blocks import FORMATS
from tensorsmith.language.weight import Weight

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_NESTED = 4  # levels of arrays of arrays that are read: files in use have one
_RANK = 4
_NAME = 64  # bytes of a tensor's name at most

#: the types of tensors by their number in the file
_TYPES = {
    0: "f32", 1: "f16", 2: "q4_0", 3: "q4_1", 6: "q5_0", 7: "q5_1", 8: "q8_0", 12: "q4_k", 13: "q5_k", 14: "q6_k", 30: "bf16",
}  # fmt: skip
_UNREAD = {10: "Q2_K", 11: "Q3_K", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 20: "IQ4_NL",
           21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS", 24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64", 29: "IQ1_M",
           34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4"}  # fmt: skip


@dataclass(frozen=True)
class GgufFile:
    """What a file has: values by key, and tensors by name, whose bytes stay in the file."""

    path: Path
    metadata: Mapping[str, Any]
    tensors: Mapping[str, Weight]


def read_gguf(path: Path) -> GgufFile:
    """The contents of a file. Raises `UserError` where it is truncated, or no GGUF file of a version that is known."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        if size < 24:
            raise UserError(f"{path} has {size} bytes; a GGUF file has 24 at least")
        mapped = np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
    return _File(path, mapped).read()


class _File:
    """A place in the bytes of a file, which moves on as they are read."""

    def __init__(self, path: Path, data: np.ndarray) -> None:
        self.path, self.data, self.at = path, data, 0
        self.view = memoryview(data)  # type: ignore[arg-type]  # of its stubs

    def read(self) -> GgufFile:
        if bytes(self.view[:4]) != b"GGUF":
            raise UserError(f"{self.path} does not begin as a GGUF file does")
        self.at = 4
        version = self.number("I", "the version")
        if version not in (2, 3):
            swapped = " (it is of a big-endian machine)" if version in (2 << 24, 3 << 24) else ""
            raise UserError(f"{self.path} is GGUF of version {version}{swapped}; 2 and 3 are read")
        tensors, pairs = self.number("Q", "the number of tensors"), self.number("Q", "the number of values")
        self.room(tensors * 24 + pairs * 13, f"{tensors} tensors and {pairs} values")  # the least that each takes
        metadata: dict[str, Any] = {}
        for _ in range(pairs):
            key = self.string("a key")
            if key in metadata:
                raise UserError(f"{self.path} has the key {key!r} twice")
            metadata[key] = self.value(self.number("I", f"the type of {key!r}"), key, _NESTED)
        return GgufFile(self.path, metadata, self.tensors(tensors, metadata))

    def tensors(self, count: int, metadata: Mapping[str, Any]) -> dict[str, Weight]:
        alignment = metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or not 0 < alignment <= 1 << 20 or alignment & (alignment - 1):
            raise UserError(f"{self.path} says general.alignment is {alignment!r}; it has to be a power of two")
        described: dict[str, tuple[tuple[int, ...], str, int]] = {}
        for _ in range(count):
            name = self.string("the name of a tensor", _NAME)
            if name in described:
                raise UserError(f"{self.path} has two tensors called {name!r}")
            described[name] = self.description(name)
        begin = -(-self.at // alignment) * alignment
        return {name: self.tensor(name, begin, alignment, *one) for name, one in described.items()}

    def description(self, name: str) -> tuple[tuple[int, ...], str, int]:
        """Shape (slowest first), format and offset of a tensor."""
        rank = self.number("I", f"the rank of {name!r}")
        if not 0 < rank <= _RANK:
            raise UserError(f"{self.path}: {name!r} has {rank} dimensions; 1 to {_RANK} are read")
        extents = [self.number("Q", f"the shape of {name!r}") for _ in range(rank)]
        number, offset = self.number("I", f"the type of {name!r}"), self.number("Q", f"the offset of {name!r}")
        if number not in _TYPES:
            known = ", ".join(kind.upper() for kind in _TYPES.values())
            what = _UNREAD.get(number, f"number {number}")
            raise UserError(f"{self.path}: {name!r} is stored as {what}, which is not read; {known} are")
        return tuple(reversed(extents)), _TYPES[number], offset

    def tensor(self, name: str, begin: int, alignment: int, shape: tuple[int, ...], format: str, offset: int) -> Weight:
        facts = FORMATS[format]
        if not all(shape) or shape[-1] % facts.weights:
            raise UserError(f"{self.path}: {name!r} is {list(shape)}; rows of {format.upper()} are whole blocks of {facts.weights}")
        if offset % alignment:
            raise UserError(f"{self.path}: {name!r} is at {offset}, which is no multiple of {alignment}")
        size = math.prod(shape) // facts.weights * facts.bytes
        start = begin + offset
        if start + size > len(self.data):
            raise UserError(f"{self.path}: {name!r} ends at byte {start + size}; the file has {len(self.data)}. Is it truncated?")
        rows = self.data[start : start + size].reshape(*shape[:-1], -1)
        return Weight(name, shape, format, rows)

    def value(self, kind: int, key: str, levels: int) -> Any:
        if kind in _SCALARS:
            return self.number(_SCALARS[kind], f"the value of {key!r}")
        if kind == _STRING:
            return self.string(f"the value of {key!r}")
        if kind != _ARRAY:
            raise UserError(f"{self.path}: {key!r} has a value of type {kind}; types 0 to 12 are known")
        if not levels:
            raise UserError(f"{self.path}: {key!r} is an array of arrays, more than {_NESTED} levels deep")
        inner, count = self.number("I", f"the type of {key!r}"), self.number("Q", f"the length of {key!r}")
        if inner in _SCALARS:
            return self.numbers(_SCALARS[inner], count, key)
        self.room(count * 8, f"{count} elements of {key!r}")
        one: Callable[[], Any] = lambda: self.value(inner, key, levels - 1)  # noqa: E731
        return [one() for _ in range(count)]

    def numbers(self, code: str, count: int, key: str) -> list[Any]:
        self.room(count * struct.calcsize("<" + code), f"{count} elements of {key!r}")
        found = np.frombuffer(self.view, np.dtype("?" if code == "?" else "<" + code), count, self.at)
        self.at += found.nbytes
        return list(found.tolist())

    def number(self, code: str, what: str) -> Any:
        size = struct.calcsize("<" + code)
        self.room(size, what)
        (found,) = struct.unpack_from("<" + code, self.view, self.at)
        self.at += size
        return found

    def string(self, what: str, longest: int | None = None) -> str:
        length = self.number("Q", what)
        if longest is not None and length > longest:
            raise UserError(f"{self.path}: {what} has {length} bytes, at byte {self.at}; {longest} is the most")
        self.room(length, what)
        found = bytes(self.view[self.at : self.at + length])
        self.at += length
        return found.decode("utf-8", "surrogateescape" if what.startswith("the value") else "replace")

    def room(self, size: int, what: str) -> None:
        if size > len(self.data) - self.at:
            left = len(self.data) - self.at
            raise UserError(
                f"{self.path} is truncated, or its lengths are wrong: {what} needs {size} bytes at {self.at}, {left} are left"
            )
