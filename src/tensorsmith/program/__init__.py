"""Loop programs: between a candidate and code, or features.

ir       the nodes                 lower    from a candidate; bounds, regions, packing
text     readable loops            interpret  runs a program in NumPy: the second oracle
linear   forms with array-valued coefficients    packing  constants in loop order
"""
