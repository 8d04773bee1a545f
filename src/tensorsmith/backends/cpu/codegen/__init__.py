"""Loop programs to LLVM IR text. What the code is like is decided in `program/`; here it is written.

generate   a program as one module     tile       register tiles, their variants, their stores
reduction  the loops inside a tile     borders    padding in a reduction
body       expressions at a point      addresses  where the elements lie that it loads
points     loop variables and lanes    prefetch   the next panel, fetched early
remaining  what is left of an axis     shape      sizes and lanes of a tile
transpose  strided vectors by shuffles arith      operations on values
vecmath    transcendental functions    formula    how those are written
whole      numbers clamped and rounded
irtext     types, values, loops and branches as text
groups     products of small numbers, several in a lane    group_operands, row_pairs, interleave belong to it
"""
