"""Other definitions of the same outputs, among which the search chooses.

formulations   the definitions of a workload, and which is the likely one     epilogue   what follows a convolution, joined to it
winograd       3 x 3 convolutions with fewer multiplications                   winograd_tiles   the same, one dimension at a time
"""
