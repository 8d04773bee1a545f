"""Loop programs to LLVM IR text.

generate   a program as one module     tile       register tiles, their variants, their stores
reduction  the loops inside a tile     body       expressions at a point: loads, conditions
remaining  what is left of an axis     shape      sizes and lanes of a tile
arith      operations on values        vecmath    transcendental functions
irtext     types, values, loops and branches as text
"""
