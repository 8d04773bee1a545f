"""Two rows of a tile at a time, for instructions that multiply two rows by two columns (`smmla`, `bfmmla`).

In every four lanes of a sum such an instruction has the results of two columns in the first row, and then those in the second. So
the sums of two rows lie in two registers like this while the loops run

    first     r0 c0  r0 c1  r1 c0  r1 c1        second    r0 c2  r0 c3  r1 c2  r1 c3

and each row is put together in the end, from every other pair of lanes: the first row of the even pairs of both registers. A row
without a partner, and vectors that are not full, are multiplied in other ways.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorsmith.backends.cpu.codegen.irtext import Value, type_text
from tensorsmith.backends.cpu.codegen.shape import Key
from tensorsmith.backends.cpu.instruction import Instruction
from tensorsmith.backends.cpu.instructions import matrix
from tensorsmith.lang.expr import loads

if TYPE_CHECKING:
    from tensorsmith.backends.cpu.codegen.groups import Groups


class RowPairs:
    """The points of one variant of a tile that are computed in pairs."""

    def __init__(self, groups: Groups) -> None:
        self.groups = groups
        self.f, self.arith = groups.f, groups.arith
        self.second: dict[Key, Key] = self._paired() if groups.apart and groups.whole else {}  # the partner of each first row
        self.others = frozenset(self.second.values())

    def instruction(self, width: int) -> Instruction | None:
        return matrix(self.groups.target, width, *self.groups.kinds)

    def _paired(self) -> dict[Key, Key]:
        """Rows that have the same columns lie next to each other along the last loop that moves the rows' factors alone."""
        groups, names = self.groups, [v.name for v in self.groups.block.tile if v.name != self.groups.block.vector]
        moved = [
            {n for x in loads(e) if (form := groups.body.offset(x, groups.block)[0]) is not None for n in form.terms}
            for e in (groups.first, groups.second)
        ]
        along = [n for n, name in enumerate(names) if name in moved[0] and name not in moved[1]]
        keys, found = set(groups.reduction.keys), dict[Key, Key]()
        for numbers, chunk in groups.reduction.keys if along else ():
            at = along[-1]
            partner = ((*numbers[:at], numbers[at] + 1, *numbers[at + 1 :]), chunk)
            full = self.instruction(groups.width((numbers, chunk))) is not None
            if full and numbers[at] % 2 == 0 and partner in keys:
                found[numbers, chunk] = partner
        return found

    def product(self, sums: tuple[Value, Value], rows: tuple[Value, Value], columns: Value) -> tuple[Value, Value]:
        """Both registers with the products of two rows and all columns of a vector added."""
        width = sums[0].lanes
        found = self.instruction(width)
        assert found is not None
        both, half = self.groups.once((rows[0].text, rows[1].text, "rows"), lambda: self._together(rows)), columns.lanes // 2
        first, second = (
            self.groups.call(found, [old, both, self.arith.piece(columns, n * half, half)]) for n, old in enumerate(sums)
        )
        return first, second

    def _together(self, rows: tuple[Value, Value]) -> Value:
        """The factors of two rows, one row behind the other."""
        numbers = [self.f.op(f"bitcast {row} to i64", "i64") for row in rows]
        pair = self.f.op(f"insertelement <2 x i64> poison, {numbers[0]}, i32 0", "i64", 2)
        return self.groups.factors_of(self.f.op(f"insertelement {pair}, {numbers[1]}, i32 1", "i64", 2))

    def rows(self, first: Value, second: Value) -> tuple[Value, Value]:
        """Each row out of the two registers."""
        width = first.lanes
        pairs = [self.f.op(f"bitcast {v} to {type_text('i64', width // 2)}", "i64", width // 2) for v in (first, second)]
        found = []
        for row in range(2):
            picks = ", ".join(f"i32 {2 * n + row}" for n in range(width // 2))
            one = self.f.op(f"shufflevector {pairs[0]}, {pairs[1]}, <{width // 2} x i32> <{picks}>", "i64", width // 2)
            found.append(self.f.op(f"bitcast {one} to {first.type}", first.dtype, width))
        return found[0], found[1]
