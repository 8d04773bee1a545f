"""One compiled variant, and the table of all that an executable has: sizes, memory, and how long each took to compile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from tensorsmith.runtime.buffers import data_pointer
from tensorsmith.runtime.built import made_of, signature
from tensorsmith.runtime.executable import Executable, Memory
from tensorsmith.runtime.variants.symbols import Sizes, shown
from tensorsmith.show.line import line, many
from tensorsmith.show.table import Cell, Number, block, table
from tensorsmith.show.units import size, time

_COLUMNS = ("weights", "of them shared", "arena", "scratch", "compiled in")


@dataclass(eq=False)
class Variant:
    """An executable for one set of sizes. `seconds` is how long it took to compile, None where it came compiled, from a file.

    `kept` ones were named beforehand and never leave.
    """

    symbols: tuple[str, ...]
    key: Sizes
    executable: Executable = field(repr=False)
    seconds: float | None
    kept: bool = False
    used: int = field(default=0, repr=False)  # when it was called last, as a number that grows from call to call

    @property
    def sizes(self) -> dict[str, int]:
        """The size of every open dimension."""
        return dict(zip(self.symbols, self.key))

    @property
    def memory(self) -> Memory:
        """What it needs by itself; constants that other variants have too are counted here as well."""
        return self.executable.memory

    def __str__(self) -> str:
        return shown(self.symbols, self.key)

    def __repr__(self) -> str:
        network = self.executable.network
        return line(self, f"{self}: {signature(network)}", f": {made_of(network)}")

    def _repr_html_(self) -> str:
        return block(str(self), self.executable._repr_html_(), "" if self.seconds is None else f"compiled in {time(self.seconds)}")


@dataclass(frozen=True)
class Variants(Sequence[Variant]):
    """The variants of an executable, the smallest first; `print` shows a table."""

    symbols: tuple[str, ...]
    rows: tuple[Variant, ...]

    def __getitem__(self, n):  # type: ignore[no-untyped-def]  # an int or a slice, as of the tuple
        return self.rows[n]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Variant]:
        return iter(self.rows)

    @property
    def constant_bytes(self) -> int:
        """Bytes of the weights of all variants together: those that are packed alike are in memory once."""
        return sum(_distinct(a for v in self.rows for a in v.executable.network.constants).values())

    def shared_bytes(self, variant: Variant) -> int:
        """Bytes of a variant's weights that another variant has too."""
        others = _distinct(a for v in self.rows if v is not variant for a in v.executable.network.constants)
        return sum(size for place, size in _distinct(iter(variant.executable.network.constants)).items() if place in others)

    def __str__(self) -> str:
        head = [*self.symbols, *_COLUMNS]
        rows = [head]
        for v in self.rows:
            took = "loaded" if v.seconds is None else f"{v.seconds:.2f} s"
            rows.append([*map(str, v.key), *map(size, self._bytes(v)), took])
        widths = [max(len(row[n]) for row in rows) for n in range(len(head))]
        lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths)) for row in rows]
        return "\n".join([*lines, self._together()])

    def __repr__(self) -> str:
        return line(self, "; ".join(map(str, self.rows)) or "none yet", f": {self._together()}")

    def _repr_html_(self) -> str:
        rows: list[list[Cell]] = []
        for v in self.rows:
            took = Number(0.0, "loaded") if v.seconds is None else Number(v.seconds, time(v.seconds))
            rows.append([*v.key, *(Number(n, size(n)) for n in self._bytes(v)), took])
        return table([*self.symbols, *_COLUMNS], rows, note=self._together(), sortable=True)

    def _bytes(self, v: Variant) -> tuple[int, ...]:
        """Of the columns of a variant."""
        return v.memory.constants, self.shared_bytes(v), v.memory.arena, v.memory.scratch

    def _together(self) -> str:
        return f"{many(len(self.rows), 'variant')}, {size(self.constant_bytes)} of weights together"


def _distinct(arrays: Iterator[np.ndarray]) -> dict[int, int]:
    """Bytes of arrays by address: one that several have is there once."""
    return {data_pointer(a): a.nbytes for a in arrays if a.nbytes}
