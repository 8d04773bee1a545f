"""Products of matrices by matrix instructions: which stages are such, and which lane of a warp has what.

`mma.sync` m16n8k16 (PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type"): the 32 lanes of a warp multiply a tile
of 16 x 16 by one of 16 x 8, both f16, and add the product to 16 x 8 sums in f32. Lane number `4 * g + t` has

    sums        n of 4:  row g + 8 * (n / 2),  column 2 * t + n % 2
    left        n of 8:  row g + 8 * (n / 2 % 2),  step 2 * t + n % 2 + 8 * (n / 4)
    right       n of 4:  step 2 * t + n % 2 + 8 * (n / 2),  column g

`ldmatrix` loads such fragments from shared memory, in pieces of 8 x 8. Eight lanes name the rows of a piece in memory, each of
eight neighbours, and every lane of the warp gets its two elements. Lane `8 * p + r` names row r of piece p:

    left        p of 4:  rows from 8 * (p % 2),  steps from 8 * (p / 2)
    right       p of 2:  steps from 8 * p

A row in memory has eight steps of one row (or column) of the operand, or else eight rows (or columns) at one step: it is dealt out
`across` then.

So a nest with a row for each of eight lanes, twice, and two neighbouring columns for each of four has the sums where it wants them
(`rules/nests.py`, `by_matrix`).
"""

from __future__ import annotations

from dataclasses import dataclass

from tensorsmith.lang.affine import affine
from tensorsmith.lang.expr import Binary, Cast, Expr, Load
from tensorsmith.lang.workload import Axis, Stage

ROWS, COLUMNS, STEPS, LANES = 16, 8, 16, 32
ROW_LANES, COLUMN_LANES = 8, 4  # lanes along rows and along columns of the sums
HALVES, NEIGHBOURS = 2, 2  # rows and columns of the sums that a lane has
INSTRUCTION = ROWS * COLUMNS * STEPS  # multiply-adds


@dataclass(frozen=True)
class Operand:
    """One value of a lane's fragment: how far its row (or column) and its step are from the lane's first."""

    half: int
    step: int


#: in the order in which the instruction takes them; two neighbours share a register
LEFT = tuple(Operand(n // 2 % 2, n % 2 + 8 * (n // 4)) for n in range(8))
RIGHT = tuple(Operand(0, n % 2 + 8 * (n // 2)) for n in range(4))
LEFT_PIECES, RIGHT_PIECES = len(LEFT) // 2, len(RIGHT) // 2  # of 8 x 8
PIECE = 8  # rows of a piece, and steps of a row
SUMS = tuple((n // 2, n % 2) for n in range(4))  # half and neighbour


@dataclass(frozen=True)
class MatrixProduct:
    """The axes of a stage that are rows, columns and steps of a product, and what it multiplies."""

    rows: str
    columns: str
    steps: str
    left: Load
    right: Load


def matrix_product(stage: Stage) -> MatrixProduct | None:
    """How matrix instructions can compute a stage: a sum in f32 of products of f16."""
    factors = _factors(stage.body) if stage.reduction == "sum" and stage.dtype == "f32" else None
    if factors is None:
        return None
    columns = [(a, n) for a in stage.axes for n in (0, 1) if a.extent >= COLUMNS and _only(a, factors[n], factors[1 - n])]
    if not columns:
        return None
    column, right = columns[-1]  # the last, along which results are neighbours
    left, right_load = factors[1 - right], factors[right]
    rows = [a for a in stage.axes if a.extent >= ROWS and _only(a, left, right_load)]
    steps = [a for a in stage.reduce_axes if a.extent and a.extent % STEPS == 0 and a.name in _used(left) & _used(right_load)]
    if not rows or not steps:
        return None
    longest = max(reversed(rows), key=lambda a: a.extent)
    return MatrixProduct(longest.name, column.name, max(steps, key=lambda a: a.extent).name, left, right_load)


def _factors(e: Expr) -> tuple[Load, Load] | None:
    """The two loads of f16 of a product in f32, at affine places."""
    if not (isinstance(e, Binary) and e.op == "mul" and e.dtype == "f32"):
        return None
    first, second = (x.a if isinstance(x, Cast) else x for x in (e.a, e.b))
    if not isinstance(first, Load) or not isinstance(second, Load) or {first.dtype, second.dtype} != {"f16"}:
        return None
    return None if any(affine(i) is None for x in (first, second) for i in x.indices) else (first, second)


def _used(load: Load) -> set[str]:
    forms = [affine(i) for i in load.indices]
    return {name for f in forms if f is not None for name, c in f.terms.items() if c}


def _only(axis: Axis, here: Load, other: Load) -> bool:
    return axis.name in _used(here) and axis.name not in _used(other)
