"""C libraries of networks: objects of the kernels, a C file that runs them, a header, and what builds all that.

library.py    the folder, and what is in it
source.py     the C files, from the texts in `c/`
names.py      names of Python to names of C
objects.py    objects with names of their own, the weights as one, archives of them
"""
