"""Loop programs: between a candidate and code, or features.

ir       the nodes                 lower    from a candidate; bounds, regions, packing
text     readable loops            interpret  runs a program in NumPy: the second oracle
linear   forms with array-valued coefficients    packing  constants in loop order

What the code will be like is decided here, once; code generators, features and limits of the space all ask:

unrolling   which steps are written one after another     tails      tiles that do not fit
layout      how buffers lie in memory                     positions  where loads and stores go in them
memory      where buffers lie, and which share it         registers  what stays in registers between two stages
grouping    products of small integers that a lane takes several at once of
flags       conditions that hold for some candidates of a batch
"""
