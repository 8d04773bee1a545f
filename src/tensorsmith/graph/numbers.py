"""Numbers in a definition that follow from the sizes of open dimensions: the reciprocal of a count, in a mean.

    y[i] = total[i] * 0.0078125     ->     y[i] = total[i] * n[0],      n[0] = 1 / length

They are products of open sizes, and reciprocals of such, times a constant: two definitions of different sizes show which.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.expr import Const, Expr, Load, Var

_EXACT = 1e-6  # relative: numbers may have been rounded to f32, and one size less makes more of a difference up to some 100,000


@dataclass(frozen=True)
class SizeNumber:
    """times * product of (size ** power)."""

    dtype: str
    times: float
    powers: tuple[int, ...]  # of each open size: -1, 0, 1

    def at(self, sizes: Sequence[int]) -> float:
        """Its value at some sizes."""
        found = self.times
        for n, power in zip(sizes, self.powers):
            found = found * n if power > 0 else found / n if power < 0 else found
        return found


def size_number(
    name: str, largest: Sequence[int], whole: float, samples: Sequence[tuple[Sequence[int], float]]
) -> SizeNumber | None:
    """What a number is that has one value at the largest sizes and others at the samples; None if it is nothing of the kind."""
    powers = []
    for n, top in enumerate(largest):
        less = next((value for sizes, value in samples if sizes[n] < top and _apart(sizes, largest) == 1), whole)
        smaller = next((sizes[n] for sizes, _ in samples if sizes[n] < top and _apart(sizes, largest) == 1), top)
        options = [p for p in (0, 1, -1) if whole and _equal(less / whole, (smaller / top) ** p)]
        if not options:
            return None
        powers.append(options[0])
    product = SizeNumber(name, 1.0, tuple(powers)).at(largest)
    found = SizeNumber(name, whole / product, tuple(powers))
    return found if all(_equal(found.at(sizes), value) for sizes, value in samples) else None


def _apart(a: Sequence[int], b: Sequence[int]) -> int:
    return sum(x != y for x, y in zip(a, b))


def _equal(a: float, b: float) -> bool:
    return abs(a - b) <= _EXACT * max(abs(a), abs(b))


def with_numbers(body: Expr, others: Sequence[Expr], read: Callable[[str, float, Sequence[float]], Expr | None]) -> Expr | None:
    """The body with its real numbers that are others in the `others` replaced by what `read` gives for (type, number, the others);
    None where the bodies differ in more than that."""
    known: dict[tuple[Expr, ...], Expr | None] = {}

    def look(a: Expr, bs: tuple[Expr, ...]) -> Expr | None:
        if all(b is a for b in bs):
            return a
        key = (a, *bs)
        if key not in known:
            known[key] = compare(a, bs)
        return known[key]

    def compare(a: Expr, bs: tuple[Expr, ...]) -> Expr | None:
        if any(type(b) is not type(a) or b.dtype != a.dtype or len(b.operands) != len(a.operands) for b in bs) or isinstance(
            a, Var
        ):
            return None
        if isinstance(a, Const):
            if dtype(a.dtype).kind != "f":
                return None
            return read(a.dtype, float(a.value), [float(b.value) for b in bs if isinstance(b, Const)])
        if isinstance(a, Load) and any(isinstance(b, Load) and b.tensor != a.tensor for b in bs):
            return None
        if any(b.with_operands(a.operands) is not a for b in bs):  # equal nodes are one object: they differ in more
            return None
        parts = [look(x, tuple(ys)) for x, *ys in zip(a.operands, *(b.operands for b in bs))]
        whole = [part for part in parts if part is not None]
        return a.with_operands(tuple(whole)) if len(whole) == len(parts) else None

    return look(body, tuple(others))
