"""What one thread of a GPU does: between loop programs and the texts of kernels.

ir      kernels and their statements           make        a loop program as kernels
text    kernels as readable text               interpret   runs them on NumPy, all threads of a block at once: the reference
"""
