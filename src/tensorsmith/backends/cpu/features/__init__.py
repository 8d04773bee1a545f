"""What is known of a program before it runs, for whole populations at once: numbers per statement.

schema     what they mean              numbers         floats, or one per candidate
nest       the loops around a block    access          what it loads and stores, and where that lies
operations what it computes            statement       a block with its loops and accesses
tile       features of its code        analysis        features of what it touches, and all together
extract    one structure               batch           many structures at once
templates  statements with blanks      statement_keys  which statements are the same     symbol  numbers that are not known yet
"""
