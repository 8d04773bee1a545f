"""Executables of networks whose inputs have open dimensions: one executable for each size that came, a *variant*.

symbols      inputs with named dimensions, and the sizes that a call gives those names
variant      a compiled variant, and the table of all of them
padding      a call of a smaller size served by the code of a larger one
executable   the callable: finds the variant of a call, compiles it if it is new, and lets old ones go
"""
