"""Inputs whose dimensions are numbers or names, and the sizes that arrays give to the names.

x: f32[batch, 3, 224, 224]      an array of the shape (8, 3, 224, 224) makes batch 8
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tensorsmith.errors import UserError, whole_number
from tensorsmith.show.line import line, many, plain, typed

Sizes = tuple[int, ...]  # of all symbols, in their order
LARGEST = 1 << 40  # elements along one dimension: whatever is larger is a mistake


@dataclass(frozen=True)
class OpenArgument:
    """An input; a dimension is its size, or the name of a symbol."""

    name: str
    dims: tuple[int | str, ...]
    dtype: str

    def at(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Its shape where the symbols have those sizes."""
        return tuple(sizes[d] if isinstance(d, str) else d for d in self.dims)

    def __str__(self) -> str:
        return plain(f"{self.name}: {self.type}")

    def __repr__(self) -> str:
        return line(self, self)

    @property
    def type(self) -> str:
        """`f32[batch, 8]`"""
        return typed(self.dtype, self.dims)


def symbols_of(inputs: Sequence[OpenArgument]) -> tuple[str, ...]:
    """The names of the open dimensions, in the order in which the inputs have them."""
    return tuple(dict.fromkeys(d for a in inputs for d in a.dims if isinstance(d, str)))


def sizes_of(inputs: Sequence[OpenArgument], shapes: Sequence[tuple[int, ...]]) -> Sizes:
    """The sizes that shapes of the inputs give to the symbols. Raises `UserError` where they do not fit."""
    found: dict[str, tuple[int, str]] = {}  # size, and the input that gave it
    for argument, shape in zip(inputs, shapes):
        if len(shape) != len(argument.dims):
            raise UserError(f"{argument.name} must have {many(len(argument.dims), 'dimension')} {_text(argument)}, {shape} given")
        for d, n in zip(argument.dims, shape):
            if isinstance(d, int):
                if d != n:
                    raise UserError(f"{argument.name} must have shape {_text(argument)}, {shape} given")
                continue
            known, where = found.setdefault(d, (n, argument.name))
            if known != n:
                raise UserError(f"{d} is {known} in {where} and {n} in {argument.name}; it must be one size")
            check_size(d, n, f" in {argument.name}")
    return tuple(n for n, _ in found.values())


def named_sizes(symbols: Sequence[str], given: Mapping[str, int]) -> Sizes:
    """Sizes given by name, in the order of the symbols. Raises `UserError` for names that are missing or unknown."""
    unknown = [name for name in given if name not in symbols]
    if unknown:
        raise UserError(f"there is no open dimension {unknown[0]!r}; there is {', '.join(symbols)}")
    missing = [name for name in symbols if name not in given]
    if missing:
        raise UserError(f"the size of {missing[0]} is missing; give {missing[0]}=...")
    return tuple(check_size(name, given[name]) for name in symbols)


def check_size(name: str, n: Any, where: str = "") -> int:
    """The size, if a dimension can have it."""
    size = whole_number(n)
    if size is None:
        raise UserError(f"the size of {name} is {n!r}{where}; give a whole number")
    if not 0 <= size <= LARGEST:
        raise UserError(f"{name} is {n}{where}; an open dimension has sizes from 0 on")
    return size


def shown(symbols: Sequence[str], sizes: Sizes) -> str:
    """`batch=8, length=128`"""
    return plain(", ".join(f"{name}={n}" for name, n in zip(symbols, sizes)))


def _text(argument: OpenArgument) -> str:
    return f"[{', '.join(map(str, argument.dims))}]"
