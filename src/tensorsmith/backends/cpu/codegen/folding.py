"""One number for each of several vectors: their lanes added up together.

A vector alone is halved until one lane is left, and every half of it takes an instruction that moves lanes and one that adds them.
Two vectors can share these: the lanes that meet are put side by side, so that one addition serves both, and so on in a tree.

    a: a0 a1 a2 a3    b: b0 b1 b2 b3    ->    a0 b0 a1 b1  +  a2 b2 a3 b3    =    a02 b02 a13 b13

After as many rounds as halvings, each lane is the sum of a vector. For eight vectors of eight lanes that is 14 moves and 7
additions, where halving takes 24 of each.
"""

from __future__ import annotations

from collections.abc import Sequence

from tensorsmith.backends.cpu.codegen.arith import Arithmetic
from tensorsmith.backends.cpu.codegen.irtext import Value
from tensorsmith.backends.cpu.codegen.transpose import shuffled
from tensorsmith.lang.dtypes import dtype

_BLOCK = 16  # bytes inside which lanes move for one cycle; from block to block takes longer
_WIDEST = 32  # bytes: a wider vector is halved first, which costs no more than moving lanes of two of them


def totals(arith: Arithmetic, op: str, vectors: Sequence[Value]) -> list[Value]:
    """The lanes of each vector, all of one width, combined by an operation that may be made in any order."""
    while vectors[0].lanes * dtype(vectors[0].dtype).bytes > _WIDEST:
        vectors = [halved(arith, op, v) for v in vectors]
    width = max(1, vectors[0].lanes)
    return [total for n in range(0, len(vectors), width) for total in _of_some(arith, op, vectors[n : n + width])]


def halved(arith: Arithmetic, op: str, v: Value) -> Value:
    """Half as many lanes, the first half combined with the second."""
    half = v.lanes // 2
    return arith.binary(op, arith.piece(v, 0, half), arith.piece(v, half, half))


def _of_some(arith: Arithmetic, op: str, vectors: Sequence[Value]) -> list[Value]:
    """The same of no more vectors than they have lanes."""
    count = len(vectors)
    while vectors[0].lanes >= 2 * count:
        vectors = [halved(arith, op, v) for v in vectors]
    if not vectors[0].lanes:
        return list(vectors)
    together = _together(arith, op, [*vectors, *[vectors[-1]] * (vectors[0].lanes - count)])
    return [arith.piece(together, n, 1) for n in range(count)]


def _together(arith: Arithmetic, op: str, vectors: Sequence[Value]) -> Value:
    """A vector whose lane n is what all lanes of vector n make together; there are as many vectors as lanes.

    Two blocks are combined first, those of a vector with those of the one half of all later: then the first block belongs to the
    first half of the vectors. What follows happens inside blocks, with neighbours.
    """
    width = len(vectors)
    block = max(1, _BLOCK // dtype(vectors[0].dtype).bytes)
    if width > block:
        half = width // 2
        low = [*range(half), *range(width, width + half)]
        pairs = zip(vectors[:half], vectors[half:])
        vectors = [_combined(arith, op, a, b, low, [n + half for n in low]) for a, b in pairs]
    block, points = min(block, width), 1  # neighbouring lanes belong to so many vectors
    while len(vectors) > 1:
        starts = [start + n for start in range(0, width, block) for n in range(0, block // 2, points)]
        low = [n for start in starts for v in (0, width) for n in range(v + start, v + start + points)]
        pairs = zip(vectors[::2], vectors[1::2])
        vectors = [_combined(arith, op, a, b, low, [n + block // 2 for n in low]) for a, b in pairs]
        points *= 2
    return vectors[0]


def _combined(arith: Arithmetic, op: str, a: Value, b: Value, some: Sequence[int], others: Sequence[int]) -> Value:
    return arith.binary(op, shuffled(arith.f, a, b, some), shuffled(arith.f, a, b, others))
